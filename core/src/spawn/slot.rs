//! The pidfd of a child whose spawn has not returned yet.
//!
//! The kernel writes it before the child runs, while the spawning thread sleeps until exec. A program on a
//! hung file system can keep it asleep for ever; another thread then ends the child through the slot.
#![forbid(unsafe_code)]

use core::{
    hint,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
};

use rustix::fd::RawFd;

use crate::{Errno, Signal, sys};

const EMPTY: RawFd = -1;
/// Another thread is sending a signal through the slot; its owner waits before it takes the descriptor.
const BUSY: RawFd = -2;

/// A place for one pidfd, shared by the thread that spawns and one that watches it.
#[derive(Debug)]
pub struct Slot {
    pidfd: AtomicI32,
    /// The child runs, so the number is a pidfd that is open. A clone that fails late has written a number
    /// too, and by then it may be anybody's.
    live: AtomicBool,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::new()
    }
}

impl Slot {
    /// An empty slot.
    pub const fn new() -> Slot {
        Slot { pidfd: AtomicI32::new(EMPTY), live: AtomicBool::new(false) }
    }

    /// Sends SIGKILL to the child that is between clone and exec, if there is one: whether it was sent.
    ///
    /// The descriptor cannot be closed meanwhile, so the signal never reaches anybody else.
    ///
    /// # Errors
    /// What `pidfd_send_signal(2)` answers.
    pub fn end(&self) -> Result<bool, Errno> {
        let fd = self.pidfd.load(Ordering::Acquire);
        if fd < 0 || !self.live.load(Ordering::Acquire) || !self.swap(fd, BUSY) {
            return Ok(false);
        }
        let sent = sys::signal_pidfd(fd, Some(Signal::KILL), 0);
        self.pidfd.store(fd, Ordering::Release);
        sent.map(|()| true)
    }

    /// Where the kernel writes.
    pub(super) const fn place(&self) -> &AtomicI32 {
        &self.pidfd
    }

    /// The clone has worked. The child says so where memory is shared, else its parent.
    #[inline(always)]
    pub(super) fn open(&self) {
        self.live.store(true, Ordering::Release);
    }

    /// Empties the slot: the pidfd, if the clone worked. Called by the spawning thread only.
    pub(super) fn take(&self) -> Option<RawFd> {
        let live = self.live.swap(false, Ordering::AcqRel);
        // Ends as soon as `end` on another thread has made its one system call.
        loop {
            let fd = self.pidfd.load(Ordering::Acquire);
            if fd == EMPTY || (fd != BUSY && self.swap(fd, EMPTY)) {
                return (live && fd >= 0).then_some(fd);
            }
            hint::spin_loop();
        }
    }

    fn swap(&self, from: RawFd, to: RawFd) -> bool {
        self.pidfd.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
