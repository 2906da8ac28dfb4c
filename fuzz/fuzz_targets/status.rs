//! The status text against a map of its lines.
#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use pidward_core::procfs::{MAX_NAMESPACES, Malformed, Status};

type Lines<'t> = HashMap<&'t [u8], &'t [u8]>;

fn lines(text: &[u8]) -> Lines<'_> {
    let mut map = HashMap::new();
    let mut list: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
    let cut = list.pop().unwrap_or_default();
    for (line, whole) in list.into_iter().map(|line| (line, true)).chain([(cut, false)]) {
        if let Some(colon) = line.iter().position(|b| *b == b':') {
            // A cut line hides no earlier one; it is no line by itself.
            let value = if whole { line[colon + 1..].trim_ascii() } else { b"cut" };
            map.entry(&line[..colon]).or_insert(value);
        }
    }
    map
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(word).ok()?;
    if text.starts_with('+') { None } else { text.parse().ok() }
}

fn naive(lines: &Lines<'_>) -> Option<()> {
    let plain = [&b"Tgid"[..], b"Pid", b"Threads"];
    for name in plain {
        number::<u32>(lines.get(name)?)?;
    }
    if let Some(chain) = lines.get(&b"NSpid"[..]) {
        let chain = chain_of(chain)?;
        if chain.len() > MAX_NAMESPACES {
            return None;
        }
    }
    Some(())
}

fn chain_of(value: &[u8]) -> Option<Vec<i32>> {
    let words = value.split(|b| *b == b' ' || *b == b'\t');
    words.filter(|word| !word.is_empty()).map(number).collect()
}

fuzz_target!(|text: &[u8]| {
    let map = lines(text);
    let parsed = Status::parse(text);
    // A cut NSpid line is as good as none.
    if naive(&map).is_none() && map.get(&b"NSpid"[..]) != Some(&&b"cut"[..]) {
        assert_eq!(parsed, Err(Malformed));
        return;
    }
    let Ok(status) = parsed else {
        assert!(naive(&map).is_none());
        return;
    };
    let get = |name: &[u8]| number::<u32>(map[name]);
    assert_eq!(Some(status.tgid), get(b"Tgid"));
    assert_eq!(Some(status.pid), get(b"Pid"));
    assert_eq!(Some(status.threads), get(b"Threads"));
    let chain = map.get(&b"NSpid"[..]).filter(|value| **value != b"cut");
    assert_eq!(status.ns_pids[..], chain.map_or(Vec::new(), |value| chain_of(value).unwrap())[..]);
});
