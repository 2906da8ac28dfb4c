//! Lines of `/proc/net/tcp` and `tcp6` against a reader that collects words and lets the standard library put the octets together, and
//! links to sockets against one that looks for brackets.
#![no_main]

use std::net::{IpAddr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use pidward_core::net::{Socket, inode};

fn plain(digits: &str) -> Option<u64> {
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

/// Any number of octets, first digit first.
fn octets(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    (digits.len() % 2 == 0).then(|| digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect())
}

fn address(word: &str) -> Option<SocketAddr> {
    let (address, port) = word.split_once(':')?;
    let mut address = octets(address)?;
    if cfg!(target_endian = "little") {
        address.chunks_mut(4).for_each(<[u8]>::reverse);
    }
    let ip = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    let port = <[u8; 2]>::try_from(octets(port)?).ok()?;
    Some(SocketAddr::new(ip, u16::from_be_bytes(port)))
}

fn naive(line: &[u8]) -> Option<(SocketAddr, bool, u64)> {
    // What stands between may be anything.
    let words: Vec<String> = line
        .split(|b| *b == b' ')
        .map(|word| std::str::from_utf8(word).map_or_else(|_| "no text".to_owned(), str::to_owned))
        .filter(|word| !word.is_empty())
        .collect();
    if words.len() < 11 {
        return None;
    }
    plain(words[0].strip_suffix(':')?)?;
    address(&words[2])?;
    let [state] = octets(&words[3])?[..] else { return None };
    Some((address(&words[1])?, state == 0x0A, plain(&words[9])?))
}

fn naive_inode(link: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(link).ok()?;
    let (kind, rest) = text.split_once('[')?;
    let (number, end) = rest.rsplit_once(']')?;
    if kind != "socket:" || !end.is_empty() { None } else { plain(number) }
}

fuzz_target!(|line: &[u8]| {
    let parsed = Socket::parse(line).map(|socket| (socket.local, socket.listens, socket.inode));
    assert_eq!(parsed, naive(line), "{}", line.escape_ascii());
    assert_eq!(inode(line), naive_inode(line), "{}", line.escape_ascii());
});
