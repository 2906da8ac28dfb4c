//! The receiver.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pidward_core::{Errno, liveness::Verdict as Health};
use rustix::{
    event::{Timespec, epoll},
    io::Errno as Raw,
};

use super::{
    alive::Alive,
    event::Event,
    hub::{self, Hub, State},
    node::{Channel, Node},
    out::Link,
    reader::Reader,
    serve,
    settings::Transport,
    slot::{Input, Slot},
    start::Start,
};
use crate::{
    child::Child,
    command::Command,
    error::SpawnError,
    prepare::ParentEnds,
    reaper::NodeId,
    report::Cause,
    say::say,
    spawner::{OnLastDrop, POLL_INTERVAL, Spawner, end_tree, lock},
};

/// How long a child that cannot be watched may take to end.
const DISCARD: Duration = Duration::from_secs(5);

/// How long a server that speaks in lines may take to end after it was told to.
const ASK: Duration = Duration::from_secs(2);

/// Receives what happens to the children that were spawned through it. See the [module](super).
#[derive(Debug)]
#[must_use = "dropped at once, it stops its children"]
pub struct Events {
    inner: Arc<Inner>,
    on_drop: OnLastDrop,
}

/// What the receiver and its thread, if it has one, have in common.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) hub: Arc<Hub>,
    pub(super) state: Mutex<State>,
    /// Where there is a thread: an event has come, or one was taken.
    pub(super) moved: Condvar,
    next: AtomicU64,
    /// Somebody polls the descriptor.
    polled: AtomicBool,
}

impl Events {
    /// A receiver without children.
    ///
    /// # Errors
    /// No descriptor is left: it needs three.
    pub fn new() -> io::Result<Events> {
        let (hub, state) = hub::new()?;
        let inner = Inner {
            hub: Arc::new(hub),
            state: Mutex::new(state),
            moved: Condvar::new(),
            next: AtomicU64::new(1),
            polled: AtomicBool::new(false),
        };
        Ok(Events { inner: Arc::new(inner), on_drop: OnLastDrop::Stop })
    }

