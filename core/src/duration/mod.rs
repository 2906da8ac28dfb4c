//! Durations and sizes as a person writes them.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use core::{fmt, str, time::Duration};

/// What is wrong with the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// It does not begin with a digit.
    NoNumber,
    /// What follows the digits is no unit; for a duration, also nothing.
    Unit,
    /// More than can be counted.
    TooLarge,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::NoNumber => "does not begin with a number",
            ParseError::Unit => "has no known unit after its number",
            ParseError::TooLarge => "is too large",
        })
    }
}

impl core::error::Error for ParseError {}

/// A duration: digits and `ms`, `s`, `m` or `h`; nothing else, and no unit is guessed.
///
/// # Errors
/// [`ParseError`]; an unknown unit before a number too large.
pub fn duration(text: &[u8]) -> Result<Duration, ParseError> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        // Not a number of seconds.
        b"ms" => 0,
        b"s" => 1,
        b"m" => 60,
        b"h" => 3600,
        _ => return Err(ParseError::Unit),
    };
    let number = number.ok_or(ParseError::TooLarge)?;
    if seconds == 0 {
        return Ok(Duration::from_millis(number));
    }
    number.checked_mul(seconds).map(Duration::from_secs).ok_or(ParseError::TooLarge)
}

/// A number of bytes: digits and nothing, or `K`, `M`, `G` for powers of 1,024.
///
/// # Errors
/// As [`duration`].
pub fn size(text: &[u8]) -> Result<u64, ParseError> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        b"" => 1,
        b"K" => 1 << 10,
        b"M" => 1 << 20,
        b"G" => 1 << 30,
        _ => return Err(ParseError::Unit),
    };
    number.and_then(|n| n.checked_mul(factor)).ok_or(ParseError::TooLarge)
}

/// The number, `None` if it is too large, and what follows it.
fn split(text: &[u8]) -> Result<(Option<u64>, &[u8]), ParseError> {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end).ok_or(ParseError::NoNumber)?;
    if digits.is_empty() {
        return Err(ParseError::NoNumber);
    }
    Ok((str::from_utf8(digits).ok().and_then(|d| d.parse().ok()), unit))
}
