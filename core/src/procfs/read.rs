//! The `/proc` directory: that it is one, and what it holds of the whole system.
#![forbid(unsafe_code)]

use core::mem::MaybeUninit;

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, CWD, Mode, OFlags, PROC_SUPER_MAGIC, RawDir},
    io,
};

use super::{Malformed, ProcDir, Status};
use crate::{Errno, Pid, id::Id128, sys};

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

impl From<io::Errno> for ProcError {
    fn from(errno: io::Errno) -> ProcError {
        match errno {
            // The directory entry of a process, or what an open file of it says, once it is reaped.
            io::Errno::NOENT | io::Errno::SRCH => ProcError::Gone,
            e => ProcError::Errno(e.into()),
        }
    }
}

impl From<Malformed> for ProcError {
    fn from(_: Malformed) -> ProcError {
        ProcError::Malformed
    }
}

/// An open `/proc`, known to be one and of our own pid namespace.
#[derive(Debug)]
pub struct Proc(OwnedFd);

impl Proc {
    /// Opens `/proc`.
    ///
    /// # Errors
    /// [`ProcError::NoProc`], [`ProcError::OtherPidNamespace`], or what the kernel answered.
    pub fn open() -> Result<Proc, ProcError> {
        match fs::openat(CWD, c"/proc", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(dir) => Proc::check(dir),
            Err(io::Errno::NOENT | io::Errno::NOTDIR) => Err(ProcError::NoProc),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes an open directory as `/proc` if it is one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(dir: OwnedFd) -> Result<Proc, ProcError> {
        if fs::fstatfs(&dir)?.f_type != PROC_SUPER_MAGIC {
            return Err(ProcError::NoProc);
        }
        let mut text = [0; STATUS_LEN];
        let status = match read_at(dir.as_fd(), "self/status", &mut text) {
            Ok(text) => Status::parse(text)?,
            // Seen from there, we have no number.
            Err(ProcError::Gone) => return Err(ProcError::OtherPidNamespace),
            Err(e) => return Err(e),
        };
        // From an outer namespace the number could be the same by chance; the chain is longer then.
        let ours = Pid::from_raw(sys::getpid()).map(Pid::get) == Some(status.tgid);
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
        let dir = open_at(self.0.as_fd(), ".", OFlags::DIRECTORY)?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = core::str::from_utf8(entry.file_name().to_bytes()).unwrap_or_default();
            if let Some(pid) = name.parse().ok().and_then(Pid::new)
                && !visit(pid)
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The id of this boot.
    ///
    /// # Errors
    /// The file cannot be read (some containers hide it) or holds no id.
    pub fn boot_id(&self) -> Result<Id128, ProcError> {
        let mut text = [0; 64];
        Ok(boot_id(read_at(self.0.as_fd(), "sys/kernel/random/boot_id", &mut text)?)?)
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
pub(super) fn open_at(dir: BorrowedFd<'_>, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    fs::openat(dir, path, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Reads a file below an open directory of `/proc` until the buffer is full or the file at its end.
pub(super) fn read_at<'b>(
    dir: BorrowedFd<'_>,
    path: &str,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], ProcError> {
    let file = open_at(dir, path, OFlags::empty())?;
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

/// One read; an interrupted one is made again.
pub(super) fn read(file: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    io::retry_on_intr(|| io::read(file, &mut *buffer))
}
