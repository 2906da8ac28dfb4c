//! Lines of `/proc/self/mountinfo` against a reader that collects words, and the escapes of its paths against one that looks for
//! digits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::cgroup::{Mount, unescaped};

fn naive(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = words.iter().enumerate().skip(5).find(|(_, word)| **word == b"-")?.0;
    (*words.get(dash + 1)? == b"cgroup2").then(|| (words[3].to_vec(), words[4].to_vec()))
}

fn naive_unescaped(word: &[u8]) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < word.len() {
        let digits = word.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let escape =
            digits.filter(|digits| word[at] == b'\\' && digits.bytes().all(|b| (b'0'..=b'7').contains(&b)));
        match escape.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(word[at]);
                at += 1;
            }
        }
    }
    plain
}

fuzz_target!(|line: &[u8]| {
    let parsed = Mount::parse(line);
    assert_eq!(parsed.map(|mount| (mount.root.to_vec(), mount.place.to_vec())), naive(line));
    let plain: Vec<u8> = unescaped(line).collect();
    assert_eq!(plain, naive_unescaped(line));
    if let Some(mount) = parsed {
        // What a mount shows is its root, or below it.
        for path in [mount.root, line] {
            if let Some(rest) = mount.below(path) {
                assert!(
                    path.ends_with(rest)
                        && path.starts_with(if mount.root == b"/" { b"" } else { mount.root })
                );
            }
        }
    }
});
