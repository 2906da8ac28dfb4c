//! The stat line against a reader that collects all fields first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::procfs::{Malformed, Stat};

/// Digits after one `-` at most, within the bounds.
fn whole(word: &[u8], least: i128, most: i128) -> Option<i128> {
    let (sign, digits) = match word {
        [b'-', digits @ ..] if least < 0 => (-1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i128;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Far above every bound, and far from wrapping.
        value = (value * 10 + i128::from(digit - b'0')).min(1 << 100);
    }
    let value = sign * value;
    (least <= value && value <= most).then_some(value)
}

/// pid, state letter, ppid, pgrp, session, flags, threads, start ticks.
fn naive(line: &[u8]) -> Option<[i128; 8]> {
    let mut first = None;
    let mut last = None;
    for (at, byte) in line.iter().enumerate() {
        if *byte == b'(' && first.is_none() {
            first = Some(at);
        }
        if *byte == b')' {
            last = Some(at);
        }
    }
    let [pid @ .., b' '] = &line[..first?] else { return None };
    let [b' ', rest @ ..] = &line[last? + 1..] else { return None };
    let mut fields: Vec<Vec<u8>> = vec![Vec::new()];
    for (at, byte) in rest.iter().enumerate() {
        // The last field counts only if something ends it.
        let ended = rest[at..].iter().any(|b| matches!(b, b' ' | b'\n'));
        if *byte == b' ' || (*byte == b'\n' && !rest[at + 1..].iter().any(|b| matches!(b, b' ' | b'\n'))) {
            fields.push(Vec::new());
        } else if ended {
            fields.last_mut()?.push(*byte);
        }
    }
    fields.pop();
    let (u32_max, i32_min, i32_max) = (i128::from(u32::MAX), i128::from(i32::MIN), i128::from(i32::MAX));
    let [letter] = fields.first()?[..] else { return None };
    let number = |field: usize, least, most| whole(fields.get(field - 3)?, least, most);
    Some([
        whole(pid, 0, u32_max)?,
        i128::from(letter),
        number(4, 0, u32_max)?,
        number(5, i32_min, i32_max)?,
        number(6, i32_min, i32_max)?,
        number(9, 0, u32_max)?,
        number(20, 0, u32_max)?,
        number(22, 0, i128::from(u64::MAX))?,
    ])
}

fuzz_target!(|line: &[u8]| {
    let parsed = Stat::parse(line);
    let Some(wanted) = naive(line) else {
        assert_eq!(parsed, Err(Malformed));
        return;
    };
    let stat = parsed.expect("a line that the naive reader takes");
    // Both letters of a process that is being removed are one state.
    let letter =
        if stat.state.letter() == b'X' && wanted[1] == i128::from(b'x') { b'x' } else { stat.state.letter() };
    let found = [
        i128::from(stat.pid),
        i128::from(letter),
        i128::from(stat.ppid),
        i128::from(stat.pgrp),
        i128::from(stat.session),
        i128::from(stat.flags),
        i128::from(stat.threads),
        i128::from(stat.start_ticks),
    ];
    assert_eq!(found, wanted);
    let ended = matches!(letter, b'Z' | b'X' | b'x') && stat.threads == 1;
    assert_eq!(stat.is_ended(), ended);
});
