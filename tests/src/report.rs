//! Reads what the fixture `report` prints: one `key=value` a line, values escaped.

use crate::escape::unescape;

/// What a child has seen of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report(Vec<(String, Vec<u8>)>);

impl Report {
    /// Reads the whole text; panics where a line is not one of a report.
    #[track_caller]
    pub fn parse(text: &[u8]) -> Report {
        let text = std::str::from_utf8(text).expect("a report is ASCII");
        let pair = |line: &str| {
            let (key, value) = line.split_once('=')?;
            Some((key.to_string(), unescape(value)?))
        };
        Report(text.lines().map(|l| pair(l).unwrap_or_else(|| panic!("not a report's line: {l}"))).collect())
    }

    /// The first value of a key; panics where there is none.
    #[track_caller]
    pub fn bytes(&self, key: &str) -> &[u8] {
        self.0.iter().find(|(k, _)| k == key).map_or_else(|| panic!("no {key} in the report"), |(_, v)| v)
    }

    /// The same as text.
    #[track_caller]
    pub fn text(&self, key: &str) -> &str {
        std::str::from_utf8(self.bytes(key)).expect("text")
    }

    /// The same as a decimal number.
    #[track_caller]
    pub fn number(&self, key: &str) -> i64 {
        self.text(key).parse().expect("a number")
    }

    /// The same as a signal set (bit `n - 1` is signal `n`).
    #[track_caller]
    pub fn set(&self, key: &str) -> u64 {
        u64::from_str_radix(self.text(key), 16).expect("a signal set")
    }

    /// All values of a key, in order: `arg`, `env`, `fd` (`N target`).
    pub fn all(&self, key: &str) -> Vec<&[u8]> {
        self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| v.as_slice()).collect()
    }

    /// The numbers of the descriptors that were open.
    #[track_caller]
    pub fn fds(&self) -> Vec<i32> {
        let number = |v: &[u8]| std::str::from_utf8(v).ok()?.split(' ').next()?.parse().ok();
        self.all("fd").into_iter().map(|v| number(v).expect("a descriptor's number")).collect()
    }
}
