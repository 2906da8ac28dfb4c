//! Bytes as one printable line, and back.

use std::fmt::Write;

/// Printable ASCII as it is; `\` and everything else as `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, b| {
        match b {
            b' '..=b'[' | b']'..=b'~' => out.push(char::from(*b)),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "\\x{b:02x}")),
        }
        out
    })
}

/// The bytes of what [`escape`] has made; `None` for anything else.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'\\' {
            let digits = std::str::from_utf8(tail.strip_prefix(b"x")?.get(..2)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail.get(3..)?;
        } else {
            out.push(*first);
        }
    }
    Some(out)
}
