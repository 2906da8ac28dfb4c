//! The streaming matcher against a split on NUL, for every way to cut the block into pieces of one size, and once into pieces of
//! sizes that the input chooses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::procfs::{Entry, Matcher};

const WANTED: [&[u8]; 4] = [b"M=1", b"NAME=a=b", b"=1", b"M"];

fn naive(block: &[u8], wanted: &[u8]) -> Entry {
    let Some(end) = wanted.iter().position(|b| *b == b'=').filter(|end| *end > 0) else {
        return Entry::Absent;
    };
    let name = &wanted[..=end];
    match block.split(|b| *b == 0).find(|entry| entry.starts_with(name)) {
        None => Entry::Absent,
        Some(entry) if entry == wanted => Entry::Same,
        Some(_) => Entry::Different,
    }
}

fuzz_target!(|input: (&[u8], Vec<u8>)| {
    let (block, cuts) = input;
    let expected = WANTED.map(|wanted| naive(block, wanted));
    for size in 1..=block.len().clamp(1, 64) {
        let mut matcher = Matcher::new(WANTED);
        block.chunks(size).for_each(|piece| matcher.feed(piece));
        assert_eq!(matcher.finish(), expected, "{} in pieces of {size}", block.escape_ascii());
    }
    let mut matcher = Matcher::new(WANTED);
    let mut rest = block;
    for cut in cuts {
        let (piece, tail) = rest.split_at(usize::from(cut).min(rest.len()));
        matcher.feed(piece);
        rest = tail;
    }
    matcher.feed(rest);
    assert_eq!(matcher.finish(), expected, "{}", block.escape_ascii());
});
