//! Requests on their way to a spawner thread.
//!
//! Bounded, first come first served; a request that waits out a retry stands aside and holds nobody up.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use pidward_core::spawn::Slot;

use crate::{error::SpawnError, prepare::Prepared, say::say};

use super::entry::Entry;

/// What an asker gets.
pub(crate) type Reply = Result<Arc<Entry>, SpawnError>;

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const ANSWERED: u8 = 2;
const ABANDONED: u8 = 3;

/// One request. Exactly one of asker and spawner thread decides how it ends, by the state.
pub(crate) struct Ask {
    state: AtomicU8,
    reply: Mutex<Option<Reply>>,
    asker: Thread,
    /// The child between clone and exec, for the asker to end when its patience does.
    slot: Slot,
    work: Mutex<Option<Work>>,
}

/// What the spawner thread needs of a request.
pub(crate) struct Work {
    pub(super) prepared: Prepared,
    /// Tries so far that failed with something that may pass.
    pub(super) tries: u32,
}

impl Ask {
    pub(super) fn new(prepared: Prepared) -> Arc<Ask> {
        Arc::new(Ask {
            state: AtomicU8::new(QUEUED),
            reply: Mutex::new(None),
            asker: thread::current(),
            slot: Slot::new(),
            work: Mutex::new(Some(Work { prepared, tries: 0 })),
        })
    }

    pub(super) const fn slot(&self) -> &Slot {
        &self.slot
    }

    /// What there is to do; empty once it is done, since it holds the child's ends of the pipes.
    pub(super) fn work(&self) -> MutexGuard<'_, Option<Work>> {
        lock(&self.work)
    }

    /// `false` if the asker is gone.
    pub(super) fn take(&self) -> bool {
        self.step(QUEUED, TAKEN)
    }

    /// Back to the queue, for another try.
    pub(super) fn put_back(&self) -> bool {
        self.step(TAKEN, QUEUED)
    }

    /// Gives the asker its answer; gives it back if the asker is gone.
    pub(super) fn answer(&self, reply: Reply) -> Result<(), Reply> {
        drop(self.work().take());
        *lock(&self.reply) = Some(reply);
        if self.step(TAKEN, ANSWERED) || self.step(QUEUED, ANSWERED) {
            self.asker.unpark();
            return Ok(());
        }
        match lock(&self.reply).take() {
            Some(reply) => Err(reply),
            // Not reached: only the asker takes it, after `ANSWERED`.
            None => Ok(()),
        }
    }

    /// The answer, once it is there.
    pub(super) fn answered(&self) -> Option<Reply> {
        if self.state.load(Ordering::Acquire) == ANSWERED { lock(&self.reply).take() } else { None }
    }

    /// The asker goes; `false` if the answer came first. A child that is on its way to exec is ended.
    pub(super) fn abandon(&self) -> bool {
        if self.step(QUEUED, ABANDONED) {
            return true;
        }
        let gone = self.step(TAKEN, ABANDONED);
        if gone {
            match self.slot.end() {
                Ok(true) => say!(warn, "a spawn passed its deadline in exec; its child got SIGKILL"),
                Ok(false) => say!(warn, "a spawn passed its deadline; its child is ended when it appears"),
                Err(e) => say!(warn, "a spawn passed its deadline; SIGKILL through its pidfd failed: {e}"),
            }
        }
        gone
    }

    pub(super) fn is_waiting_in_queue(&self) -> bool {
        self.state.load(Ordering::Acquire) == QUEUED
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Why a request did not get in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Full,
    Closed,
}

/// What a spawner thread wakes up to.
#[derive(Debug)]
pub(crate) enum Next {
    Ask(Arc<Ask>),
    /// Nothing to do; the thread looks whether it may end.
    Idle,
}

#[derive(Debug, Default)]
struct Inner {
    ready: VecDeque<Arc<Ask>>,
    /// Waiting out a retry until the time beside them.
    aside: Vec<(Instant, Arc<Ask>)>,
    closed: bool,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Condvar,
    limit: usize,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Queue {
        Queue { inner: Mutex::default(), wake: Condvar::new(), limit }
    }

    pub(super) fn push(&self, ask: Arc<Ask>) -> Result<(), Refused> {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return Err(Refused::Closed);
        }
        if inner.ready.len() + inner.aside.len() >= self.limit {
            return Err(Refused::Full);
        }
        inner.ready.push_back(ask);
        drop(inner);
        self.wake.notify_one();
        Ok(())
    }

    /// Lets a request stand aside for a while; gives it back if the queue was closed meanwhile.
    pub(super) fn set_aside(&self, ask: Arc<Ask>, wait: Duration) -> Result<(), Arc<Ask>> {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return Err(ask);
        }
        inner.aside.push((Instant::now() + wait, ask));
        drop(inner);
        self.wake.notify_one();
        Ok(())
    }

    /// An asker that went takes its request along.
    pub(super) fn remove(&self, ask: &Arc<Ask>) {
        let mut inner = lock(&self.inner);
        inner.ready.retain(|other| !Arc::ptr_eq(other, ask));
        inner.aside.retain(|(_, other)| !Arc::ptr_eq(other, ask));
    }

    /// The next request whose time has come. Wakes up idle now and then, and when told to; at once when the queue is closed and `done`.
    /// That is asked under the lock, so no call between it and the wait wakes nobody.
    pub(super) fn next(&self, patience: Duration, done: impl FnOnce() -> bool) -> Next {
        let mut inner = lock(&self.inner);
        let now = Instant::now();
        if let Some(at) = inner.aside.iter().position(|(when, _)| *when <= now) {
            let (_, ask) = inner.aside.swap_remove(at);
            return Next::Ask(ask);
        }
        if let Some(ask) = inner.ready.pop_front() {
            return Next::Ask(ask);
        }
        if inner.closed && done() {
            return Next::Idle;
        }
        let until = inner.aside.iter().map(|(when, _)| when.saturating_duration_since(now)).min();
        let wait = until.map_or(patience, |until| until.min(patience));
        if wait > Duration::ZERO {
            inner = self.wake.wait_timeout(inner, wait).map_or_else(|e| e.into_inner().0, |(inner, _)| inner);
        }
        match inner.ready.pop_front() {
            Some(ask) => Next::Ask(ask),
            None => Next::Idle,
        }
    }

    /// No more requests: gives back those that wait.
    pub(super) fn close(&self) -> Vec<Arc<Ask>> {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        let mut rest: Vec<_> = inner.ready.drain(..).collect();
        rest.extend(inner.aside.drain(..).map(|(_, ask)| ask));
        drop(inner);
        self.wake.notify_all();
        rest
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.inner).closed
    }

    /// Wakes every spawner thread.
    pub(super) fn wake_all(&self) {
        drop(lock(&self.inner));
        self.wake.notify_all();
    }
}

/// A lock whose holder panicked protects plain data that is whole at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
