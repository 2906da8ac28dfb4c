//! Markers in an environ, in pieces of a size that the first byte gives, against a search in the whole of it. Input: one byte, the
//! wanted name and the wanted value, each ended by a newline, then the block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::{
    marker::{self, ChildKind, Cookie, Markers, Names, Run, Scan, Tails, Tree},
    procfs::{Entry, Matcher},
};

/// What getenv would give: the value of the first entry with this name.
fn lookup<'b>(block: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
    for entry in block.split(|b| *b == 0) {
        let equals = entry.iter().position(|b| *b == b'=').unwrap_or(0);
        if equals > 0 && &entry[..equals] == name {
            return Some(&entry[equals + 1..]);
        }
    }
    None
}

fn naive(block: &[u8], name: &[u8], value: &[u8]) -> Entry {
    match lookup(block, name) {
        None => Entry::Absent,
        Some(found) if found == value => Entry::Same,
        Some(_) => Entry::Different,
    }
}

fn hex(text: &[u8]) -> Option<u128> {
    let plain = text.len() == 32 && text.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(std::str::from_utf8(text).ok().filter(|_| plain)?, 16).ok()
}

/// Run and installation of every entry that ends with its NUL.
fn naive_runs(block: &[u8]) -> Vec<(u128, u128)> {
    let mut entries: Vec<&[u8]> = block.split(|b| *b == 0).collect();
    entries.pop();
    let ids = |entry: &[u8]| {
        let rest = entry.strip_prefix(b"PIDWARD_TREE_")?;
        let equals = rest.iter().position(|b| *b == b'=')?;
        Some((hex(&rest[..equals])?, hex(&rest[equals + 1..])?))
    };
    entries.into_iter().filter_map(ids).collect()
}

/// The first entry that is a nonce and ends with its NUL.
fn naive_nonce(block: &[u8]) -> Option<u128> {
    let mut entries: Vec<&[u8]> = block.split(|b| *b == 0).collect();
    entries.pop();
    entries.into_iter().find_map(|entry| hex(entry.strip_prefix(b"PIDWARD_NONCE=")?))
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |b| *b == b'\n');
    let (Some([size, name @ ..]), Some(value), Some(block)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let entry = [name, b"=", value].concat();
    let mut pairs = Matcher::pairs([(name, value), (b"PIDWARD_SUBPROCESS", b"1")]);
    let mut whole = Matcher::new([&entry[..]]);
    let mut found = Vec::new();
    let mut runs = Tails::<{ Run::LEN }>::new(Names::DEFAULT.tree);
    let agent = Markers::new(&Names::DEFAULT, ChildKind::Agent, "a");
    let mut scan = Scan::new(&Names::DEFAULT, agent, Cookie::Any);
    for piece in block.chunks(usize::from(*size).max(1)) {
        pairs.feed(piece);
        whole.feed(piece);
        scan.feed(piece);
        runs.feed(piece, |ids| {
            if let Some(run) = Run::parse(ids) {
                let [id, installation] =
                    [run.id, run.installation].map(|id| u128::from_be_bytes(id.to_bytes()));
                found.push((id, installation));
            }
        });
    }
    assert_eq!(found, naive_runs(block));
    let carried = scan.carried();
    assert_eq!(carried.tree == Tree::Ours, !found.is_empty());
    assert_eq!(carried.nonce.map(|id| u128::from_be_bytes(id.to_bytes())), naive_nonce(block));
    assert_eq!(marker::environ_has_entries(block), block.contains(&b'='));

    // Without what may be cut.
    let ended = block.iter().rposition(|b| *b == 0).map_or(&block[..0], |end| &block[..end]);
    let wanted = |block: &[u8]| [naive(block, name, value), naive(block, b"PIDWARD_SUBPROCESS", b"1")];
    assert_eq!(pairs.found(), wanted(ended));
    let named = |name: &[u8], value: &[u8]| naive(ended, name, value) == Entry::Same;
    assert_eq!(carried.named, named(b"PIDWARD_SUBPROCESS", b"1") && named(b"AGENT_NAME", b"a"));
    assert_eq!(pairs.finish(), wanted(block));
    // As one entry, it is parted at its first `=`.
    let equals = entry.iter().position(|b| *b == b'=').unwrap();
    assert_eq!(whole.finish(), [naive(block, &entry[..equals], &entry[equals + 1..])]);

    if let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) {
        let both = wanted(block) == [Entry::Same, Entry::Same];
        assert_eq!(marker::environ_identifies_child(block, name, value), both);
        let api = naive(block, b"PIDWARD_API_SERVER", value.as_bytes()) == Entry::Same;
        assert_eq!(marker::environ_identifies_api_server(block, value), api);
    }
});
