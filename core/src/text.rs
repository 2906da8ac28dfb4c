//! What the texts that are kept have in common: one value has one text, and all of it is summed up, against torn writes and typing
//! errors, not against anybody who means it.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use core::{
    fmt,
    str::{self, FromStr},
};

/// Decimal digits without a leading zero: one number has one text.
pub(crate) fn number<T: FromStr>(text: &[u8]) -> Option<T> {
    let plain = text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || !text.starts_with(b"0"));
    str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()
}

/// `Some(None)` for `-`, else what `parse` makes of it.
pub(crate) fn known<T>(text: &[u8], parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<Option<T>> {
    if text == b"-" { Some(None) } else { parse(text).map(Some) }
}

/// A value as [`known`] takes it: `-` where there is none.
pub(crate) struct Known<T>(pub(crate) Option<T>);

impl<T: fmt::Display> fmt::Display for Known<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => write!(f, "{value}"),
            None => f.write_str("-"),
        }
    }
}

/// FNV-1a, 64 bit.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_on(BASIS, bytes)
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv1a_on(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Passes text on and sums it up, so that no writer needs room for all of it.
pub(crate) struct Summed<'a, 'f> {
    to: &'a mut fmt::Formatter<'f>,
    /// [`fnv1a`] of all that was passed on.
    pub(crate) sum: u64,
}

impl<'a, 'f> Summed<'a, 'f> {
    pub(crate) fn new(to: &'a mut fmt::Formatter<'f>) -> Summed<'a, 'f> {
        Summed { to, sum: BASIS }
    }
}

impl fmt::Write for Summed<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.sum = fnv1a_on(self.sum, text.as_bytes());
        self.to.write_str(text)
    }
}
