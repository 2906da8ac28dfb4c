//! Every unit, and texts that must not pass for one.

use super::*;

#[test]
fn each_unit_is_what_it_says() {
    let good =
        [("250ms", 250), ("0s", 0), ("5s", 5_000), ("2m", 120_000), ("1h", 3_600_000), ("007s", 7_000)];
    for (text, millis) in good {
        assert_eq!(parse_duration(text.as_bytes()), Ok(Duration::from_millis(millis)), "{text}");
    }
    let sizes = [("0K", 0), ("64K", 65_536), ("512M", 536_870_912), ("2G", 2_147_483_648)];
    for (text, bytes) in sizes {
        assert_eq!(parse_size(text.as_bytes()), Ok(bytes), "{text}");
    }
}

#[test]
fn no_unit_is_guessed() {
    for text in ["5", "5S", "5 s", "5s ", "5sec", "1m30s", "1.5s", "5\0", "5s\n", "5\u{663}s", "5d", "5us"] {
        assert_eq!(parse_duration(text.as_bytes()), Err(AmountError::Unit), "{text}");
    }
    for text in ["", "s", "-1s", "+1s", " 1s", "\u{663}s", "ms"] {
        assert_eq!(parse_duration(text.as_bytes()), Err(AmountError::NoNumber), "{text}");
        assert_eq!(parse_size(text.as_bytes()), Err(AmountError::NoNumber), "{text}");
    }
    for text in ["1", "1k", "1KB", "1KiB", "1T", "1 M", "1.5G", "1M\n", "1\u{ff}"] {
        assert_eq!(parse_size(text.as_bytes()), Err(AmountError::Unit), "{text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_never_wraps() {
    assert_eq!(parse_duration(b"18446744073709551615ms"), Ok(Duration::from_millis(u64::MAX)));
    for text in [
        "18446744073709551616s",
        "18446744073709552s",
        "307445734561826m",
        "5124095576031h",
        "99999999999999999999999ms",
    ] {
        assert_eq!(parse_duration(text.as_bytes()), Err(AmountError::TooLarge), "{text}");
    }
    assert_eq!(parse_size(b"17179869183G"), Ok(17_179_869_183 << 30));
    for text in ["18446744073709551616K", "17179869184G", "18014398509481984K"] {
        assert_eq!(parse_size(text.as_bytes()), Err(AmountError::TooLarge), "{text}");
    }
}
