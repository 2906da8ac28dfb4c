//! How a process and all that it started are stopped: the kill ladder, as a pure state machine.
//!
//! The ladder decides, the caller acts. The caller reports what it saw as an [`Event`] with the time; the ladder
//! answers with one [`Action`]. It reads no clock, makes no system call and knows no pid, so every order of events can be tried.
//! The whole table of states and events stands in `core/docs/ladder.md`, which a test compares with this code.
//!
//! What it promises:
//! - A rung is climbed only after the grace of the rung before has passed in full. The grace starts when the caller
//!   says that the step was [taken](Event::Taken), not when it was due: a caller that was stalled for an hour climbs one rung,
//!   and the next grace starts then. Only [`Event::Force`] cuts a grace short.
//! - No rung is climbed, and nobody is reported as a survivor, without a [look](Action::Look) made after the grace.
//! - It ends when nobody is left, not when the leader has ended; and it ends when the kill limit has passed.
//!   [`Action::Done`] is given once, whatever the order in which the ends are seen.
//! - Each of ask, SIGTERM and SIGKILL to the group is due once. The sweep is repeated until the kill limit.
//!
//! Time is any monotonic clock as a [`Duration`] since a fixed moment (`CLOCK_MONOTONIC`, which stands still while the machine
//! sleeps, is right). A time before an earlier one counts as that earlier one: such a caller waits longer, never shorter.
#![forbid(unsafe_code)]

mod encode;
#[cfg(test)]
mod tests;

pub use encode::{DecodeError, ENCODED_LEN};

use core::time::Duration;

/// How long to wait before looking again where no event will tell that members have ended: after the leader's
/// end, after SIGKILL and after each sweep. 50 ms: one look may read all of `/proc`.
pub const PAUSE: Duration = Duration::from_millis(50);

/// How long each rung may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    /// From the ask to SIGTERM; `None` where there is no way to ask.
    pub ask: Option<Duration>,
    /// From SIGTERM to SIGKILL. Zero: SIGKILL follows after one look.
    pub term: Duration,
    /// From the first sweep to the report of survivors. Zero: one sweep and one look.
    pub kill_limit: Duration,
}

/// A step of the ladder, from the mildest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Close the leader's stdin or send it a cancel frame. Left out where there is nothing to ask through, or the
    /// leader has ended.
    Ask,
    /// SIGTERM to the group, then SIGCONT: a stopped process acts on SIGTERM only when it goes on.
    Term,
    /// SIGKILL to the group and to the leaf.
    Kill,
    /// SIGKILL to everybody in the leaf and to every carrier of the run id, also outside the group.
    Sweep,
}

/// What the caller saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The stop begins.
    Start,
    /// Time has passed.
    Tick,
    /// The step was tried, also when it found nobody or was refused. The time is read *after* the try.
    Taken(Rung),
    /// The leader ended, or there never was one to watch (a guard, an adopted tree).
    LeaderEnded,
    /// A look proved that nobody is left: not in the leaf, not in the group, nobody with the run id.
    Empty,
    /// A look found somebody, or could not prove that nobody is left. The time is read *before* the look.
    NotEmpty,
    /// No more patience (a second signal, an operator): SIGKILL now.
    Force,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing until the next event, or until [`Ladder::next_deadline`] if there is one.
    Wait,
    /// Look who is left and answer [`Event::Empty`] or [`Event::NotEmpty`].
    Look,
    /// Take this step and answer [`Event::Taken`].
    Take(Rung),
    /// The stop is over. Given once.
    Done(Outcome),
}

/// How a stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody is left. `by` is the last step taken; `None`: they ended before any.
    Empty {
        /// The rung that ended it.
        by: Option<Rung>,
    },
    /// After the kill limit somebody was left, or it could not be proved that nobody was; the caller's last look
    /// knows who and why.
    Survived,
}

/// Where a ladder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not started.
    Ready,
    /// The caller was told to take a step and has not said that it did. `last` is the step taken before.
    Due {
        due: Rung,
        last: Option<Rung>,
    },
    /// The step was taken, its grace runs.
    Waiting(Rung),
    Ended(Outcome),
}

/// The stop of one process and all that it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    graces: Graces,
    state: State,
    leader_ended: bool,
    /// The latest time seen.
    clock: Duration,
    /// When the grace of the step taken last ends; for the sweep: when the kill limit passes.
    until: Duration,
    /// When to look, never after `until`.
    look: Duration,
}

impl Ladder {
    /// A ladder that has not started. Graces above 584 years count as that.
    pub fn new(graces: Graces) -> Ladder {
        let cap = |grace: Duration| grace.min(Duration::from_nanos(u64::MAX));
        let graces =
            Graces { ask: graces.ask.map(cap), term: cap(graces.term), kill_limit: cap(graces.kill_limit) };
        let zero = Duration::ZERO;
        Ladder { graces, state: State::Ready, leader_ended: false, clock: zero, until: zero, look: zero }
    }

