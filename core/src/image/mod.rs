//! What a new program is made of: argv, environ and the paths that exec tries, packed into buffers the
//! caller owns.
//!
//! A list is packed whole or not at all: no string is cut, none is left out, and what cannot be said to a
//! C program (a NUL inside, a variable without a name) is refused before any process exists. Nothing here
//! allocates or makes a system call; the `*_size` functions say beforehand what the buffers must hold.
//!
//! What is *not* refused here is length. The kernel takes strings of up to [`MAX_STRING`] bytes and a total
//! that depends on the stack limit of the new program, and answers `E2BIG`. Both limits move with the page
//! size and with a limit that the plan may change, so the kernel stays the only judge: a check of our own
//! would refuse what it takes, or promise what it refuses.
#![forbid(unsafe_code)]

use core::{ffi::CStr, fmt, iter, ptr};

mod environ;
mod path;
#[cfg(test)]
mod tests;

pub use environ::{Change, pack_environ};
pub use path::{DEFAULT_PATH, candidates, candidates_size, search_goes_on};

/// The longest argument or environ entry (name, `=` and value) that the kernel takes where pages have
/// 4 KiB, without its NUL; one byte more is `E2BIG`. Larger pages take more: it is 32 pages
/// (`MAX_ARG_STRLEN`, `include/uapi/linux/binfmts.h`). For messages and for choosing another way for large
/// payloads; nothing here compares with it. <https://man7.org/linux/man-pages/man2/execve.2.html>
pub const MAX_STRING: usize = 131_071;

/// Why a list could not be packed. No text: the driver makes words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// A NUL byte inside a string: the new program would see it cut.
    Nul,
    /// A variable to set or remove has an empty name, or one with `=` or NUL in it.
    Name,
    /// The name of the program is empty.
    Program,
    /// The byte buffer is too short.
    BytesFull,
    /// The pointer buffer is too short; one slot is kept for the NULL at the end.
    PointersFull,
}

/// What a list needs. Buffers of exactly this size suffice; in shorter ones packing is refused. (A list
/// without strings is the exception: it needs no buffer at all.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of all strings, a NUL for each included.
    pub bytes: usize,
    /// Pointers, the NULL at the end included.
    pub pointers: usize,
}

/// A list of NUL-terminated strings and the NULL-terminated list of pointers to them that `execve(2)`
/// wants, in the caller's buffers.
///
/// Only a [`Packer`] makes one, so each pointer leads to a string that ends in NUL inside the buffer, the
/// pointers end in NULL, and both stay so for `'b`. Debug shows the number of strings, never their text.
#[derive(Clone, Copy)]
pub struct Table<'b> {
    /// The strings one after the other, each with its NUL.
    strings: &'b [u8],
    /// One pointer into `strings` for each, then NULL.
    pointers: &'b [*const u8],
}

impl<'b> Table<'b> {
    /// The list for `execve(2)`.
    #[inline(always)] // on the child's path, as is `pointers`
    pub const fn as_ptr(&self) -> *const *const u8 {
        self.pointers.as_ptr()
    }

    /// The pointers without the NULL.
    #[inline(always)]
    pub fn pointers(&self) -> &'b [*const u8] {
        self.pointers.split_last().map_or(&[], |(_, list)| list)
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.pointers().len()
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &'b CStr> + use<'b> {
        let mut rest = self.strings;
        iter::from_fn(move || {
            let string = CStr::from_bytes_until_nul(rest).ok()?;
            rest = rest.get(string.to_bytes_with_nul().len()..)?;
            Some(string)
        })
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} strings)", self.len())
    }
}

/// Packs strings into two buffers, one after the other. Debug shows how full they are, never the text.
pub struct Packer<'b> {
    bytes: &'b mut [u8],
    used: usize,
    /// Until `finish`, a slot holds the offset of its string as an address: a pointer taken now would lose
    /// its right to the buffer with the next push.
    pointers: &'b mut [*const u8],
    count: usize,
}