    /// From now on a thread of its own does the work, whether somebody receives or not: pings go out, frames are read until 4,096 events
    /// wait, and queues are written. An event then takes one wake-up more.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn on_thread(self) -> io::Result<Events> {
        serve::start(&self.inner)?;
        Ok(self)
    }

    /// What becomes of the children when this is dropped. Default: they are stopped with their trees, in the background, with the grace of
    /// their spawner.
    pub fn on_drop(mut self, what: OnLastDrop) -> Events {
        self.on_drop = what;
        self
    }

    /// Starts a child whose events come here, with a channel where the command [asks](Command::channel) for one. Numbers are given in
    /// order, from 1, each once. Where another thread receives, events may come before this returns.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists, and no descriptor of its channel.
    pub fn spawn(&self, spawner: &Spawner, cmd: &Command) -> Result<Node, SpawnError> {
        self.spawn_under(spawner, cmd, || NodeId(self.inner.next.fetch_add(1, Ordering::Relaxed)))
    }

    /// As [`spawn`](Self::spawn), under a number of the caller's, from 1 to 2⁶¹ − 1. Numbers that are given later by
    /// [`spawn`](Self::spawn) are higher than it.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn); [`NodeInUse`](crate::SpawnErrorKind::NodeInUse): the exit of a child with that number has not come yet.
    pub fn spawn_as(&self, node: NodeId, spawner: &Spawner, cmd: &Command) -> Result<Node, SpawnError> {
        let is_number = 0 < node.0 && node.0 < hub::NODES;
        if !is_number || lock(&self.inner.state).slots.contains_key(&node.0) {
            return Err(SpawnError::node_in_use().of_program(cmd.get_program()));
        }
        self.inner.next.fetch_max(node.0 + 1, Ordering::Relaxed);
        self.spawn_under(spawner, cmd, || node)
    }

    /// `number` is asked once there is a child.
    fn spawn_under(
        &self,
        spawner: &Spawner,
        cmd: &Command,
        number: impl FnOnce() -> NodeId,
    ) -> Result<Node, SpawnError> {
        if !self.inner.hub.is_ours() {
            return Err(SpawnError::forked_copy().of_program(cmd.get_program()));
        }
        let (child, ends) = spawner.spawn_for_events(cmd)?;
        let id = number();
        match self.inner.add(id, &child, ends, cmd) {
            Ok(link) => Ok(Node { id, child, link, hub: Arc::clone(&self.inner.hub) }),
            Err(e) => {
                let (entry, shared) = child.parts();
                end_tree(&entry);
                if shared.wait(&entry, Instant::now().checked_add(DISCARD)).is_none() {
                    say!(error, "process {} cannot be watched and does not end", entry.pid());
                }
                Err(match e {
                    // Another thread was faster with the same number.
                    Raw::EXIST => SpawnError::node_in_use().of_program(cmd.get_program()),
                    e => SpawnError::preparing(cmd.get_program(), Errno::from(e)),
                })
            }
        }
    }

    /// The next event; waits for it, at most so long. `None`: there was none. Without a limit, and without children, it waits for ever.
    pub fn recv(&self, timeout: Option<Duration>) -> Option<(NodeId, Event)> {
        let until = match timeout {
            // So long that it cannot be said when it is over.
            Some(timeout) => Instant::now().checked_add(timeout),
            None => None,
        };
        self.inner.next(until)
    }

    /// The next event, if there is one now. Does what there is to do; never waits.
    pub fn try_recv(&self) -> Option<(NodeId, Event)> {
        self.inner.next(Some(Instant::now()))
    }

    /// What its signs say of a child now; `None` where [nothing was asked](Command::liveness) of it, and after its end.
    pub fn health(&self, node: NodeId) -> Option<Health> {
        lock(&self.inner.state).slots.get(&node.0)?.alive.as_ref().map(Alive::verdict)
    }

    /// So long from now the child's time is over; `None`: never. Whether the child is there and its [liveness](Command::liveness) is asked
    /// for.
    pub fn set_deadline(&self, node: NodeId, after: Option<Duration>) -> bool {
        let mut state = lock(&self.inner.state);
        let Some(alive) = state.slots.get_mut(&node.0).and_then(|slot| slot.alive.as_mut()) else {
            return false;
        };
        alive.set_deadline(after);
        state.after(&self.inner.hub, node.0);
        state.set_timer();
        true
    }

    fn polled(&self) -> BorrowedFd<'_> {
        let inner = &self.inner;
        let first = !inner.polled.swap(true, Ordering::AcqRel);
        if first && inner.hub.is_ours() {
            lock(&inner.state).mark(&inner.hub);
        }
        if inner.hub.is_driven() { inner.hub.raise.as_fd() } else { inner.hub.epoll.as_fd() }
    }
}

