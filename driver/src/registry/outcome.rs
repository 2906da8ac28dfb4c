//! What a reconciliation is told to do, and what it says that it has done.

use std::{net::SocketAddr, path::PathBuf, process::ExitStatus};

use pidward_core::{Id128, identity::Verdict};

use super::{Adopted, Listed};
use crate::report::{Stopped, Survivor};

/// What is to be done with somebody who lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// It is stopped, with its tree: SIGTERM (with SIGCONT), SIGKILL after the grace.
    Stop,
    /// It goes on, and is watched from now on ([`Adopted`]). A child that has ended while somebody of its tree lives, and whoever has no
    /// record, cannot be adopted: they are reported.
    Adopt,
    /// It is left alone, and its record stays.
    Report,
}

/// Somebody who lives though the supervisor does not.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Leftover<'a> {
    /// A child by its record, and the verdict on its number; [`Verdict::Gone`] and the like where others of its tree live.
    Child(&'a Listed, Verdict),
    /// All that carry the run entry of a run that has ended and that no record knows.
    Strays,
}

/// What was done about a record.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Its tree was stopped; the report says who has survived that, if anybody. Without survivors the record was cleared.
    Stopped(Stopped),
    /// It goes on and is watched.
    Adopted(Adopted),
    /// It had ended with its tree, or is of an earlier boot: the record was removed. With its status, where that was kept.
    Cleared(Option<ExitStatus>),
    /// It cannot be told who it is, or the record is another installation's: nothing was done, and the record stays.
    Kept,
    /// It was left alone, as the policy said.
    Reported,
}

/// One record, and what became of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reconciled {
    /// As it was found.
    pub record: Listed,
    /// Of the number that is written down.
    pub verdict: Verdict,
    /// The TCP addresses that it and its tree listened on when they were found.
    pub ports: Vec<SocketAddr>,
    /// What was done.
    pub action: Action,
}

/// What a reconciliation found and did.
#[derive(Debug, Default)]
#[must_use = "it says who survived and what was kept"]
#[non_exhaustive]
pub struct Reconciliation {
    /// One for each record.
    pub children: Vec<Reconciled>,
    /// How many of those without a record were stopped.
    pub strays_stopped: usize,
    /// Who of them lives: those that survived, or all where they were to be reported.
    pub strays: Vec<Survivor>,
    /// Files that are no records, each with the reason: nothing was done on their word, and nothing to them.
    pub odd: Vec<(PathBuf, String)>,
}

impl Reconciliation {
    /// Whether anybody survived a stop.
    pub fn has_survivors(&self) -> bool {
        let survived = |child: &Reconciled| matches!(&child.action, Action::Stopped(stopped) if !stopped.survivors.is_empty());
        self.children.iter().any(survived) || !self.strays.is_empty()
    }
}

impl Reconciled {
    /// The nonce of whoever is left alone.
    pub(super) fn spared(&self) -> Option<Id128> {
        let is_spared = matches!(self.action, Action::Adopted(_) | Action::Kept | Action::Reported);
        is_spared.then(|| self.record.nonce())
    }

    /// Those that were reported as such.
    pub(super) fn survivors(&self) -> Vec<u32> {
        match &self.action {
            Action::Stopped(stopped) => stopped.survivors.iter().map(|survivor| survivor.pid).collect(),
            _ => Vec::new(),
        }
    }
}
