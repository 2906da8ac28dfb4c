//! Durations and sizes against arithmetic that cannot overflow.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pidward_core::duration::{ParseError, duration, size};

/// The number, capped far above 64 bits, and the rest.
fn split(text: &[u8]) -> Option<(u128, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let add = |sum: u128, b: &u8| (sum * 10 + u128::from(b - b'0')).min(1 << 80);
    (digits > 0).then(|| (text[..digits].iter().fold(0, add), &text[digits..]))
}

fn fits(value: u128) -> Result<u64, ParseError> {
    u64::try_from(value).map_err(|_| ParseError::TooLarge)
}

fn naive_duration(text: &[u8]) -> Result<Duration, ParseError> {
    let (number, unit) = split(text).ok_or(ParseError::NoNumber)?;
    match unit {
        b"ms" => fits(number).map(Duration::from_millis),
        b"s" => fits(number).map(Duration::from_secs),
        b"m" => fits(number * 60).map(Duration::from_secs),
        b"h" => fits(number * 3600).map(Duration::from_secs),
        _ => Err(ParseError::Unit),
    }
}

fn naive_size(text: &[u8]) -> Result<u64, ParseError> {
    let (number, unit) = split(text).ok_or(ParseError::NoNumber)?;
    match unit {
        b"" => fits(number),
        b"K" => fits(number * 1024),
        b"M" => fits(number * 1024 * 1024),
        b"G" => fits(number * 1024 * 1024 * 1024),
        _ => Err(ParseError::Unit),
    }
}

fuzz_target!(|text: &[u8]| {
    assert_eq!(duration(text), naive_duration(text));
    assert_eq!(size(text), naive_size(text));
});
