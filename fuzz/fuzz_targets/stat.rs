//! The stat line against a parser that takes the easy way: text after the last `)`, split on blanks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::procfs::Stat;

/// pid, letter, ppid, pgrp, session, flags, threads, start ticks, start of the environ.
fn naive(line: &[u8]) -> Option<(u32, u8, u32, i32, i32, u32, u32, u64, u64)> {
    let open = line.iter().position(|b| *b == b'(')?;
    let close = line.iter().rposition(|b| *b == b')')?;
    let pid = plain(line[..open].strip_suffix(b" ")?)?;
    let rest = line[close + 1..].strip_prefix(b" ")?;
    // The last field counts only if something follows it.
    let end = rest.iter().rposition(|b| *b == b' ' || *b == b'\n')?;
    let fields: Vec<&[u8]> = rest[..end].split(|b| *b == b' ').collect();
    if fields.len() < 48 || fields[0].len() != 1 {
        return None;
    }
    let letter = if fields[0][0] == b'x' { b'X' } else { fields[0][0] };
    let (ppid, pgrp, session) = (plain(fields[1])?, plain(fields[2])?, plain(fields[3])?);
    let (flags, threads) = (plain(fields[6])?, plain(fields[17])?);
    Some((pid, letter, ppid, pgrp, session, flags, threads, plain(fields[19])?, plain(fields[47])?))
}

fn plain<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    if digits.first() == Some(&b'+') {
        return None;
    }
    String::from_utf8(digits.to_vec()).ok()?.parse().ok()
}

fuzz_target!(|line: &[u8]| {
    let parsed = Stat::parse(line).ok().map(|s| {
        (s.pid, s.state.letter(), s.ppid, s.pgrp, s.session, s.flags, s.threads, s.start_ticks, s.env_start)
    });
    assert_eq!(parsed, naive(line), "{}", line.escape_ascii());
});
