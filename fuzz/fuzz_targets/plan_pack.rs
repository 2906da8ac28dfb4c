//! argv and environ against a naive model on `Vec`: what comes out is what was asked for, byte for byte;
//! buffers of the announced size suffice; shorter ones are refused; nothing is cut.
//!
//! Input: lines. The first byte says what the line is: `a` argument, `i` inherited entry, `s` set (name, tab,
//! value), `r` remove, `c` clear, `k` kept prefix, `b` bytes and pointers to be short of.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::image::{Change, PackError, Packer, Table, pack_environ};

#[derive(Default)]
struct Case<'a> {
    args: Vec<&'a [u8]>,
    inherited: Vec<&'a [u8]>,
    changes: Vec<Change<'a>>,
    keep: &'a [u8],
    short: (usize, usize),
}

impl<'a> Case<'a> {
    fn read(data: &'a [u8]) -> Case<'a> {
        let mut case = Case::default();
        for line in data.split(|b| *b == b'\n') {
            match line.split_first() {
                Some((b'a', arg)) => case.args.push(arg),
                Some((b'i', entry)) => case.inherited.push(entry),
                Some((b's', rest)) => {
                    let tab = rest.iter().position(|b| *b == b'\t').unwrap_or(rest.len());
                    let value = rest.get(tab + 1..).unwrap_or_default();
                    case.changes.push(Change::Set { name: &rest[..tab], value });
                }
                Some((b'r', name)) => case.changes.push(Change::Remove { name }),
                Some((b'c', _)) => case.changes.push(Change::Clear),
                Some((b'k', prefix)) => case.keep = prefix,
                Some((b'b', [bytes, pointers, ..])) => {
                    case.short = (usize::from(*bytes), usize::from(*pointers));
                }
                _ => {}
            }
        }
        case
    }
}

/// Applies the changes one by one to a list, as the words of the documentation do.
fn naive_environ(case: &Case<'_>) -> Result<Vec<Vec<u8>>, PackError> {
    let named = |entry: &[u8], name: &[u8]| entry.starts_with(&[name, b"="].concat());
    let kept = |entry: &[u8]| {
        let Some(equals) = entry.iter().position(|b| *b == b'=') else { return false };
        !case.keep.is_empty() && entry[..equals].starts_with(case.keep)
    };
    let mut list: Vec<Vec<u8>> = case.inherited.iter().map(|e| e.to_vec()).collect();
    for change in &case.changes {
        let (name, value) = match *change {
            Change::Set { name, value } => (name, Some(value)),
            Change::Remove { name } => (name, None),
            _ => {
                list.retain(|e| kept(e));
                continue;
            }
        };
        if name.is_empty() || name.iter().any(|b| *b == b'=' || *b == 0) {
            return Err(PackError::Name);
        }
        list.retain(|e| !named(e, name));
        if let Some(value) = value {
            if value.contains(&0) {
                return Err(PackError::Nul);
            }
            list.push([name, b"=", value].concat());
        }
    }
    no_nul(list)
}

fn no_nul(list: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, PackError> {
    if list.iter().any(|s| s.contains(&0)) { Err(PackError::Nul) } else { Ok(list) }
}

fn strings(table: Table<'_>) -> Vec<Vec<u8>> {
    let list: Vec<Vec<u8>> = table.iter().map(|s| s.to_bytes().to_vec()).collect();
    let starts: Vec<*const u8> = table.iter().map(|s| s.as_ptr().cast()).collect();
    assert_eq!(table.pointers(), starts);
    assert_eq!((table.len(), table.is_empty()), (list.len(), list.is_empty()));
    list
}

fn check(
    want: Result<Vec<Vec<u8>>, PackError>,
    short: (usize, usize),
    pack: impl for<'b> Fn(Packer<'b>) -> Result<Table<'b>, PackError>,
) {
    let with = |bytes: usize, pointers: usize| {
        let (mut bytes, mut pointers) = (vec![0xAA; bytes], vec![std::ptr::dangling(); pointers]);
        pack(Packer::new(&mut bytes, &mut pointers)).map(strings)
    };
    let want = match want {
        Ok(want) => want,
        Err(why) => {
            assert_eq!(with(1 << 12, 1 << 10), Err(why));
            return;
        }
    };
    let (bytes, pointers) = (want.iter().map(|s| s.len() + 1).sum::<usize>(), want.len() + 1);
    assert_eq!(with(bytes, pointers).as_ref(), Ok(&want));
    assert_eq!(with(bytes + short.0, pointers + short.1).as_ref(), Ok(&want));
    if want.is_empty() {
        return;
    }
    let (less, fewer) = (bytes - 1 - short.0 % bytes, pointers - 1 - short.1 % pointers);
    assert_eq!(with(less, pointers), Err(PackError::BytesFull));
    assert_eq!(with(bytes, fewer), Err(PackError::PointersFull));
    assert!(matches!(with(less, fewer), Err(PackError::BytesFull | PackError::PointersFull)));
}

fuzz_target!(|data: &[u8]| {
    // So that the buffers of the refused cases are always large enough.
    if data.len() > 1000 {
        return;
    }
    let case = Case::read(data);
    let (arg0, args) = case.args.split_first().map_or((&b""[..], &[][..]), |(first, rest)| (*first, rest));

    let want = no_nul([arg0].iter().chain(args).map(|s| s.to_vec()).collect());
    check(want, case.short, |mut packer| {
        packer.push(arg0)?;
        args.iter().try_for_each(|arg| packer.push(arg))?;
        Ok(packer.finish())
    });

    let inherited = || case.inherited.iter().copied();
    check(naive_environ(&case), case.short, |p| pack_environ(p, inherited(), &case.changes, case.keep));
});
