//! Cgroup v2 leaves: a group of the kernel's own for one child, which no descendant can leave by itself.
//!
//! A child is in its leaf before it runs the program ([`Plan::cgroup`](crate::spawn::Plan::cgroup)), and so is whoever descends from it,
//! whatever becomes of group, session, parent and environ. One write ends all of them, and the kernel tells when nobody is left.
//!
//! Leaves are made below the caller's own group ([`Cgroup::own`]) or a given one, on a real cgroup v2 file system only: a directory that
//! looks like one, as on a machine that has both versions, is refused. Whether that may be done is the service manager's affair
//! (delegation); where it may not, there is no leaf, and everything else works as well without.
//!
//! Kernels: v2 since 4.5; limits need the controllers enabled for the groups below the parent, which the kernel grants only where the parent
//! itself has no process. `cgroup.kill` since 5.14; before, the leaf is frozen (5.2), each member gets SIGKILL through a pin, and the leaf
//! is thawed. <https://docs.kernel.org/admin-guide/cgroup-v2.html>
//!
//! Nothing here blocks or allocates. Once opened, a leaf makes system calls of `sys` only: a guard holds one too.
#![forbid(unsafe_code)]

mod find;
#[cfg(test)]
mod tests;

pub use find::{Mount, own_path, unescaped};

use core::ffi::CStr;

use heapless::String;
use linux_raw_sys::general as raw;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
    fs,
};

use crate::{
    Errno, Pid, Signal,
    fd::Fd,
    identity::Process,
    procfs::{self, Proc, Stat, lines},
    sys,
};

/// `CGROUP2_SUPER_MAGIC` (`include/uapi/linux/magic.h`).
const CGROUP2_MAGIC: fs::FsWord = 0x6367_7270;

/// Groups made inside a leaf are followed so deep.
const DEPTH: u32 = 16;

/// Why there is no leaf, or it does not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CgroupError {
    /// No cgroup v2 file system is mounted that shows the caller's own group; or the directory is of another file system.
    NoTree,
    /// The group is threaded, or below a threaded one: no process can be put into a leaf there.
    Threaded,
    /// The limit's controller (`memory`, `pids`, `cpu`) is not to be had for groups below this parent.
    NoController(&'static str),
    /// What the kernel answered. `EROFS`, `EACCES`: it may not be changed. `EEXIST`: the name is taken.
    Errno(Errno),
}

impl From<Errno> for CgroupError {
    fn from(errno: Errno) -> CgroupError {
        CgroupError::Errno(errno)
    }
}

/// What the members of a leaf may use together. `None`: as much as the groups above may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes, swap not counted: `memory.max`.
    pub memory: Option<u64>,
    /// Processes and threads: `pids.max`.
    pub pids: Option<u64>,
    /// Share of the processor, 1 to 10,000, 100 is the usual: `cpu.weight`.
    pub cpu_weight: Option<u64>,
}

/// How often a limit was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Processes that the out-of-memory killer took; `None` without the controller.
    pub oom_kills: Option<u64>,
    /// Forks that `pids.max` refused; `None` without the controller.
    pub forks_refused: Option<u64>,
}

/// A group: one that leaves can be made in, or a leaf.
#[derive(Debug)]
pub struct Cgroup(Fd);

impl Cgroup {
    /// The group of an open directory.
    ///
    /// # Errors
    /// [`CgroupError::NoTree`]: the directory is of another file system.
    pub fn of(dir: OwnedFd) -> Result<Cgroup, CgroupError> {
        Cgroup::check(dir.into())
    }

    /// Opens the group of this descriptor once more.
    pub(crate) fn again(dir: RawFd) -> Option<Cgroup> {
        Fd::open_at(dir, c".", raw::O_DIRECTORY).ok().map(Cgroup)
    }

