//! argv and environ of the new program.
//!
//! Changes work as those of `std::process::Command` do, with two differences: variables with a kept prefix
//! survive a clearing, and inherited entries that are no variables go along.
#![forbid(unsafe_code)]

use core::fmt;

use super::{PackError, Packer, Sink, Size, Table, room_for};

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
        let (name, value): (&[u8], &[u8]) = match *self {
            Change::Set { name, value } => (name, value),
            Change::Remove { name } => (name, b""),
            Change::Clear => return Ok(()),
        };
        if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
            return Err(PackError::Name);
        }
        room_for(&[value]).map(|_| ())
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

/// Packs argv: `arg0`, which is the program where the caller names nothing else, then the arguments.
///
/// So argv is never empty. (Linux before 5.18 starts a program with an empty one, later ones put in an empty
/// string; programs break on both.)
///
/// # Errors
/// [`PackError::Nul`], [`PackError::BytesFull`], [`PackError::PointersFull`].
pub fn pack_argv<'b, 'a>(
    mut packer: Packer<'b>,
    arg0: &[u8],
    args: impl Iterator<Item = &'a [u8]>,
) -> Result<Table<'b>, PackError> {
    put_argv(&mut packer, arg0, args)?;
    Ok(packer.finish())
}

/// What [`pack_argv`] needs for the same list.
///
/// # Errors
/// [`PackError::Nul`].
pub fn argv_size<'a>(arg0: &[u8], args: impl Iterator<Item = &'a [u8]>) -> Result<Size, PackError> {
    let mut size = Size::EMPTY;
    put_argv(&mut size, arg0, args)?;
    Ok(size)
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
    mut packer: Packer<'b>,
    inherited: impl Iterator<Item = &'a [u8]>,
    changes: &[Change<'_>],
    keep_prefix: &[u8],
) -> Result<Table<'b>, PackError> {
    put_environ(&mut packer, inherited, changes, keep_prefix)?;
    Ok(packer.finish())
}

/// What [`pack_environ`] needs for the same list.
///
/// # Errors
/// [`PackError::Name`], [`PackError::Nul`].
pub fn environ_size<'a>(
    inherited: impl Iterator<Item = &'a [u8]>,
    changes: &[Change<'_>],
    keep_prefix: &[u8],
) -> Result<Size, PackError> {
    let mut size = Size::EMPTY;
    put_environ(&mut size, inherited, changes, keep_prefix)?;
    Ok(size)
}

fn put_argv<'a>(
    sink: &mut impl Sink,
    arg0: &[u8],
    args: impl Iterator<Item = &'a [u8]>,
) -> Result<(), PackError> {
    sink.put(&[arg0])?;
    for arg in args {
        sink.put(&[arg])?;
    }
    Ok(())
}

fn put_environ<'a>(
    sink: &mut impl Sink,
    inherited: impl Iterator<Item = &'a [u8]>,
    changes: &[Change<'_>],
    keep_prefix: &[u8],
) -> Result<(), PackError> {
    for change in changes {
        change.check()?;
    }
    for entry in inherited {
        let name = name_of(entry);
        if !changes.iter().any(|c| c.touches(name, keep_prefix)) {
            sink.put(&[entry])?;
        }
    }
    let mut rest = changes;
    while let Some((change, later)) = rest.split_first() {
        if let Change::Set { name, value } = *change
            && !later.iter().any(|c| c.touches(name, keep_prefix))
        {
            sink.put(&[name, b"=", value])?;
        }
        rest = later;
    }
    Ok(())
}

/// The name of the variable that an entry is; empty where it is none.
fn name_of(entry: &[u8]) -> &[u8] {
    let mut parts = entry.splitn(2, |b| *b == b'=');
    match (parts.next(), parts.next()) {
        (Some(name), Some(_)) => name,
        _ => b"",
    }
}
