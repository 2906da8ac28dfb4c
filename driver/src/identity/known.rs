//! Who a process was, as it was written down, and what a stop of it can come to.

use std::{error, fmt, str::FromStr, time::Duration};

use pidward_core::identity::{self, LineError, Verdict};

use crate::report::Stopped;

/// What was written down about a process when it was started: an allegation until [`verify`](Identity::verify) has said otherwise.
///
/// As text it is one line (`Display`, `FromStr`), made to be kept in a file; a line that was cut or changed is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub(crate) identity::Identity);

impl Identity {
    /// Its pid. Only a number: it may be somebody else's by now.
    pub const fn pid(&self) -> u32 {
        self.0.pid.get()
    }

    /// Whether that very process lives. Blocks for up to 95 ms while it is in exec and nothing better than its environ can tell.
    pub fn verify(&self) -> Verdict {
        super::verify_known(&self.0)
    }

    /// Stops the process and the group that it was started as the leader of: SIGTERM (with SIGCONT), SIGKILL after `grace`.
    ///
    /// Where the process itself has ended, what is left of its group is stopped: members that carry the nonce of its spawn.
    pub fn stop(&self, grace: Duration) -> StopOwned {
        super::stop_known(&self.0, grace)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(line: &str) -> Result<Identity, IdentityError> {
        identity::Identity::parse(line.as_bytes()).map(Identity).map_err(IdentityError)
    }
}

/// The text is no identity; Display says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityError(LineError);

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            LineError::TooLong => "the identity is longer than any can be",
            LineError::Torn => "the identity is cut, or was changed: its sum is not right",
            LineError::Newer => "the identity was written by a later version: expected v=1",
            _ => "no identity: expected a line that begins with 'pidward-identity v=1'",
        })
    }
}

impl error::Error for IdentityError {}

/// What became of a process that was to be stopped though it is not a child of this program.
#[derive(Clone, Debug)]
#[must_use = "it says whether anybody was stopped"]
#[non_exhaustive]
pub enum StopOwned {
    /// It had ended before, and nobody was left of its group.
    NotRunning,
    /// Somebody else has the number ([`Verdict::NotOurs`], [`Verdict::Recycled`]): nothing was sent.
    NotOurs(Verdict),
    /// It has ended, and so has its group.
    Stopped(Stopped),
    /// Some of them live on.
    Survived(Stopped),
    /// It cannot be told who it is ([`Verdict::Unknown`]): nothing was sent.
    Unverifiable(Verdict),
}
