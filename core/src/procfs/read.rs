//! The `/proc` directory: that it is one, and what it holds of the whole system.
#![forbid(unsafe_code)]

use core::ffi::CStr;

use linux_raw_sys::general as raw;
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    fs::{self, PROC_SUPER_MAGIC},
    io,
};

use super::{Malformed, ProcDir, Status};
use crate::{Errno, Pid, fd::Fd, id::Id128, sys};

/// Longer than a status file but for the groups of its process: 500 of them still fit.
const STATUS_LEN: usize = 8192;

/// Why nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcError {
    /// Nobody has the number; or the process that was opened is reaped.
    Gone,
    /// Somebody has the number, but `/proc` does not show it: another user's, and mounted with `hidepid`.
    Hidden,
    /// The number is a thread's.
    ThreadId,
    /// `/proc` is missing or is no proc file system.
    NoProc,
    /// `/proc` shows another pid namespace: its numbers are not ours.
    OtherPidNamespace,
    /// The file is not what it should be.
    Malformed,
    /// What the kernel answered. `EACCES`: another user's, or it has made itself non-dumpable.
    Errno(Errno),
}

impl From<Errno> for ProcError {
    fn from(errno: Errno) -> ProcError {
        match errno {
            // The directory entry of a process, or what an open file of it says, once it is reaped.
            Errno::ENOENT | Errno::ESRCH => ProcError::Gone,
            e => ProcError::Errno(e),
        }
    }
}

impl From<io::Errno> for ProcError {
    fn from(errno: io::Errno) -> ProcError {
        Errno::from(errno).into()
    }
}

impl From<Malformed> for ProcError {
    fn from(_: Malformed) -> ProcError {
        ProcError::Malformed
    }
}

/// An open `/proc`, known to be one and of our own pid namespace.
#[derive(Debug)]
pub struct Proc(Fd);

