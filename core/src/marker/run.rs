//! Entries `PIDWARD_TREE_<run id>=<installation id>`: one for each supervisor run above a process.
#![forbid(unsafe_code)]

use core::fmt;

use heapless::Vec;

use crate::{Id128, procfs::up_to_nul};

/// One run of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Of this run: what a sweep goes by.
    pub id: Id128,
    /// Of the installation that it belongs to.
    pub installation: Id128,
}

impl Run {
    /// Bytes of what [`parse`](Run::parse) takes: 32 digits, `=`, 32 digits.
    pub const LEN: usize = 65;

    /// A fresh nonce for a spawn of an installation: the first half of its id, then 64 random bits. So a child whose nonce is of another
    /// installation was spawned by a supervisor further down, though it carries our run entry too.
    ///
    /// # Errors
    /// As [`Id128::random`].
    #[cfg(pidward_linux)]
    pub fn nonce(installation: Id128) -> Result<Id128, crate::Errno> {
        let (mut nonce, random) = (installation.to_bytes(), Id128::random()?.to_bytes());
        nonce.iter_mut().zip(random).skip(8).for_each(|(byte, random)| *byte = random);
        Ok(Id128::from_bytes(nonce))
    }

    /// Whether a nonce is of a spawn of this installation.
    pub fn spawned(installation: Id128, nonce: Id128) -> bool {
        installation.to_bytes().first_chunk::<8>() == nonce.to_bytes().first_chunk::<8>()
    }

    /// The ids as an entry has them after the prefix: `<run id>=<installation id>`, each of 32 lower-case hex digits; `None` for anything
    /// else.
    pub fn parse(ids: &[u8]) -> Option<Run> {
        let (id, rest) = ids.split_at_checked(32)?;
        Some(Run { id: Id128::parse(id)?, installation: Id128::parse(rest.strip_prefix(b"=")?)? })
    }
}

/// What [`Run::parse`] takes.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.id, self.installation)
    }
}

/// Finds the entries that begin with `prefix` in an environ that comes in pieces of any size, and gives what follows it, in
/// their order.
///
/// One with more than `N` bytes after the prefix is passed over, and so is one without its NUL: it may be cut.
#[derive(Debug)]
pub struct Tails<'p, const N: usize> {
    prefix: &'p [u8],
    /// Bytes of the entry so far that are the prefix's; `None` where it is another entry.
    matched: Option<usize>,
    tail: Vec<u8, N>,
}

impl<'p, const N: usize> Tails<'p, N> {
    /// `prefix`: as [`Names::tree`](super::Names::tree).
    pub const fn new(prefix: &'p str) -> Tails<'p, N> {
        Tails { prefix: prefix.as_bytes(), matched: Some(0), tail: Vec::new() }
    }

    /// The next piece.
    pub fn feed(&mut self, piece: &[u8], mut visit: impl FnMut(&[u8])) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            self.matched = match (byte, self.matched) {
                (0, matched) => {
                    if matched == Some(self.prefix.len()) {
                        visit(&self.tail);
                    }
                    self.tail.clear();
                    Some(0)
                }
                (_, Some(at)) => match self.prefix.get(at) {
                    Some(wanted) => (*wanted == byte).then(|| at.saturating_add(1)),
                    None => self.tail.push(byte).ok().map(|()| at),
                },
                (_, None) => {
                    rest = up_to_nul(after);
                    None
                }
            };
        }
    }
}