    /// Takes one event into account: what to do next. Events that mean nothing in a state change nothing.
    pub fn step(&mut self, now: Duration, event: Event) -> Action {
        self.clock = self.clock.max(now);
        match (self.state, event) {
            (State::Ready, Event::Start) => {
                let ask = self.graces.ask.is_some() && !self.leader_ended;
                self.due(if ask { Rung::Ask } else { Rung::Term }, None)
            }
            (State::Ready, Event::Tick | Event::Taken(_) | Event::NotEmpty) => Action::Wait,
            (State::Ready, Event::Empty) => self.end(Outcome::Empty { by: None }),
            (State::Ready, Event::Force) => self.due(Rung::Kill, None),
            (State::Ready | State::Due { .. }, Event::LeaderEnded) => {
                self.leader_ended = true;
                Action::Wait
            }

            // Another rung than the one that is due was overtaken by force: its answer starts no grace.
            (State::Due { due, last }, Event::Taken(rung)) if rung == due => self.taken(rung, last),
            (State::Due { .. }, Event::Taken(_) | Event::Start | Event::Tick | Event::NotEmpty) => {
                Action::Wait
            }
            (State::Due { due: _, last }, Event::Empty) => self.end(Outcome::Empty { by: last }),
            (State::Due { due: Rung::Ask | Rung::Term, last }, Event::Force) => self.due(Rung::Kill, last),
            (State::Due { due: Rung::Kill | Rung::Sweep, last: _ }, Event::Force) => Action::Wait,

            (State::Waiting(_), Event::Start | Event::Taken(_)) => Action::Wait,
            (State::Waiting(_), Event::Tick) => self.pending(),
            (State::Waiting(_), Event::LeaderEnded) => {
                self.leader_ended = true;
                self.look = self.clock;
                Action::Look
            }
            (State::Waiting(rung), Event::Empty) => self.end(Outcome::Empty { by: Some(rung) }),
            (State::Waiting(rung), Event::NotEmpty) => self.not_empty(rung),
            (State::Waiting(rung @ (Rung::Ask | Rung::Term)), Event::Force) => {
                self.due(Rung::Kill, Some(rung))
            }
            (State::Waiting(Rung::Kill | Rung::Sweep), Event::Force) => Action::Wait,

            (
                State::Ended(_),
                Event::Start
                | Event::Tick
                | Event::Taken(_)
                | Event::LeaderEnded
                | Event::Empty
                | Event::NotEmpty
                | Event::Force,
            ) => Action::Wait,
        }
    }

    /// When the caller has to tick at the latest, on its own clock. `None`: only events matter (not started, a step not yet
    /// taken, over).
    pub fn next_deadline(&self) -> Option<Duration> {
        match self.state {
            State::Waiting(_) => Some(self.look),
            State::Ready | State::Due { .. } | State::Ended(_) => None,
        }
    }

    /// What is to be done now, for a caller that has just [decoded](Ladder::decode) the ladder: a step that was due and
    /// not known to be taken is due again.
    pub fn pending(&self) -> Action {
        match self.state {
            State::Due { due, last: _ } => Action::Take(due),
            State::Waiting(_) if self.clock >= self.look => Action::Look,
            State::Waiting(_) | State::Ready | State::Ended(_) => Action::Wait,
        }
    }

    /// How the stop ended; `None` while it has not.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Ended(outcome) => Some(outcome),
            State::Ready | State::Due { .. } | State::Waiting(_) => None,
        }
    }

    fn due(&mut self, due: Rung, last: Option<Rung>) -> Action {
        self.state = State::Due { due, last };
        Action::Take(due)
    }

    fn end(&mut self, outcome: Outcome) -> Action {
        self.state = State::Ended(outcome);
        Action::Done(outcome)
    }

    fn taken(&mut self, rung: Rung, last: Option<Rung>) -> Action {
        self.state = State::Waiting(rung);
        // The kill limit counts from the first sweep, not from each.
        if last != Some(Rung::Sweep) {
            self.until = self.clock.saturating_add(self.grace(rung));
        }
        self.look = self.next_look(rung);
        self.pending()
    }

    /// Somebody is left after `rung`.
    fn not_empty(&mut self, rung: Rung) -> Action {
        let over = self.clock >= self.until;
        match rung {
            Rung::Ask if over => self.due(Rung::Term, Some(rung)),
            Rung::Term if over => self.due(Rung::Kill, Some(rung)),
            Rung::Kill if over => self.due(Rung::Sweep, Some(rung)),
            Rung::Sweep if over => self.end(Outcome::Survived),
            Rung::Sweep if self.clock >= self.look => self.due(Rung::Sweep, Some(rung)),
            Rung::Sweep => Action::Wait,
            Rung::Ask | Rung::Term | Rung::Kill => {
                self.look = self.next_look(rung);
                Action::Wait
            }
        }
    }

    fn next_look(&self, rung: Rung) -> Duration {
        match rung {
            // The leader's end will be an event.
            Rung::Ask | Rung::Term if !self.leader_ended => self.until,
            Rung::Ask | Rung::Term | Rung::Kill | Rung::Sweep => {
                self.clock.saturating_add(PAUSE).min(self.until)
            }
        }
    }

    fn grace(&self, rung: Rung) -> Duration {
        match rung {
            Rung::Ask => self.graces.ask.unwrap_or_default(),
            Rung::Term => self.graces.term,
            // What got SIGKILL needs a moment to go before others are looked for.
            Rung::Kill => PAUSE,
            Rung::Sweep => self.graces.kill_limit,
        }
    }
}
