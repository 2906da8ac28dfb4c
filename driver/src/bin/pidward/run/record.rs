//! Where the run is written down, and what an earlier one has left there.

use std::{path::Path, time::Duration};

use pidward::{
    Registry, RegistryError, Survivor,
    registry::{Action, Policy, Reconciliation},
};

use super::options::Options;
use crate::{fault::Fault, registries, stop::called, verdict};

/// The registry of this run, and whether the program is started all the same where it cannot be written down.
pub(super) fn open(options: &Options) -> Result<(Option<Registry>, bool), Fault> {
    let optional = options.registry_optional;
    match &options.registry {
        None => Ok((own(), true)),
        Some(dir) => match of(dir, options.grace) {
            Ok(registry) => Ok((Some(registry), optional)),
            Err(e) if optional => {
                log::warn!("the program is not written down, and nobody finds it after a crash: {e}");
                Ok((None, true))
            }
            Err(e) => Err(registries::unusable(e)),
        },
    }
}

/// One of its own. Nobody has asked for it.
fn own() -> Option<Registry> {
    Registry::new().inspect_err(|e| log::debug!("the program is not written down: {e}")).ok()
}

/// The one that was named, when nobody is left of those whom an earlier owner wrote down there.
fn of(dir: &Path, grace: Duration) -> Result<Registry, RegistryError> {
    let registry = Registry::open(dir)?;
    let reconciliation = registry.reconcile(grace, |_| Policy::Stop)?;
    tell(dir, &reconciliation);
    Ok(registry)
}

/// A line for whatever is not as it should be: none of it is a reason not to start.
fn tell(dir: &Path, reconciliation: &Reconciliation) {
    for (path, why) in &reconciliation.odd {
        log::warn!("{path:?} is not used: {why}");
    }
    let survived = |survivors: &[Survivor]| {
        for survivor in survivors {
            log::warn!(
                "process {} (state {}) of an earlier run survived its stop",
                survivor.pid,
                survivor.state
            );
        }
    };
    for child in &reconciliation.children {
        let name = called(&child.record);
        match &child.action {
            Action::Stopped(stopped) if stopped.survivors.is_empty() => {
                log::info!("{name} of an earlier run was stopped");
            }
            Action::Stopped(stopped) => survived(&stopped.survivors),
            Action::Cleared(_) => {}
            _ => log::warn!("the record of {name} in {dir:?} is kept: {}", verdict::kept(child.verdict)),
        }
    }
    survived(&reconciliation.strays);
    if reconciliation.strays_stopped > 0 {
        log::info!(
            "{} processes without a record of an earlier run were stopped",
            reconciliation.strays_stopped
        );
    }
}
