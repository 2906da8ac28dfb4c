//! The decoder of frames against a decoder of the whole stream at once, under any chunking.
//!
//! Input: a byte for the cap, a byte that seeds the chunk sizes, then the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::frame::{Decoder, FrameError, HEADER_LEN, Piece, header};

/// Frames up to the first fault or the end, and whether that end is clean.
fn naive(cap: u32, mut stream: &[u8]) -> (Vec<Vec<u8>>, Result<(), FrameError>) {
    let mut frames = vec![];
    loop {
        let Some(&first) = stream.first() else { return (frames, Ok(())) };
        let text = first == 0x1b
            || [b'\t', b'\n', b'\r'].contains(&first)
            || (b' '..=b'~').contains(&first)
            || (0xc2..=0xf4).contains(&first);
        if text && u64::from(first) * (1 << 24) > u64::from(cap) {
            return (frames, Err(FrameError::NotAFrame { first }));
        }
        if stream.len() < HEADER_LEN {
            return (frames, Err(FrameError::CutInHeader { have: stream.len() }));
        }
        let length = stream[..HEADER_LEN].iter().fold(0u64, |n, b| n * 256 + u64::from(*b));
        if length > u64::from(cap) {
            return (frames, Err(FrameError::TooLarge { length, cap }));
        }
        stream = &stream[HEADER_LEN..];
        if (stream.len() as u64) < length {
            let missing = (length - stream.len() as u64) as u32;
            return (frames, Err(FrameError::CutInPayload { missing }));
        }
        frames.push(stream[..length as usize].to_vec());
        stream = &stream[length as usize..];
    }
}

/// Decodes in chunks of the sizes that `sizes` gives in turn.
fn chunked(
    cap: u32,
    mut stream: &[u8],
    mut sizes: impl FnMut() -> usize,
) -> (Vec<Vec<u8>>, Result<(), FrameError>) {
    let (mut decoder, mut frames, mut current) = (Decoder::new(cap), vec![], None::<(u32, Vec<u8>)>);
    while !stream.is_empty() {
        let (mut input, rest) = stream.split_at(sizes().clamp(1, stream.len()));
        stream = rest;
        loop {
            match decoder.next(&mut input) {
                Ok(Some(Piece::Header(length))) => {
                    assert!(current.is_none() && length <= cap);
                    current = Some((length, vec![]));
                }
                Ok(Some(Piece::Payload(part))) => {
                    assert!(!part.is_empty());
                    current.as_mut().expect("a header came first").1.extend_from_slice(part);
                }
                Ok(Some(Piece::End)) => {
                    let (length, payload) = current.take().expect("a header came first");
                    assert_eq!(payload.len(), length as usize);
                    frames.push(payload);
                }
                Ok(None) => break,
                Err(error) => {
                    if let FrameError::NotAFrame { first } = error {
                        assert_eq!(input.first(), Some(&first), "the text is left to the caller");
                    }
                    assert_eq!(decoder.next(&mut &[0; 4][..]), Err(error), "an error stays");
                    assert_eq!(decoder.finish(), Err(error));
                    return (frames, Err(error));
                }
            }
        }
        assert!(input.is_empty());
    }
    (frames, decoder.finish())
}

fuzz_target!(|data: &[u8]| {
    let [cap, seed, stream @ ..] = data else { return };
    // Small caps, the usual one, one that allows text as a length, all.
    let cap = match cap {
        251..=252 => 16 << 20,
        253 => 0x5fff_ffff,
        254..=255 => u32::MAX,
        small => u32::from(*small),
    };
    let want = naive(cap, stream);
    for size in [1, 2, 3, 4, 5, 7, usize::MAX] {
        assert_eq!(chunked(cap, stream, || size), want, "chunks of {size}");
    }
    let mut state = u32::from(*seed);
    let random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as usize % 11
    };
    assert_eq!(chunked(cap, stream, random), want);
    if stream.len() < 12 {
        // Bit i of the mask cuts after byte i.
        for mask in 0u32..1 << stream.len().saturating_sub(1) {
            let mut left = mask;
            let cuts = || {
                let size = left.trailing_zeros() as usize + 1;
                left = left.checked_shr(size as u32).unwrap_or(0);
                size
            };
            assert_eq!(chunked(cap, stream, cuts), want, "cuts {mask:b}");
        }
    }
    // Back again: what was decoded, encoded, is what was decoded from.
    let again: Vec<u8> =
        want.0.iter().flat_map(|f| [&header(f.len(), cap).expect("it passed")[..], f].concat()).collect();
    assert!(stream.starts_with(&again));
    assert!(want.1 != Ok(()) || again == stream);
});
