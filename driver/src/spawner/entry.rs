//! One child, as its spawner keeps it until it has ended.

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use pidward_core::{
    Pid, Signal,
    ladder::Rung,
    procfs,
    reap::{self, Exit, ReapError, Status},
    signal::{GroupMeans, SignalError},
    spawn,
    sweep::Proof,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{
    ground::{About, Ground},
    live::Counted,
    queue::lock,
};
use crate::{carriers::Kin, members, report::Cause, say::say};

/// How a child ended; `None` when somebody else took its status and the kernel does not remember.
pub(crate) type Ended = Option<Exit>;

/// How often a child without a pidfd is asked whether it has ended.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The thread that made a child. While it lives, its children get no death signal.
#[derive(Debug, Default)]
pub(crate) struct Maker {
    children: AtomicUsize,
}

impl Maker {
    pub(super) fn has_children(&self) -> bool {
        self.children.load(Ordering::Acquire) > 0
    }
}

/// A way to ask a child to end.
pub(crate) trait Asks: fmt::Debug + Send + Sync {
    /// Asks it; never blocks.
    fn ask(&self);
}

/// One child.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) key: u64,
    pub(crate) child: spawn::Child,
    maker: Arc<Maker>,
    means: GroupMeans,
    pub(crate) about: About,
    pub(crate) ground: Arc<Ground>,
    /// A [`Child`](crate::Child) holds it.
    owned: AtomicBool,
    /// There is no event for its end.
    polled: AtomicBool,
    ended: Mutex<Option<Ended>>,
    /// Why it is being stopped, and the last rung that was taken while it lived.
    stop: Mutex<(Option<Cause>, Option<Rung>)>,
    /// How it is asked to end, where that is not by closing its standard input.
    asks: OnceLock<(Box<dyn Asks>, Duration)>,
    live: Mutex<Option<Counted>>,
    wake: Condvar,
    /// Stands in for a pidfd where there is none: readable once the child has ended.
    stand_in: Option<OwnedFd>,
}

