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

/// Looks for `N` entries `name=value` in an environ that comes in pieces of any size.
///
/// Whole entries are compared byte by byte while they pass, so an entry may be larger than any buffer and may straddle pieces.
/// The first entry of a name counts, as for getenv(3): a later one is never seen by the program. Entries without `=` or with an empty
/// name match nothing.
#[derive(Clone, Debug)]
pub struct Matcher<'a, const N: usize> {
    wanted: [(&'a [u8], &'a [u8]); N],
    found: [Entry; N],
    /// Whether the entry that passes is, so far, the wanted one; and whether its name was.
    same: [bool; N],
    named: [bool; N],
    /// Bytes of that entry so far.
    at: usize,
}

impl<'a, const N: usize> Matcher<'a, N> {
    /// Looks for these entries, each `name=value`. One without `=`, with an empty name or with a NUL is never found.
    pub fn new(wanted: [&'a [u8]; N]) -> Matcher<'a, N> {
        Matcher::pairs(wanted.map(|entry| {
            let mut parts = entry.splitn(2, |&b| b == b'=');
            parts.next().zip(parts.next()).unwrap_or_default()
        }))
    }

    /// Looks for these names with these values. A name that is empty or holds `=` or NUL is no name and never found; nor is a value
    /// with a NUL.
    pub fn pairs(wanted: [(&'a [u8], &'a [u8]); N]) -> Matcher<'a, N> {
        // An empty name is found nowhere.
        let wanted = wanted.map(|pair| if pair.0.contains(&b'=') { (&[][..], &[][..]) } else { pair });
        Matcher { wanted, found: [Entry::Absent; N], same: [true; N], named: [false; N], at: 0 }
    }

    /// The next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            if byte == 0 {
                self.end_of_entry();
            } else if self.same.contains(&true) {
                self.compare(byte);
            } else {
                // Of no interest up to its end, as nearly all are.
                rest = up_to_nul(rest);
                continue;
            }
            rest = after;
        }
    }

    fn compare(&mut self, byte: u8) {
        let at = self.at;
        let states = self.same.iter_mut().zip(&mut self.named);
        for ((name, value), (same, named)) in self.wanted.iter().zip(states) {
            // Where the name ends its `=` stands, then the value.
            *same &= match at.checked_sub(name.len()) {
                None => name.get(at) == Some(&byte),
                Some(0) => byte == b'=',
                Some(past) => value.get(past.wrapping_sub(1)) == Some(&byte),
            };
            *named |= *same && at == name.len() && at > 0;
        }
        self.at = at.saturating_add(1);
    }

    /// What was found, in the order of the wanted. The last entry may lack its NUL.
    pub fn finish(mut self) -> [Entry; N] {
        self.end_of_entry();
        self.found
    }

    /// The same, but an entry without its NUL does not count: it may be the beginning of a longer one. For what was read from a living
    /// process.
    pub const fn found(&self) -> [Entry; N] {
        self.found
    }

    fn end_of_entry(&mut self) {
        let states = self.same.iter_mut().zip(&mut self.named);
        for (((name, value), found), (same, named)) in self.wanted.iter().zip(&mut self.found).zip(states) {
            if *named && *found == Entry::Absent {
                let length = name.len().saturating_add(value.len()).saturating_add(1);
                *found = if *same && self.at == length { Entry::Same } else { Entry::Different };
            }
            (*same, *named) = (true, false);
        }
        self.at = 0;
    }
}

/// What is left from the next NUL on.
pub(crate) fn up_to_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    end.and_then(|end| bytes.get(end..)).unwrap_or_default()
}
