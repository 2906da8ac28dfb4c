//! A process that was verified, and is held on to.
#![forbid(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{Verdict, Why};
use crate::{
    Errno, Pid, Signal,
    procfs::{ProcDir, ProcError},
    reap,
    signal::SignalError,
    sys,
};

/// A process that is what it was said to be, pinned: whatever becomes of its number, this is it or nobody.
///
/// | state | [`signal`](Process::signal) | [`signal_group`](Process::signal_group) | [`has_ended`](Process::has_ended) |
/// |---|---|---|---|
/// | lives | sent | sent, if it leads a group | `false` |
/// | zombie | `Ok`, without effect | sent to the members that live | `true` |
/// | reaped | `Gone` | sent to the members that live; `Gone` without one | `true` |
/// | has become another user | `EPERM` | `EPERM` where that holds for every member | as it is |
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    pin: Pin,
}

/// What it is held by.
#[derive(Debug)]
pub(super) enum Pin {
    Pidfd(OwnedFd),
    /// Where pidfds are refused: the directory in `/proc` takes signals too.
    Dir(ProcDir),
}

impl Process {
    /// The pinned process, if it has not ended: who can be asked has been the holder of its number since it was pinned.
    pub(super) fn still_there(pid: Pid, pin: Pin) -> Result<Process, Verdict> {
        let process = Process { pid, pin };
        match process.has_ended() {
            Ok(false) => Ok(process),
            Ok(true) => Err(Verdict::Gone),
            Err(e) => Err(Verdict::Unknown(Why::Errno(e))),
        }
    }

    /// A process that was verified through its directory.
    pub(crate) const fn of_dir(dir: ProcDir) -> Process {
        Process { pid: dir.pid(), pin: Pin::Dir(dir) }
    }

    /// Its number when it was verified.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Its pidfd: readable once it has ended. `None` where this kernel or a filter has none.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        match &self.pin {
            Pin::Pidfd(pidfd) => Some(pidfd.as_fd()),
            Pin::Dir(_) => None,
        }
    }

    /// Whether the whole process has ended. Nothing is reaped.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn has_ended(&self) -> Result<bool, Errno> {
        match &self.pin {
            Pin::Pidfd(pidfd) => reap::has_ended(pidfd.as_fd()),
            Pin::Dir(dir) => match dir.stat() {
                Ok(stat) => Ok(stat.is_ended()),
                Err(ProcError::Gone) => Ok(true),
                Err(ProcError::Errno(e)) => Err(e),
                Err(_) => Err(Errno::EIO),
            },
        }
    }

    /// Sends a signal to it.
    ///
    /// # Errors
    /// - [`SignalError::Gone`]: it was reaped.
    /// - [`SignalError::Errno`]: `EPERM` after it has become another user; `ENOSYS` or `EPERM` where a filter refuses the call. Its number
    ///   is not used instead: nothing keeps it from being another process's.
    pub fn signal(&self, signal: Signal) -> Result<(), SignalError> {
        Ok(sys::signal_pidfd(self.raw(), Some(signal), 0)?)
    }

    /// Sends a signal to the group that it leads. Linux 6.9.
    ///
    /// # Errors
    /// - [`SignalError::Gone`]: there is no such group, or nobody is left in it.
    /// - [`SignalError::NoGroup`]: it is the caller's own group, or a filter hides which that is.
    /// - [`SignalError::Unpinned`]: this kernel signals groups by number only, and nothing keeps this one's from being another's; see
    ///   [`sweep`](crate::sweep).
    pub fn signal_group(&self, signal: Signal) -> Result<(), SignalError> {
        let own = sys::getpgrp();
        // It cannot be told apart from the caller's where that may not be asked for. (0 is a group of an outer pid namespace.)
        if own < 0 || own == self.pid.raw() {
            return Err(SignalError::NoGroup);
        }
        match sys::signal_pidfd(self.raw(), Some(signal), sys::TO_GROUP) {
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EPERM) => Err(SignalError::Unpinned),
            sent => Ok(sent?),
        }
    }

    fn raw(&self) -> i32 {
        match &self.pin {
            Pin::Pidfd(pidfd) => pidfd.as_raw_fd(),
            Pin::Dir(dir) => dir.as_fd().as_raw_fd(),
        }
    }
}