    fn check(dir: Fd) -> Result<Cgroup, CgroupError> {
        let system = fs::fstatfs(dir.as_fd()).map_err(Errno::from)?;
        if system.f_type == CGROUP2_MAGIC { Ok(Cgroup(dir)) } else { Err(CgroupError::NoTree) }
    }

    /// Opens a group below.
    ///
    /// # Errors
    /// [`CgroupError::Errno`]: `ENOENT` where there is none.
    pub fn open(&self, name: &CStr) -> Result<Cgroup, CgroupError> {
        Ok(Cgroup(Fd::open_at(self.0.raw(), name, raw::O_DIRECTORY | raw::O_NOFOLLOW)?))
    }

    /// Makes a group below, empty and without limits.
    ///
    /// # Errors
    /// [`CgroupError::Threaded`], or what the kernel answered; no group is left then.
    pub fn make(&self, name: &CStr) -> Result<Cgroup, CgroupError> {
        // Who may make groups may not always put processes into them.
        Fd::open_at(self.0.raw(), c"cgroup.procs", raw::O_WRONLY)?;
        fs::mkdirat(self.0.as_fd(), name, fs::Mode::from_raw_mode(0o755)).map_err(Errno::from)?;
        let made = self.open(name).and_then(|leaf| {
            let mut text = [0; 64];
            // The root alone has no type.
            match leaf.read(c"cgroup.type", &mut text)? {
                b"domain\n" => Ok(leaf),
                _ => Err(CgroupError::Threaded),
            }
        });
        if made.is_err() {
            let _ = sys::remove_dir(self.0.raw(), name);
        }
        made
    }

