//! Numbers that are said to be children: verified, and stopped if they are.

use std::{collections::HashSet, io, slice, sync::Arc, time::Duration};

use pidward_core::{
    Id128, Pid,
    identity::{Process, Verdict, Why},
    procfs::ProcDir,
    sweep::Proof,
};

use super::{Entry, Shared, Spawner};
use crate::{
    identity::{self, Identity, StopOwned, of, unreadable},
    names::{ChildKind, ServiceName},
    ports::{self, Listener},
    stop,
};

/// Whom a number was found to be.
enum Found {
    /// A child of this spawner that has not ended.
    Child(Arc<Entry>),
    /// Verified by what it shows; with the nonce of its spawn.
    Shown(Result<(Process, Option<Id128>), Verdict>),
}

/// A pid and a name are an allegation. It is verified, and what cannot be verified is left alone.
impl Spawner {
    /// Whether the number is, now, a child of this kind and name of this installation.
    ///
    /// A child of this very spawner is known by its pidfd, whatever it has done to its environ. Else markers and run entry decide, and the
    /// nonce where this spawner has a child with it, or had one (of the last 4,096 that have ended). Blocks for up to 95 ms while
    /// the process is in exec.
    pub fn verify(&self, pid: u32, kind: ChildKind, service: &ServiceName) -> Verdict {
        let Some(pid) = Pid::new(pid) else { return Verdict::Gone };
        match self.find(pid, kind, service) {
            Found::Child(_) => Verdict::Same,
            Found::Shown(verified) => of(&verified),
        }
    }

    /// Whether the number is a living child of this kind and name of this installation, for sure.
    pub fn owns(&self, pid: u32, kind: ChildKind, service: &ServiceName) -> bool {
        self.verify(pid, kind, service) == Verdict::Same
    }

    /// Stops the process and its group if they are that child: SIGTERM (with SIGCONT), SIGKILL after `grace`. Nothing is sent to anybody
    /// else, and nothing where it cannot be told. Of a child that has ended, what it has left of its group is stopped.
    ///
    /// It need not be a child of this process: one of an earlier run of the same
    /// [installation](crate::SpawnerBuilder::installation) is stopped as well. Numbers that are no pid, 0 and the caller's own are
    /// [`StopOwned::NotRunning`] or [`StopOwned::NotOurs`]. In a forked copy of the program nothing is sent.
    pub fn stop_owned(&self, pid: u32, kind: ChildKind, service: &ServiceName, grace: Duration) -> StopOwned {
        let shared = &self.handle.shared;
        let Some(pid) = Pid::new(pid) else { return StopOwned::NotRunning };
        if !shared.is_ours() {
            return StopOwned::Unverifiable(Verdict::Unknown(Why::Unsupported));
        }
        let (verified, nonce) = match self.find(pid, kind, service) {
            Found::Child(entry) => {
                let report = stop::run(shared, slice::from_ref(&entry), None, grace);
                return report.children.into_iter().next().map_or(StopOwned::NotRunning, StopOwned::of);
            }
            Found::Shown(Ok((process, nonce))) => (Ok(process), nonce),
            Found::Shown(Err(verdict)) => (Err(verdict), None),
        };
        let named = || Proof::Named(kind.core(), service.as_str(), self.handle.shared.ground.cookie());
        identity::stop_named(&shared.ground, pid, verified, nonce.map_or_else(named, Proof::Nonce), grace)
    }

    /// [`Identity::verify`], under the marker names of this spawner.
    pub fn verify_identity(&self, known: &Identity) -> Verdict {
        of(&self.handle.shared.ground.verify(&known.0))
    }

    /// [`Identity::stop`], under the marker names of this spawner.
    pub fn stop_identity(&self, known: &Identity, grace: Duration) -> StopOwned {
        identity::stop_identity(&self.handle.shared.ground, &known.0, grace)
    }

