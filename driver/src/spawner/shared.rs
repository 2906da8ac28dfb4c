//! What the handles, the threads and the children of one spawner have in common.

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsStr,
    io, process,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use pidward_core::{
    Id128, Signal,
    signal::{self, GroupMeans},
    spawn,
};
use rustix::{
    event::{EventfdFlags, epoll, eventfd},
    fd::OwnedFd,
    io::Errno,
};

use super::{
    builder::Config,
    entry::{Entry, Maker, POLL_INTERVAL},
    ground::{About, Ground},
    guard::Watch,
    orphans::Orphans,
    queue::{Queue, lock},
    stopper::Stopper,
};
use crate::{
    error::SpawnError,
    leaves::{self, CgroupPlace, Home},
    markers::MarkerNames,
    registry::Registry,
    say::say,
};

/// The key of the events thread's own wake-up; children count from 1.
pub(super) const WAKE: u64 = 0;

/// How many ended children are remembered.
const REMEMBERED: usize = 4096;

/// One spawner thread, as askers see it.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Milliseconds since the spawner began at which it took the request it is at, plus 1; 0 while idle.
    pub(super) busy_since: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) config: Config,
    pub(super) queue: Queue,
    pub(super) means: GroupMeans,
    pub(crate) ground: Arc<Ground>,
    /// Where its children have their leaves.
    pub(crate) home: Option<Arc<Home>>,
    children: Mutex<HashMap<u64, Arc<Entry>>>,
    /// Nonces of children that have ended, the latest last: who still carries one is a descendant.
    ended: Mutex<VecDeque<Id128>>,
    pub(super) lanes: Mutex<Vec<Arc<Lane>>>,
    pub(super) joins: Mutex<Vec<JoinHandle<()>>>,
    next_key: AtomicU64,
    /// All handles are gone.
    closed: AtomicBool,
    /// They were shut down: whoever is left was reported, and is not stopped again.
    pub(super) shut_down: AtomicBool,
    any_polled: AtomicBool,
    pub(super) guard: Watch,
    pub(super) orphans: Orphans,
    pub(super) stopper: Stopper,
    /// Children that have ended before others of their trees, which keep their records.
    lingering: Mutex<Vec<Arc<Entry>>>,
    growing: Mutex<()>,
    pub(super) epoll: OwnedFd,
    pub(super) wake: OwnedFd,
    began: Instant,
    owner: u32,
    /// What the threads block: what the thread that made the spawner does, and all that a library may.
    pub(super) mask: u64,
}

