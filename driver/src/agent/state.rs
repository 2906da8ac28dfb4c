//! What the supervisor wants, as the work loop sees it.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

#[cfg(test)]
mod tests;

use super::{Input, Refused, wire::Wire};
use crate::{message::ControlMsg, say::say, spawner::lock};

/// So many pings may wait for their answer; the oldest are forgotten, since a later pong answers them too.
const PONGS: usize = 1024;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) wire: Wire,
    pub(super) state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    paused: bool,
    cancelled: bool,
    pub(super) reason: Option<String>,
    /// Nothing comes any more.
    pub(super) closed: bool,
    /// A result or a failure was sent.
    pub(super) ended: bool,
    /// Nobody has the agent any more.
    pub(super) dropped: bool,
    inputs: VecDeque<Input>,
    pub(super) pongs: VecDeque<Option<u64>>,
}

impl State {
    /// Why the work should end, if it should.
    pub(super) fn refused(&self) -> Option<Refused> {
        if self.ended {
            Some(Refused::Ended)
        } else if self.closed {
            Some(Refused::Closed)
        } else {
            self.cancelled.then_some(Refused::Cancelled)
        }
    }
}

impl Shared {
    pub(super) fn new(wire: Wire) -> Shared {
        Shared { wire, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes in what came; never waits for the supervisor.
    pub(super) fn take(&self, frame: &[u8]) {
        let message = match ControlMsg::parse(frame) {
            Ok(message) => message,
            Err(e) => return say!(warn, "what the supervisor says is left out: {e}"),
        };
        let mut state = lock(&self.state);
        match message {
            ControlMsg::Ping { id } => {
                if state.pongs.len() == PONGS {
                    state.pongs.pop_front();
                }
                state.pongs.push_back(id);
            }
            ControlMsg::Pause => state.paused = true,
            ControlMsg::Resume => state.paused = false,
            ControlMsg::Cancel { reason } => {
                state.cancelled = true;
                state.reason = state.reason.take().or(reason);
            }
            ControlMsg::Inject { message } => state.inputs.push_back(Input::Message(message)),
            ControlMsg::Unknown(message) => state.inputs.push_back(Input::Unknown(message)),
            ControlMsg::Spawn(_) => say!(warn, "a second payload is left out"),
        }
        self.changed.notify_all();
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// Waits until `ready` gives something, or `until` has passed.
    pub(super) fn wait<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = lock(&self.state);
        // Ends with an answer or at the deadline.
        loop {
            if let Some(answer) = ready(&mut state) {
                return Some(answer);
            }
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => return None,
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.woken(state),
            };
        }
    }

    fn woken<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The next input, unless there is a pause.
    pub(super) fn next(&self, until: Option<Instant>) -> Result<Option<Input>, Refused> {
        let next = self.wait(until, |state| match state.refused() {
            Some(refused) => Some(Err(refused)),
            None if state.paused => None,
            None => state.inputs.pop_front().map(Ok),
        });
        next.transpose()
    }

    /// Waits for the end of a pause, and says whether the work should end.
    pub(super) fn pass(&self) -> Result<(), Refused> {
        let passed = self.wait(None, |state| match state.refused() {
            Some(refused) => Some(Err(refused)),
            None => (!state.paused).then_some(Ok(())),
        });
        passed.unwrap_or(Ok(()))
    }
}
