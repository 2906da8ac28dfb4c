//! Signals, to somebody who cannot turn into somebody else.
//!
//! A process is signalled through its pidfd. A group is signalled through its leader's pidfd where the kernel can
//! do that, also after the leader was reaped (Linux ≥ 6.9). Below that its number is used only while our own unreaped leader
//! keeps the kernel from giving it to anybody else. There is no function that takes a number alone.
#![forbid(unsafe_code)]

use rustix::fd::AsRawFd;

use crate::{Errno, Pid, sys};

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
    let Some(own) = Pid::from_raw(sys::getpid()).and_then(|own| sys::pidfd_open(own).ok()) else {
        return GroupMeans::UnreapedLeader;
    };
    match sys::signal_pidfd(own.as_raw_fd(), None, sys::TO_GROUP) {
        // The caller need not lead a group: then nobody is found, by a kernel that knows the flag.
        Ok(()) | Err(Errno::ESRCH) => GroupMeans::Pidfd,
        Err(_) => GroupMeans::UnreapedLeader,
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

/// Blocks every signal on the calling thread: what it blocked before. A thread of a library does this first, so that
/// signals go to the threads of the program.
///
/// All but 32 to 34, which C libraries keep for themselves: `setuid(3)` of the program sends one to each thread and waits
/// until all have run its handler. A thread that blocked it would hang the program for ever.
///
/// # Errors
/// None that a kernel gives; a filter may.
pub fn block_all() -> Result<u64, Errno> {
    sys::set_mask(!(0b111 << 31))
}

/// Blocks exactly these signals on the calling thread.
///
/// # Errors
/// As [`block_all`].
pub fn block(mask: u64) -> Result<(), Errno> {
    sys::set_mask(mask).map(drop)
}
