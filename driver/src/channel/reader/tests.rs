use super::*;
use crate::channel::Event;

fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length");
    [&length.to_be_bytes(), payload].concat()
}

/// What comes of a stream in pieces of this size, and whether it may end there.
fn read(lines: bool, cap: u32, stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, Result<(), ProtocolErrorKind>) {
    let mut reader = Reader::new(lines, cap);
    let mut frames = Vec::new();
    for piece in stream.chunks(piece) {
        if let Err(error) = reader.feed(piece, |frame| frames.push(frame)) {
            return (frames, Err(error.kind()));
        }
    }
    (frames, reader.finish().map_err(|error| error.kind()))
}

#[test]
fn every_cut_of_a_stream_is_an_end_or_a_cut() {
    let payloads: [&[u8]; 4] = [b"", b"a", b"four", &[7; 300]];
    let stream: Vec<u8> = payloads.iter().flat_map(|payload| frame(payload)).collect();
    let mut ends = vec![0];
    for payload in payloads {
        ends.push(ends.last().expect("one") + 4 + payload.len());
    }
    for cut in 0..=stream.len() {
        for piece in [1, 3, 1000] {
            let (frames, end) = read(false, 300, &stream[..cut], piece);
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            assert_eq!(frames, payloads[..whole], "cut at {cut}");
            assert_eq!(end.is_ok(), ends.contains(&cut), "cut at {cut}: {end:?}");
            assert!(end.is_ok() || end == Err(ProtocolErrorKind::Cut), "cut at {cut}: {end:?}");
        }
    }
}

#[test]
fn every_cut_of_lines_is_an_end_or_a_cut() {
    let stream = b"{\"a\":1}\n\n{\"b\":\"\xff\"}\r\n";
    for cut in 0..=stream.len() {
        for piece in [1, 5, 100] {
            let (lines, end) = read(true, 20, &stream[..cut], piece);
            let mut whole: Vec<&[u8]> = stream[..cut].split(|byte| *byte == b'\n').collect();
            let rest = whole.pop().expect("one at least");
            assert_eq!(lines, whole, "cut at {cut}");
            assert_eq!(end.is_ok(), rest.is_empty(), "cut at {cut}");
        }
    }
}

#[test]
fn cap_holds_before_memory_is_taken() {
    let kind = |lines, stream: &[u8]| read(lines, 5, stream, 2).1;
    assert_eq!(kind(false, &frame(b"12345")), Ok(()));
    let over = |length| Err(ProtocolErrorKind::TooLarge { length, cap: 5 });
    assert_eq!(kind(false, &frame(b"123456")[..4]), over(6));
    assert_eq!(kind(false, &[0xff; 4]), over(u32::MAX.into()));
    assert_eq!(kind(true, b"12345\n"), Ok(()));
    assert_eq!(kind(true, b"123456"), over(6));
    let mut reader = Reader::new(false, 16 << 20);
    reader.feed(&(16_u32 << 20).to_be_bytes(), |_| ()).expect("not above the cap");
    assert!(reader.part.capacity() <= FIRST);
    let mut largest = 0;
    for _ in 0..64 {
        reader.feed(&[0; 256 << 10], |frame| largest = frame.capacity()).expect("a frame");
    }
    assert_eq!(largest, 16 << 20, "no more than the whole");
}

#[test]
fn text_is_shown_escaped_and_in_part() {
    let mut reader = Reader::new(false, 16 << 20);
    let text = format!("Loading\x1b[1m {}\n", "x".repeat(200));
    let error = reader.feed(text.as_bytes(), |_| panic!("a frame")).expect_err("text");
    assert_eq!(error.kind(), ProtocolErrorKind::NotAFrame);
    let shown = error.to_string();
    assert!(shown.starts_with("not a frame: \"Loading\\x1b[1m xx"), "{shown}");
    assert_eq!(shown.matches('x').count(), 64 - 12 + 1, "{shown}");
    assert!(!format!("{error:?}").contains("Loading"));
    let shown = [Event::Frame(b"secret".to_vec()), Event::Stderr(b"secret".to_vec()), Event::Protocol(error)];
    let shown = format!("{shown:?}");
    assert!(
        shown.starts_with("[Frame(6 bytes), Stderr(6 bytes), Protocol(") && !shown.contains("Loading"),
        "{shown}"
    );
    let error = Reader::new(false, 9).feed(b"\0\0\0\x0aab", |_| ()).expect_err("too large");
    assert_eq!(error.to_string(), "a frame of 10 bytes, of 9 at most: \"\\x00\\x00\\x00\\nab\"");
}

#[test]
fn after_an_end_no_more_is_read_than_belongs_to_the_frame() {
    let mut reader = Reader::new(false, 100);
    assert_eq!(reader.missing(), 0);
    reader.feed(&[0, 0], |_| ()).expect("a header");
    assert_eq!(reader.missing(), 2);
    reader.feed(&[0, 9, 1], |_| ()).expect("a payload");
    assert_eq!((reader.missing(), reader.of_this(b"12\n")), (8, &b"12\n"[..]));
    let reader = Reader::new(true, 100);
    assert_eq!((reader.of_this(b"rest\nnext"), reader.of_this(b"re")), (&b"rest\n"[..], &b"re"[..]));
}
