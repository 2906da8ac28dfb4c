//! A ladder as 70 bytes of text, so that a later process can go on where this one ended.
//!
//! Version, phase, rung, rung before, ask, leader; then ask, term, kill limit and time left, each as 16 hexadecimal digits of
//! nanoseconds. Time left is a length, never a moment: the reader's clock need not be the writer's, and the time in
//! between does not count.
#![forbid(unsafe_code)]

use core::{str, time::Duration};

use heapless::String;

use super::{Graces, Ladder, Outcome, Rung, State};
use crate::id::hex64;

/// Length of [`Ladder::encode`]: ASCII letters, digits and `-`.
pub const ENCODED_LEN: usize = 70;

const VERSION: u8 = b'1';

/// Why a text is no ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written by a version that this one does not know.
    Version,
    /// Cut, damaged, or a combination that no ladder has.
    Malformed,
}

impl Ladder {
    /// The ladder as text. Write it *before* a step is taken and again after: what was due and not known to be taken is due
    /// again, so a step may then be taken twice, but is never left out.
    pub fn encode(&self) -> [u8; ENCODED_LEN] {
        let (phase, rung, last) = match self.state {
            State::Ready => (b'r', None, None),
            State::Due { due, last } => (b'd', Some(due), last),
            State::Waiting(rung) => (b'w', Some(rung), None),
            State::Ended(Outcome::Empty { by }) => (b'e', by, None),
            State::Ended(Outcome::Survived) => (b's', None, None),
        };
        let ask = if self.graces.ask.is_some() { b'a' } else { b'-' };
        let leader = if self.leader_ended { b'-' } else { b'l' };
        let head = [VERSION, phase, letter(rung), letter(last), ask, leader];
        let left = self.until.saturating_sub(self.clock).min(self.most_left());
        let graces = [self.graces.ask.unwrap_or_default(), self.graces.term, self.graces.kill_limit, left];
        let mut text = [b'0'; ENCODED_LEN];
        let bytes = head.into_iter().chain(graces.into_iter().flat_map(|time| hex(time).into_bytes()));
        text.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        text
    }

    /// The ladder that a text tells of, at the time `now` of the reader's clock. A grace that ran has as much left as when it
    /// was written. Ask [`Ladder::pending`] what to do first.
    ///
    /// # Errors
    /// Anything that [`Ladder::encode`] does not write.
    pub fn decode(text: &[u8], now: Duration) -> Result<Ladder, DecodeError> {
        match text.first() {
            Some(&VERSION) => {}
            Some(b'0'..=b'9') => return Err(DecodeError::Version),
            Some(_) | None => return Err(DecodeError::Malformed),
        }
        match Ladder::read(text, now) {
            // One state, one text: all else is damage, as is a grace with more left than it has.
            Some(ladder) if ladder.encode() == text => Ok(ladder),
            Some(_) | None => Err(DecodeError::Malformed),
        }
    }

    fn read(text: &[u8], now: Duration) -> Option<Ladder> {
        let (&[_, phase, rung, last, ask, leader], rest) = text.split_first_chunk()?;
        let ([a, t, k, left], []) = rest.as_chunks() else { return None };
        let asks = ask == b'a';
        let state = match (phase, read_rung(rung)?, read_rung(last)?) {
            (b'r', None, None) => State::Ready,
            (b'd', Some(due), last) if follows(due, last) && (asks || due != Rung::Ask) => {
                State::Due { due, last }
            }
            (b'w', Some(rung), None) if asks || rung != Rung::Ask => State::Waiting(rung),
            (b'e', by, None) => State::Ended(Outcome::Empty { by }),
            (b's', None, None) => State::Ended(Outcome::Survived),
            _ => return None,
        };
        let graces =
            Graces { ask: if asks { Some(unhex(a)?) } else { None }, term: unhex(t)?, kill_limit: unhex(k)? };
        let until = now.saturating_add(unhex(left)?);
        // Whoever ended while nobody watched is seen at once.
        Some(Ladder { graces, state, leader_ended: leader == b'-', clock: now, until, look: now })
    }

    /// The longest time that can be left in this state.
    fn most_left(&self) -> Duration {
        match self.state {
            State::Waiting(rung) => self.grace(rung),
            State::Due { due: _, last: Some(Rung::Sweep) } => self.graces.kill_limit,
            State::Ready | State::Due { .. } | State::Ended(_) => Duration::ZERO,
        }
    }
}

/// Whether `due` can be due after `last`.
fn follows(due: Rung, last: Option<Rung>) -> bool {
    match due {
        Rung::Ask => last.is_none(),
        Rung::Term => last <= Some(Rung::Ask),
        Rung::Kill => last <= Some(Rung::Term),
        Rung::Sweep => last >= Some(Rung::Kill),
    }
}

fn letter(rung: Option<Rung>) -> u8 {
    match rung {
        None => b'-',
        Some(Rung::Ask) => b'a',
        Some(Rung::Term) => b't',
        Some(Rung::Kill) => b'k',
        Some(Rung::Sweep) => b's',
    }
}

fn read_rung(byte: u8) -> Option<Option<Rung>> {
    let all = [None, Some(Rung::Ask), Some(Rung::Term), Some(Rung::Kill), Some(Rung::Sweep)];
    all.into_iter().find(|rung| letter(*rung) == byte)
}

fn hex(time: Duration) -> String<16> {
    hex64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn unhex(digits: &[u8; 16]) -> Option<Duration> {
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok().map(Duration::from_nanos)
}
