//! Odd lines and odd blocks, then the real thing.

use std::{
    format, fs,
    process::{Command, Stdio},
    string::String,
    thread,
    time::Duration,
    vec,
    vec::Vec,
};

mod live;
mod texts;

use super::*;
use crate::Pid;

const TAIL: &str = "42 4711 42 0 -1 4194368 1 2 3 4 5 6 7 8 20 0 1 0 9876543210 \
    23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 140720000000000 51\n";

fn line(name: &[u8], state: char) -> Vec<u8> {
    let mut line = b"4711 (".to_vec();
    line.extend_from_slice(name);
    line.extend_from_slice(format!(") {state} {TAIL}").as_bytes());
    line
}

#[test]
fn a_name_that_looks_like_fields_shifts_nothing() {
    let names: [&[u8]; 6] = [b"x) Z 1 (\ny", b"", b")))))", b"a\xffb", b"( (", b"x) Z 1 1 1"];
    for name in names {
        let stat = Stat::parse(&line(name, 'S')).unwrap();
        assert_eq!((stat.pid, stat.state.letter(), stat.ppid, stat.pgrp), (4711, b'S', 42, 4711));
        assert_eq!((stat.session, stat.threads, stat.start_ticks), (42, 1, 9_876_543_210));
        assert_eq!(stat.env_start, 140_720_000_000_000);
        assert!(!stat.is_ended());
    }
    assert!(Stat::parse(&line(b"x", 'Z')).unwrap().is_ended());
    assert_eq!(Stat::parse(&line(b"x", '?')).unwrap().state.letter(), b'?');
}

#[test]
fn a_cut_line_is_an_error_at_every_byte() {
    let whole = line(b"x) Z 1 (\ny", 'S');
    let needed = whole.len() - " 18 19\n".len();
    for cut in 0..=needed {
        assert_eq!(Stat::parse(&whole[..cut]), Err(Malformed), "cut at {cut}");
    }
    for bad in [
        "",
        "4711 (x) ",
        "x (y) S 1 1 1",
        "1 (x) SS 1 1 1",
        "-1 (x) S 1 1 1 0 -1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 \n",
    ] {
        assert_eq!(Stat::parse(bad.as_bytes()), Err(Malformed), "{bad}");
    }
}

#[test]
fn a_dead_first_thread_with_live_threads_is_no_zombie() {
    let text = String::from_utf8(line(b"x", 'Z')).unwrap().replace(" 20 0 1 0 ", " 20 0 3 0 ");
    assert!(!Stat::parse(text.as_bytes()).unwrap().is_ended());
}

fn matched(block: &[u8], piece: usize) -> [Entry; 2] {
    let mut matcher = Matcher::new([b"MARKER=1", b"NAME=inner"]);
    for piece in block.chunks(piece) {
        matcher.feed(piece);
    }
    matcher.finish()
}

#[test]
fn only_whole_entries_match_and_the_first_of_a_name_counts() {
    use Entry::{Absent, Different, Same};
    let cases: [(&[u8], [Entry; 2]); 14] = [
        (b"JUNK\0=weird\0XMARKER=1\0MARKERX=1\0A=v\nMARKER=1\0", [Absent, Absent]),
        (b"MARKER=first\0MARKER=1\0", [Different, Absent]),
        (b"MARKER=1\0MARKER=2\0", [Same, Absent]),
        (b"MARKER=1", [Same, Absent]),
        (b"MARKER\0", [Absent, Absent]),
        (b"MARKER=\0", [Different, Absent]),
        (b"MARKER=11\0", [Different, Absent]),
        (b"MARKER=1\0NAME=inner\0", [Same, Same]),
        (b"NAME=inner\0x\0MARKER=1\0", [Same, Same]),
        (b"NAME=MARKER=1\0", [Absent, Different]),
        (b"NAME=inner-staging\0", [Absent, Different]),
        (b"A=\xff\xfe\0MARKER=1\0", [Same, Absent]),
        (b"", [Absent, Absent]),
        (b"\0\0\0\0", [Absent, Absent]),
    ];
    for (block, expected) in cases {
        for piece in 1..=block.len().max(1) {
            assert_eq!(matched(block, piece), expected, "{} in pieces of {piece}", block.escape_ascii());
        }
    }
}

#[test]
fn a_wanted_entry_that_is_no_variable_is_never_found() {
    let mut matcher = Matcher::new([b"=x" as &[u8], b"PLAIN", b""]);
    matcher.feed(b"=x\0PLAIN\0\0");
    assert_eq!(matcher.finish(), [Entry::Absent; 3]);
}

#[test]
fn a_marker_behind_two_hundred_kilobytes_is_found() {
    let mut block = vec![b'x'; 200_000];
    block[..4].copy_from_slice(b"BIG=");
    block.extend_from_slice(b"\0MARKER=1\0");
    assert_eq!(matched(&block, 4096)[0], Entry::Same);
}

fn environ_of(pid: Pid) -> Result<Vec<u8>, ProcError> {
    let mut all = Vec::new();
    match Proc::open()?.process(pid)?.environ(|piece| all.extend_from_slice(piece))? {
        Environ::Bytes(total) => assert_eq!(total, all.len() as u64),
        _ => assert!(all.is_empty()),
    }
    Ok(all)
}

#[test]
fn a_living_child_a_zombie_and_a_free_number_are_told_apart() {
    let mut child = Command::new("cat").env("MARKER", "1").stdin(Stdio::piped()).spawn().unwrap();
    let pid = Pid::new(child.id()).unwrap();
    let stat_of = stat(pid).unwrap();
    assert_eq!((stat_of.pid, stat_of.ppid), (child.id(), std::process::id()));
    assert!(!is_zombie(pid));
    // For a moment it shows its parent's entries, or none.
    let shows = |entry: &[u8]| environ_of(pid).unwrap().split(|&b| b == 0).any(|each| each == entry);
    for _ in 0..2000 {
        if shows(b"MARKER=1") {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(shows(b"MARKER=1"));
    drop(child.stdin.take());
    for _ in 0..2000 {
        if is_zombie(pid) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(is_zombie(pid));
    // No environ, by error or by nothing, depending on the kernel.
    assert!(environ_of(pid).is_err() || environ_of(pid) == Ok(Vec::new()));
    child.wait().unwrap();
    assert_eq!(stat(pid), Err(ProcError::Gone));
    assert_eq!(environ_of(pid), Err(ProcError::Gone));
    assert!(!is_zombie(pid));
}

#[test]
fn a_thread_id_is_nobody() {
    let (tell, told) = std::sync::mpsc::channel();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
        held.recv().ok();
    });
    let path = told.recv().unwrap();
    let tid: u32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    assert_ne!(tid, std::process::id());
    assert_eq!(stat(Pid::new(tid).unwrap()), Err(ProcError::ThreadId));
    drop(hold);
    thread.join().unwrap();
}

#[test]
fn every_listed_process_has_a_stat_line_or_is_gone() {
    let mut seen = 0;
    Proc::open()
        .unwrap()
        .pids(|pid| {
            assert!(
                matches!(stat(pid), Ok(_) | Err(ProcError::Gone | ProcError::Errno(crate::Errno::ESRCH))),
                "{pid}"
            );
            seen += 1;
            true
        })
        .unwrap();
    assert!(seen > 1);
    let mut seen = 0;
    Proc::open()
        .unwrap()
        .pids(|_| {
            seen += 1;
            false
        })
        .unwrap();
    assert_eq!(seen, 1);
}
