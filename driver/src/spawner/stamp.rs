//! What a child is given before it is made: the entries it carries, its leaf, its record.

use std::{io, sync::Arc};

use pidward_core::{Errno, Id128, cgroup::Limits};

use super::shared::Shared;
use crate::{
    error::SpawnError,
    leaves::{self, Leaf},
    names::{ChildKind, ServiceName},
    prepare::Prepared,
    registry::{self, Written},
    say::say,
};

impl Shared {
    /// Sets what every child of this spawner carries, and makes its leaf.
    pub(super) fn stamp(&self, prepared: &mut Prepared) -> Result<(), SpawnError> {
        let (name, value) = self.ground.entry();
        let survives = prepared.about.survives;
        if !survives {
            prepared.stamp(name, value);
        }
        // There may be no randomness to be had.
        let nonce = self.ground.nonce().map_err(|e| unprepared(prepared, &e))?;
        prepared.about.nonce = Some(nonce);
        prepared.stamp(self.ground.names().nonce, &nonce.to_string());
        let limits = prepared.limits();
        let is_limited = limits != Limits::default();
        let leaf = match &self.home {
            _ if prepared.cgroup().is_some() || survives => None,
            Some(home) => Some(Leaf::make(home, nonce, &limits)),
            None => None,
        };
        match leaf {
            Some(Ok(leaf)) => prepared.set_leaf(leaf).map_err(|e| unprepared(prepared, &e))?,
            None if is_limited => return Err(SpawnError::unlimited(prepared.program(), None)),
            Some(Err(e)) if is_limited => return Err(SpawnError::unlimited(prepared.program(), Some(e))),
            Some(Err(e)) => say!(warn, "a child gets no cgroup leaf: {}", leaves::words(e)),
            None => {}
        }
        self.write_down(prepared, nonce)
    }

    /// Writes down that the child will be made.
    fn write_down(&self, prepared: &mut Prepared, nonce: Id128) -> Result<(), SpawnError> {
        let Some(registry) = &self.config.registry else { return Ok(()) };
        let base = || (ChildKind::Task, ServiceName::of_program(prepared.program()));
        let (kind, name) = prepared.about.name.clone().unwrap_or_else(base);
        let leaf = prepared.about.leaf.as_ref().and_then(|leaf| leaf.path());
        let written = self.ground.host().here().map_err(|_| Errno::ENOSYS).and_then(|(boot, pid_ns)| {
            let cookie = self.ground.own_run().filter(|_| !prepared.about.survives);
            let about =
                registry::About { kind, name: &name, nonce, cookie, boot, pid_ns, leaf: leaf.as_deref() };
            Written::intend(registry, &about)
        });
        match written {
            Ok(written) => prepared.about.written = Some(Arc::new(written)),
            Err(e) if self.config.registry_optional => {
                say!(warn, "the record of a child cannot be written: {e}; after a crash nobody finds it");
            }
            Err(e) => return Err(SpawnError::unrecorded(prepared.program(), e)),
        }
        Ok(())
    }
}

fn unprepared(prepared: &Prepared, error: &io::Error) -> SpawnError {
    let errno = error.raw_os_error().and_then(Errno::from_raw);
    SpawnError::preparing(prepared.program(), errno.unwrap_or(Errno::ENOSYS))
}
