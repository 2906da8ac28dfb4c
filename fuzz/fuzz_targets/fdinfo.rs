//! A pidfd's own words and the boot id against readers by lines and characters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::procfs::{Malformed, Target, boot_id};

fn number(word: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(word).ok()?;
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// The value on the first line that begins so: `None` where there is no such line, and where that line has no end.
fn value<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let mut at = 0;
    while at < text.len() {
        let end = text[at..].iter().position(|b| *b == b'\n');
        if text[at..].starts_with(name) && end.is_none_or(|end| end >= name.len()) {
            return end.map(|end| text[at + name.len()..at + end].trim_ascii());
        }
        at += end? + 1;
    }
    None
}

fn naive(text: &[u8]) -> Option<i32> {
    number(value(text, b"Pid:")?).filter(|pid| *pid >= -1)
}

fn naive_boot_id(text: &[u8]) -> Option<[u8; 16]> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    if lengths != [8, 4, 4, 4, 12] || !text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f' | '-')) {
        return None;
    }
    let digits = groups.concat();
    let mut bytes = [0; 16];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

fuzz_target!(|text: &[u8]| {
    match (Target::parse(text), naive(text)) {
        (Ok(Target::Gone), wanted) => assert_eq!(wanted, Some(-1)),
        (Ok(Target::NotVisible), wanted) => assert_eq!(wanted, Some(0)),
        (Ok(Target::Pid(number)), wanted) => assert!(number.raw() > 0 && wanted == Some(number.raw())),
        (Err(Malformed), wanted) => assert_eq!(wanted, None),
    }
    assert_eq!(boot_id(text).ok().map(|id| id.to_bytes()), naive_boot_id(text));
});