impl<'b> Packer<'b> {
    /// An empty list. What stands in the buffers does not matter.
    pub const fn new(bytes: &'b mut [u8], pointers: &'b mut [*const u8]) -> Packer<'b> {
        Packer { bytes, used: 0, pointers, count: 0 }
    }

    /// Adds one string. After an error the list is as it was before.
    ///
    /// # Errors
    /// [`PackError::Nul`], [`PackError::BytesFull`], [`PackError::PointersFull`].
    pub fn push(&mut self, s: &[u8]) -> Result<(), PackError> {
        self.push_parts(&[s])
    }

    /// Adds one string made of several parts, as directory, `/` and name. After an error the list is as it
    /// was before.
    ///
    /// # Errors
    /// [`PackError::Nul`], [`PackError::BytesFull`], [`PackError::PointersFull`].
    pub fn push_parts(&mut self, parts: &[&[u8]]) -> Result<(), PackError> {
        let end = self.used.saturating_add(room_for(parts)?);
        let mut room = self.bytes.get_mut(self.used..end).ok_or(PackError::BytesFull)?;
        // The last slot is not for strings: `finish` needs it.
        let slots = self.pointers.split_last_mut().map_or(&mut [][..], |(_, slots)| slots);
        let slot = slots.get_mut(self.count).ok_or(PackError::PointersFull)?;
        for part in parts {
            let (here, rest) = room.split_at_mut_checked(part.len()).ok_or(PackError::BytesFull)?;
            // Not `copy_from_slice`: where it is not inlined, its check of the lengths is a panic path.
            here.iter_mut().zip(*part).for_each(|(to, from)| *to = *from);
            room = rest;
        }
        room.fill(0);
        *slot = ptr::without_provenance(self.used);
        self.used = end;
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Adds all strings and finishes; after an error there is no list.
    fn pack<'a>(mut self, mut strings: impl Iterator<Item = Parts<'a>>) -> Result<Table<'b>, PackError> {
        strings.try_for_each(|parts| self.push_parts(&parts))?;
        Ok(self.finish())
    }

    /// The finished list. Always succeeds: the slot for NULL was kept free, and an empty list without any
    /// slot ends in a constant.
    pub fn finish(self) -> Table<'b> {
        // Shared from here on, so the pointers below stay good for as long as the table.
        let bytes: &'b [u8] = self.bytes;
        let strings = bytes.get(..self.used).unwrap_or_default();
        let list = self.pointers.get_mut(..=self.count).unwrap_or_default();
        let [slots @ .., end] = &mut *list else {
            return Table { strings: &[], pointers: const { &[ptr::null()] } };
        };
        for slot in slots {
            *slot = strings.as_ptr().wrapping_add(slot.addr());
        }
        *end = ptr::null();
        Table { strings, pointers: list }
    }
}

impl fmt::Debug for Packer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packer({} strings, {} bytes)", self.count, self.used)
    }
}

/// One string in parts; most have one part.
type Parts<'a> = [&'a [u8]; 3];

/// What the list needs. A list is described once, as an iterator, and both measured and packed from it, so a
/// size cannot differ from what is then packed.
fn measure<'a>(mut strings: impl Iterator<Item = Parts<'a>>) -> Result<Size, PackError> {
    // A sum at the top of the range is more than any buffer holds, so it is as good as the true one.
    strings.try_fold(Size { bytes: 0, pointers: 1 }, |sum, parts| {
        let bytes = sum.bytes.saturating_add(room_for(&parts)?);
        Ok(Size { bytes, pointers: sum.pointers.saturating_add(1) })
    })
}

/// The bytes that a string of these parts takes, its NUL included.
fn room_for(parts: &[&[u8]]) -> Result<usize, PackError> {
    if parts.iter().any(|part| part.contains(&0)) {
        return Err(PackError::Nul);
    }
    Ok(parts.iter().fold(1, |sum: usize, part| sum.saturating_add(part.len())))
}
