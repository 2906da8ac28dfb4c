//! Each rule, at its edge.

use std::{format, string::ToString};

use super::*;

#[test]
fn each_rule_is_named_with_the_place_where_it_is_broken() {
    let bad: [(&[u8], NameError); 13] = [
        (b"", NameError::Empty),
        (b".", NameError::Dots),
        (b"..", NameError::Dots),
        (b"a\xffb", NameError::NotUtf8),
        (b"\xed\xa0\x80", NameError::NotUtf8),
        (b"a/b", NameError::Character { at: 1 }),
        (b"=", NameError::Character { at: 0 }),
        (b"ab\0", NameError::Character { at: 2 }),
        (b"a\nb", NameError::Character { at: 1 }),
        (b"\x7f", NameError::Character { at: 0 }),
        ("é\u{80}".as_bytes(), NameError::Character { at: 2 }),
        ("x\u{9f}".as_bytes(), NameError::Character { at: 1 }),
        (&[b'a'; 129], NameError::TooLong),
    ];
    for (name, error) in bad {
        assert_eq!(check(name), Err(error), "{}", name.escape_ascii());
    }
    assert!(NameError::Character { at: 7 }.to_string().contains("byte 7"));
}

#[test]
fn what_breaks_no_rule_passes_as_it_is() {
    for name in ["a", "...", ".a", "a b", " ", "\u{a0}", "greeter-staging", "名前", "-x", "\"'`$"] {
        assert_eq!(check(name.as_bytes()), Ok(name));
    }
    let longest = format!("{}é", "a".repeat(126));
    assert_eq!((longest.len(), check(longest.as_bytes())), (128, Ok(longest.as_str())));
}
