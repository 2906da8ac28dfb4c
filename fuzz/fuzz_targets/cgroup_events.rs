//! Flat keyed files of cgroups against a reader that makes a list of lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::cgroup::value;

fn naive(text: &[u8], key: &str) -> Option<u64> {
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    // What follows the last newline is cut.
    lines.pop();
    lines.iter().find_map(|line| {
        let (name, number) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (name == key && digits).then(|| number.parse().ok())?
    })
}

fuzz_target!(|text: &[u8]| {
    for key in ["populated", "frozen", "oom_kill", "max"] {
        assert_eq!(value(text, key.as_bytes()), naive(text, key), "{key}");
    }
});
