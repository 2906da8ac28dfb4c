//! One child of a spawner.

use std::{
    fmt, io,
    process::{self, ExitStatus},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    command::Command,
    stdio::{ChildStderr, ChildStdin, ChildStdout},
};

/// Longest time between two looks of somebody who waits.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One child. Its number is used as long as std holds it unreaped, and by the process that made it alone.
pub(crate) struct Entry {
    pub(crate) pid: u32,
    pub(crate) kill_on_drop: bool,
    pub(super) ask: Duration,
    detached: AtomicBool,
    child: Mutex<process::Child>,
    /// Whose child it is: in a forked copy its number would be a guess.
    owner: u32,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("pid", &self.pid).finish_non_exhaustive()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    pub(super) fn new(child: process::Child, cmd: &Command) -> Entry {
        Entry {
            pid: child.id(),
            kill_on_drop: cmd.kill_on_drop,
            ask: cmd.ask.unwrap_or_default(),
            detached: AtomicBool::new(false),
            child: Mutex::new(child),
            owner: process::id(),
        }
    }

    pub(super) fn detach(&self) {
        self.detached.store(true, Ordering::Release);
    }

    /// Whether nobody owns it.
    pub(super) fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Acquire)
    }

    pub(crate) fn take_pipes(&self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        let mut child = lock(&self.child);
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    }

    pub(super) fn check_ours(&self) -> io::Result<()> {
        let words = "the child belongs to the process that this one was forked from";
        if process::id() == self.owner {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::Unsupported, words))
        }
    }

    /// Its status if it has ended.
    pub(crate) fn look(&self) -> io::Result<Option<ExitStatus>> {
        self.check_ours()?;
        lock(&self.child).try_wait()
    }

    /// Whether it has ended, or can no longer be asked.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.look(), Ok(None))
    }

    /// Blocks until it has ended (`Some`) or `until` has passed.
    pub(crate) fn wait(&self, until: Option<Instant>) -> io::Result<Option<ExitStatus>> {
        let mut pause = Duration::from_millis(1);
        // Ends with the child or at the deadline.
        loop {
            if let Some(status) = self.look()? {
                return Ok(Some(status));
            }
            let left = until.map_or(pause, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(pause.min(left));
            pause = LOOK_EVERY.min(pause * 2);
        }
    }

    /// std holds it unreaped, or knows its status and then sends nothing.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.check_ours()?;
        lock(&self.child).kill()
    }
}