impl Shared {
    /// `installation`: a new one where there is none.
    pub(super) fn new(config: Config, names: MarkerNames, installation: Option<Id128>) -> io::Result<Shared> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let installation = config.registry.as_ref().map(Registry::installation_id).or(installation);
        let ground = Ground::of_spawner(names, installation)?;
        if let Some(registry) = &config.registry {
            registry.used_by(ground.run());
        }
        // What a registry knows of is for its reconciliation.
        let home = home(&ground, &config.cgroup, config.registry.is_none())?;
        Ok(Shared {
            queue: Queue::new(config.queue),
            config,
            means: signal::group_means(),
            ground: Arc::new(ground),
            home: home.map(Arc::new),
            children: Mutex::default(),
            ended: Mutex::default(),
            lanes: Mutex::default(),
            joins: Mutex::default(),
            next_key: AtomicU64::new(WAKE + 1),
            closed: AtomicBool::new(false),
            shut_down: AtomicBool::new(false),
            any_polled: AtomicBool::new(false),
            guard: Watch::default(),
            orphans: Orphans::default(),
            stopper: Stopper::default(),
            lingering: Mutex::default(),
            growing: Mutex::default(),
            epoll,
            wake,
            began: Instant::now(),
            owner: process::id(),
            mask: signal::blocked().unwrap_or(0) | signal::LIBRARY_MASK,
        })
    }

    /// Whether this is the process that made the spawner, not a forked copy of it.
    pub(crate) fn is_ours(&self) -> bool {
        process::id() == self.owner
    }

    /// Milliseconds since the spawner began.
    pub(super) fn clock(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes a fresh child in: from here on it is watched, and reaped when it ends.
    ///
    /// # Errors
    /// There is no pidfd and no descriptor to stand in for it: the child was ended and reaped.
    pub(super) fn adopt(
        &self,
        child: spawn::Child,
        program: &OsStr,
        maker: &Arc<Maker>,
        about: About,
    ) -> Result<Arc<Entry>, SpawnError> {
        let stand_in = match child.pidfd() {
            Some(_) => None,
            None => match eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) {
                Ok(fd) => Some(fd),
                Err(e) => {
                    discard(&child);
                    return Err(SpawnError::preparing(program, e.into()));
                }
            },
        };
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let (maker, ground) = (Arc::clone(maker), Arc::clone(&self.ground));
        let entry = Entry::new(key, child, maker, self.means, about, ground, stand_in);
        let entry = Arc::new(entry);
        if let Some(written) = &entry.about.written {
            match self.ground.host().identity(&entry.child, entry.about.nonce) {
                Ok(identity) => written.born(&identity),
                Err(e) => say!(warn, "the record of process {} does not say who it is: {e:?}", entry.pid()),
            }
            if let (Some(registry), Some(name)) = (&self.config.registry, &entry.about.name) {
                // The final status of the last one of this name is replaced by the new child.
                let _ = registry.take_status(name);
            }
        }
        lock(&self.children).insert(key, Arc::clone(&entry));
        match entry.child.pidfd() {
            Some(pidfd) => {
                let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
                if let Err(e) = epoll::add(&self.epoll, pidfd, epoll::EventData::new_u64(key), flags) {
                    say!(warn, "process {} is watched by polling: {e}", entry.pid());
                    self.poll(&entry);
                }
            }
            None => self.poll(&entry),
        }
        Ok(entry)
    }

    /// Looks whether the child has ended; the first to see it takes it off the list.
    pub(crate) fn look(&self, entry: &Arc<Entry>) -> Option<super::entry::Ended> {
        let (ended, first) = entry.look();
        if first {
            if let Some(pidfd) = entry.child.pidfd() {
                // It may never have been added.
                let _ = epoll::delete(&self.epoll, pidfd);
            }
            self.orphans.forget(entry.pid());
            lock(&self.children).remove(&entry.key);
            let mut ended = lock(&self.ended);
            ended.extend(entry.about.nonce);
            if ended.len() > REMEMBERED {
                ended.pop_front();
            }
            drop(ended);
            if !entry.note_ended() {
                lock(&self.lingering).push(Arc::clone(entry));
                self.wake();
            }
            if self.is_closed() {
                self.queue.wake_all();
                self.wake();
            }
        }
        ended
    }

    /// Blocks until the child has ended (`Some`) or `until` has passed.
    pub(crate) fn wait(&self, entry: &Arc<Entry>, until: Option<Instant>) -> Option<super::entry::Ended> {
        // Ends with the child or at the deadline.
        loop {
            if let Some(ended) = self.look(entry) {
                return Some(ended);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            entry.block(until);
        }
    }

    /// Removes the records of trees that have ended since. Whether there are others.
    pub(super) fn look_at_lingering(&self) -> bool {
        let mut lingering = lock(&self.lingering);
        lingering.retain(|entry| !entry.note_ended());
        !lingering.is_empty()
    }

    pub(super) fn has_lingering(&self) -> bool {
        !lock(&self.lingering).is_empty()
    }

    pub(super) fn child(&self, key: u64) -> Option<Arc<Entry>> {
        lock(&self.children).get(&key).cloned()
    }

    pub(super) fn has_ended_with(&self, nonce: Id128) -> bool {
        lock(&self.ended).contains(&nonce)
    }

    pub(super) fn children(&self) -> Vec<Arc<Entry>> {
        lock(&self.children).values().cloned().collect()
    }

    pub(super) fn has_children(&self) -> bool {
        !lock(&self.children).is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// No more requests. Those that wait are told.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for ask in self.queue.close() {
            let _ = ask.answer(Err(SpawnError::shut_down()));
        }
        self.wake();
    }

    /// Wakes the events thread.
    pub(super) fn wake(&self) {
        // Full means that a wake-up is pending already.
        if let Err(e) = rustix::io::write(&self.wake, &1u64.to_ne_bytes())
            && e != Errno::AGAIN
        {
            say!(error, "the events thread cannot be woken: {e}");
        }
    }

    /// There is no event for the end of this child: the events thread asks again and again.
    pub(super) fn poll(&self, entry: &Entry) {
        entry.poll_from_now_on();
        self.any_polled.store(true, Ordering::Release);
        self.wake();
    }

    /// The children that can only be watched by asking again and again.
    pub(super) fn polled(&self) -> Vec<Arc<Entry>> {
        if !self.any_polled.load(Ordering::Acquire) {
            return Vec::new();
        }
        lock(&self.children).values().filter(|entry| entry.is_polled()).cloned().collect()
    }

    /// Whether every spawner thread has been at one request for this long.
    pub(super) fn is_stalled(&self, long: Duration) -> bool {
        let now = self.clock();
        let long = u64::try_from(long.as_millis()).unwrap_or(u64::MAX);
        lock(&self.lanes).iter().all(|lane| {
            let since = lane.busy_since.load(Ordering::Acquire);
            since != 0 && now + 1 >= since.saturating_add(long)
        })
    }

    /// Leave to start one more thread, while the guard lives: `None` if somebody else does, or there are enough.
    pub(super) fn may_grow(&self, stall: Duration) -> Option<MutexGuard<'_, ()>> {
        let leave = self.growing.try_lock().ok()?;
        (lock(&self.lanes).len() < self.config.threads && self.is_stalled(stall)).then_some(leave)
    }

    pub(super) fn start_thread(&self, name: &str, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(main)?;
        lock(&self.joins).push(thread);
        Ok(())
    }

    /// Joins every thread that has nothing to live for.
    pub(super) fn join(&self) {
        let joins = std::mem::take(&mut *lock(&self.joins));
        for join in joins {
            // A panic there was logged when it was caught.
            let _ = join.join();
        }
    }
}

/// The group of the run; none where that may be, with a word in the log.
fn home(ground: &Ground, place: &CgroupPlace, end: bool) -> io::Result<Option<Home>> {
    match Home::make(ground, place, end) {
        Err(e) if matches!(place, CgroupPlace::At(_)) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, leaves::words(e)))
        }
        Err(e) => {
            say!(info, "no cgroup leaves: {}", leaves::words(e));
            Ok(None)
        }
        Ok(home) => Ok(home),
    }
}

/// Ends and reaps a child that nobody can be given.
fn discard(child: &spawn::Child) {
    if let Err(e) = child.signal(Signal::KILL) {
        say!(warn, "SIGKILL to process {}: {e:?}", child.pid());
    }
    // Ends when the kernel lets the child go, which SIGKILL makes it do.
    while matches!(child.try_reap(), Ok(None)) {
        thread::sleep(POLL_INTERVAL);
    }
}
