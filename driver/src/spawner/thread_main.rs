//! A spawner thread: takes requests from the queue and makes children, which are tied to it.
//!
//! It lives as long as its children may: when a thread ends, the kernel sends its children their death
//! signal.

use std::{
    any::Any,
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use pidward_core::{
    Signal,
    ladder::Rung,
    signal,
    spawn::{self, Launcher, Slot, delay},
};

use super::{
    entry::{Entry, Maker, POLL_INTERVAL},
    queue::{Ask, Next, Work, lock},
    shared::{Lane, Shared},
};
use crate::{carriers::Looks, error::SpawnError, prepare::Prepared, say::say};

/// What became of one try.
enum Outcome {
    Child(Arc<Entry>),
    Failed(SpawnError),
    /// May pass: again after this long.
    Later(Duration),
}

pub(super) struct SpawnerThread {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
    maker: Arc<Maker>,
    launcher: Launcher,
    /// Not the first: ends when it is idle and childless.
    extra: bool,
}

impl SpawnerThread {
    pub(super) fn new(shared: Arc<Shared>, extra: bool) -> Result<SpawnerThread, spawn::SpawnError> {
        let launcher = Launcher::new()?;
        let lane = Arc::new(Lane::default());
        lock(&shared.lanes).push(Arc::clone(&lane));
        Ok(SpawnerThread { shared, lane, maker: Arc::default(), launcher, extra })
    }

    /// Serves requests until there can be no more and the last child of this thread has ended.
    pub(super) fn run(mut self) {
        if let Err(e) = signal::block(self.shared.mask) {
            say!(warn, "a spawner thread cannot block signals: {e}");
        }
        let mut idle_since = Instant::now();
        loop {
            let idle = match self.shared.queue.next(self.shared.config.idle, || !self.maker.has_children()) {
                Next::Ask(ask) => {
                    self.serve(&ask);
                    idle_since = Instant::now();
                    false
                }
                Next::Idle => self.extra && idle_since.elapsed() >= self.shared.config.idle,
            };
            let closed = self.shared.queue.is_closed();
            if closed {
                // The events thread has ended if this one was making its last child then.
                for entry in self.shared.children() {
                    self.shared.look(&entry);
                }
            }
            if !self.maker.has_children() && (closed || idle) {
                break;
            }
        }
    }

    /// One request, whatever happens: the asker gets an answer, and a child that nobody takes is ended.
    fn serve(&mut self, ask: &Arc<Ask>) {
        if !ask.take() {
            return;
        }
        self.lane.busy_since.store(self.shared.clock() + 1, Ordering::Release);
        // What the closure leaves half done is this one request, which then fails.
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.attempt(ask)));
        self.lane.busy_since.store(0, Ordering::Release);
        let reply = match outcome {
            // Whoever shut the spawner down did not see this one.
            Ok(Outcome::Child(entry)) if self.shared.is_closed() => {
                end_tree(&entry);
                entry.detach();
                // It is as good as gone: whoever joins this thread need not wait for its next look.
                self.shared.wait(&entry, Instant::now().checked_add(POLL_INTERVAL));
                Err(SpawnError::shut_down())
            }
            Ok(Outcome::Child(entry)) => Ok(entry),
            Ok(Outcome::Failed(error)) => Err(error),
            Ok(Outcome::Later(wait)) => match self.set_aside(ask, wait) {
                true => return,
                false => Err(SpawnError::shut_down()),
            },
            Err(panic) => {
                say!(error, "a spawn panicked: {}", text(&*panic));
                Err(SpawnError::panicked())
            }
        };
        if let Err(Ok(entry)) = ask.answer(reply) {
            say!(warn, "process {} was started for somebody who is gone: SIGKILL to its tree", entry.pid());
            end_tree(&entry);
            entry.detach();
        }
    }

    fn set_aside(&self, ask: &Arc<Ask>, wait: Duration) -> bool {
        // An asker that is gone by now needs no answer.
        !ask.put_back() || self.shared.queue.set_aside(Arc::clone(ask), wait).is_ok()
    }

    fn attempt(&mut self, ask: &Ask) -> Outcome {
        let mut work = ask.work();
        let Some(Work { prepared, tries }) = &mut *work else {
            // Not reached: only the answer takes it away.
            return Outcome::Failed(SpawnError::reply_lost());
        };
        let launcher = &mut self.launcher;
        match prepared.with_plan(|plan| launcher.spawn(plan, ask.slot())) {
            Ok(child) => {
                match self.shared.adopt(child, prepared.program(), &self.maker, prepared.about.clone()) {
                    Ok(entry) => Outcome::Child(entry),
                    Err(error) => Outcome::Failed(error),
                }
            }
            Err(error) => match delay(error, *tries, jitter()) {
                Some(wait) => {
                    *tries += 1;
                    Outcome::Later(wait)
                }
                None => Outcome::Failed(SpawnError::from_core(error, prepared)),
            },
        }
    }
}

/// Also where the thread could not be started: a lane that nobody serves would look idle for ever.
impl Drop for SpawnerThread {
    fn drop(&mut self) {
        lock(&self.shared.lanes).retain(|lane| !Arc::ptr_eq(lane, &self.lane));
    }
}

/// SIGKILL to everybody who can be reached through the child, without waiting.
pub(crate) fn end_tree(entry: &Entry) {
    end_members(entry);
    end_carriers(entry);
}

/// SIGKILL to its group and its leaf. Waits for nobody.
pub(crate) fn end_members(entry: &Entry) {
    entry.note_rung(Rung::Kill);
    if let Err(e) = entry.signal_tree(Signal::KILL) {
        say!(debug, "SIGKILL to the group of process {}: {e:?}", entry.pid());
    }
    entry.signal_leaf(Signal::KILL);
}

/// SIGKILL to those that carry its nonce. What a process carries is in its memory, and to read that may take as long as the process likes.
pub(crate) fn end_carriers(entry: &Entry) {
    if let Some(kin) = entry.kin() {
        Looks::new().signal(kin, Signal::KILL);
    }
}

thread_local! {
    /// What spawning on this thread needs, from the first time on.
    static LAUNCHER: RefCell<Option<Launcher>> = const { RefCell::new(None) };
}

/// A spawn on the calling thread, with the waits of its retries.
pub(crate) fn spawn_here(prepared: &mut Prepared) -> Result<spawn::Child, SpawnError> {
    LAUNCHER.with(|launcher| {
        let mut launcher = launcher.borrow_mut();
        // A copy of the process has the launcher of its original, whose pid is not its own.
        if launcher.as_ref().is_some_and(|launcher| !launcher.is_ours()) {
            *launcher = None;
        }
        let launcher = match &mut *launcher {
            Some(launcher) => launcher,
            empty => empty.insert(Launcher::new().map_err(|e| SpawnError::from_core(e, prepared))?),
        };
        let slot = Slot::new();
        let mut tries = 0;
        // Ends with a child or with an error that is final, which `delay` makes of every error after some tries.
        loop {
            match prepared.with_plan(|plan| launcher.spawn(plan, &slot)) {
                Ok(child) => return Ok(child),
                Err(error) => match delay(error, tries, jitter()) {
                    Some(wait) => thread::sleep(wait),
                    None => return Err(SpawnError::from_core(error, prepared)),
                },
            }
            tries += 1;
        }
    })
}

/// Any number, different for threads that come at the same time.
fn jitter() -> u8 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| (t.subsec_nanos() >> 7) as u8)
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
