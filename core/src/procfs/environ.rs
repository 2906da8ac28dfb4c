//! Entries of an environ, matched as they stream by.
#![forbid(unsafe_code)]

/// What is known of one wanted entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// No entry of that name.
    Absent,
    /// The first entry of that name has this value.
    Same,
    /// The first entry of that name has another value.
    Different,
}

/// Looks for `N` entries, each `name=value`, in an environ that comes in pieces of any size.
///
/// Whole entries are compared byte by byte while they pass, so an entry may be larger than any buffer and may straddle pieces.
/// The first entry of a name counts, as for getenv(3); entries without `=` or with an empty name match nothing.
#[derive(Clone, Debug)]
pub struct Matcher<'a, const N: usize> {
    wanted: [&'a [u8]; N],
    found: [Entry; N],
    /// Whether the entry that passes is, so far, the wanted one; and whether its name was.
    same: [bool; N],
    named: [bool; N],
    /// Bytes of that entry so far.
    at: usize,
    any: bool,
}

impl<'a, const N: usize> Matcher<'a, N> {
    /// Looks for these entries. One without `=`, with an empty name or with a NUL is never found.
    pub const fn new(wanted: [&'a [u8]; N]) -> Matcher<'a, N> {
        Matcher { wanted, found: [Entry::Absent; N], same: [true; N], named: [false; N], at: 0, any: false }
    }

    /// The next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == 0 {
                self.end_of_entry();
                continue;
            }
            self.any |= byte == b'=';
            let at = self.at;
            let states = self.same.iter_mut().zip(&mut self.named);
            for (wanted, (same, named)) in self.wanted.iter().zip(states) {
                *same &= wanted.get(at) == Some(&byte);
                // The first `=` ends a name, which is not empty.
                *named |= *same && byte == b'=' && at > 0;
            }
            self.at = at.saturating_add(1);
        }
    }

    /// What was found, in the order of the wanted. The last entry may lack its NUL.
    pub fn finish(mut self) -> [Entry; N] {
        self.end_of_entry();
        self.found
    }

    /// Whether any entry so far was a variable: a block without one was withheld or overwritten.
    pub const fn has_entries(&self) -> bool {
        self.any
    }

    fn end_of_entry(&mut self) {
        let states = self.same.iter_mut().zip(&mut self.named);
        for ((wanted, found), (same, named)) in self.wanted.iter().zip(&mut self.found).zip(states) {
            if *named && *found == Entry::Absent {
                let whole = *same && self.at == wanted.len();
                *found = if whole { Entry::Same } else { Entry::Different };
            }
            (*same, *named) = (true, false);
        }
        self.at = 0;
    }
}
