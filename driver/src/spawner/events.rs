//! The events thread: sees children end, and takes their status.
//!
//! One for a spawner, however many children it has. Everything else that waits for a child polls its pidfd by
//! itself; this thread is there for those that nobody waits for.

use std::time::{Duration, Instant};

use pidward_core::signal;
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
};

use super::{
    entry::POLL_INTERVAL,
    guard::{GUARD, LOOK},
    shared::{Shared, WAKE},
};
use crate::say::say;

/// Runs until all handles are gone and the last child has ended.
pub(super) fn run(shared: &Shared) {
    if let Err(e) = signal::block(shared.mask) {
        say!(warn, "the events thread cannot block signals: {e}");
    }
    let mut events = Vec::with_capacity(64);
    let mut due = Some(Instant::now());
    // Ends when the spawner is closed and has no children.
    while !shared.is_closed() || shared.has_children() {
        let polled = shared.polled();
        if due.is_some_and(|due| due <= Instant::now()) {
            due = tend(shared).and_then(|pause| Instant::now().checked_add(pause));
        }
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = if polled.is_empty() { left } else { Some(POLL_INTERVAL) };
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        match epoll::wait(&shared.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => {
                // Cannot happen with a descriptor of our own; without a pause it would be a loop at full speed.
                say!(error, "the events thread cannot wait: {e}");
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        for event in events.drain(..) {
            match event.data.u64() {
                WAKE => {
                    let _ = rustix::io::read(&shared.wake, &mut [0; 8]);
                    due = due.or_else(|| shared.has_lingering().then(|| Instant::now() + LOOK));
                }
                GUARD => due = Some(Instant::now()),
                key => ended(shared, key),
            }
        }
        for entry in polled {
            shared.look(&entry);
        }
    }
    shared.guard.end();
}

/// Looks at what tells nothing by itself. How long until it must be looked again, if ever.
fn tend(shared: &Shared) -> Option<Duration> {
    let guard = shared.config.guard.then(|| shared.guard.keep(shared));
    let orphans = shared.config.subreaper.then(|| shared.orphans.look(shared));
    let leaves = shared.home.as_ref().map(|home| {
        home.tidy();
        LOOK
    });
    let records = shared.look_at_lingering().then_some(LOOK);
    [guard, orphans, leaves, records].into_iter().flatten().min()
}

fn ended(shared: &Shared, key: u64) {
    let Some(entry) = shared.child(key) else { return };
    if shared.look(&entry).is_none()
        && let Some(pidfd) = entry.child.pidfd()
    {
        // Woken for nothing: once more, please.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        if let Err(e) = epoll::modify(&shared.epoll, pidfd, epoll::EventData::new_u64(key), flags) {
            say!(warn, "process {} is watched by polling: {e}", entry.pid());
            shared.poll(&entry);
        }
    }
}
