//! `/proc/self/fdinfo/<fd>` of a pidfd, proc_pid_fdinfo(5). Since Linux 5.4.
#![forbid(unsafe_code)]

use super::{Malformed, NsPids, chain, line, number};
use crate::Pid;

/// Whom a pidfd refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The process with this number in our pid namespace; it is living or a zombie.
    Pid(Pid),
    /// It has ended and was reaped (`-1`).
    Gone,
    /// It has no number in our pid namespace (`0`).
    NotVisible,
}

/// What a pidfd says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PidfdInfo {
    /// `Pid:`
    pub target: Target,
    /// `NSpid:` empty on a kernel without pid namespaces.
    pub ns_pids: NsPids,
}

impl PidfdInfo {
    /// Parses the text.
    ///
    /// # Errors
    /// There is no `Pid:` line, so it is no pidfd; or a line is not ended or is no number that fits.
    pub fn parse(text: &[u8]) -> Result<PidfdInfo, Malformed> {
        let target = match number(line(text, b"Pid:").ok_or(Malformed)?)? {
            -1 => Target::Gone,
            0 => Target::NotVisible,
            pid => Target::Pid(Pid::from_raw(pid).ok_or(Malformed)?),
        };
        let ns_pids = line(text, b"NSpid:").map_or_else(|| Ok(NsPids::new()), chain)?;
        Ok(PidfdInfo { target, ns_pids })
    }
}
