//! The text of a record, its errors, and a second reader made of std to compare with.

use std::{
    format,
    string::{String as Text, ToString},
    vec::Vec as List,
};

use super::*;
use crate::name::check;

fn id(byte: u8) -> Id128 {
    Id128::from_bytes([byte; 16])
}

fn record(state: State) -> Record {
    let pid = Pid::new(4711).unwrap();
    let born = Born { pid, start_ticks: 123_456, inode: Some(99), pgid: Some(pid) };
    Record {
        state,
        kind: ChildKind::Agent,
        name: "greeter".try_into().unwrap(),
        nonce: id(0xfe),
        cookie: Some(Run { id: id(0x0a), installation: id(0x0b) }),
        boot: id(0x1b),
        pid_ns: 4_026_531_836,
        born: Some(born).filter(|_| state != State::Intent),
        leaf: Some((*b"/sys/fs/cgroup/a").into()),
        status: Some(9).filter(|_| state == State::Ended),
    }
}

fn born(change: impl FnOnce(&mut Born)) -> Option<Born> {
    let mut born = record(State::Running).born?;
    change(&mut born);
    Some(born)
}

/// One of each kind and state, with everything that may be absent there and absent.
fn all() -> List<Record> {
    let mut all = List::new();
    for (state, kind) in State::ALL.into_iter().zip(KINDS) {
        let full = Record { kind, ..record(state) };
        let least = Record { cookie: None, leaf: None, status: None, ..full.clone() };
        let born =
            least.born.and_then(|_| born(|born| (born.pid, born.inode, born.pgid) = (Pid::INIT, None, None)));
        all.extend([full, Record { born, ..least.clone() }, least]);
    }
    let zero = born(|born| (born.start_ticks, born.inode) = (0, Some(0)));
    let zero = Record { pid_ns: 0, born: zero, status: Some(0), ..record(State::Ended) };
    all.extend([Record { status: Some(-1), ..zero.clone() }, zero, longest()]);
    all
}

fn longest() -> Record {
    let most = Pid::new(i32::MAX as u32).unwrap();
    let mut leaf = [0xff; LEAF_MAX];
    leaf[0] = b'/';
    Record {
        name: "é".repeat(MAX_NAME / 2).as_str().try_into().unwrap(),
        pid_ns: u64::MAX,
        born: Some(Born { pid: most, start_ticks: u64::MAX, inode: Some(u64::MAX), pgid: Some(most) }),
        leaf: Some(leaf.into()),
        status: Some(i32::MIN),
        ..record(State::Ended)
    }
}

/// A body and its sum.
fn summed(body: &str) -> Text {
    format!("{body}sum={:016x}\n", fnv1a(body.as_bytes()))
}

fn body(record: &Record) -> Text {
    let text = record.to_string();
    text[..text.len() - 21].to_string()
}

const KEYS: [&str; 14] = [
    "v", "state", "kind", "name", "pid", "pgid", "ticks", "inode", "boot", "ns", "nonce", "cookie", "leaf",
    "status",
];

/// Undoes the escapes; `None` if a byte is escaped needlessly or not, or otherwise than it should be.
fn plain(value: &str) -> Option<List<u8>> {
    let mut parts = value.split('\\');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.strip_prefix('x')?.split_at_checked(2)?;
        let byte = u8::from_str_radix(digits, 16).ok().filter(|byte| format!("{byte:02x}") == digits)?;
        if byte == b' ' || byte.is_ascii_graphic() && byte != b'\\' {
            return None;
        }
        bytes.push(byte);
        bytes.extend(rest.as_bytes());
    }
    value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()).then_some(bytes)
}

