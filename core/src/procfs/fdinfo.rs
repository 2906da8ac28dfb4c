//! `/proc/self/fdinfo/<fd>` of a pidfd, proc_pid_fdinfo(5). Since Linux 5.4.
#![forbid(unsafe_code)]

use super::{Malformed, line, number};
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

impl Target {
    /// Parses the text.
    ///
    /// # Errors
    /// There is no `Pid:` line, so it is no pidfd; or the line is not ended or is no number that fits.
    pub fn parse(text: &[u8]) -> Result<Target, Malformed> {
        match number(line(text, b"Pid:").ok_or(Malformed)?)? {
            -1 => Ok(Target::Gone),
            0 => Ok(Target::NotVisible),
            pid => Pid::from_raw(pid).map(Target::Pid).ok_or(Malformed),
        }
    }
}
