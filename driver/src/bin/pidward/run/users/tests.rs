use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use super::{User, group_named, number, user, user_named};

const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n\nbroken\nann:x:1000:100:Ann:/home/ann:/bin/sh\n\
                        odd:x:12x:1:::\nhigh:x:4294967295:1:::\n\xff:x:7:8::/:\n";
const GROUP: &[u8] = b"root:x:0:\nusers:x:100:\nwheel:x:10:bob,ann\naudio:x:63:ann\nannex:x:64:anna,xann\n";

#[test]
fn a_name_brings_primary_and_further_groups() {
    let found = user_named(b"ann", PASSWD, GROUP).expect("ann");
    assert_eq!(found, User { uid: 1000, gid: Some(100), groups: Some(vec![10, 63, 100]) });
    assert_eq!(user_named(b"\xff", PASSWD, GROUP).map(|user| user.uid), Some(7));
}

#[test]
fn what_is_not_there_or_broken_is_nobody() {
    for name in [&b"an"[..], b"", b"broken", b"odd", b"high", b"ann:x"] {
        assert_eq!(user_named(name, PASSWD, GROUP), None, "{name:?}");
    }
    assert_eq!(group_named(b"wheel", GROUP), Some(10));
    assert_eq!(group_named(b"", GROUP), None);
    assert_eq!(group_named(b"whee", GROUP), None);
}

#[test]
fn a_number_is_an_id_and_the_highest_is_none() {
    assert_eq!(number(b"0"), Some(0));
    assert_eq!(number(b"4294967294"), Some(u32::MAX - 1));
    for text in [&b"4294967295"[..], b"4294967296", b"", b"-1", b"+1", b"1 ", b"1\xff"] {
        assert_eq!(number(text), None, "{text:?}");
    }
    let plain = user(OsStr::from_bytes(b"1234"));
    assert_eq!(plain, Ok(User { uid: 1234, gid: None, groups: None }));
}
