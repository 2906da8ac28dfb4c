//! argv and environ of the new program.
//!
//! Changes work as those of `std::process::Command` do, with two differences: variables with a kept prefix
//! survive a clearing, and inherited entries that are no variables go along.
#![forbid(unsafe_code)]

use core::fmt;

use super::{PackError, Packer, Parts, Table, room_for};

/// One change to the inherited environ. Changes apply in order, the later wins. Debug shows names, never
/// values.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// The variable has this value, whatever it had before.
    Set {
        /// Not empty, without `=` and NUL.
        name: &'a [u8],
        /// Without NUL; may be empty.
        value: &'a [u8],
    },
    /// The variable is not there; one with a kept prefix too.
    Remove {
        /// Not empty, without `=` and NUL.
        name: &'a [u8],
    },
    /// Nothing is there of what was inherited or set before, except variables with the kept prefix.
    Clear,
}

impl Change<'_> {
    /// Whether the change settles what becomes of the variable. `name` is empty for an entry that is no
    /// variable: only a clearing reaches that.
    fn touches(&self, name: &[u8], keep_prefix: &[u8]) -> bool {
        match *self {
            Change::Set { name: own, .. } | Change::Remove { name: own } => own == name,
            Change::Clear => keep_prefix.is_empty() || !name.starts_with(keep_prefix),
        }
    }

    fn check(&self) -> Result<(), PackError> {
        let (Change::Set { name, .. } | Change::Remove { name }) = *self else { return Ok(()) };
        if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
            return Err(PackError::Name);
        }
        self.set().map_or(Ok(()), |parts| room_for(&parts).map(|_| ()))
    }

    /// The entry that a change sets.
    fn set(&self) -> Option<Parts<'_>> {
        if let Change::Set { name, value } = *self { Some([name, b"=", value]) } else { None }
    }
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Set { name, .. } => write!(f, "Set({})", name.escape_ascii()),
            Change::Remove { name } => write!(f, "Remove({})", name.escape_ascii()),
            Change::Clear => f.write_str("Clear"),
        }
    }
}

/// Packs environ: the inherited entries (`NAME=value`, without NUL), then what is set, in the order of the
/// changes.
///
/// - A change meets every inherited entry of its name: what is set stands there once.
/// - An inherited entry that no change names goes along byte for byte and in its place, also one without
///   `=`, with an empty name, or twice there. Only [`Change::Clear`] stops such an entry.
/// - [`Change::Clear`] leaves variables whose name starts with `keep_prefix`, inherited or set before. That
///   is for entries by which a supervisor further out finds its own: a program that empties its child's
///   environ does not mean to hide it. A [`Change::Remove`] of the very name does, and is obeyed. An empty
///   prefix keeps nothing.
/// - A change that cannot be meant (see [`PackError::Name`], [`PackError::Nul`]) is refused even where a
///   later one undoes it.
///
/// Takes time in proportion to (entries + changes) × changes.
///
/// # Errors
/// [`PackError::Name`], [`PackError::Nul`], [`PackError::BytesFull`], [`PackError::PointersFull`].
pub fn pack_environ<'b, 'a>(
    packer: Packer<'b>,
    inherited: impl Iterator<Item = &'a [u8]>,
    changes: &[Change<'_>],
    keep_prefix: &[u8],
) -> Result<Table<'b>, PackError> {
    changes.iter().try_for_each(Change::check)?;
    packer.pack(environ(inherited, changes, keep_prefix))
}

fn environ<'a, 'i: 'a>(
    inherited: impl Iterator<Item = &'i [u8]>,
    changes: &'a [Change<'a>],
    keep_prefix: &'a [u8],
) -> impl Iterator<Item = Parts<'a>> {
    let touched = move |by: &[Change<'_>], name: &[u8]| by.iter().any(|c| c.touches(name, keep_prefix));
    let kept = inherited.filter(move |entry| !touched(changes, name_of(entry))).map(|e| [e, b"", b""]);
    let set = changes.iter().enumerate().filter_map(move |(i, change)| {
        let [name, ..] = change.set()?;
        let later = changes.get(i.wrapping_add(1)..)?;
        if touched(later, name) { None } else { change.set() }
    });
    kept.chain(set)
}

/// The name of the variable that an entry is; empty where it is none.
fn name_of(entry: &[u8]) -> &[u8] {
    entry.iter().position(|b| *b == b'=').and_then(|at| entry.get(..at)).unwrap_or_default()
}
