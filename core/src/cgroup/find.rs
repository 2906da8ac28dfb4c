//! Where the caller's own group is.
#![forbid(unsafe_code)]

use core::{ffi::CStr, iter};

use heapless::Vec;
use linux_raw_sys::general as raw;
use rustix::fd::AsFd;

use super::{Cgroup, CgroupError};
use crate::{
    fd::Fd,
    procfs::{Proc, lines},
};

/// The longest path that is followed.
const PATH: usize = 1024;

impl Cgroup {
    /// The caller's own group.
    ///
    /// # Errors
    /// [`CgroupError::NoTree`]: no cgroup v2 file system that shows it is mounted.
    pub fn own(proc: &Proc) -> Result<Cgroup, CgroupError> {
        let mut own: Option<Vec<u8, PATH>> = None;
        let _ = lines(proc.as_fd(), c"self/cgroup", |line| {
            own = own.take().or_else(|| Vec::from_slice(own_path(line)?).ok());
        });
        let own = own.ok_or(CgroupError::NoTree)?;
        let mut found = Err(CgroupError::NoTree);
        let _ = lines(proc.as_fd(), c"self/mountinfo", |line| {
            if let (Err(_), Some(mount)) = (&found, Mount::parse(line)) {
                found = mount.open(&own);
            }
        });
        found
    }
}

/// The caller's path in the v2 tree, from a line of `/proc/self/cgroup`, cgroups(7); `None` for the lines of version 1, and where the group
/// lies outside the cgroup namespace.
pub fn own_path(line: &[u8]) -> Option<&[u8]> {
    let path = line.strip_prefix(b"0::").filter(|path| path.starts_with(b"/"))?;
    // `/..`: seen from a namespace that it is not in. ` (deleted)`: somebody has removed it.
    let outside = path.split(|byte| *byte == b'/').any(|name| name == b"..");
    (!outside && !path.ends_with(b" (deleted)")).then_some(path)
}

/// A mount of cgroup v2, from a line of `/proc/self/mountinfo`, proc_pid_mountinfo(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Which part of the tree is mounted.
    pub root: &'a [u8],
    /// Where, with blanks and the like written as `\040`.
    pub place: &'a [u8],
}

impl<'a> Mount<'a> {
    /// `None` for the mounts of other file systems.
    pub fn parse(line: &'a [u8]) -> Option<Mount<'a>> {
        let mut words = line.split(|byte| *byte == b' ');
        let (root, place) = (words.nth(3)?, words.next()?);
        // Any number of optional fields, then `-` and the type.
        words.find(|word| *word == b"-")?;
        (words.next()? == b"cgroup2").then_some(Mount { root, place })
    }

    /// What follows the root in the path of a group that this mount shows, without a `/` in front.
    pub fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = if self.root == b"/" { path } else { path.strip_prefix(self.root)? };
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
    }

    fn open(&self, own: &[u8]) -> Result<Cgroup, CgroupError> {
        let below = self.below(own).ok_or(CgroupError::NoTree)?;
        let mut path: Vec<u8, PATH> = Vec::new();
        let tail = [b"/", below, b"\0"].into_iter().flatten().copied();
        unescaped(self.place)
            .chain(tail)
            .try_for_each(|byte| path.push(byte))
            .map_err(|_| CgroupError::NoTree)?;
        let path = CStr::from_bytes_with_nul(&path).map_err(|_| CgroupError::NoTree)?;
        Cgroup::check(Fd::open_at(raw::AT_FDCWD, path, raw::O_DIRECTORY)?)
    }
}

/// The bytes that a word of the mount table stands for: `\` and three octal digits are one.
pub fn unescaped(word: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = word;
    iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        rest = after;
        if first == b'\\'
            && let Some((&[a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'], after)) =
                rest.split_first_chunk()
        {
            rest = after;
            return Some((a & 7) << 6 | (b & 7) << 3 | c & 7);
        }
        Some(first)
    })
}
