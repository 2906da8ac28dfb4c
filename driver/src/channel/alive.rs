//! Whether a child still works, as its receiver asks: pings it, and looks at its signs on time.

use std::{
    fmt,
    time::{Duration, Instant},
};

use pidward_core::liveness::{Signs, Verdict, Windows};

use super::{hub::Hub, out::Link};
use crate::say::say;

/// How it is told that a child still works, for [`Command::liveness`](crate::Command::liveness). The table of verdicts stands at
/// [`Health`](crate::Health).
#[derive(Clone, Debug)]
#[must_use = "it is for `Command::liveness`"]
pub struct Liveness {
    windows: Windows,
    deadline: Option<Duration>,
    ping: Option<Ping>,
}

#[derive(Clone)]
struct Ping {
    frame: Vec<u8>,
    is_pong: fn(&[u8]) -> bool,
}

impl fmt::Debug for Ping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ping").finish_non_exhaustive()
    }
}

impl Default for Liveness {
    fn default() -> Liveness {
        Liveness { windows: Windows::DEFAULT, deadline: None, ping: None }
    }
}

impl Liveness {
    /// Frames count for 120 s, pings may stay unanswered for 10 s; no pings and no deadline yet.
    pub fn new() -> Liveness {
        Liveness::default()
    }

    /// How long a frame counts as a sign of life.
    pub fn frames(mut self, window: Duration) -> Liveness {
        self.windows.event = window;
        self
    }

    /// How long a ping may stay unanswered. One is sent every third of this, at least every 5 s and at most every 50 ms.
    pub fn pongs(mut self, window: Duration) -> Liveness {
        self.windows.pong = window;
        self
    }

    /// So long after its start its time is over, whatever it does; [`Events::set_deadline`](crate::Events::set_deadline) gives one that lives
    /// for several turns a new one for each.
    pub fn deadline(mut self, after: Duration) -> Liveness {
        self.deadline = Some(after);
        self
    }

    /// Sends this frame as ping. Frames for which `is_pong` holds answer all pings before them, and are no events. A ping that finds the
    /// queue full or the channel closed is one that is not answered.
    pub fn ping(mut self, frame: impl Into<Vec<u8>>, is_pong: fn(&[u8]) -> bool) -> Liveness {
        self.ping = Some(Ping { frame: frame.into(), is_pong });
        self
    }
}

/// What a function of the program says of a frame. A panic there is no, and ends neither the receiver nor its thread.
pub(super) fn holds(says: fn(&[u8]) -> bool, frame: &[u8]) -> bool {
    std::panic::catch_unwind(|| says(frame)).unwrap_or_else(|_| {
        say!(error, "a function that is to tell what a frame is has panicked");
        false
    })
}

/// The signs of one child.
#[derive(Debug)]
pub(super) struct Alive {
    terms: Liveness,
    signs: Signs,
    began: Instant,
    /// When it is pinged and looked at next, since it began.
    next: Duration,
    told: Option<Verdict>,
}

impl Alive {
    pub(super) fn new(terms: Liveness) -> Alive {
        let signs = Signs::new(Duration::ZERO, terms.deadline);
        let next = terms.windows.ping_interval();
        Alive { terms, signs, began: Instant::now(), next, told: None }
    }

    /// A frame has come. Whether it is a pong.
    pub(super) fn frame(&mut self, frame: &[u8]) -> bool {
        let now = self.began.elapsed();
        let is_pong = self.terms.ping.as_ref().is_some_and(|ping| holds(ping.is_pong, frame));
        if is_pong {
            self.signs.pong(now);
        } else {
            self.signs.event(now);
        }
        is_pong
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.signs.verdict(self.began.elapsed(), &self.terms.windows)
    }

    /// So long from now its time is over.
    pub(super) fn set_deadline(&mut self, after: Option<Duration>) {
        self.signs.deadline = after.map(|after| self.began.elapsed().saturating_add(after));
    }

    /// When it is to be looked at.
    pub(super) fn due(&self) -> Option<Instant> {
        // A deadline that was told is none any more.
        let deadline = self.signs.deadline.filter(|_| self.told != Some(Verdict::PastDeadline));
        self.began.checked_add(deadline.map_or(self.next, |deadline| deadline.min(self.next)))
    }

    /// Pings if it is time to. What is to be told, if anything: each trouble once, until it is over.
    ///
    /// `deaf`: what the child has sent is not read at the moment.
    pub(super) fn look(&mut self, link: Option<&Link>, hub: &Hub, deaf: bool) -> Option<Verdict> {
        let (now, interval) = (self.began.elapsed(), self.terms.windows.ping_interval());
        if now >= self.next {
            // The receiver was away, or did not read: what came meanwhile, or did not, says nothing of the child.
            if deaf || now - self.next >= interval {
                self.signs = Signs::new(now, self.signs.deadline);
            }
            if let Some(ping) = &self.terms.ping {
                // One that cannot be sent is not answered either.
                let _ = link.map(|link| link.send(hub, &ping.frame));
                self.signs.ping(now);
            }
            self.next = now.saturating_add(interval);
        }
        let verdict = self.signs.verdict(now, &self.terms.windows);
        let trouble = matches!(verdict, Verdict::Stuck | Verdict::PastDeadline);
        let told = self.told;
        self.told = trouble.then_some(verdict);
        self.told.filter(|_| told != self.told)
    }
}
