//! The sum is the published one, and one value has one text.

use std::{
    fmt::Write,
    format,
    string::{String, ToString},
};

use super::*;

#[test]
fn fnv_is_the_published_one() {
    // From the algorithm's own test values.
    assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
}

/// Shows its own sum, after what it wrote in pieces.
struct Pieces;

impl fmt::Display for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Summed::new(f);
        write!(out, "fo")?;
        write!(out, "ob{}", Known(Some("ar")))?;
        let sum = out.sum;
        write!(f, " {sum:x}")
    }
}

#[test]
fn what_is_written_in_pieces_is_summed_as_a_whole() {
    assert_eq!(Pieces.to_string(), format!("foobar {:x}", fnv1a(b"foobar")));
}

#[test]
fn one_value_has_one_text() {
    for (text, value) in [("0", Some(0)), ("7", Some(7)), ("10", Some(10)), ("255", Some(255))] {
        assert_eq!(number::<u8>(text.as_bytes()), value);
    }
    for text in ["", "-", "00", "07", "256", "+7", "-7", " 7", "7 ", "7\n", "٧", "x"] {
        assert_eq!(number::<u8>(text.as_bytes()), None, "{text}");
    }
    assert_eq!(known(b"-", number::<u8>), Some(None));
    assert_eq!(known(b"7", number::<u8>), Some(Some(7)));
    assert_eq!(known(b"--", number::<u8>), None);
    let shown: [String; 2] = [Known(Some(7)), Known(None)].map(|value| value.to_string());
    assert_eq!(shown, ["7", "-"]);
}