impl Proc {
    /// Opens `/proc`.
    ///
    /// # Errors
    /// [`ProcError::NoProc`], [`ProcError::OtherPidNamespace`], or what the kernel answered.
    pub fn open() -> Result<Proc, ProcError> {
        match Fd::open_at(raw::AT_FDCWD, c"/proc", raw::O_DIRECTORY) {
            Ok(dir) => Proc::of(dir),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Err(ProcError::NoProc),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes an open directory as `/proc` if it is one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(dir: OwnedFd) -> Result<Proc, ProcError> {
        Proc::of(dir.into())
    }

    fn of(dir: Fd) -> Result<Proc, ProcError> {
        if fs::fstatfs(&dir)?.f_type != PROC_SUPER_MAGIC {
            return Err(ProcError::NoProc);
        }
        let mut text = [0; STATUS_LEN];
        let status = match read_at(dir.as_fd(), c"self/status", &mut text) {
            Ok(text) => Status::parse(text)?,
            // Seen from there, we have no number.
            Err(ProcError::Gone) => return Err(ProcError::OtherPidNamespace),
            Err(e) => return Err(e),
        };
        // From an outer namespace the number could be the same by chance; the chain is longer then.
        let ours = Pid::own().map(Pid::get) == Some(status.tgid);
        if ours && status.ns_pids.len() <= 1 { Ok(Proc(dir)) } else { Err(ProcError::OtherPidNamespace) }
    }

    /// Opens the directory of a process, and so pins it: what is read there later is this process or nobody.
    ///
    /// # Errors
    /// [`ProcError::Gone`], [`ProcError::Hidden`], [`ProcError::ThreadId`], or what the kernel answered.
    pub fn process(&self, pid: Pid) -> Result<ProcDir, ProcError> {
        ProcDir::open(self.0.as_fd(), pid)
    }

    /// The same for a number that [`pids`](Self::pids) has just given: those are no threads'.
    ///
    /// # Errors
    /// As [`process`](Self::process), but for a thread's number.
    pub fn listed(&self, pid: Pid) -> Result<ProcDir, ProcError> {
        ProcDir::pin(self.0.as_fd(), pid)
    }

    /// Calls `visit` for every process that is listed, until it answers `false`. Those that `hidepid` hides are not
    /// listed; a process made or ended meanwhile may be missed or listed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn pids(&self, mut visit: impl FnMut(Pid) -> bool) -> Result<(), ProcError> {
        // A descriptor of its own: two scans at once would share one position.
        let dir = open_at(self.0.as_fd(), c".", raw::O_DIRECTORY)?;
        let mut buffer = [0; 4096];
        // Ends at the end of the directory.
        loop {
            let length = sys::entries(dir.raw(), &mut buffer)?;
            let mut list = buffer.get(..length).unwrap_or_default();
            if list.is_empty() {
                return Ok(());
            }
            while let Some((number, rest)) = sys::next_number(list) {
                list = rest;
                if Pid::from_raw(number).is_some_and(|pid| !visit(pid)) {
                    return Ok(());
                }
            }
        }
    }

    /// The id of this boot.
    ///
    /// # Errors
    /// The file cannot be read (some containers hide it) or holds no id.
    pub fn boot_id(&self) -> Result<Id128, ProcError> {
        let mut text = [0; 64];
        Ok(boot_id(read_at(self.0.as_fd(), c"sys/kernel/random/boot_id", &mut text)?)?)
    }
}

impl AsFd for Proc {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Parses a boot id: 36 characters, 8-4-4-4-12 lower-case hex digits, and a newline at most.
///
/// # Errors
/// Anything else.
pub fn boot_id(text: &[u8]) -> Result<Id128, Malformed> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let dash = |at: &usize| matches!(at, 8 | 13 | 18 | 23);
    let placed = text.iter().enumerate().all(|(at, &b)| (b == b'-') == dash(&at));
    let digits = Id128::of_digits(text.iter().filter(|b| **b != b'-')).ok_or(Malformed)?;
    if placed && text.len() == 36 { Ok(digits) } else { Err(Malformed) }
}

/// Opens a file below an open directory of `/proc`, for reading.
pub(super) fn open_at(dir: BorrowedFd<'_>, path: &CStr, flags: u32) -> Result<Fd, Errno> {
    Fd::open_at(dir.as_raw_fd(), path, flags)
}

/// Reads a file below an open directory of `/proc` until the buffer is full or the file at its end.
pub(super) fn read_at<'b>(
    dir: BorrowedFd<'_>,
    path: &CStr,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], ProcError> {
    let file = open_at(dir, path, 0)?;
    let mut filled = 0usize;
    // Ends at the end of the file or of the buffer.
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match read(&file, room)? {
            0 => break,
            n => filled = filled.saturating_add(n),
        }
    }
    Ok(buffer.get(..filled).unwrap_or_default())
}

/// Gives each line of a file below an open directory of `/proc` to `visit`, without its newline. One that is longer than 8 KiB is
/// passed over.
pub(crate) fn lines(dir: BorrowedFd<'_>, path: &CStr, mut visit: impl FnMut(&[u8])) -> Result<(), ProcError> {
    let file = open_at(dir, path, 0)?;
    let mut buffer = [0; 8192];
    let (mut filled, mut cut) = (0usize, false);
    // Ends at the end of the file.
    loop {
        if filled == buffer.len() {
            (filled, cut) = (0, true);
        }
        match read(&file, buffer.get_mut(filled..).unwrap_or_default())? {
            0 => return Ok(()),
            n => filled = filled.saturating_add(n),
        }
        let whole = buffer.get(..filled).unwrap_or_default();
        let whole = whole.split_inclusive(|b| *b == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        let mut used = 0usize;
        for line in whole {
            used = used.saturating_add(line.len()).saturating_add(1);
            if !core::mem::take(&mut cut) {
                visit(line);
            }
        }
        buffer.copy_within(used..filled, 0);
        filled = filled.saturating_sub(used);
    }
}

/// One read; an interrupted one is made again.
pub(super) fn read(file: &Fd, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match sys::read(file.raw(), buffer) {
            Err(Errno::EINTR) => {}
            answer => return answer,
        }
    }
}
