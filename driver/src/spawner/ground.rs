//! What a spawner and each of its children need to know processes by.

use std::{sync::OnceLock, thread, time::Duration};

use pidward_core::{
    Id128, Pid,
    identity::{Host, Identity, Process, Verdict, Why},
    marker::{Cookie, Names},
};

use crate::{
    markers::MarkerNames,
    names::{ChildKind, ServiceName},
};

/// During exec a process shows nothing of its own for a moment: this many looks, this far apart, wait for it.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// Where processes are looked at, and under which names markers are looked for.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    host: OnceLock<Host>,
    names: MarkerNames,
}

impl Ground {
    pub(crate) fn new(names: MarkerNames) -> Ground {
        Ground { host: OnceLock::new(), names }
    }

    /// Opened when it is first needed.
    pub(crate) fn host(&self) -> &Host {
        self.host.get_or_init(Host::look)
    }

    pub(crate) fn names(&self) -> Names<'_> {
        self.names.core()
    }

    /// Whether the process that was written down lives. Waits a moment for one that is in exec.
    pub(crate) fn verify(&self, known: &Identity) -> Result<Process, Verdict> {
        patiently(|| self.host().verify(known, &self.names()))
    }

    /// Whether the number is a child of this kind and name.
    pub(crate) fn verify_named(
        &self,
        pid: Pid,
        kind: ChildKind,
        service: &ServiceName,
        cookie: Cookie,
    ) -> Result<(Process, Option<Id128>), Verdict> {
        let name = (kind.core(), service.as_str());
        patiently(|| self.host().verify_named(pid, &self.names(), name, cookie))
    }
}

/// What a request says of the child that is to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) kill_on_drop: bool,
    /// Of this one spawn.
    pub(crate) nonce: Option<Id128>,
    pub(crate) name: Option<(ChildKind, ServiceName)>,
}

/// Asks again while the process has not called exec, or is in it.
fn patiently<T>(mut verify: impl FnMut() -> Result<T, Verdict>) -> Result<T, Verdict> {
    for _ in 1..LOOKS {
        match verify() {
            Err(Verdict::Unknown(Why::NotYetExec)) => thread::sleep(BETWEEN),
            other => return other,
        }
    }
    verify()
}
