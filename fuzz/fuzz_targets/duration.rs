//! Durations and sizes against a reader that splits at the first letter and multiplies in 128 bits.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;

// A module of the command.
#[path = "../../driver/src/bin/pidward/amount.rs"]
mod amount;

use amount::{parse_duration, parse_size};

fn naive(text: &[u8], units: &[(&str, u128)]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (_, factor) = units.iter().find(|(unit, _)| *unit == &text[end..])?;
    // A number of that many digits does not fit anyway.
    let digits = text[..end].trim_start_matches('0');
    if end == 0 || digits.len() > 25 {
        return None;
    }
    let number: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    u64::try_from(number).ok()?;
    u64::try_from(number * factor).ok()
}

fuzz_target!(|text: &[u8]| {
    let times = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    assert_eq!(
        parse_duration(text).ok(),
        naive(text, &times).map(Duration::from_millis),
        "{}",
        text.escape_ascii()
    );
    let sizes = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    assert_eq!(parse_size(text).ok(), naive(text, &sizes), "{}", text.escape_ascii());
});
