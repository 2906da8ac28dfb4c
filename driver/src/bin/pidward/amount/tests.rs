use core::time::Duration;

use super::{AmountError, parse_duration, parse_size};

#[test]
fn durations() {
    let rows: [(&[u8], Duration); 7] = [
        (b"250ms", Duration::from_millis(250)),
        (b"5s", Duration::from_secs(5)),
        (b"2m", Duration::from_secs(120)),
        (b"1h", Duration::from_secs(3600)),
        (b"0s", Duration::ZERO),
        (b"0005s", Duration::from_secs(5)),
        (b"18446744073709551615ms", Duration::from_millis(u64::MAX)),
    ];
    for (text, duration) in rows {
        assert_eq!(parse_duration(text), Ok(duration));
    }
}

#[test]
fn sizes() {
    assert_eq!(parse_size(b"64K"), Ok(65_536));
    assert_eq!(parse_size(b"512M"), Ok(512 << 20));
    assert_eq!(parse_size(b"2G"), Ok(2 << 30));
    assert_eq!(parse_size(b"17179869184G"), Err(AmountError::TooLarge));
}

#[test]
fn everything_else_says_what_is_wrong() {
    for text in [&b""[..], b"s", b"-1s", b"+1s", b" 1s", b".5s", b"\xff"] {
        assert_eq!(parse_duration(text), Err(AmountError::NoNumber), "{text:?}");
        assert_eq!(parse_size(text), Err(AmountError::NoNumber), "{text:?}");
    }
    for text in [&b"5"[..], b"0", b"5 s", b"5S", b"5sec", b"1.5s", b"1h30m", b"5s\n"] {
        assert_eq!(parse_duration(text), Err(AmountError::Unit), "{text:?}");
    }
    for text in [&b"64"[..], b"64k", b"64KB", b"64B"] {
        assert_eq!(parse_size(text), Err(AmountError::Unit), "{text:?}");
    }
    for text in [&b"18446744073709551616ms"[..], b"18446744073709551615s", b"99999999999999999999h"] {
        assert_eq!(parse_duration(text), Err(AmountError::TooLarge), "{text:?}");
    }
}
