//! NUL-terminated strings one after the other: what an argv, an environ or a list of paths is made of.

use std::ptr;

use pidward_core::image::{PackError, Packer, Table};

/// Strings without NUL inside, each with its NUL behind it. Owned, and without pointers, so it can go to
/// another thread.
#[derive(Clone, Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    count: usize,
}

impl Strings {
    pub(super) fn with_capacity(bytes: usize) -> Strings {
        Strings { bytes: Vec::with_capacity(bytes), count: 0 }
    }

    /// Adds one string made of several parts.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> Result<(), PackError> {
        if parts.iter().any(|part| part.contains(&0)) {
            return Err(PackError::Nul);
        }
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.push(0);
        self.count += 1;
        Ok(())
    }

    /// What `pack` makes of buffers that hold `bytes` and `count` strings.
    pub(super) fn packed(
        bytes: usize,
        count: usize,
        pack: impl FnOnce(Packer<'_>) -> Result<Table<'_>, PackError>,
    ) -> Result<Strings, PackError> {
        let (mut buffer, mut pointers) = (vec![0; bytes], vec![ptr::null(); count + 1]);
        let table = pack(Packer::new(&mut buffer, &mut pointers))?;
        let (used, count) = (table.iter().map(|s| s.count_bytes() + 1).sum(), table.len());
        buffer.truncate(used);
        Ok(Strings { bytes: buffer, count })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split_inclusive(|b| *b == 0).map(|s| &s[..s.len() - 1])
    }

    /// The value of a variable; of several the first.
    pub(super) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Packs the strings into the front of two buffers, which move on to what is left of them.
    pub(super) fn table<'b>(
        &self,
        bytes: &mut &'b mut [u8],
        pointers: &mut &'b mut [*const u8],
    ) -> Table<'b> {
        let (here, rest) = std::mem::take(bytes).split_at_mut(self.bytes.len());
        *bytes = rest;
        let (slots, rest) = std::mem::take(pointers).split_at_mut(self.count + 1);
        *pointers = rest;
        let mut packer = Packer::new(here, slots);
        for string in self.iter() {
            packer.push(string).expect("strings without NUL fit into buffers of their own size");
        }
        packer.finish()
    }
}

/// Packs each list as a table, with pointers, which cannot go to another thread.
pub(crate) fn tables<const N: usize, R>(lists: [&Strings; N], f: impl FnOnce([Table<'_>; N]) -> R) -> R {
    let mut room = vec![0; lists.iter().map(|list| list.bytes()).sum()];
    let mut pointers = vec![ptr::null(); lists.iter().map(|list| list.count() + 1).sum()];
    let (mut bytes, mut slots) = (&mut room[..], &mut pointers[..]);
    f(lists.map(|list| list.table(&mut bytes, &mut slots)))
}