impl Inner {
    /// Watches a fresh child.
    fn add(
        &self,
        id: NodeId,
        child: &Child,
        ends: ParentEnds,
        cmd: &Command,
    ) -> Result<Option<Arc<Link>>, Raw> {
        let ParentEnds { channel, stderr, ready, .. } = ends;
        let (hub, limits) = (&self.hub, cmd.channel.limits);
        let (entry, shared) = child.parts();
        let lines = cmd.channel.transport == Some(Transport::Lines);
        let stderr = stderr.map(|stderr| (Arc::new(OwnedFd::from(stderr)), Vec::new()));
        if let Some((fd, _)) = &stderr {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        let link = channel.as_ref().map(|ends| {
            let is_socket = Arc::ptr_eq(&ends.input, &ends.output);
            let kind = if is_socket { hub::IN } else { hub::OUT };
            Arc::new(Link::new(ends, hub::key(id, kind), lines, limits))
        });
        if let Some(link) = &link {
            let ask = entry.about.ask.or(lines.then_some(ASK));
            let channel = Channel { link: Arc::clone(link), hub: Arc::clone(hub) };
            ask.into_iter().for_each(|grace| entry.set_asks(Box::new(channel.clone()), grace));
        }
        let input = channel.map(|ends| Input { fd: ends.input, reader: Reader::new(lines, limits.frame) });
        let slot = Slot {
            node: id,
            entry,
            shared,
            limits,
            input,
            link: link.clone(),
            stderr,
            ear: ready,
            start: cmd.channel.ready.map(Start::new),
            alive: cmd.channel.liveness.clone().map(Alive::new),
            on_fault: cmd.channel.on_fault,
            ended: None,
            held: false,
            end_due: None,
            listed: None,
        };
        // Nobody looks at it before all is watched.
        let mut state = lock(&self.state);
        if state.slots.contains_key(&id.0) {
            return Err(Raw::EXIST);
        }
        if let Err(e) = slot.watch(hub) {
            slot.abandon(hub);
            return Err(e);
        }
        state.slots.insert(id.0, slot);
        state.after(hub, id.0);
        state.set_timer();
        Ok(link)
    }

    fn next(&self, until: Option<Instant>) -> Option<(NodeId, Event)> {
        if !self.hub.is_ours() {
            return None;
        }
        if self.hub.is_driven() {
            return self.wait_for_thread(until);
        }
        // Ends with an event, or when nothing has happened until then.
        loop {
            {
                let mut state = lock(&self.state);
                let event = state.work.pending.pop_front();
                self.mark(&mut state);
                if event.is_some() {
                    return event;
                }
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let happened = self.turn(left);
            if !happened && left == Some(Duration::ZERO) {
                return None;
            }
        }
    }

    /// Waits for something to happen, at most so long, and does what there is to do. Whether anything happened.
    pub(super) fn turn(&self, left: Option<Duration>) -> bool {
        let mut space = [const { MaybeUninit::uninit() }; 64];
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let happened = match epoll::wait(&self.hub.epoll, &mut space, timeout.as_ref()) {
            Ok((happened, _)) => happened,
            Err(Raw::INTR) => return true,
            Err(e) => {
                // Cannot happen with a descriptor of our own; without a pause it would be a loop at full speed.
                say!(error, "a receiver cannot wait: {e}");
                std::thread::sleep(POLL_INTERVAL);
                return false;
            }
        };
        let mut state = lock(&self.state);
        for event in &*happened {
            state.handle(&self.hub, event);
        }
        state.look_at_due(&self.hub);
        state.set_timer();
        !happened.is_empty()
    }

    /// Who does not poll pays nothing for it.
    pub(super) fn mark(&self, state: &mut State) {
        if self.polled.load(Ordering::Acquire) {
            state.mark(&self.hub);
        }
    }
}

/// Readable when [`try_recv`](Events::try_recv) has something to do.
impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.polled()
    }
}

/// As [`as_fd`](AsFd::as_fd): the same number until the receiver is dropped.
impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.polled().as_raw_fd()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // A copy's descriptors close by themselves; what they stand for is not its own.
        if !self.inner.hub.is_ours() {
            return;
        }
        let mut state = lock(&self.inner.state);
        if self.on_drop == OnLastDrop::Stop {
            for slot in state.slots.values().filter(|slot| slot.ended.is_none()) {
                slot.shared.stop_later(&slot.entry, Cause::NoReceiver);
            }
        }
        state.dropped = Some(0);
        if self.inner.hub.is_driven() {
            state.ring();
            self.inner.moved.notify_all();
        } else if !state.slots.is_empty() {
            drop(state);
            if let Err(e) = serve::start(&self.inner) {
                say!(warn, "channels are closed: no thread to read them: {e}");
                for (_, slot) in lock(&self.inner.state).slots.drain() {
                    slot.abandon(&self.inner.hub);
                }
            }
        }
    }
}
