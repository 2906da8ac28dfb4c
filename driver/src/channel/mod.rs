//! One place where everything that happens to many children comes out: their frames, the ends of their channels, their exits.
//!
//! # What is promised
//!
//! - The receiver does the work, on its own thread, while it is in [`recv`](Events::recv) or [`try_recv`](Events::try_recv). There is no
//!   thread per child and none for all of them. Two receivers at once share the events: each comes to one of them.
//! - The [exit](Event::Exit) of a child is its last event, and comes after its last frame: when the kernel says that it has ended, what it has
//!   written is read first. Where somebody else keeps the channel open, no more than that is read, and only the rest of a frame that is cut
//!   in the middle is waited for, at most [`ChannelLimits::drain`].
//! - Before its exit each channel ends once, by [`Event::Closed`] or [`Event::Protocol`].
//! - A length above the cap takes no memory. A length below it takes as much as has come of the frame, up to twice over.
//! - [`Node::send`] never waits for a child. A child that does not read gets [`SendError::Full`] once
//!   its queue is full, and delays nobody else. What waits in queues is written while the receiver is at work.
//! - A child that writes faster than its events are taken has to wait: nothing is read while events are pending.
//! - Our ends do not block, the child's do, and no flag of ours shows on the child's side.
//!
//! # What is not
//!
//! - An event is not a stop. After [`Event::Protocol`], [`SendError::Full`] or a [held](Event::Exit::held) channel it is the owner's to decide
//!   what becomes of the child.
//! - When [`Events`] is dropped, every channel is closed. The children go on, owned by their [`Node`]s, and are reaped.
//! - In a forked copy of the program nothing comes, and nothing is sent.
//!
//! # Loops of other kinds
//!
//! [`Events`] can be polled: its descriptor is readable when [`try_recv`](Events::try_recv) has something to do, be it without an event to
//! give. Call that until it gives `None`.
//!
//! # Kernels
//!
//! Everything here is older than Linux 5.4. Where there is no pidfd, ends are seen within 10 ms.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pidward_core::Errno;
use rustix::{
    event::{Timespec, epoll},
    io::Errno as Raw,
};

mod ends;
mod event;
mod hub;
mod node;
mod out;
mod reader;
mod settings;
mod slot;

pub(crate) use self::{ends::Ends, settings::Settings};
pub use self::{
    event::{Event, ProtocolError, ProtocolErrorKind},
    node::Node,
    out::SendError,
    settings::{ChannelLimits, Transport},
};

use self::{
    hub::{Hub, State},
    out::Link,
    reader::Reader,
    slot::{Input, Slot},
};
use crate::{
    child::Child,
    command::Command,
    error::SpawnError,
    prepare::ParentEnds,
    reaper::NodeId,
    say::say,
    spawner::{POLL_INTERVAL, Spawner, end_tree, lock},
};

/// How long a child that cannot be watched may take to end.
const DISCARD: Duration = Duration::from_secs(5);

/// Receives what happens to the children that were spawned through it. See the [module](self).
#[derive(Debug)]
pub struct Events {
    hub: Arc<Hub>,
    state: Mutex<State>,
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
        Ok(Events {
            hub: Arc::new(hub),
            state: Mutex::new(state),
            next: AtomicU64::new(1),
            polled: AtomicBool::new(false),
        })
    }

    /// Starts a child whose events come here, with a channel where the command [asks](Command::channel) for one. Numbers are given in
    /// order, from 1, each once. Where another thread receives, events may come before this returns.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists, and no descriptor of its channel.
    pub fn spawn(&self, spawner: &Spawner, cmd: &Command) -> Result<Node, SpawnError> {
        if !self.hub.is_ours() {
            return Err(SpawnError::forked_copy().of_program(cmd.get_program()));
        }
        let (child, ends) = spawner.spawn_for_events(cmd)?;
        let id = NodeId(self.next.fetch_add(1, Ordering::Relaxed));
        match self.add(id, &child, ends, cmd) {
            Ok(link) => Ok(Node { id, child, link, hub: Arc::clone(&self.hub) }),
            Err(e) => {
                let (entry, shared) = child.parts();
                end_tree(&entry);
                if shared.wait(&entry, Instant::now().checked_add(DISCARD)).is_none() {
                    say!(error, "process {} cannot be watched and does not end", entry.pid());
                }
                Err(SpawnError::preparing(cmd.get_program(), Errno::from(e)))
            }
        }
    }

    /// Watches a fresh child.
    fn add(
        &self,
        id: NodeId,
        child: &Child,
        ends: ParentEnds,
        cmd: &Command,
    ) -> Result<Option<Arc<Link>>, Raw> {
        let ParentEnds { channel, stderr, .. } = ends;
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
        let input = channel.map(|ends| Input { fd: ends.input, reader: Reader::new(lines, limits.frame) });
        let link_of_slot = link.clone();
        let slot = Slot {
            node: id,
            entry,
            shared,
            limits,
            input,
            link: link_of_slot,
            stderr,
            ended: None,
            held: false,
            due: None,
        };
        // Nobody looks at it before all is watched.
        let mut state = lock(&self.state);
        let watched = slot.watch(hub);
        match watched {
            Ok(()) => drop(state.slots.insert(id.0, slot)),
            Err(_) => slot.abandon(hub),
        }
        watched.map(|()| link)
    }

    /// The next event; waits for it, at most so long. `None`: there was none. Without a limit, and without children, it waits for ever.
    pub fn recv(&self, timeout: Option<Duration>) -> Option<(NodeId, Event)> {
        let until = match timeout {
            // So long that it cannot be said when it is over.
            Some(timeout) => Instant::now().checked_add(timeout),
            None => None,
        };
        self.next(until)
    }

    /// The next event, if there is one now. Does what there is to do; never waits.
    pub fn try_recv(&self) -> Option<(NodeId, Event)> {
        self.next(Some(Instant::now()))
    }

    fn next(&self, until: Option<Instant>) -> Option<(NodeId, Event)> {
        if !self.hub.is_ours() {
            return None;
        }
        let mut space = [const { MaybeUninit::uninit() }; 64];
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
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let happened = match epoll::wait(&self.hub.epoll, &mut space, timeout.as_ref()) {
                Ok((happened, _)) => happened,
                Err(Raw::INTR) => continue,
                Err(e) => {
                    // Cannot happen with a descriptor of our own; without a pause it would be a loop at full speed.
                    say!(error, "a receiver cannot wait: {e}");
                    std::thread::sleep(POLL_INTERVAL);
                    return None;
                }
            };
            if happened.is_empty() && left == Some(Duration::ZERO) {
                return None;
            }
            let mut state = lock(&self.state);
            for event in happened {
                state.handle(&self.hub, event);
            }
            state.set_timer();
        }
    }

    /// Who does not poll pays nothing for it.
    fn mark(&self, state: &mut State) {
        if self.polled.load(Ordering::Acquire) {
            state.mark();
        }
    }

    fn polled(&self) -> BorrowedFd<'_> {
        if !self.polled.swap(true, Ordering::AcqRel) && self.hub.is_ours() {
            lock(&self.state).mark();
        }
        self.hub.epoll.as_fd()
    }
}

/// Readable when [`try_recv`](Events::try_recv) has something to do.
impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.polled()
    }
}

/// As [`as_fd`](AsFd::as_fd).
impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.polled().as_raw_fd()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // A copy's descriptors close by themselves; what they stand for is not its own.
        if !self.hub.is_ours() {
            return;
        }
        for (_, slot) in lock(&self.state).slots.drain() {
            slot.abandon(&self.hub);
        }
    }
}
