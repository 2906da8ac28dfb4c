//! The record of a child: a text is taken exactly if a second reader, made of std, takes it, and both give the same values; what is
//! taken is written as the same bytes; whatever is made is taken and comes back, cut or with a bit changed it is an error. Input: a
//! text, the sum of which is also made right; and bytes to make a record of.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use pidward_core::{
    Id128, Pid,
    marker::{ChildKind, Run},
    name,
    record::{Born, LEAF_MAX, RECORD_MAX, Record, RecordError, State},
};

const KEYS: [&str; 13] = [
    "state", "kind", "name", "pid", "pgid", "ticks", "inode", "boot", "ns", "nonce", "cookie", "leaf",
    "status",
];

/// FNV-1a by its definition.
fn sum(bytes: &[u8]) -> u64 {
    let mut sum: u128 = 14_695_981_039_346_656_037;
    for byte in bytes {
        sum = ((sum ^ u128::from(*byte)) * 1_099_511_628_211) % (1 << 64);
    }
    sum as u64
}

/// With the right sum.
fn summed(body: &[u8]) -> Vec<u8> {
    [body, format!("sum={:016x}\n", sum(body)).as_bytes()].concat()
}

/// `\xNN` for what is no plain character.
fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte != b'\\' && (byte == b' ' || byte.is_ascii_graphic());
    bytes.iter().map(|&b| if plain(b) { char::from(b).to_string() } else { format!("\\x{b:02x}") }).collect()
}

/// The bytes whose escaped form this is.
fn unescaped(value: &str) -> Option<Vec<u8>> {
    let mut parts = value.split("\\x");
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part[2..].bytes());
    }
    (escaped(&bytes) == value).then_some(bytes)
}

/// A number as it is printed.
fn number(value: &str) -> Option<i128> {
    value.parse::<i128>().ok().filter(|n| n.to_string() == value)
}

/// The values of a record's text, each as text or unescaped, if it is one.
fn naive(text: &[u8]) -> Result<BTreeMap<&str, Vec<u8>>, RecordError> {
    if !text.iter().any(|b| *b != 0) {
        return Err(RecordError::Empty);
    }
    let head = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let version = std::str::from_utf8(head).ok().and_then(|head| head.strip_prefix("v="));
    let digits = version.filter(|v| v.bytes().all(|b| b.is_ascii_digit()) && !v.starts_with('0'));
    if digits.is_some_and(|v| !v.is_empty() && v != "1") {
        return Err(RecordError::Newer);
    }
    if text.len() > RECORD_MAX {
        return Err(RecordError::TooLong);
    }
    match text {
        [b'v'] | [b'v', b'=', ..] => {}
        _ => return Err(RecordError::Malformed),
    }
    // The last line.
    let start = text[..text.len() - 1].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if start == 0 || summed(&text[..start]) != text {
        return Err(RecordError::Torn);
    }
    values(&text[..start]).ok_or(RecordError::Malformed)
}

/// The values between version and sum.
fn values(body: &[u8]) -> Option<BTreeMap<&str, Vec<u8>>> {
    let lines: Vec<&str> = std::str::from_utf8(body).ok()?.strip_suffix('\n')?.split('\n').collect();
    let (_, lines) = lines.split_first().filter(|(first, _)| **first == "v=1")?;
    let pairs: Vec<(&str, &str)> = lines.iter().map(|line| line.split_once('=')).collect::<Option<_>>()?;
    if !pairs.iter().map(|(key, _)| *key).eq(KEYS) {
        return None;
    }
    let text = BTreeMap::from_iter(pairs.iter().copied());
    let among = |key: &str, from: i128, to: i128| number(text[key]).is_some_and(|n| from <= n && n <= to);
    let hex = |value: &str| value.len() == 32 && value.bytes().all(|b| b"0123456789abcdef".contains(&b));
    let (pid, wide) = (i128::from(i32::MAX), i128::from(u64::MAX));
    let [name, leaf] = ["name", "leaf"].map(|key| unescaped(text[key]));
    let (name, leaf) = (name?, leaf?);
    let runs = text["cookie"].split('=').filter(|id| hex(id)).count();
    let rules = [
        ["intent", "running", "stopping", "ended"].contains(&text["state"]),
        ["agent", "mcp", "api", "task"].contains(&text["kind"]),
        name::check(&name).is_ok(),
        (text["state"] == "intent") == (text["pid"] == "-") && (text["pid"] == "-") == (text["ticks"] == "-"),
        text["state"] != "intent" || text["pgid"] == "-" && text["inode"] == "-",
        text["pid"] == "-" || among("pid", 1, pid) && among("ticks", 0, wide),
        text["pgid"] == "-" || among("pgid", 1, pid),
        text["inode"] == "-" || among("inode", 0, wide),
        hex(text["boot"]) && hex(text["nonce"]) && among("ns", 0, wide),
        text["cookie"] == "-" || runs == 2 && text["cookie"].len() == 65,
        leaf == b"-" || leaf[..1.min(leaf.len())] == *b"/" && !leaf.contains(&0) && leaf.len() <= LEAF_MAX,
        text["status"] == "-"
            || text["state"] == "ended" && among("status", i128::from(i32::MIN), i128::from(i32::MAX)),
    ];
    let mut bytes: BTreeMap<&str, Vec<u8>> =
        pairs.iter().map(|(key, v)| (*key, v.as_bytes().to_vec())).collect();
    bytes.insert("name", name);
    bytes.insert("leaf", leaf);
    rules.iter().all(|kept| *kept).then_some(bytes)
}

