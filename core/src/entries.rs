//! What `getdents64(2)` writes: the entries of a directory, one after the other. The child's path reads such lists too, so all is inlined.
#![forbid(unsafe_code)]

use rustix::fd::RawFd;

/// The first entry of a `linux_dirent64` list: its type, its name with all that fills it up, and the rest of the list.
#[inline(always)]
pub(crate) fn next_entry(list: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    // d_ino and d_off are 8 bytes each, then d_reclen, then one byte of d_type and the name.
    let (Some(&low), Some(&high), Some(&kind)) = (list.get(16), list.get(17), list.get(18)) else {
        return None;
    };
    let length = u16::from_ne_bytes([low, high]) as usize;
    let (Some(name), Some(rest)) = (list.get(19..length), list.get(length..)) else { return None };
    Some((kind, name, rest))
}

/// The same with the name as a number (`.` and `..` are -1).
#[inline(always)]
pub(crate) fn next_number(list: &[u8]) -> Option<(RawFd, &[u8])> {
    let (_, name, rest) = next_entry(list)?;
    let mut number: RawFd = 0;
    for &byte in name {
        match byte {
            0 => break,
            b'0'..=b'9' => number = number.wrapping_mul(10).wrapping_add(RawFd::from(byte & 15)),
            _ => return Some((-1, rest)),
        }
    }
    Some((number, rest))
}