/// Whether these values, in the order of the keys, are those of a record: rule by rule, with std's parsers.
fn good(values: &[&str]) -> bool {
    let [v, state, kind, name, pid, pgid, ticks, inode, boot, ns, nonce, cookie, leaf, status] = values
    else {
        return false;
    };
    let absent = |value: &str| value == "-";
    let number = |value: &str| value.parse::<u64>().is_ok_and(|n| n.to_string() == value);
    let process = |value: &str| number(value) && value.parse::<i32>().is_ok_and(|n| n > 0);
    let hex = |value: &str| {
        value.len() == 32 && value.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let intent = *state == "intent";
    let born =
        process(pid) && (absent(pgid) || process(pgid)) && number(ticks) && (absent(inode) || number(inode));
    *v == "1"
        && ["intent", "running", "stopping", "ended"].contains(state)
        && ["agent", "mcp", "api", "task"].contains(kind)
        && plain(name).is_some_and(|name| check(&name).is_ok())
        && (if intent { [pid, pgid, ticks, inode].iter().all(|value| absent(value)) } else { born })
        && hex(boot)
        && number(ns)
        && hex(nonce)
        && (absent(cookie) || cookie.split_once('=').is_some_and(|(run, of)| hex(run) && hex(of)))
        && (absent(leaf)
            || plain(leaf).is_some_and(|l| l.starts_with(b"/") && !l.contains(&0) && l.len() <= 1024))
        && (absent(status)
            || *state == "ended" && status.parse::<i32>().is_ok_and(|n| n.to_string() == *status))
}

/// What the parser says of these lines with the right sum, against the naive reader.
#[track_caller]
fn agrees(lines: &[Text]) -> bool {
    let body: Text = lines.iter().map(|line| format!("{line}\n")).collect();
    let values: List<&str> =
        KEYS.iter().zip(lines).filter_map(|(key, line)| line.strip_prefix(key)?.strip_prefix('=')).collect();
    let good = lines.len() == KEYS.len() && good(&values);
    let text = summed(&body);
    match Record::parse(text.as_bytes()) {
        Ok(record) => assert!(good && record.to_string() == text, "{text}"),
        Err(error) => {
            let version = lines.first().and_then(|line| line.strip_prefix("v=")?.parse::<u128>().ok());
            let expected = match version {
                Some(v) if v > 1 && lines[0] == format!("v={v}") => RecordError::Newer,
                _ if text.len() > RECORD_MAX => RecordError::TooLong,
                _ => RecordError::Malformed,
            };
            assert_eq!(error, expected, "{text}");
            assert!(!good, "{text}");
        }
    }
    good
}

#[test]
fn a_record_is_what_the_docs_say() {
    let ids = ["1b", "fe", "0a", "0b"].map(|byte| byte.repeat(16));
    let expected = format!(
        "v=1\nstate=ended\nkind=agent\nname=greeter\npid=4711\npgid=4711\nticks=123456\ninode=99\nboot={}\n\
         ns=4026531836\nnonce={}\ncookie={}={}\nleaf=/sys/fs/cgroup/a\nstatus=9\n",
        ids[0], ids[1], ids[2], ids[3]
    );
    assert_eq!(record(State::Ended).to_string(), summed(&expected));
    let intent = record(State::Intent).to_string();
    assert!(intent.contains("\npid=-\npgid=-\nticks=-\ninode=-\nboot="));
    let least = Record { cookie: None, leaf: None, ..record(State::Running) }.to_string();
    assert!(least.contains("\ncookie=-\nleaf=-\nstatus=-\nsum="));
}

#[test]
fn every_record_comes_back_and_the_longest_fits() {
    for record in all() {
        let text = record.to_string();
        assert!(text.is_ascii() && text.ends_with('\n') && text.len() <= RECORD_MAX);
        assert_eq!(text.lines().count(), KEYS.len() + 1);
        assert_eq!(Record::parse(text.as_bytes()), Ok(record));
    }
    assert_eq!(longest().to_string().len(), 4943);
}

#[test]
fn an_identity_is_of_all_that_was_born() {
    for record in all() {
        let identity = record.identity();
        assert_eq!(identity.is_none(), record.state == State::Intent);
        let Some(Born { pid, start_ticks, inode, pgid }) = record.born else { continue };
        let (boot, pid_ns, nonce) = (record.boot, record.pid_ns, Some(record.nonce));
        assert_eq!(identity, Some(Identity { boot, pid_ns, pid, start_ticks, inode, pgid, nonce }));
    }
}

#[test]
fn a_record_that_is_cut_anywhere_is_torn() {
    for record in all() {
        let text = record.to_string();
        assert_eq!(Record::parse(b""), Err(RecordError::Empty));
        for end in 1..text.len() {
            let cut = &text.as_bytes()[..end];
            assert_eq!(Record::parse(cut), Err(RecordError::Torn), "{end}");
            // The length was written out, the rest of the bytes was not.
            let filled: List<u8> = cut.iter().copied().chain([0; 40]).collect();
            let error = if end == 1 { RecordError::Malformed } else { RecordError::Torn };
            assert_eq!(Record::parse(&filled), Err(error), "{end}");
        }
    }
}

#[test]
fn a_line_that_looks_like_the_sum_ends_no_record() {
    let head = body(&record(State::Running)).replace("/sys/fs/cgroup/a", "/");
    let (head, _) = head.split_once("\nstatus").unwrap();
    let forged = summed(head);
    assert_eq!(Record::parse(forged.as_bytes()), Err(RecordError::Torn));
    assert!(Record::parse(summed(&format!("{forged}status=-\n")).as_bytes()).is_ok());
}

#[test]
fn a_record_with_a_bit_changed_anywhere_is_an_error() {
    for record in all() {
        let mut bytes = record.to_string().into_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let error = match (at, bytes[at]) {
                    (0 | 1, _) => RecordError::Malformed,
                    (2, b'2'..=b'9') => RecordError::Newer,
                    _ => RecordError::Torn,
                };
                assert_eq!(Record::parse(&bytes), Err(error), "{at} {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn each_other_fault_has_its_own_error() {
    let text = record(State::Running).to_string();
    for nuls in [0, 1, 3, 4096, RECORD_MAX, 2 * RECORD_MAX] {
        assert_eq!(Record::parse(&List::from_iter(std::iter::repeat_n(0, nuls))), Err(RecordError::Empty));
    }
    let long = |head: &str| format!("{head}{}", " ".repeat(RECORD_MAX));
    for (text, error) in [
        (long(&text), RecordError::TooLong),
        (long("x"), RecordError::TooLong),
        (long(""), RecordError::Malformed),
        (text.replacen("v=1", "v=2", 1), RecordError::Newer),
        ("v=2".into(), RecordError::Newer),
        ("v=12\n\0\0".into(), RecordError::Newer),
        (format!("v=1{}\n", "0".repeat(99)), RecordError::Newer),
        (long("v=2\n"), RecordError::Newer),
        (text.replacen("v=1", "v=0", 1), RecordError::Torn),
        ("v=02\n".into(), RecordError::Torn),
        ("v=2 \n".into(), RecordError::Torn),
        ("v=-2\n".into(), RecordError::Torn),
        ("v".into(), RecordError::Torn),
        ("v=".into(), RecordError::Torn),
        (text.trim_end().into(), RecordError::Torn),
        (format!("{text}\n"), RecordError::Torn),
        (format!("{text}{text}"), RecordError::Torn),
        (text.replace('\n', "\r\n"), RecordError::Torn),
        (text.to_uppercase(), RecordError::Malformed),
        (format!("\n{text}"), RecordError::Malformed),
        (format!("\0{text}"), RecordError::Malformed),
        ("hello\n".into(), RecordError::Malformed),
        ("w".into(), RecordError::Malformed),
        (summed(""), RecordError::Malformed),
        (summed("v=1\n"), RecordError::Malformed),
        (summed("v=0\n"), RecordError::Malformed),
    ] {
        assert_eq!(Record::parse(text.as_bytes()), Err(error), "{text}");
    }
    let shown = [
        RecordError::Empty,
        RecordError::TooLong,
        RecordError::Torn,
        RecordError::Newer,
        RecordError::Malformed,
    ]
    .map(|error| error.to_string());
    assert!(shown.iter().all(|text| !text.contains('\n') && text.len() < 60));
}

#[test]
fn a_text_is_taken_exactly_if_a_naive_reader_takes_it() {
    let values = [
        "|-|--|0|1|2|00|01|+1|-1|-0| 1|1 |2147483647|2147483648|-2147483648|-2147483649",
        "18446744073709551615|18446744073709551616|intent|running|stopping|ended|Ended|agent|mcp|api|task",
        "a|a=b|a b|a~|é|.|/|/a b|/~|a/|/\0|/\u{1}|/\u{7f}|00000000000000000000000000000000",
        r"\|\x|\x4|\x41|\x5c|\x5C|\x+1|\xc3\xa9|\xc3|a\x7f|a\x7e|\x00|a\x0a|/\x00|/\x0a\xff|/\x7e|/\x7f|/\x20|/\\",
    ];
    let values: List<&str> = values.into_iter().flat_map(|group| group.split('|')).collect();
    let mut taken = 0;
    for record in all() {
        let lines: List<Text> = body(&record).lines().map(Text::from).collect();
        assert!(agrees(&lines));
        for at in 0..lines.len() {
            let mut changed = lines.clone();
            for value in &values {
                changed[at] = format!("{}={value}", KEYS[at]);
                taken += usize::from(agrees(&changed));
            }
            changed.remove(at);
            assert!(!agrees(&changed));
            for twice in [&lines[at], "", "and=more"] {
                changed = lines.clone();
                changed.insert(at, twice.into());
                assert!(!agrees(&changed));
            }
            if at > 0 {
                changed = lines.clone();
                changed.swap(at - 1, at);
                assert!(!agrees(&changed));
            }
        }
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn what_belongs_to_another_state_is_refused() {
    let running = record(State::Running);
    let bad = |record: Record| {
        assert_eq!(Record::parse(record.to_string().as_bytes()), Err(RecordError::Malformed), "{record}");
    };
    bad(Record { state: State::Intent, ..running.clone() });
    for state in [State::Running, State::Stopping, State::Ended] {
        bad(Record { state, born: None, ..running.clone() });
    }
    for state in [State::Intent, State::Running, State::Stopping] {
        bad(Record { status: Some(0), ..record(state) });
    }
    for leaf in [&b""[..], b"a", b"--", b"./a", b"/a\0", b"\0"] {
        bad(Record { leaf: leaf.try_into().ok(), ..running.clone() });
    }
    let none = Record { leaf: b"-"[..].try_into().ok(), ..running.clone() }.to_string();
    assert_eq!(Record::parse(none.as_bytes()), Ok(Record { leaf: None, ..running.clone() }));
    for name in ["", ".", "..", "a=b", "a/b", "a\nb", "\u{85}"] {
        bad(Record { name: name.try_into().unwrap(), ..running.clone() });
    }
    let lines = |state, from: &str, to: &str| {
        let body = body(&record(state));
        assert!(body.contains(from), "{from}");
        Record::parse(summed(&body.replacen(from, to, 1)).as_bytes()).map_err(|_| from.to_string())
    };
    for one in ["pid=-", "pgid=-", "ticks=-", "inode=-"] {
        assert!(lines(State::Intent, &format!("\n{one}"), &format!("\n{}", one.replace('-', "7"))).is_err());
    }
    for (one, taken) in
        [("pid=4711", false), ("pgid=4711", true), ("ticks=123456", false), ("inode=99", true)]
    {
        let (key, _) = one.split_once('=').unwrap();
        let parsed = lines(State::Running, &format!("\n{one}"), &format!("\n{key}=-"));
        assert_eq!(parsed.is_ok(), taken, "{one}");
    }
}

#[test]
fn names_and_leafs_of_any_bytes_come_back() {
    let running = record(State::Running);
    for byte in 1..=255 {
        for bytes in [&[b'/', byte][..], &[b'/', byte, byte, b'x'], &[b'/', b'\\', byte, b'0']] {
            let record = Record { leaf: Some(bytes.try_into().unwrap()), ..running.clone() };
            let text = record.to_string();
            assert!(text.lines().flat_map(str::bytes).all(|b| (b' '..=b'~').contains(&b)), "{text}");
            assert_eq!(text.lines().count(), 15);
            assert_eq!(Record::parse(text.as_bytes()), Ok(record));
        }
    }
    let everything: List<u8> = b"/".iter().copied().chain((1..=255).rev()).collect();
    let record = Record { leaf: everything.as_slice().try_into().ok(), ..running.clone() };
    assert_eq!(Record::parse(record.to_string().as_bytes()), Ok(record));
    for c in ('\0'..='\u{7ff}').chain(['\u{2028}', '名', '\u{fffd}', '😀', '\u{10ffff}']) {
        for name in [format!("{c}"), format!("-{c}\\{c} ")] {
            let record = Record { name: name.as_str().try_into().unwrap(), ..running.clone() };
            let text = record.to_string();
            let parsed = Record::parse(text.as_bytes());
            assert_eq!(parsed, check(name.as_bytes()).map(|_| record).map_err(|_| RecordError::Malformed));
        }
    }
    let long = [b'/'; LEAF_MAX + 1];
    let leaf =
        |bytes: &[u8]| body(&running).replace("/sys/fs/cgroup/a", core::str::from_utf8(bytes).unwrap());
    assert!(Record::parse(summed(&leaf(&long[1..])).as_bytes()).is_ok());
    assert_eq!(Record::parse(summed(&leaf(&long)).as_bytes()), Err(RecordError::Malformed));
}
