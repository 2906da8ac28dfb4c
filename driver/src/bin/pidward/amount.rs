//! Durations and sizes as people write them: `250ms`, `5s`, `2m`, `1h`; `64K`, `512M`, `2G`.
//!
//! One whole number and one unit, nothing else: no sign, no fraction, no space. `0` needs its unit too. What does not
//! fit is an error, never the nearest value.
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "amount/tests.rs"]
mod tests;

use core::time::Duration;

/// Why a text is no duration or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmountError {
    /// It does not begin with a digit.
    NoNumber,
    /// What follows the digits is no unit.
    Unit,
    /// More than the type holds.
    TooLarge,
}

/// A duration: digits and `ms`, `s`, `m` (minutes) or `h`.
///
/// # Errors
/// [`AmountError`].
pub(crate) fn parse_duration(text: &[u8]) -> Result<Duration, AmountError> {
    let (number, unit) = split(text)?;
    let milliseconds: u64 = match unit {
        b"ms" => 1,
        b"s" => 1_000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        _ => return Err(AmountError::Unit),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or(AmountError::TooLarge)
}

/// A size in bytes: digits and `K`, `M` or `G` (powers of 1,024).
///
/// # Errors
/// [`AmountError`].
pub(crate) fn parse_size(text: &[u8]) -> Result<u64, AmountError> {
    let (number, unit) = split(text)?;
    let bytes: u64 = match unit {
        b"K" => 1 << 10,
        b"M" => 1 << 20,
        b"G" => 1 << 30,
        _ => return Err(AmountError::Unit),
    };
    number.checked_mul(bytes).ok_or(AmountError::TooLarge)
}

/// The number in front, and the rest.
fn split(text: &[u8]) -> Result<(u64, &[u8]), AmountError> {
    let mut number = None;
    let mut rest = text;
    // Ends with the text.
    while let Some((&first @ b'0'..=b'9', tail)) = rest.split_first() {
        let digit = u64::from(first.wrapping_sub(b'0'));
        let shifted = number.unwrap_or(0u64).checked_mul(10).and_then(|n| n.checked_add(digit));
        number = Some(shifted.ok_or(AmountError::TooLarge)?);
        rest = tail;
    }
    number.map(|number| (number, rest)).ok_or(AmountError::NoNumber)
}