    /// Sets limits of a leaf that [`make`](Self::make) has just made; switches controllers on in the groups above it, the highest first,
    /// where the kernel lets.
    ///
    /// # Errors
    /// [`CgroupError::NoController`], or what the kernel answered.
    pub fn limit(&self, [highest, next]: [&Cgroup; 2], limits: &Limits) -> Result<(), CgroupError> {
        for (limit, file, controller, on) in [
            (limits.memory, c"memory.max", "memory", &b"+memory"[..]),
            (limits.pids, c"pids.max", "pids", b"+pids"),
            (limits.cpu_weight, c"cpu.weight", "cpu", b"+cpu"),
        ] {
            let Some(limit) = limit else { continue };
            let text = decimal(limit);
            let set = || self.write(file, text.as_bytes());
            let mut done = set();
            if done == Err(Errno::ENOENT) {
                // The first may have it switched on already, and not be ours to change.
                let _ = highest.write(c"cgroup.subtree_control", on);
                done = next.write(c"cgroup.subtree_control", on).and_then(|()| set());
            }
            match done {
                Err(Errno::ENOENT | Errno::EBUSY | Errno::EACCES) => {
                    return Err(CgroupError::NoController(controller));
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Whether anybody lives in it, or in a group below. Zombies do not.
    ///
    /// # Errors
    /// What the kernel answered; `ENODEV` once it was removed.
    pub fn is_populated(&self) -> Result<bool, Errno> {
        let mut text = [0; 256];
        value(self.read(c"cgroup.events", &mut text)?, b"populated").map(|count| count != 0).ok_or(Errno::EIO)
    }

    /// How often its limits were met.
    pub fn tally(&self) -> Tally {
        let count = |file, key| {
            let mut text = [0; 1024];
            value(self.read(file, &mut text).ok()?, key)
        };
        Tally {
            oom_kills: count(c"memory.events", b"oom_kill"),
            forks_refused: count(c"pids.events", b"max"),
        }
    }

    /// SIGKILL to everybody in it, and in the groups below. They have ended when it is no longer [populated](Self::is_populated).
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn kill(&self, proc: &Proc) -> Result<(), Errno> {
        match self.write(c"cgroup.kill", b"1") {
            Err(Errno::ENOENT) => {
                // Who is frozen forks nobody, and dies of SIGKILL all the same.
                self.write(c"cgroup.freeze", b"1")?;
                self.members(proc, |process, _| {
                    let _ = process.signal(Signal::KILL);
                });
                self.write(c"cgroup.freeze", b"0")
            }
            done => done,
        }
    }

    /// Gives everybody who lives in it, or in a group below, to `visit`, pinned. Who is outside our pid namespace has no number, and is
    /// not seen.
    pub fn members(&self, proc: &Proc, mut visit: impl FnMut(&Process, &Stat)) {
        self.members_to(proc, &mut visit, DEPTH);
    }

    fn members_to(&self, proc: &Proc, visit: &mut dyn FnMut(&Process, &Stat), depth: u32) {
        let _ = lines(self.0.as_fd(), c"cgroup.procs", |line| {
            let pid = procfs::number(line).ok().and_then(Pid::new);
            let Some(dir) = pid.and_then(|pid| proc.listed(pid).ok()) else { return };
            let Ok(stat) = dir.stat() else { return };
            // Whoever has the number is pinned; if it is listed still, it is the member.
            let mut is_member = false;
            let _ = lines(self.0.as_fd(), c"cgroup.procs", |again| is_member |= again == line);
            if is_member {
                visit(&Process::of_dir(dir), &stat);
            }
        });
        let Some(depth) = depth.checked_sub(1) else { return };
        self.each(|name| {
            if let Ok(below) = self.open(name) {
                below.members_to(proc, visit, depth);
            }
        });
    }

    /// Gives the name of each group right below to `visit`.
    pub fn each(&self, mut visit: impl FnMut(&CStr)) {
        let Ok(list) = Fd::open_at(self.0.raw(), c".", raw::O_DIRECTORY) else { return };
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = sys::entries(list.raw(), &mut buffer) {
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some((kind, name, after)) = sys::next_entry(rest) {
                rest = after;
                if let Ok(name) = CStr::from_bytes_until_nul(name)
                    && u32::from(kind) == raw::DT_DIR
                    && !name.to_bytes().starts_with(b".")
                {
                    visit(name);
                }
            }
        }
    }

    /// Removes a group below, and first the groups that its members made in it.
    ///
    /// # Errors
    /// `EBUSY`: somebody lives in it; right after the last one's end also for some milliseconds. `ENOENT`: there is none.
    pub fn remove(&self, name: &CStr) -> Result<(), Errno> {
        self.remove_to(name, DEPTH)
    }

    fn remove_to(&self, name: &CStr, depth: u32) -> Result<(), Errno> {
        if let (Some(depth), Ok(group)) = (depth.checked_sub(1), self.open(name)) {
            group.each(|below| {
                // What stays keeps its parent, which then says so.
                let _ = group.remove_to(below, depth);
            });
        }
        sys::remove_dir(self.0.raw(), name)
    }

    fn read<'b>(&self, file: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let file = Fd::open_at(self.0.raw(), file, 0)?;
        let length = sys::read(file.raw(), buffer)?;
        Ok(buffer.get(..length).unwrap_or_default())
    }

    fn write(&self, file: &CStr, text: &[u8]) -> Result<(), Errno> {
        let file = Fd::open_at(self.0.raw(), file, raw::O_WRONLY)?;
        sys::write(file.raw(), text).map(drop)
    }
}

/// The directory, for a plan.
impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The number on the line of this key, of a file like `cgroup.events` (flat keyed). `None`: there is no such line, or no number on it, or
/// the line is cut.
pub fn value(text: &[u8], key: &[u8]) -> Option<u64> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    let number = |line: &'_ [u8]| procfs::number(line.strip_prefix(key)?.strip_prefix(b" ")?).ok();
    lines.filter_map(number).next()
}

fn decimal(number: u64) -> String<20> {
    let mut text = String::new();
    // Always fits.
    let _ = core::fmt::Write::write_fmt(&mut text, format_args!("{number}"));
    text
}
