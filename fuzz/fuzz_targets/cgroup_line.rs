//! Lines of `/proc/self/cgroup` against a reader by characters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::cgroup::own_path;

fn naive(line: &[u8]) -> Option<Vec<u8>> {
    let fields: Vec<&[u8]> = line.splitn(3, |byte| *byte == b':').collect();
    let [b"0", b"", path] = fields[..] else { return None };
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let inside = names.first() == Some(&&b""[..]) && names.len() > 1 && !names.contains(&&b".."[..]);
    (inside && !String::from_utf8_lossy(path).ends_with(" (deleted)")).then(|| path.to_vec())
}

fuzz_target!(|line: &[u8]| {
    assert_eq!(own_path(line).map(<[u8]>::to_vec), naive(line));
});
