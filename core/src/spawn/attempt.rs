//! The ways to clone, best first, and what counts as a refusal of one.
#![forbid(unsafe_code)]

use core::sync::atomic::AtomicI32;

use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, BorrowedFd};

use super::{Cloning, stack::Stack};
use crate::{Errno, Signal};

/// One way to clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) cloning: Cloning,
    pub(super) pidfd: bool,
    pub(super) into_cgroup: bool,
}

/// All ways, best first.
const WAYS: [Way; 9] = [
    Way { cloning: Cloning::Clone3, pidfd: true, into_cgroup: true },
    Way { cloning: Cloning::Clone3, pidfd: true, into_cgroup: false },
    Way { cloning: Cloning::Clone3KeepingHandlers, pidfd: true, into_cgroup: false },
    Way { cloning: Cloning::Clone, pidfd: true, into_cgroup: false },
    Way { cloning: Cloning::Clone, pidfd: false, into_cgroup: false },
    Way { cloning: Cloning::Fork3, pidfd: true, into_cgroup: true },
    Way { cloning: Cloning::Fork3, pidfd: true, into_cgroup: false },
    Way { cloning: Cloning::Fork, pidfd: true, into_cgroup: false },
    Way { cloning: Cloning::Fork, pidfd: false, into_cgroup: false },
];

/// The ways that fit, from the one that got through last time; those before it come after, since what was
/// learnt is only a hint. `share`: memory may be shared. `leaf`: a leaf is asked for.
pub(super) fn ways(share: bool, leaf: bool, last: Option<Way>) -> impl Iterator<Item = Way> {
    // The leaf is not part of the hint: its refusal may be about that one leaf.
    let is_last =
        move |way: &Way| last.is_some_and(|last| last.cloning == way.cloning && last.pidfd == way.pidfd);
    let fits = move |way: &Way| (share || !way.cloning.shares_memory()) && (leaf || !way.into_cgroup);
    let begin = if last.is_some_and(|last| fits(&last)) { WAYS.iter().position(is_last) } else { None };
    let begin = begin.unwrap_or(0);
    WAYS.into_iter().skip(begin).chain(WAYS.into_iter().take(begin)).filter(fits)
}

impl Way {
    pub(super) const fn is_clone3(self) -> bool {
        matches!(self.cloning, Cloning::Clone3 | Cloning::Clone3KeepingHandlers | Cloning::Fork3)
    }

    /// Whether no handler of the supervisor is left in the child.
    pub(super) const fn clears_handlers(self) -> bool {
        self.flags() & raw::CLONE_CLEAR_SIGHAND != 0
    }

    /// Flags of the clone, without the exit signal.
    pub(super) const fn flags(self) -> u64 {
        let memory = if self.cloning.shares_memory() { raw::CLONE_VM | raw::CLONE_VFORK } else { 0 };
        let pidfd = if self.pidfd { raw::CLONE_PIDFD } else { 0 };
        let handlers = match self.cloning {
            Cloning::Clone3 | Cloning::Fork3 => raw::CLONE_CLEAR_SIGHAND,
            Cloning::Clone3KeepingHandlers | Cloning::Clone | Cloning::Fork => 0,
        };
        let cgroup = if self.into_cgroup { raw::CLONE_INTO_CGROUP } else { 0 };
        (memory | pidfd) as u64 | handlers | cgroup
    }

    /// The argument of `clone3`. The exit signal is always SIGCHLD, so that an ordinary wait finds the child.
    pub(super) fn clone_args(
        self,
        stack: &Stack,
        pidfd: &AtomicI32,
        leaf: Option<BorrowedFd<'_>>,
    ) -> raw::clone_args {
        let cgroup = leaf.filter(|_| self.into_cgroup).map_or(0, |leaf| leaf.as_raw_fd() as u64);
        raw::clone_args {
            flags: self.flags(),
            pidfd: pidfd.as_ptr() as u64,
            child_tid: 0,
            parent_tid: 0,
            exit_signal: Signal::CHLD.raw() as u64,
            stack: stack.bottom() as u64,
            stack_size: stack.top().saturating_sub(stack.bottom()) as u64,
            tls: 0,
            set_tid: 0,
            set_tid_size: 0,
            cgroup,
        }
    }

    /// Whether `errno` says "not this way" rather than "no child now". A filter answers what its author
    /// chose; a leaf can be refused for many reasons, and its `cgroup.procs` then gives the one that counts.
    pub(super) const fn is_refusal(self, errno: Errno) -> bool {
        match errno {
            Errno::ENOSYS | Errno::EPERM | Errno::EINVAL | Errno::E2BIG => true,
            Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE => false,
            _ => self.into_cgroup,
        }
    }
}
