use std::os::unix::ffi::OsStrExt;

use super::*;

#[test]
fn depth_is_two_numbers_and_nothing_else() {
    for (text, depth) in [("0/4", (0, 4)), ("7/2", (7, 2)), ("4294967295/4294967295", (u32::MAX, u32::MAX))] {
        assert_eq!(Depth::read(OsStr::new(text)), Some(Depth { at: depth.0, most: depth.1 }));
    }
    let odd = ["", "/", "1", "1/", "/1", "+1/2", "1/-2", " 1/2", "1/2/3", "4294967296/1", "1/4294967296"];
    for text in odd.map(OsStr::new).into_iter().chain([OsStr::from_bytes(b"1/\xff")]) {
        assert_eq!(Depth::read(text), None, "{text:?}");
    }
}

#[test]
fn limit_falls_on_the_way_down_and_never_rises() {
    let at = |at, most| Depth { at, most };
    assert_eq!(at(0, 4).below(4), Some(at(1, 4)));
    assert_eq!(at(1, 4).below(100), Some(at(2, 4)));
    assert_eq!(at(1, 4).below(2), Some(at(2, 2)));
    for full in [at(4, 4).below(4), at(4, 4).below(u32::MAX), at(0, 4).below(0), at(9, 4).below(20)] {
        assert_eq!(full, None);
    }
    assert_eq!(at(u32::MAX - 1, u32::MAX).below(u32::MAX), Some(at(u32::MAX, u32::MAX)));
    assert_eq!(at(u32::MAX, u32::MAX).below(u32::MAX), None);
}
