//! Entries `PIDWARD_TREE_<run id>=<installation id>`: one for each supervisor run above a process.
#![forbid(unsafe_code)]

use core::fmt;

use heapless::Vec;

use crate::Id128;

/// 32 digits, `=`, 32 digits.
const IDS: usize = 65;

/// One run of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Of this run: what a sweep goes by.
    pub id: Id128,
    /// Of the installation that it belongs to.
    pub installation: Id128,
}

impl Run {
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

/// Finds the runs that a process carries, in an environ that comes in pieces of any size.
///
/// `visit` gets each whole entry that is one, in their order. Of a run id that comes twice with different installations both are
/// given. An entry without its NUL is none: it may be cut.
#[derive(Debug)]
pub struct Runs<'p, F> {
    prefix: &'p [u8],
    visit: F,
    /// Bytes of the entry so far that are the prefix's; `None` where it is another entry.
    matched: Option<usize>,
    ids: Vec<u8, IDS>,
}

impl<'p, F: FnMut(Run)> Runs<'p, F> {
    /// `prefix`: [`Names::tree`](super::Names::tree).
    pub const fn new(prefix: &'p str, visit: F) -> Runs<'p, F> {
        Runs { prefix: prefix.as_bytes(), visit, matched: Some(0), ids: Vec::new() }
    }

    /// The next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == 0 {
                if let Some(run) = self.matched.and_then(|_| Run::parse(&self.ids)) {
                    (self.visit)(run);
                }
                self.ids.clear();
                self.matched = Some(0);
                continue;
            }
            self.matched = self.matched.and_then(|at| match self.prefix.get(at) {
                Some(wanted) => (*wanted == byte).then(|| at.saturating_add(1)),
                // One byte too many and it is no such entry.
                None => self.ids.push(byte).ok().map(|()| at),
            });
        }
    }
}
