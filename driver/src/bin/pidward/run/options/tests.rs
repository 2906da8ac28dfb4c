use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use pidward::ServiceName;

use super::{descriptor, variable};

#[test]
fn the_name_of_a_program_is_always_a_name() {
    let long = vec![b'a'; 300];
    let odd = ["x".repeat(127), "é".to_owned()].concat();
    let rows: [(&[u8], String); 9] = [
        (b"/usr/bin/cat", "cat".into()),
        (b"cat", "cat".into()),
        (b"a b", "a b".into()),
        (b"dir/a=b", "a-b".into()),
        (b"\xff\xfe", "--".into()),
        (b"a\nb", "a-b".into()),
        (b"/", "-".into()),
        (&long, "a".repeat(128)),
        (odd.as_bytes(), "x".repeat(127)),
    ];
    for (program, name) in rows {
        let made = ServiceName::of_program(OsStr::from_bytes(program));
        assert_eq!(made.as_str(), name, "{program:?}");
    }
}

#[test]
fn a_variable_is_cut_at_the_first_equals_sign() {
    let pair = |text: &str| variable(OsStr::new(text)).ok();
    assert_eq!(pair("A=b=c"), Some(("A".into(), "b=c".into())));
    assert_eq!(pair("A="), Some(("A".into(), "".into())));
    assert_eq!(pair("=b"), None);
    assert_eq!(pair("A"), None);
}

#[test]
fn a_descriptor_is_three_or_higher() {
    let number = |text: &str| descriptor(OsStr::new(text), "--pass-fd", "a number").ok();
    assert_eq!(number("3"), Some(3));
    for text in ["2", "-1", "", "x", "2147483647", "99999999999"] {
        assert_eq!(number(text), None, "{text}");
    }
}