    /// Who listens on this TCP port in our network namespace, and whether it is ours: one entry for each listening socket, by address. A
    /// picture of a moment: whoever means to stop a holder asks [`stop_owned`](Self::stop_owned), which looks again.
    ///
    /// A child of this very spawner is known by its pidfd, whoever else by what it carries, as in [`verify`](Self::verify), but of any kind
    /// and name. Of several processes that share a socket (forked servers do) one that is ours is enough; else one that cannot be told
    /// leaves it unknown. A socket of this process alone is [`NotOurs(Us)`](Why::Us).
    ///
    /// Reads what every process that may be looked at has open, and no other program is needed. Blocks for up to 95 ms while a holder is
    /// in exec.
    ///
    /// # Errors
    /// `/proc` cannot be read, or does not tell: not having seen a listener is no answer.
    pub fn listeners(&self, port: u16) -> io::Result<Vec<Listener>> {
        let shared = &self.handle.shared;
        let judge = |process: &ProcDir| {
            let is_child = |entry: &Arc<Entry>| entry.pid() == process.pid() && shared.look(entry).is_none();
            // Not reaped after that look, so the number was its own and not that of one who ended before the child was made.
            if shared.is_ours() && shared.children().iter().any(is_child) && process.stat().is_ok() {
                return Verdict::Same;
            }
            shared.ground.descends(process)
        };
        let host = shared.ground.host();
        host.proc().and_then(|proc| ports::listeners(proc, port, judge)).map_err(unreadable)
    }

    fn find(&self, pid: Pid, kind: ChildKind, service: &ServiceName) -> Found {
        let shared = &self.handle.shared;
        let children = if shared.is_ours() { shared.children() } else { Vec::new() };
        let asked = |entry: &&Arc<Entry>| {
            let name = entry.about.name.as_ref();
            // Until it is reaped, the number is its.
            entry.pid() == pid
                && shared.look(entry).is_none()
                && name.is_some_and(|n| *n == (kind, service.clone()))
        };
        if let Some(entry) = children.iter().find(asked) {
            return Found::Child(Arc::clone(entry));
        }
        let shown = shared.ground.verify_named(pid, kind, service, self.handle.shared.ground.cookie());
        Found::Shown(shown.and_then(|(process, nonce)| {
            let of_another = |entry: &Arc<Entry>| entry.pid() != pid && entry.about.nonce == nonce;
            // A child that has ended is nobody else, whoever has its nonce.
            let of_ended = |nonce| shared.has_ended_with(nonce);
            if nonce.is_some_and(of_ended) || nonce.is_some() && children.iter().any(of_another) {
                return Err(Verdict::Unknown(Why::Inherited));
            }
            Ok((process, nonce))
        }))
    }
}

impl Shared {
    /// Whether this child, or somebody of its tree, listens on the TCP port. What cannot be told is no.
    pub(crate) fn is_listened_on_by(&self, entry: &Entry, port: u16) -> bool {
        let host = self.ground.host();
        let Ok(proc) = host.proc() else { return false };
        let mut in_leaf = HashSet::new();
        if let Some(leaf) = &entry.about.leaf {
            leaf.group().members(proc, |process, _| _ = in_leaf.insert(process.pid()));
        }
        let is_of_it = |process: &ProcDir| {
            let group = || process.stat().ok().map(|stat| stat.pgrp);
            // As long as it was not reaped, its numbers are its own.
            let is_member = || entry.child.pgid().is_some_and(|pgid| group() == Some(pgid.raw()));
            (process.pid() == entry.pid() || is_member()) && entry.ended().is_none()
                || in_leaf.contains(&process.pid())
                || entry.about.nonce.is_some() && self.ground.nonce_of(process) == entry.about.nonce
        };
        let judge = |process: &ProcDir| {
            if is_of_it(process) { Verdict::Same } else { Verdict::NotOurs(Why::OtherTree) }
        };
        ports::listeners(proc, port, judge)
            .is_ok_and(|list| list.iter().any(|listener| listener.verdict == Verdict::Same))
    }
}
