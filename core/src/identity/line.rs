//! An identity as one line of text:
//! `pidward-identity v=1 boot=… ns=… pid=… ticks=… inode=… pgid=… nonce=… sum=…`.
//!
//! Numbers are decimal, ids 32 lower-case hex digits, `-` stands for what is not known. The sum is over all before ` sum=`: 16 hex digits
//! of FNV-1a (64 bit), against torn writes and typing errors, not against anybody who means it.
#![forbid(unsafe_code)]

use core::fmt::{self, Write};

use super::Identity;
use crate::{
    Id128, Pid,
    id::hex64,
    text::{Known, Summed, fnv1a, known, number},
};

/// Most bytes of a line, without a newline. Every field at its longest makes 227.
pub const LINE_MAX: usize = 256;

const HEAD: &[u8] = b"pidward-identity v=";
const SUM: &[u8] = b" sum=";

/// Why a line is no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LineError {
    /// More than [`LINE_MAX`] bytes.
    TooLong,
    /// It is cut, or a byte of it was changed.
    Torn,
    /// Of a later version than 1.
    Newer,
    /// Something else.
    Malformed,
}

impl Identity {
    /// Parses a line, with its newline or without.
    ///
    /// # Errors
    /// [`LineError`]; nothing is guessed.
    pub fn parse(line: &[u8]) -> Result<Identity, LineError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.len() > LINE_MAX {
            return Err(LineError::TooLong);
        }
        let Some(rest) = line.strip_prefix(HEAD) else {
            return Err(if HEAD.starts_with(line) { LineError::Torn } else { LineError::Malformed });
        };
        let mut words = rest.split(|&b| b == b' ');
        match words.next().and_then(number::<u64>) {
            Some(1) => {}
            Some(2..) => return Err(LineError::Newer),
            _ => return Err(LineError::Malformed),
        }
        let at = line.len().checked_sub(SUM.len().saturating_add(16)).ok_or(LineError::Torn)?;
        let (body, sum) = line.split_at_checked(at).ok_or(LineError::Torn)?;
        if sum.strip_prefix(SUM) != Some(hex64(fnv1a(body)).as_bytes()) {
            return Err(LineError::Torn);
        }
        fields(words).ok_or(LineError::Malformed)
    }
}

/// What stands between version and sum, in its one order.
fn fields<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Identity> {
    let mut value = |key: &str| words.next()?.strip_prefix(key.as_bytes())?.strip_prefix(b"=");
    let identity = Identity {
        boot: Id128::parse(value("boot")?)?,
        pid_ns: number(value("ns")?)?,
        pid: number(value("pid")?).and_then(Pid::new)?,
        start_ticks: number(value("ticks")?)?,
        inode: known(value("inode")?, number)?,
        pgid: known(value("pgid")?, |text| number(text).and_then(Pid::new))?,
        nonce: known(value("nonce")?, Id128::parse)?,
    };
    // Compared before.
    value("sum")?;
    words.next().is_none().then_some(identity)
}

/// The line, without a newline. [`Identity::parse`] takes it.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { boot, pid_ns, pid, start_ticks, .. } = self;
        let (inode, pgid, nonce) = (Known(self.inode), Known(self.pgid), Known(self.nonce));
        let mut line = Summed::new(f);
        write!(line, "pidward-identity v=1 boot={boot} ns={pid_ns} pid={pid} ticks={start_ticks}")?;
        write!(line, " inode={inode} pgid={pgid} nonce={nonce}")?;
        let sum = hex64(line.sum);
        write!(f, " sum={sum}")
    }
}
