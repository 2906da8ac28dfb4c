//! The rule for names against a list of what is forbidden.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::name::{NameError, check};

fn naive(name: &[u8]) -> Result<&str, NameError> {
    match name.len() {
        0 => return Err(NameError::Empty),
        1..=128 => {}
        _ => return Err(NameError::TooLong),
    }
    let text = std::str::from_utf8(name).map_err(|_| NameError::NotUtf8)?;
    if [".", ".."].contains(&text) {
        return Err(NameError::Dots);
    }
    let mut at = 0;
    for character in text.chars() {
        let code = u32::from(character);
        if code < 0x20 || (0x7f..=0x9f).contains(&code) || code == 0x2f || code == 0x3d {
            return Err(NameError::Character { at });
        }
        at += character.len_utf8();
    }
    Ok(text)
}

fuzz_target!(|name: &[u8]| {
    assert_eq!(check(name), naive(name));
});
