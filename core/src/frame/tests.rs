use std::{vec, vec::Vec};

use super::*;

#[derive(Debug, PartialEq)]
enum End {
    Clean,
    Error(FrameError),
}

/// Decodes chunks in turn, then the end of the stream.
fn decode<'a>(cap: u32, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, End) {
    let (mut decoder, mut frames, mut current) = (Decoder::new(cap), vec![], None::<(u32, Vec<u8>)>);
    for mut input in chunks {
        loop {
            match decoder.next(&mut input) {
                Err(error) => {
                    assert_eq!(decoder.next(&mut &b"\0\0\0\0"[..]), Err(error), "an error stays");
                    assert_eq!(decoder.finish(), Err(error));
                    return (frames, End::Error(error));
                }
                Ok(None) => break,
                Ok(Some(Piece::Header(length))) => {
                    assert!(current.is_none() && length <= cap);
                    current = Some((length, vec![]));
                }
                Ok(Some(Piece::Payload(part))) => {
                    assert!(!part.is_empty());
                    current.as_mut().unwrap().1.extend_from_slice(part);
                }
                Ok(Some(Piece::End)) => {
                    let (length, payload) = current.take().unwrap();
                    assert_eq!(payload.len(), length as usize);
                    frames.push(payload);
                }
            }
        }
        assert!(input.is_empty(), "without an error all input is used");
    }
    match decoder.finish() {
        Ok(()) => {
            assert!(current.is_none());
            (frames, End::Clean)
        }
        Err(error) => (frames, End::Error(error)),
    }
}

fn encode(payloads: &[&[u8]]) -> Vec<u8> {
    let head = |p: &[u8]| header(p.len(), DEFAULT_CAP).unwrap();
    payloads.iter().flat_map(|p| [&head(p)[..], p].concat()).collect()
}

#[test]
fn sizes_up_to_the_cap_pass_and_above_are_refused() {
    for size in [0, 1, 65_535, 65_536, DEFAULT_CAP as usize] {
        let payload = vec![7; size];
        let stream = encode(&[&payload, b"after"]);
        let (frames, end) = decode(DEFAULT_CAP, stream.chunks(10_007));
        assert!(frames == [payload, b"after".to_vec()], "{size}");
        assert_eq!(end, End::Clean);
    }
    for length in [DEFAULT_CAP + 1, u32::MAX] {
        let too_large = FrameError::TooLarge { length: length.into(), cap: DEFAULT_CAP };
        assert_eq!(header(length as usize, DEFAULT_CAP), Err(too_large));
        let stream = [encode(&[b"before"]), length.to_be_bytes().to_vec()].concat();
        for chunk in 1..=stream.len() {
            let decoded = decode(DEFAULT_CAP, stream.chunks(chunk));
            assert_eq!(decoded, (vec![b"before".to_vec()], End::Error(too_large)));
        }
    }
    assert_eq!(header(usize::MAX, u32::MAX).is_ok(), usize::MAX as u64 <= u32::MAX.into());
    assert_eq!(
        decode(u32::MAX, [&[0xff; 5][..]]).1,
        End::Error(FrameError::CutInPayload { missing: 0xffff_fffe })
    );
}

#[test]
fn every_chunking_gives_the_same_frames() {
    let stream = encode(&[b"ab", b"", b"\0\0\0"]);
    let want = (vec![b"ab".to_vec(), vec![], b"\0\0\0".to_vec()], End::Clean);
    // Bit i of the mask cuts after byte i.
    for mask in 0u32..1 << (stream.len() - 1) {
        let mut chunks = vec![];
        let mut from = 0;
        for at in 1..stream.len() {
            if mask >> (at - 1) & 1 == 1 {
                chunks.push(&stream[from..at]);
                from = at;
            }
        }
        chunks.push(&stream[from..]);
        assert_eq!(decode(16, chunks), want, "{mask:b}");
    }
}

#[test]
fn every_cut_is_a_clean_end_or_names_where_it_cut() {
    let payloads: [&[u8]; 4] = [b"abc", b"", b"x", &[0; 300]];
    let stream = encode(&payloads);
    // For each frame: where it begins and where its payload does.
    let mut at = 0;
    let mut want = vec![];
    for payload in payloads {
        want.push(End::Clean);
        want.extend((1..4).map(|have| End::Error(FrameError::CutInHeader { have })));
        let cut = |missing: u32| End::Error(FrameError::CutInPayload { missing });
        want.extend((1..=payload.len() as u32).rev().map(cut));
        at += 4 + payload.len();
        assert_eq!(want.len(), at);
    }
    want.push(End::Clean);
    for (cut, want) in want.into_iter().enumerate() {
        for chunk in [1, 2, 3, 1000] {
            assert_eq!(decode(DEFAULT_CAP, stream[..cut].chunks(chunk)).1, want, "{cut}");
        }
    }
}

#[test]
fn text_is_told_from_a_length_at_its_first_byte() {
    for text in ["Starting\n", "\n", "ok\n", "\u{1b}[1m", "✓ ready", "{\"type\":1}", "\u{feff}x"] {
        let stream = [encode(&[b"frame"]), text.into()].concat();
        for chunk in [1, 3, 100] {
            let (frames, end) = decode(DEFAULT_CAP, stream.chunks(chunk));
            assert_eq!(frames, [b"frame"]);
            assert_eq!(end, End::Error(FrameError::NotAFrame { first: text.as_bytes()[0] }));
        }
        let mut input = text.as_bytes();
        Decoder::new(DEFAULT_CAP).next(&mut input).unwrap_err();
        assert_eq!(input, text.as_bytes(), "the text is left for the caller to show");
    }
    // A stray newline before a frame.
    assert!(matches!(
        decode(DEFAULT_CAP, [&b"\n\0\0\0\x01x"[..]]).1,
        End::Error(FrameError::NotAFrame { .. })
    ));
    // Where the cap allows such a length it is one.
    let mut input = &b"Star"[..];
    assert_eq!(Decoder::new(u32::MAX).next(&mut input), Ok(Some(Piece::Header(1_400_136_050))));
}

#[test]
fn a_question_before_the_end_tells_whether_a_frame_is_cut() {
    let mut decoder = Decoder::new(8);
    let mut input = &encode(&[b"ab"])[..5].to_vec()[..];
    assert_eq!(decoder.finish(), Ok(()));
    assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Header(2))));
    assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Payload(b"a"))));
    assert_eq!(decoder.finish(), Err(FrameError::CutInPayload { missing: 1 }));
    assert_eq!(decoder.next(&mut &b"b"[..]), Ok(Some(Piece::Payload(b"b"))));
    assert_eq!(decoder.finish(), Ok(()));
}
