//! The rule for service names, which stand in environment entries, file names and lines of text.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use core::{fmt, str};

/// Most bytes of a name.
pub const MAX_NAME: usize = 128;

/// Which rule a name breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// No byte.
    Empty,
    /// More than [`MAX_NAME`] bytes.
    TooLong,
    /// Not UTF-8.
    NotUtf8,
    /// `.` or `..`.
    Dots,
    /// A NUL, `=`, `/` or control character, at this byte.
    Character {
        /// Where, in bytes from 0.
        at: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("is empty"),
            NameError::TooLong => write!(f, "has more than {MAX_NAME} bytes"),
            NameError::NotUtf8 => f.write_str("is not UTF-8"),
            NameError::Dots => f.write_str("is \".\" or \"..\""),
            NameError::Character { at } => {
                write!(f, "has a NUL, '=', '/' or control character at byte {at}")
            }
        }
    }
}

impl core::error::Error for NameError {}

/// The name as text, if it is one: 1 to 128 bytes of UTF-8 without NUL, `=`, `/` and control characters; not `.` or
/// `..`.
///
/// # Errors
/// The first rule it breaks.
pub fn check(name: &[u8]) -> Result<&str, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong);
    }
    let text = str::from_utf8(name).map_err(|_| NameError::NotUtf8)?;
    if text == "." || text == ".." {
        return Err(NameError::Dots);
    }
    match text.char_indices().find(|(_, c)| matches!(c, '=' | '/') || c.is_control()) {
        Some((at, _)) => Err(NameError::Character { at }),
        None => Ok(text),
    }
}
