//! What a receiver and its nodes have in common, and the receiver's own state.

use std::{
    collections::{HashMap, VecDeque},
    process,
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
const KINDS: u64 = 4;
pub(super) const END: u64 = 0;
pub(super) const IN: u64 = 1;
pub(super) const OUT: u64 = 2;
pub(super) const ERR: u64 = 3;

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
    owner: u32,
}

impl Hub {
    /// Whether this is the process that made it, not a forked copy.
    pub(super) fn is_ours(&self) -> bool {
        process::id() == self.owner
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
    raise: OwnedFd,
    raised: bool,
    timer: OwnedFd,
    /// When the timer rings.
    rings: Option<Instant>,
}

/// What looking at a child gives and needs.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) pending: VecDeque<(NodeId, Event)>,
    pub(super) chunk: Vec<u8>,
    /// A child is to be looked at by then.
    pub(super) due: Option<Instant>,
}

impl Work {
    pub(super) fn call_at(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

pub(super) fn new() -> io::Result<(Hub, State)> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let raise = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let hub = Hub { epoll, owner: process::id() };
    hub.watch(&raise, RAISED)?;
    hub.watch(&timer, TIMER)?;
    let work = Work { pending: VecDeque::new(), chunk: vec![0; CHUNK], due: None };
    Ok((hub, State { slots: HashMap::new(), work, raise, raised: false, timer, rings: None }))
}

impl State {
    /// Makes the epoll descriptor readable as long as there are events that nobody has taken.
    pub(super) fn mark(&mut self) {
        let wanted = !self.work.pending.is_empty();
        if wanted == self.raised {
            return;
        }
        let done = if wanted {
            io::write(&self.raise, &1u64.to_ne_bytes())
        } else {
            io::read(&self.raise, &mut [0; 8])
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
            self.look_at_due(hub);
        }
        let Some(slot) = self.slots.get_mut(&(key / KINDS)) else { return };
        // It is said again, as long as there is something to read.
        if self.work.pending.len() >= ENOUGH && key % KINDS != END {
            return;
        }
        match key % KINDS {
            END => slot.end(hub, &mut self.work),
            IN => slot.input(hub, flags, &mut self.work),
            OUT => slot.output(hub),
            _ => slot.read_stderr(hub, &mut self.work),
        }
        self.after(hub, key / KINDS);
    }

    fn after(&mut self, hub: &Hub, node: u64) {
        if self.slots.get(&node).is_some_and(Slot::is_done)
            && let Some(slot) = self.slots.remove(&node)
        {
            self.work.pending.push_back(slot.exit(hub));
        }
    }

    /// Looks at those whose time has come.
    fn look_at_due(&mut self, hub: &Hub) {
        let now = Instant::now();
        self.work.due = None;
        let mut due = Vec::new();
        for (node, slot) in &mut self.slots {
            match slot.due {
                Some(at) if at <= now => due.push(*node),
                Some(at) => self.work.call_at(at),
                None => {}
            }
        }
        for node in due {
            if let Some(slot) = self.slots.get_mut(&node) {
                slot.due = None;
                slot.overdue(hub, &mut self.work);
            }
            self.after(hub, node);
        }
    }

    /// Sets the timer for whoever is due next.
    pub(super) fn set_timer(&mut self) {
        let Some(due) = self.work.due.filter(|due| self.rings.is_none_or(|rings| *due < rings)) else {
            return;
        };
        // Not zero: that would be never.
        let left = due.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
        let value = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let time = Itimerspec { it_interval: Timespec::default(), it_value: value };
        match timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time) {
            Ok(_) => self.rings = Some(due),
            Err(e) => say!(error, "a receiver has no timer: {e}"),
        }
    }
}

/// Whether a read that gave this may be tried again later.
pub(super) fn is_later(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR)
}
