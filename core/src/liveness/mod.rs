//! Whether a child still works: a pure table over a deadline, its events and the pings it was sent.
//!
//! | first row that fits | verdict |
//! |---|---|
//! | the hard deadline is reached | [`Verdict::PastDeadline`] |
//! | a ping unanswered for the event window or longer | [`Verdict::Stuck`] |
//! | a ping unanswered for the pong window or longer, an event within the pong window | [`Verdict::Busy`] |
//! | a ping unanswered for the pong window or longer | [`Verdict::Stuck`] |
//! | an event within the event window | [`Verdict::Healthy`] |
//! | a ping under way, or a pong within pong window + ping interval | [`Verdict::Busy`] |
//! | none of these | [`Verdict::Stuck`] |
//!
//! An event proves that the child lived when it was sent and outweighs a missing pong for one pong window, no longer: a child
//! that stops altogether is found after the pong window, however lately it was lively. One that talks on but never
//! answers would not hear a cancel either: it is busy at first and stuck after the event window.
//!
//! No clock is read: time is monotonic, a [`Duration`] since a fixed moment. A clock that goes backwards makes nobody stuck.
//! Take in what has arrived and send the ping that is due before you ask, or a caller that slept sees its own sleep in
//! the child.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use core::time::Duration;

/// How long signs of life count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// How long an event counts.
    pub event: Duration,
    /// How long a ping may stay unanswered.
    pub pong: Duration,
}

impl Windows {
    /// Events 120 s, pings 10 s.
    pub const DEFAULT: Windows = Windows { event: Duration::from_secs(120), pong: Duration::from_secs(10) };

    /// From one ping to the next: a third of the pong window, at least 50 ms and at most 5 s.
    pub fn ping_interval(&self) -> Duration {
        let third = self.pong.checked_div(3).unwrap_or_default();
        third.clamp(Duration::from_millis(50), Duration::from_secs(5))
    }
}

/// What the signs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It shows what it does.
    Healthy,
    /// It shows little, but nothing is overdue that would prove it stuck.
    Busy,
    /// It gives no sign of life in time.
    Stuck,
    /// Its time is over, whatever it does.
    PastDeadline,
}

/// The signs of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// The hard deadline. One that lives for several turns gets a new one for each.
    pub deadline: Option<Duration>,
    event: Duration,
    pong: Option<Duration>,
    /// The oldest ping that has no pong.
    unanswered: Option<Duration>,
}

impl Signs {
    /// A child that was started at `now`; the start counts as an event.
    pub const fn new(now: Duration, deadline: Option<Duration>) -> Signs {
        Signs { deadline, event: now, pong: None, unanswered: None }
    }

    /// Any frame but a pong arrived.
    pub fn event(&mut self, now: Duration) {
        self.event = self.event.max(now);
    }

    /// A ping was sent.
    pub fn ping(&mut self, now: Duration) {
        self.unanswered = self.unanswered.or(Some(now));
    }

    /// A pong arrived; it answers every ping so far.
    pub fn pong(&mut self, now: Duration) {
        self.pong = self.pong.max(Some(now));
        self.unanswered = None;
    }

    /// The verdict at `now`.
    pub fn verdict(&self, now: Duration, windows: &Windows) -> Verdict {
        let age = |then: Duration| now.saturating_sub(then);
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Verdict::PastDeadline;
        }
        let answered = windows.pong.saturating_add(windows.ping_interval());
        match self.unanswered.map(age) {
            Some(silence) if silence >= windows.event => Verdict::Stuck,
            Some(silence) if silence >= windows.pong => {
                if age(self.event) < windows.pong {
                    Verdict::Busy
                } else {
                    Verdict::Stuck
                }
            }
            Some(_) | None if age(self.event) < windows.event => Verdict::Healthy,
            Some(_) => Verdict::Busy,
            None if self.pong.is_some_and(|pong| age(pong) < answered) => Verdict::Busy,
            None => Verdict::Stuck,
        }
    }
}
