//! What this kernel and its filters allow, asked of the calling process itself: nobody else is touched.
//!
//! For reports: every call that matters falls back by itself when it is refused.
#![forbid(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd};

use crate::{
    Pid,
    identity::pidfs_inode,
    reap::{self, ReapError, Target},
    signal::{self, GroupMeans},
    sys,
};

/// What can be had of pidfds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pidfds {
    /// `pidfd_open(2)`, Linux 5.3.
    pub open: bool,
    /// `pidfd_send_signal(2)`, Linux 5.1.
    pub signal: bool,
    /// The same to the whole group that its process leads, Linux 6.9.
    pub signal_group: bool,
    /// `waitid(P_PIDFD)`, Linux 5.4.
    pub wait: bool,
    /// Inodes that are never given twice in a boot, Linux 6.9 on 64 bit.
    pub inode: bool,
    /// The exit status of a process whose status somebody else took (`PIDFD_GET_INFO`), Linux 6.15.
    pub exit_info: bool,
}

/// Asks.
pub fn pidfds() -> Pidfds {
    let Some(own) = Pid::own().and_then(|own| sys::pidfd_open(own).ok()) else {
        return Pidfds::default();
    };
    Pidfds {
        open: true,
        signal: sys::signal_pidfd(own.as_raw_fd(), None, 0).is_ok(),
        signal_group: signal::group_means() == GroupMeans::Pidfd,
        // No child of itself, says a kernel that knows pidfds.
        wait: matches!(reap::peek(Target::Pidfd(own.as_fd())), Err(ReapError::NotOurs)),
        inode: matches!(pidfs_inode(own.as_fd()), Ok(Some(_))),
        exit_info: sys::pidfd_exit_status(own.as_raw_fd()).is_ok(),
    }
}