impl Entry {
    pub(super) fn new(
        key: u64,
        child: spawn::Child,
        maker: Arc<Maker>,
        means: GroupMeans,
        about: About,
        ground: Arc<Ground>,
        stand_in: Option<OwnedFd>,
    ) -> Entry {
        maker.children.fetch_add(1, Ordering::AcqRel);
        Entry {
            key,
            child,
            maker,
            means,
            owned: AtomicBool::new(!about.detached),
            about,
            ground,
            polled: AtomicBool::new(false),
            ended: Mutex::default(),
            stop: Mutex::default(),
            asks: OnceLock::new(),
            live: Mutex::new(Some(Counted::new())),
            wake: Condvar::new(),
            stand_in,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.child.pid()
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.owned.load(Ordering::Acquire)
    }

    pub(super) fn poll_from_now_on(&self) {
        self.polled.store(true, Ordering::Release);
    }

    pub(super) fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Acquire)
    }

    pub(crate) const fn kill_on_drop(&self) -> bool {
        self.about.kill_on_drop
    }

    /// Its owner lets go. A zombie that was kept so that its group's number stays ours goes too.
    pub(crate) fn detach(&self) {
        self.owned.store(false, Ordering::Release);
        if self.ended().is_some() {
            let _ = self.child.try_reap();
        }
    }

    /// How it ended, as far as anybody has looked.
    pub(crate) fn ended(&self) -> Option<Ended> {
        *lock(&self.ended)
    }

    /// Looks whether it has ended: the answer, and whether this call was the first to see it.
    ///
    /// The status is taken at once where its group can be signalled without it. Otherwise the owner's zombie stays, since
    /// it alone keeps the group's number from being given away; the status is known all the same.
    pub(crate) fn look(&self) -> (Option<Ended>, bool) {
        let mut ended = lock(&self.ended);
        if ended.is_some() {
            return (*ended, false);
        }
        let keep = self.means != GroupMeans::Pidfd && self.child.pgid().is_some() && self.is_owned();
        let mut answer = if keep { self.child.peek() } else { self.child.try_reap() };
        // Not to be looked at without being taken. A group whose number nobody keeps is signalled member by member.
        if keep && matches!(answer, Err(ReapError::Errno(_))) {
            answer = self.child.try_reap();
        }
        *ended = match answer {
            Ok(exit) => exit.map(Some),
            // Not to be waited for, and it has not ended.
            Err(ReapError::NotOurs) => None,
            // No status will ever come where nobody may wait. Its end shows all the same.
            Err(ReapError::Errno(e)) if self.has_gone() => {
                say!(warn, "the status of process {} cannot be had: {e}", self.pid());
                Some(None)
            }
            Err(ReapError::Errno(_)) => None,
            Err(_) => {
                say!(warn, "the status of process {} was taken by somebody else", self.pid());
                Some(None)
            }
        };
        if ended.is_some() {
            self.maker.children.fetch_sub(1, Ordering::AcqRel);
            *lock(&self.live) = None;
            self.wake.notify_all();
            if let Some(fd) = &self.stand_in {
                // A fresh eventfd has room for one.
                let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
            }
        }
        (*ended, ended.is_some())
    }

    /// Whether it has ended, without asking for its status.
    fn has_gone(&self) -> bool {
        self.child
            .pidfd()
            .map_or_else(|| procfs::is_zombie(self.pid()), |pidfd| reap::has_ended(pidfd) == Ok(true))
    }

    /// The pidfd, or what stands in for it.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        let stand_in = || self.stand_in.as_ref().map(AsFd::as_fd);
        self.child
            .pidfd()
            .or_else(stand_in)
            .expect("a child without pidfd is given a stand-in when it is taken in")
    }

    /// Blocks until it has probably ended or `until` has passed; the caller then looks.
    pub(crate) fn block(&self, until: Option<Instant>) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match self.child.pidfd() {
            Some(pidfd) => {
                let time = left.and_then(|left| Timespec::try_from(left).ok());
                // An interruption is a wake-up like any other.
                let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], time.as_ref());
            }
            None => {
                let wait = left.map_or(POLL_INTERVAL, |left| left.min(POLL_INTERVAL));
                let ended = lock(&self.ended);
                if ended.is_none() {
                    drop(self.wake.wait_timeout(ended, wait));
                }
            }
        }
    }

    /// A stop of it begins, for this reason. The first one counts.
    pub(crate) fn note_cause(&self, cause: Cause) {
        if self.ended().is_none() {
            lock(&self.stop).0.get_or_insert(cause);
        }
    }

    /// A rung is taken against it.
    pub(crate) fn note_rung(&self, rung: Rung) {
        self.note_cause(Cause::Stopped);
        if self.ended().is_none() {
            lock(&self.stop).1 = Some(rung);
        }
    }

    /// Why it ended, and the last rung that was taken before.
    pub(crate) fn why(&self) -> (Cause, Option<Rung>) {
        let (cause, rung) = *lock(&self.stop);
        (cause.unwrap_or(if self.was_out_of_memory() { Cause::OutOfMemory } else { Cause::Itself }), rung)
    }

    /// Whether the kernel ended it for want of memory, as its leaf tells.
    fn was_out_of_memory(&self) -> bool {
        let by_kill = |exit: Exit| matches!(exit.status, Status::Signaled { signal: Signal::KILL, .. });
        let killed = self.ended().flatten().is_some_and(by_kill);
        let tally = || self.about.leaf.as_ref().and_then(|leaf| leaf.group().tally().oom_kills);
        killed && tally().is_some_and(|kills| kills > 0)
    }

    /// From now on it can be asked to end in this way.
    pub(crate) fn set_asks(&self, way: Box<dyn Asks>, grace: Duration) {
        // It is given to one receiver, once.
        let _ = self.asks.set((way, grace));
    }

    /// Asks it to end, where there is a way.
    pub(crate) fn ask(&self) {
        if let Some((way, _)) = self.asks.get() {
            way.ask();
        }
    }

    /// How long it may take to end when it was asked to; `None` where there is no way.
    pub(crate) fn ask_grace(&self) -> Option<Duration> {
        self.asks.get().map(|(_, grace)| *grace)
    }

    /// A stop of it begins.
    pub(crate) fn note_stopping(&self) {
        self.about.written.iter().for_each(|written| written.stopping());
    }

    /// Writes down that it has ended. Whether that is all there is to do: nobody is left of its tree, so its record is removed; or it is to
    /// be kept.
    pub(super) fn note_ended(&self) -> bool {
        let (Some(written), Some(ended)) = (&self.about.written, self.ended()) else { return true };
        let status = ended.map(|exit| exit.status.raw());
        let kept = self.about.name.as_ref().filter(|_| !self.is_owned());
        if kept.is_none() && self.is_tree_empty() {
            written.remove();
            return true;
        }
        match kept {
            Some(name) => written.keep(name.clone(), status),
            None => written.ended(status),
        }
        kept.is_some()
    }

    /// Whether nobody is left in its leaf and its group, now that it has ended.
    pub(super) fn is_tree_empty(&self) -> bool {
        let in_leaf = self.about.leaf.as_ref().is_some_and(|leaf| leaf.group().is_populated() == Ok(true));
        !in_leaf && members::left(self, true).is_empty()
    }

    /// Sends a signal to the child itself. Nothing is sent to one that has ended.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), SignalError> {
        if self.ended().is_some() { Err(SignalError::Gone) } else { self.child.signal(signal) }
    }

    /// Whether its group has a member, a zombie at least.
    pub(crate) fn ask_group(&self) -> Result<(), SignalError> {
        self.child.ask_group(self.means)
    }

    /// What its descendants are known by.
    pub(crate) fn kin(&self) -> Option<Kin<'_>> {
        let (ground, group) = (&*self.ground, self.child.pgid());
        let nonce = self.about.nonce?;
        let by = if self.about.survives { Proof::Nonce(nonce) } else { Proof::Cookie(ground.run_cookie()) };
        Some(Kin { ground, nonce, pid: self.pid(), group, since: ground.since(), by })
    }

    /// Sends a signal to those in its leaf that neither its group nor what they carry shows; SIGKILL to all in it.
    pub(crate) fn signal_leaf(&self, signal: Signal) {
        if let (Some(leaf), Some(kin)) = (&self.about.leaf, self.kin()) {
            members::signal_leaf(leaf.group(), kin, signal);
        }
    }

    /// Sends a signal to its group, or to the child alone where it leads none.
    pub(crate) fn signal_tree(&self, signal: Signal) -> Result<(), SignalError> {
        match self.child.signal_group(signal, self.means) {
            Err(SignalError::NoGroup) => self.signal(signal),
            // Nothing keeps the number: whoever proves to be a member is reached by itself.
            Err(SignalError::Unpinned) => match (self.child.pgid(), self.about.nonce) {
                (Some(pgid), Some(nonce)) => {
                    members::signal(&self.ground, pgid, Proof::Nonce(nonce), None, signal)
                }
                _ => Err(SignalError::Unpinned),
            },
            other => other,
        }
    }
}
