//! The rule for names against the rule in words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::name;

fn naive(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    let forbidden = |c: char| {
        let n = c as u32;
        n < 0x20 || (0x7f..=0x9f).contains(&n) || c == '=' || c == '/'
    };
    let fits = !text.is_empty() && text.len() <= 128 && text != "." && text != "..";
    (fits && !text.chars().any(forbidden)).then_some(text)
}

fuzz_target!(|bytes: &[u8]| {
    let answer = name::check(bytes);
    assert_eq!(answer.ok().map(str::to_owned), naive(bytes), "{}", bytes.escape_ascii());
    if let Err(rule) = answer {
        assert!(!rule.to_string().contains('\n'), "{rule}");
    }
});
