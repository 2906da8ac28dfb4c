//! Whether a program that has failed is started again, and when. Decisions alone: the clock is the caller's.

use std::{collections::VecDeque, time::Duration};

#[cfg(test)]
mod tests;

/// The delay after the first failure; it doubles with each that follows.
pub const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest delay, before jitter.
pub const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// So many failures within [`WINDOW`] are too many.
pub const FAILURES: u32 = 5;
/// How long a failure counts.
pub const WINDOW: Duration = Duration::from_secs(60);
/// A failed run that was shorter counts [triple](SHORT_WEIGHT).
pub const SHORT: Duration = Duration::from_secs(2);
/// What a short run counts.
pub const SHORT_WEIGHT: u32 = 3;

/// What comes after a failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restart {
    /// It is started again after this long.
    After(Duration),
    /// It has failed too often: never, until [`Breaker::succeeded`].
    GiveUp,
}

/// Counts failed runs of one program.
///
/// - The delay is 500 ms, doubles with each failure in a row, and ends at 30 s; up to a quarter comes on top, so that programs that fell over
///   together do not come back together.
/// - It opens after 5 failures in 60 s, of which a run under 2 s counts as three: two crashes at the start are enough. Open, it stays open.
/// - A good run makes everything forgotten.
///
/// Times are the caller's, from any fixed moment on; one that goes back counts as none that has passed.
#[derive(Clone, Debug)]
pub struct Breaker {
    seed: u64,
    in_a_row: u32,
    /// When, and what it counts. Never more than [`FAILURES`]: each counts one at least.
    recent: VecDeque<(Duration, u32)>,
    is_open: bool,
}

impl Breaker {
    /// A closed one. `seed` is what the jitter comes from: anything that differs between programs.
    pub fn new(seed: u64) -> Breaker {
        Breaker { seed, in_a_row: 0, recent: VecDeque::new(), is_open: false }
    }

    /// A run has failed at `now`, after it had lasted `ran`.
    pub fn failed(&mut self, now: Duration, ran: Duration) -> Restart {
        if self.is_open {
            return Restart::GiveUp;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.recent.retain(|(at, _)| now.saturating_sub(*at) < WINDOW);
        self.recent.push_back((now, if ran < SHORT { SHORT_WEIGHT } else { 1 }));
        if self.recent.iter().map(|(_, weight)| weight).sum::<u32>() >= FAILURES {
            self.is_open = true;
            return Restart::GiveUp;
        }
        let doubled = 1_u32.checked_shl(self.in_a_row - 1).and_then(|times| FIRST_DELAY.checked_mul(times));
        let delay = doubled.map_or(LONGEST_DELAY, |delay| delay.min(LONGEST_DELAY));
        Restart::After(delay + self.jitter(delay))
    }

    /// A run has ended well: everything before it is forgotten, also that it is open.
    pub fn succeeded(&mut self) {
        (self.in_a_row, self.is_open) = (0, false);
        self.recent.clear();
    }

    /// Whether nothing is started any more.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Up to a quarter of `delay`, in steps of 1/256 of that.
    fn jitter(&mut self, delay: Duration) -> Duration {
        // SplitMix64, <https://prng.di.unimi.it/splitmix64.c>.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        delay / 1024 * (mixed >> 56) as u32
    }
}
