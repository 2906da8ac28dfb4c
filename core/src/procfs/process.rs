//! The directory of one process, held open.
#![forbid(unsafe_code)]

use core::{ffi::CStr, fmt::Write};

use heapless::String;
use linux_raw_sys::general as raw;
use rustix::fd::{AsFd, BorrowedFd};

use super::{
    Proc, ProcError, Stat, State, line, number,
    read::{open_at, read, read_at},
};
use crate::{Errno, Pid, fd::Fd, sys};

/// Longer than any stat line: a name has at most 64 bytes, each of 51 fields at most 20.
const STAT_LEN: usize = 2048;

/// What an environ turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Environ {
    /// So many bytes, more than none. Between fork and exec they are the *parent's*, and a program can overwrite them.
    Bytes(u64),
    /// None, though the process lives: it is in exec, has none, or its first thread has ended before the others. Says nothing.
    Empty,
    /// None: the whole process has ended.
    Ended,
    /// None: a kernel thread.
    KernelThread,
}

/// An open `/proc/<pid>`: this process or, once it is reaped, nobody; never one that got its number later.
///
/// The descriptor is no `O_PATH` one, so `pidfd_send_signal` takes it.
#[derive(Debug)]
pub struct ProcDir {
    dir: Fd,
    pid: Pid,
}

impl ProcDir {
    pub(super) fn open(proc: BorrowedFd<'_>, pid: Pid) -> Result<ProcDir, ProcError> {
        let dir = ProcDir::pin(proc, pid)?;
        // A thread has such a directory too, though none that is listed; it would pass for a process. The line comes early,
        // before any of unbounded length.
        let mut text = [0; 512];
        let text = read_at(dir.as_fd(), c"status", &mut text)?;
        let tgid: u32 = number(line(text, b"Tgid:").ok_or(ProcError::Malformed)?)?;
        if tgid == pid.get() { Ok(dir) } else { Err(ProcError::ThreadId) }
    }

    pub(super) fn pin(proc: BorrowedFd<'_>, pid: Pid) -> Result<ProcDir, ProcError> {
        let mut path: String<12> = String::new();
        // Always fits: ten digits and the NUL.
        write!(path, "{pid}\0").map_err(|_| ProcError::Malformed)?;
        let path = CStr::from_bytes_with_nul(path.as_bytes()).map_err(|_| ProcError::Malformed)?;
        match open_at(proc, path, raw::O_DIRECTORY) {
            Ok(dir) => Ok(ProcDir { dir, pid }),
            Err(Errno::ENOENT) if is_taken(pid) => Err(ProcError::Hidden),
            Err(e) => Err(e.into()),
        }
    }

    /// The number it was opened by.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Its stat line, now.
    ///
    /// # Errors
    /// [`ProcError::Gone`] once it is reaped; else what the kernel answered.
    pub fn stat(&self) -> Result<Stat, ProcError> {
        let mut text = [0; STAT_LEN];
        Ok(Stat::parse(read_at(self.dir.as_fd(), c"stat", &mut text)?)?)
    }

    /// Gives its environ to `piece`, piece by piece.
    ///
    /// It may stop short where the process ends or changes its program meanwhile: what is absent proves nothing.
    ///
    /// # Errors
    /// [`ProcError::Gone`] once it is reaped; `EACCES` for another user's and for a non-dumpable process.
    pub fn environ(&self, mut piece: impl FnMut(&[u8])) -> Result<Environ, ProcError> {
        let mut total = 0u64;
        match open_at(self.dir.as_fd(), c"environ", 0) {
            Ok(file) => {
                let mut buffer = [0; 4096];
                // Ends at the end of the file, which is bounded by what exec takes.
                loop {
                    match read(&file, &mut buffer)? {
                        0 => break,
                        n => {
                            piece(buffer.get(..n).unwrap_or_default());
                            total = total.saturating_add(n as u64);
                        }
                    }
                }
            }
            // A process without memory: ended, or a kernel thread. Before Linux 6.12 its environ opens and is empty.
            Err(Errno::ESRCH) => {}
            // The file of such a process is root's, whosever the process was.
            Err(Errno::EACCES) if matches!(self.stat()?.state, State::ZOMBIE | State::DEAD) => {}
            Err(e) => return Err(e.into()),
        }
        if total > 0 {
            return Ok(Environ::Bytes(total));
        }
        let stat = self.stat()?;
        Ok(match stat {
            _ if stat.is_ended() => Environ::Ended,
            _ if stat.is_kernel_thread() => Environ::KernelThread,
            _ => Environ::Empty,
        })
    }
}

impl AsFd for ProcDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Whether anybody, seen or hidden, has the number: that can be asked without any right.
fn is_taken(pid: Pid) -> bool {
    match sys::pidfd_open(pid).map(Fd::from) {
        Err(Errno::ESRCH) => false,
        Ok(_) => true,
        // No pidfds here. Signal 0 is none.
        Err(_) => sys::probe(pid) != Err(Errno::ESRCH),
    }
}

/// The stat line of a process. A thread has one too, which is refused.
///
/// Opens and checks `/proc` anew: whoever asks often keeps a [`Proc`].
///
/// # Errors
/// [`ProcError`].
pub fn stat(pid: Pid) -> Result<Stat, ProcError> {
    Proc::open()?.process(pid)?.stat()
}

/// Whether the process has ended and only its status is left. One whose first thread has ended while others live has not.
/// Unknown is `false`.
pub fn is_zombie(pid: Pid) -> bool {
    stat(pid).is_ok_and(|stat| stat.is_ended())
}
