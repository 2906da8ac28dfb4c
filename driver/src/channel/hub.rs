//! What a receiver and its nodes have in common, and the receiver's own state.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    process,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::{
    event::{
        EventfdFlags,
        epoll::{self, EventData, EventFlags},
        eventfd,
    },
    fd::OwnedFd,
    io::{self, Errno},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use super::{event::Event, slot::Slot};
use crate::{reaper::NodeId, say::say};

/// Keys: the number of the node and what of it; those of node 0 are the receiver's own.
const KINDS: u64 = 8;
/// The numbers of nodes are below this.
pub(super) const NODES: u64 = 1 << 61;
pub(super) const END: u64 = 0;
pub(super) const IN: u64 = 1;
pub(super) const OUT: u64 = 2;
pub(super) const ERR: u64 = 3;
pub(super) const EAR: u64 = 4;

/// So many events that wait to be taken are enough: nothing more is read.
const ENOUGH: usize = 4096;

const RAISED: u64 = 0;
const TIMER: u64 = 1;

/// How much is read at once.
const CHUNK: usize = 256 << 10;

pub(super) fn key(node: NodeId, kind: u64) -> u64 {
    node.0 * KINDS + kind
}

/// What is watched.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) epoll: OwnedFd,
    /// Readable while there are events that nobody has taken.
    pub(super) raise: OwnedFd,
    /// A thread of its own does the work.
    pub(super) driven: AtomicBool,
    owner: u32,
}

impl Hub {
    /// Whether this is the process that made it, not a forked copy.
    pub(super) fn is_ours(&self) -> bool {
        process::id() == self.owner
    }

    pub(super) fn is_driven(&self) -> bool {
        self.driven.load(Ordering::Acquire)
    }

    /// Without a thread the epoll descriptor itself is readable while there are events.
    pub(super) fn watch_raise(&self) -> io::Result<()> {
        self.watch(&self.raise, RAISED)
    }

    pub(super) fn watch(&self, fd: &OwnedFd, key: u64) -> io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key), EventFlags::IN)
    }

    pub(super) fn forget(&self, fd: &OwnedFd) {
        // It may never have been added.
        let _ = epoll::delete(&self.epoll, fd);
    }
}

/// The receiver's own.
#[derive(Debug)]
pub(super) struct State {
    pub(super) slots: HashMap<u64, Slot>,
    pub(super) work: Work,
    raised: bool,
    timer: OwnedFd,
    /// When the timer rings.
    rings: Option<Instant>,
    /// Who is to be looked at when.
    due: BTreeSet<(Instant, u64)>,
    /// Nobody takes the events any more; so many frames were dropped since.
    pub(super) dropped: Option<u64>,
}

/// What looking at a child gives and needs.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) pending: VecDeque<(NodeId, Event)>,
    pub(super) chunk: Vec<u8>,
}

impl Work {
    /// Whether nothing more is to be read.
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= ENOUGH
    }
}

pub(super) fn new() -> io::Result<(Hub, State)> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let raise = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let hub = Hub { epoll, raise, driven: AtomicBool::new(false), owner: process::id() };
    hub.watch_raise()?;
    hub.watch(&timer, TIMER)?;
    let work = Work { pending: VecDeque::new(), chunk: vec![0; CHUNK] };
    let state = State {
        slots: HashMap::new(),
        work,
        raised: false,
        timer,
        rings: None,
        due: BTreeSet::new(),
        dropped: None,
    };
    Ok((hub, state))
}

impl State {
    /// Tells whoever polls whether there are events that nobody has taken.
    pub(super) fn mark(&mut self, hub: &Hub) {
        let wanted = !self.work.pending.is_empty();
        if wanted == self.raised {
            return;
        }
        let done = if wanted {
            io::write(&hub.raise, &1u64.to_ne_bytes())
        } else {
            io::read(&hub.raise, &mut [0; 8])
        };
        match done {
            Ok(_) => self.raised = wanted,
            Err(e) => say!(error, "a receiver cannot be told of its events: {e}"),
        }
    }

    /// Something happened to one of the watched.
    pub(super) fn handle(&mut self, hub: &Hub, event: &epoll::Event) {
        let (key, flags) = (event.data.u64(), event.flags);
        if key == TIMER {
            let _ = io::read(&self.timer, &mut [0; 8]);
            self.rings = None;
        }
        let Some(slot) = self.slots.get_mut(&(key / KINDS)) else { return };
        // It is said again, as long as there is something to read.
        if self.work.is_full() && key % KINDS != END {
            return;
        }
        match key % KINDS {
            END => slot.end(hub, &mut self.work),
            IN => slot.input(hub, flags, &mut self.work),
            OUT => slot.output(hub),
            EAR => drop(slot.hear(hub, &mut self.work)),
            _ => slot.read_stderr(hub, &mut self.work),
        }
        self.after(hub, key / KINDS);
    }

    /// Something was done with a child: it is given up if that was the last, and looked at when it is due.
    pub(super) fn after(&mut self, hub: &Hub, node: u64) {
        let Some(slot) = self.slots.get_mut(&node) else { return };
        let due = slot.due().filter(|_| !slot.is_done());
        if due != slot.listed {
            if let Some(listed) = slot.listed {
                self.due.remove(&(listed, node));
            }
            self.due.extend(due.map(|due| (due, node)));
            slot.listed = due;
        }
        if slot.is_done()
            && let Some(slot) = self.slots.remove(&node)
        {
            self.work.pending.push_back(slot.exit(hub));
        }
    }

    /// Looks at those whose time has come: after what they have sent, which may speak for them.
    pub(super) fn look_at_due(&mut self, hub: &Hub) {
        let (now, deaf) = (Instant::now(), self.work.is_full());
        // Ends with those who are due now: each is listed again for a later time.
        while let Some((_, node)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            if let Some(slot) = self.slots.get_mut(&node) {
                slot.look(hub, &mut self.work, deaf);
            }
            self.after(hub, node);
        }
    }

    /// Wakes whoever waits for something to happen.
    pub(super) fn ring(&mut self) {
        self.rings = None;
        self.arm(Instant::now());
    }

    /// Sets the timer for whoever is due next.
    pub(super) fn set_timer(&mut self) {
        let first = self.due.first().map(|(at, _)| *at);
        if let Some(due) = first.filter(|due| self.rings.is_none_or(|rings| *due < rings)) {
            self.arm(due);
        }
    }

    fn arm(&mut self, at: Instant) {
        // Not zero: that would be never.
        let left = at.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
        let value = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let time = Itimerspec { it_interval: Timespec::default(), it_value: value };
        match timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time) {
            Ok(_) => self.rings = Some(at),
            Err(e) => say!(error, "a receiver has no timer: {e}"),
        }
    }
}

/// Whether a read that gave this may be tried again later.
pub(super) fn is_later(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR)
}
