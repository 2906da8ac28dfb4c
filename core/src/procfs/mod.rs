//! What `/proc` says of a process.
//!
//! Parsers take bytes, are total and live apart from the reading. Reading goes through fixed buffers: an environ of
//! any size is matched as a stream. A number names nobody in particular: whoever wants to act on what is read here pins the
//! process first ([`ProcDir`] or a pidfd) and looks again afterwards.
//!
//! A directory that only looks like `/proc`, or shows another pid namespace, is refused ([`ProcError::NoProc`],
//! [`ProcError::OtherPidNamespace`]): no process is gone because it is not listed there.
#![forbid(unsafe_code)]

mod environ;
mod fdinfo;
#[cfg(pidward_linux)]
mod process;
#[cfg(pidward_linux)]
mod read;
mod stat;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use environ::up_to_nul;
pub use environ::{Entry, Matcher};
pub use fdinfo::Target;
#[cfg(pidward_linux)]
pub(crate) use read::lines;
pub use stat::{Stat, State};
pub use status::{MAX_NAMESPACES, NsPids, Status};
#[cfg(pidward_linux)]
pub use {
    process::{Environ, ProcDir, is_zombie, stat},
    read::{Proc, ProcError, boot_id},
};

/// The text is cut or is no such text. Nothing is guessed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A decimal number as the kernel prints it: digits, after a `-` at most.
pub(crate) fn number<T: core::str::FromStr>(digits: &[u8]) -> Result<T, Malformed> {
    let plain = !digits.starts_with(b"+");
    core::str::from_utf8(digits).ok().filter(|_| plain).and_then(|text| text.parse().ok()).ok_or(Malformed)
}

/// What follows `name`, colon included, on the first line that begins with it. A line without its newline may be cut and
/// does not count.
fn line<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let value = text.split_inclusive(|&b| b == b'\n').find_map(|line| line.strip_prefix(name))?;
    value.strip_suffix(b"\n").map(<[u8]>::trim_ascii)
}

/// A chain of numbers between blanks or tabs.
fn chain(value: &[u8]) -> Result<NsPids, Malformed> {
    let mut pids = NsPids::new();
    for word in value.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty()) {
        pids.push(number(word)?).map_err(|_| Malformed)?;
    }
    Ok(pids)
}
