//! The line of an identity: whatever is taken comes back as the same bytes, whatever is made is taken and comes back, and no other bytes
//! of the same length pass for it. Input: a line, or 64 bytes to make an identity of.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::{
    Id128, Pid,
    identity::{Identity, LINE_MAX, LineError},
};

/// Bytes as the parts of an identity.
fn made(bytes: &[u8; 64]) -> Identity {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let id = |at: usize| Id128::from_bytes(bytes[at..at + 16].try_into().unwrap());
    let pid = |at: usize| Pid::new(word(at) as u32 & i32::MAX as u32);
    Identity {
        boot: id(0),
        pid_ns: word(16),
        pid: pid(24).unwrap_or(Pid::INIT),
        start_ticks: word(32),
        inode: Some(word(40)).filter(|n| n % 3 != 0),
        pgid: pid(28),
        nonce: Some(id(48)).filter(|_| bytes[0] % 2 == 0),
    }
}

/// FNV-1a by its definition.
fn sum(bytes: &[u8]) -> u64 {
    let mut sum: u128 = 14_695_981_039_346_656_037;
    for byte in bytes {
        sum = ((sum ^ u128::from(*byte)) * 1_099_511_628_211) % (1 << 64);
    }
    sum as u64
}

fuzz_target!(|input: &[u8]| {
    match Identity::parse(input) {
        Ok(identity) => {
            let text = input.strip_suffix(b"\n").unwrap_or(input);
            assert_eq!(identity.to_string().as_bytes(), text);
            let body = &text[..text.len() - 21];
            assert_eq!(text[body.len()..], *format!(" sum={:016x}", sum(body)).as_bytes());
        }
        Err(LineError::TooLong) => assert!(input.len() > LINE_MAX),
        Err(LineError::Newer) => assert!(input.starts_with(b"pidward-identity v=")),
        Err(_) => {}
    }
    // A fuzzer does not find the sum by itself.
    let text = input.strip_suffix(b"\n").unwrap_or(input);
    if let Some(body) = text.len().checked_sub(21).map(|end| &text[..end]) {
        let summed = [body, format!(" sum={:016x}", sum(body)).as_bytes()].concat();
        if let Ok(identity) = Identity::parse(&summed) {
            assert_eq!(identity.to_string().as_bytes(), summed);
        }
    }
    let Some(bytes) = input.first_chunk::<64>() else { return };
    let identity = made(bytes);
    let line = identity.to_string();
    assert!(line.len() <= LINE_MAX && !line.contains('\n'));
    assert_eq!(Identity::parse(line.as_bytes()), Ok(identity));
    assert_eq!(Identity::parse(format!("{line}\n").as_bytes()), Ok(identity));
    let at = usize::from(bytes[63]) % line.len();
    assert!(Identity::parse(&line.as_bytes()[..at]).is_err(), "cut at {at}: {line}");
    let mut changed = line.clone().into_bytes();
    changed[at] ^= 1 << (bytes[62] % 8);
    assert!(Identity::parse(&changed).is_err(), "changed at {at}: {line}");
});
