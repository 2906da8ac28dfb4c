//! Signals, to somebody who cannot turn into somebody else.
//!
//! A process is signalled through its pidfd. A group is signalled through its leader's pidfd where the kernel can
//! do that, also after the leader was reaped (Linux ≥ 6.9). Below that its number is used only while our own unreaped leader
//! keeps the kernel from giving it to anybody else. There is no function that takes a number alone.
#![forbid(unsafe_code)]

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::{Errno, Pid, Signal, fd::Fd, sys};

/// How a group can be signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupMeans {
    /// `PIDFD_SIGNAL_PROCESS_GROUP`, Linux ≥ 6.9: safe at any time.
    Pidfd,
    /// By number, while the leader is our unreaped child.
    UnreapedLeader,
}

/// Asks the kernel by which means groups can be signalled: sends nothing, to the group that the caller itself leads
/// or would lead.
pub fn group_means() -> GroupMeans {
    // Closed by a call of our own: a guard asks too.
    let own = Pid::own().and_then(|own| sys::pidfd_open(own).ok()).map(Fd::from);
    // The caller need not lead a group: then nobody is found, by a kernel that knows the flag.
    let asked = own.map(|own| sys::signal_pidfd(own.raw(), None, sys::TO_GROUP));
    match asked {
        Some(Ok(()) | Err(Errno::ESRCH)) => GroupMeans::Pidfd,
        _ => GroupMeans::UnreapedLeader,
    }
}

/// Why no signal was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignalError {
    /// Nobody is there any more.
    Gone,
    /// The process does not lead a group of ours.
    NoGroup,
    /// Nothing keeps the number from being somebody else's.
    Unpinned,
    /// What the kernel answered.
    Errno(Errno),
}

impl From<Errno> for SignalError {
    fn from(errno: Errno) -> SignalError {
        if errno == Errno::ESRCH { SignalError::Gone } else { SignalError::Errno(errno) }
    }
}

/// The signals that the calling thread blocks, bit `n - 1` for signal `n`.
pub fn blocked() -> Result<u64, Errno> {
    sys::mask()
}

/// What a thread of a library blocks, so that signals go to the threads of the program: all but 32 to 34.
///
/// C libraries keep those for themselves: `setuid(3)` of the program sends one to each thread and waits until all have
/// run its handler. A thread that blocked it would hang the program for ever.
pub const LIBRARY_MASK: u64 = !(0b111 << 31);

/// Blocks exactly these signals on the calling thread.
///
/// # Errors
/// None that a kernel gives; a filter may.
pub fn block(mask: u64) -> Result<(), Errno> {
    sys::set_mask(mask).map(drop)
}

/// Runs a write to a pipe or socket that nobody may read any more, so that it is an error and no death.
///
/// A program that does not ignore SIGPIPE, as Rust's start-up code does, would be ended by it. The signal is blocked on this
/// thread meanwhile, and taken away if the write has raised it; one that was pending before stays.
pub fn without_pipe_signal<T>(write: impl FnOnce() -> T) -> T {
    const PIPE: u64 = 1 << (Signal::PIPE.raw() - 1);
    if sys::disposition(Signal::PIPE.raw()) == Ok(sys::Disposition::Ignored) {
        return write();
    }
    let was_pending = sys::pending().unwrap_or(0) & PIPE != 0;
    let Ok(old) = sys::mask().and_then(|old| sys::set_mask(old | PIPE)) else { return write() };
    let answer = write();
    // Raised or not: either way none is left. Where that is refused it stays blocked.
    let taken = was_pending || matches!(sys::take_pending(PIPE), Ok(()) | Err(Errno::EAGAIN));
    let _ = sys::set_mask(if taken { old } else { old | PIPE });
    answer
}

/// A signal as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Which.
    pub signal: Signal,
    /// Who sent it: a pid, only a number; 0 where the kernel did, and for a sender outside our pid namespace.
    pub pid: u32,
    /// `si_code`, see sigaction(2): above 0 where the kernel itself is the cause.
    pub code: i32,
}

/// Signals as something to be read, for a loop that waits for other things too. Only signals that every thread
/// blocks arrive here, those that are ignored by default or by inheritance too; SIGKILL and SIGSTOP never do.
///
/// Since Linux 2.6.27. <https://man7.org/linux/man-pages/man2/signalfd4.2.html>
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Every signal. [`block`] them first, before there is a second thread.
    ///
    /// # Errors
    /// No descriptor to be had.
    pub fn all() -> Result<SignalFd, Errno> {
        sys::signalfd(sys::SigSet::MAX).map(SignalFd)
    }

    /// The next signal that is pending for this process or the calling thread; `None` if there is none. Never blocks.
    ///
    /// # Errors
    /// What `read(2)` answers.
    pub fn next(&self) -> Result<Option<Received>, Errno> {
        // `struct signalfd_siginfo` (`include/uapi/linux/signalfd.h`) begins with signo, errno, code and pid.
        let mut info = [0u8; 128];
        match rustix::io::read(&self.0, &mut info) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) | Ok(0) => return Ok(None),
            Err(e) => return Err(e.into()),
            Ok(_) => {}
        }
        let mut words = info.as_chunks::<4>().0.iter().map(|word| i32::from_ne_bytes(*word));
        let (signal, code, pid) = (words.next(), words.nth(1), words.next());
        let signal = signal.and_then(Signal::new).ok_or(Errno::EINVAL)?;
        Ok(Some(Received { signal, pid: pid.unwrap_or(0) as u32, code: code.unwrap_or(0) }))
    }
}

/// Readable while a signal is pending.
impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
