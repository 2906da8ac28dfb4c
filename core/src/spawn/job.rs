//! What passes between a child and the parent that made it.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use rustix::fd::RawFd;

use super::{Closing, ParentCheck, Plan, Slot};
use crate::Errno;

/// What the child tells its parent: in shared memory, or the same numbers through a pipe.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The step that the child is at.
    pub(super) step: AtomicU32,
    /// The error that ended it there; 0 while it goes on.
    pub(super) errno: AtomicU32,
    /// [`ParentCheck`] in the low byte, [`Closing`] above, then [`Refused`](super::Refused).
    pub(super) notes: AtomicU32,
}

impl Report {
    /// The same numbers as bytes.
    #[inline(always)]
    pub(super) fn message(&self) -> [u8; 12] {
        let [a, b, c, d] = self.step.load(Ordering::Relaxed).to_ne_bytes();
        let [e, f, g, h] = self.errno.load(Ordering::Relaxed).to_ne_bytes();
        let [i, j, k, l] = self.notes.load(Ordering::Relaxed).to_ne_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    #[inline(always)]
    pub(super) fn note_parent_check(&self, how: ParentCheck) {
        self.notes.fetch_or(how as u32, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn note_closing(&self, how: Closing) {
        self.notes.fetch_or((how as u32) << 8, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn note_refused(&self, what: u32) {
        self.notes.fetch_or(what, Ordering::Relaxed);
    }

    /// Takes over what a child without shared memory has told.
    pub(super) fn set(&self, message: &[u8; 12]) {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *message;
        self.step.store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed);
        self.errno.store(u32::from_ne_bytes([e, f, g, h]), Ordering::Relaxed);
        self.notes.store(u32::from_ne_bytes([i, j, k, l]), Ordering::Relaxed);
    }
}

/// Everything the child needs. Borrowed from the sleeping parent.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) report: &'a Report,
    pub(super) slot: &'a Slot,
    /// Write end of the report's pipe, above all targets; -1 where memory is shared.
    pub(super) pipe: RawFd,
    /// Whom `getppid` has to name.
    pub(super) supervisor: i32,
    /// A pidfd of the supervisor, for a child that cannot see it; -1 if there is none.
    pub(super) supervisor_pidfd: RawFd,
    /// `cgroup.procs` of the leaf, if the child has to write itself into it; else -1.
    pub(super) leaf: RawFd,
    /// The open program file, above all targets; -1 where there are paths.
    pub(super) program: RawFd,
    /// The name of that descriptor below `/proc`, with its NUL; a NUL alone where there are paths.
    pub(super) program_path: &'a [u8],
    /// The score for the out-of-memory killer as text; empty if it stays.
    pub(super) oom_score: &'a [u8],
    /// The clone has taken the supervisor's handlers away.
    pub(super) clears_handlers: bool,
}

/// What a step answers. No step ends the child by itself, since a process that becomes the program in place runs
/// some of them too; the child's first function does, whatever it gets.
pub(super) type Done = Result<(), Errno>;

/// The value, or out of the step with the error.
macro_rules! or_return {
    ($answer:expr) => {
        match $answer {
            Ok(value) => value,
            Err(errno) => return Err(errno),
        }
    };
}
pub(super) use or_return;
