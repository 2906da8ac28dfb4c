//! The guard of a spawner: started with it, watched by the events thread, replaced when it has ended, taken away in the end.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use pidward_core::guard::{Charge, Guard};
use rustix::event::epoll;

use super::{queue::lock, shared::Shared};
use crate::{say::say, stop::KILL_LIMIT};

/// The key of its end among those of children.
pub(super) const GUARD: u64 = u64::MAX;

/// How often it is looked whether it was stopped, or can be had by now.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// The longest wait before one that ended at once is replaced.
const PAUSE: Duration = Duration::from_millis(400);

/// The guard there is, if there is one.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    guard: Option<Guard>,
    started: Option<Instant>,
    pause: Duration,
    /// That there is none was said.
    told: bool,
}

impl Watch {
    /// Sees to it that there is one that runs. How long until it must be looked again.
    pub(super) fn keep(&self, shared: &Shared) -> Duration {
        let mut state = lock(&self.0);
        if let Some(guard) = &state.guard {
            if guard.stands() {
                return LOOK;
            }
            say!(warn, "the guard, process {}, has ended: it is replaced", guard.pid());
            let lived = state.started.map_or(LOOK, |started| started.elapsed());
            state.pause =
                if lived >= LOOK { Duration::ZERO } else { (state.pause * 2).clamp(LOOK / 100, PAUSE) };
            state.guard = None;
        }
        let due =
            state.started.map_or(Duration::ZERO, |started| state.pause.saturating_sub(started.elapsed()));
        if !due.is_zero() {
            return due;
        }
        state.started = Some(Instant::now());
        match shared.start_guard() {
            Ok(guard) => {
                if let Some(pidfd) = guard.pidfd() {
                    // Where it cannot be added it is looked at every now and then all the same.
                    let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
                    let _ = epoll::add(&shared.epoll, pidfd, epoll::EventData::new_u64(GUARD), flags);
                }
                (state.guard, state.told) = (Some(guard), false);
            }
            Err(e) if !state.told => {
                say!(warn, "no guard: {e}; a crash of this process ends its direct children only");
                state.told = true;
            }
            Err(_) => state.pause = LOOK,
        }
        LOOK
    }

    pub(super) fn pid(&self) -> Option<u32> {
        lock(&self.0).guard.as_ref().map(|guard| guard.pid().get())
    }

    pub(super) fn end(&self) {
        if let Some(guard) = lock(&self.0).guard.take() {
            guard.end();
        }
    }
}

impl Shared {
    fn start_guard(&self) -> Result<Guard, pidward_core::Errno> {
        let (names, run) = (self.ground.names(), self.ground.run());
        let cgroup = self.home.as_ref().map(|home| home.place());
        Guard::start(&Charge { names, run, grace: self.config.grace, limit: KILL_LIMIT, cgroup })
    }
}
