//! Who a process is, on systems where that is never confirmed: each verdict is [`Why::Unsupported`], and nothing is signalled.

use std::time::Duration;

use pidward_core::{Pid, identity};

#[path = "../identity/known.rs"]
mod known;

pub use known::{Identity, IdentityError, StopOwned};
pub use pidward_core::identity::{Field, Verdict, Why};

use crate::names::{ChildKind, ServiceName};

/// The one answer to who a process is.
pub(crate) const UNSUPPORTED: Verdict = Verdict::Unknown(Why::Unsupported);

/// Whether a process other than the caller has this number and has not ended. On this system that cannot be told, which counts as running;
/// 0 and what is above `i32::MAX` do not.
pub fn is_running(pid: u32) -> bool {
    Pid::new(pid).is_some_and(|pid| pid.get() != std::process::id())
}

/// Whether the number is, now, a child of this kind and name: on this system unknown.
pub fn verify(_pid: u32, _kind: ChildKind, _service: &ServiceName) -> Verdict {
    UNSUPPORTED
}

fn verify_known(_: &identity::Identity) -> Verdict {
    UNSUPPORTED
}

fn stop_known(_: &identity::Identity, _: Duration) -> StopOwned {
    StopOwned::Unverifiable(UNSUPPORTED)
}
