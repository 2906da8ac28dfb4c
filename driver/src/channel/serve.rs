//! The thread that does the work of a receiver, where one is asked for, and of one that was dropped.

use std::{
    io,
    sync::{Arc, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use pidward_core::signal;
use rustix::event::epoll;

use super::{event::Event, events::Inner};
use crate::{reaper::NodeId, say::say, spawner::lock};

/// How long the thread waits at most for room, and then looks at who is due.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts it, unless there is one.
pub(super) fn start(inner: &Arc<Inner>) -> io::Result<()> {
    let hub = &inner.hub;
    if hub.driven.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    // It would wake the thread as long as there is something for others.
    let _ = epoll::delete(&hub.epoll, &hub.raise);
    let served = Arc::clone(inner);
    let started = thread::Builder::new().name("pidward-channel".to_owned()).spawn(move || serve(&served));
    started.map(drop).inspect_err(|_| {
        hub.driven.store(false, Ordering::Release);
        let _ = hub.watch_raise();
    })
}

fn serve(inner: &Inner) {
    let mask = signal::blocked().unwrap_or(0) | signal::LIBRARY_MASK;
    if let Err(e) = signal::block(mask) {
        say!(warn, "the thread of a receiver cannot block signals: {e}");
    }
    // Ends when the receiver was dropped and the last child has ended.
    loop {
        let mut state = lock(&inner.state);
        if let Some(dropped) = state.dropped {
            let frames = state.work.pending.iter().filter(|(_, event)| matches!(event, Event::Frame(_)));
            let dropped = dropped.saturating_add(frames.count() as u64);
            state.work.pending.clear();
            state.dropped = Some(dropped);
            if state.slots.is_empty() {
                if dropped > 0 {
                    say!(info, "{dropped} frames came for a receiver that was dropped");
                }
                return;
            }
        }
        inner.mark(&mut state);
        if !state.work.pending.is_empty() {
            inner.moved.notify_all();
        }
        if state.work.is_full() {
            let waited = inner.moved.wait_timeout(state, PAUSE);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.look_at_due(&inner.hub);
            continue;
        }
        drop(state);
        inner.turn(None);
    }
}

impl Inner {
    /// The next event that the thread has brought.
    pub(super) fn wait_for_thread(&self, until: Option<Instant>) -> Option<(NodeId, Event)> {
        let mut state = lock(&self.state);
        // Ends with an event or when the time is over.
        loop {
            let was_full = state.work.is_full();
            if let Some(event) = state.work.pending.pop_front() {
                self.mark(&mut state);
                if was_full {
                    self.moved.notify_all();
                }
                return Some(event);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return None,
                Some(left) => {
                    self.moved.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |(s, _)| s)
                }
                None => self.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