/// The values that a record holds, in the manner of [`naive`].
fn held(record: &Record) -> Vec<(&'static str, Vec<u8>)> {
    let or = |value: Option<String>| value.unwrap_or("-".into()).into_bytes();
    let born = record.born;
    let kind = match record.kind {
        ChildKind::Agent => "agent",
        ChildKind::Mcp => "mcp",
        ChildKind::Api => "api",
        ChildKind::Task => "task",
    };
    let values = [
        record.state.word().into(),
        kind.into(),
        record.name.as_bytes().to_vec(),
        or(born.map(|born| born.pid.get().to_string())),
        or(born.and_then(|born| born.pgid).map(|pid| pid.get().to_string())),
        or(born.map(|born| born.start_ticks.to_string())),
        or(born.and_then(|born| born.inode).map(|inode| inode.to_string())),
        format!("{:032x}", u128::from_be_bytes(record.boot.to_bytes())).into(),
        record.pid_ns.to_string().into(),
        format!("{:032x}", u128::from_be_bytes(record.nonce.to_bytes())).into(),
        or(record.cookie.map(|run| format!("{}={}", run.id, run.installation))),
        record.leaf.as_ref().map_or(b"-".to_vec(), |leaf| leaf.to_vec()),
        or(record.status.map(|status| status.to_string())),
    ];
    KEYS.into_iter().zip(values).collect()
}

fn compare(text: &[u8]) {
    match (Record::parse(text), naive(text)) {
        (Ok(record), Ok(values)) => {
            assert_eq!(record.to_string().as_bytes(), text);
            assert_eq!(BTreeMap::from_iter(held(&record)), values);
            let identity = record.identity();
            assert_eq!(identity.map(|i| (i.pid, i.nonce)), record.born.map(|b| (b.pid, Some(record.nonce))));
        }
        (parsed, naive) => assert_eq!(parsed.err(), naive.err(), "{}", text.escape_ascii()),
    }
}

/// Bytes as the parts of a record: 80 for the numbers, then the name, then the leaf.
fn made(bytes: &[u8; 80], rest: &[u8]) -> Record {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let id = |at: usize| Id128::from_bytes(bytes[at..at + 16].try_into().unwrap());
    let pid = |at: usize| Pid::new(word(at) as u32 & i32::MAX as u32);
    let pick = usize::from(bytes[0]);
    let state = [State::Intent, State::Running, State::Stopping, State::Ended][pick % 4];
    let kind = [ChildKind::Agent, ChildKind::Mcp, ChildKind::Api, ChildKind::Task][pick / 4 % 4];
    let inode = Some(word(32)).filter(|n| n % 3 != 0);
    let born = Born { pid: pid(16).unwrap_or(Pid::INIT), start_ticks: word(24), inode, pgid: pid(20) };
    let (name, leaf) = rest.split_at((pick / 2).min(rest.len()));
    let leaf: Vec<u8> = b"/".iter().chain(leaf).copied().filter(|b| *b != 0).take(LEAF_MAX).collect();
    Record {
        state,
        kind,
        name: name::check(name).unwrap_or("a").try_into().unwrap(),
        nonce: id(1),
        cookie: Some(Run { id: id(40), installation: id(56) }).filter(|_| bytes[1] % 2 == 0),
        boot: id(24),
        pid_ns: word(64),
        born: Some(born).filter(|_| state != State::Intent),
        leaf: Some(leaf.as_slice().try_into().unwrap()).filter(|_| bytes[2] % 4 != 0),
        status: Some(word(72) as i32).filter(|_| state == State::Ended && bytes[3] % 2 == 0),
    }
}

fuzz_target!(|input: &[u8]| {
    compare(input);
    // A fuzzer does not find the sum by itself.
    let end = input.windows(5).rposition(|part| part == b"\nsum=").map_or(input.len(), |at| at + 1);
    compare(&summed(&input[..end]));
    let Some((bytes, rest)) = input.split_first_chunk::<80>() else { return };
    let record = made(bytes, rest);
    let text = record.to_string();
    assert!(text.len() <= RECORD_MAX && text.is_ascii());
    compare(text.as_bytes());
    assert_eq!(Record::parse(text.as_bytes()), Ok(record));
    let at = usize::from(u16::from_le_bytes([bytes[79], bytes[78]])) % text.len();
    let error = if at == 0 { RecordError::Empty } else { RecordError::Torn };
    assert_eq!(Record::parse(&text.as_bytes()[..at]), Err(error), "cut at {at}: {text}");
    let mut changed = text.clone().into_bytes();
    changed[at] ^= 1 << (bytes[77] % 8);
    assert!(Record::parse(&changed).is_err(), "changed at {at}: {text}");
    compare(&changed);
});
