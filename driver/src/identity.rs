//! Who a process is, and stopping one that is not a child of this program.
//!
//! A number is an allegation. It is pinned, verified, and then only the pinned process is signalled: what has the number now and does
//! not prove to be the process is left alone. Unknown is never yes.

use std::{
    io,
    process::ExitStatus,
    time::{Duration, Instant},
};

use pidward_core::{
    Pid, Signal,
    cgroup::Cgroup,
    identity::{self, Process},
    marker::Cookie,
    procfs::{self, ProcError},
    signal::SignalError,
    sweep::Proof,
};
use rustix::fd::BorrowedFd;

mod known;

pub use known::{Identity, IdentityError, StopOwned};
pub use pidward_core::identity::{Field, Verdict, Why};

use crate::{
    carriers::{Kin, Looks, Sure},
    members::{self, survivor},
    names::{ChildKind, ServiceName, api_server_service},
    report::{Stopped, Survivor},
    spawner::Ground,
    stamp::is_stamped,
    stop::{Climbs, Tree},
};

impl StopOwned {
    /// What a report says.
    pub(crate) fn of(stopped: Stopped) -> StopOwned {
        if stopped.survivors.is_empty() { StopOwned::Stopped(stopped) } else { StopOwned::Survived(stopped) }
    }
}

/// Whether a process other than the caller has this number and has not ended. What cannot be told counts as running; a thread's number,
/// 0 and what is above `i32::MAX` do not.
///
/// Reaps nothing: a zombie has ended and stays for whoever waits for it.
pub fn is_running(pid: u32) -> bool {
    let Some(pid) = Pid::new(pid).filter(|pid| pid.get() != std::process::id()) else { return false };
    match procfs::stat(pid) {
        Ok(stat) => !stat.is_ended(),
        Err(ProcError::Gone | ProcError::ThreadId) => false,
        Err(_) => true,
    }
}

/// Whether the number is, now, a child of this kind and name, of whatever installation, or an API server that has
/// [stamped](crate::stamp_api_server) itself: whoever means to act on the answer asks a
/// [`Spawner`](crate::Spawner::verify), which knows its own. Blocks for up to 95 ms while the process is in exec.
pub fn verify(pid: u32, kind: ChildKind, service: &ServiceName) -> Verdict {
    let Some(pid) = Pid::new(pid) else { return Verdict::Gone };
    match of(&Ground::default().verify_named(pid, kind, service, Cookie::Any)) {
        // A server that has stamped itself need not descend from anybody, and may descend from somebody's child.
        Verdict::Unknown(Why::NoMarker | Why::Inherited)
            if kind == ChildKind::Api && *service == api_server_service() && is_stamped(pid) =>
        {
            Verdict::Same
        }
        verdict => verdict,
    }
}

/// The verdict of a verification.
pub(crate) fn of<T>(verified: &Result<T, Verdict>) -> Verdict {
    verified.as_ref().err().copied().unwrap_or(Verdict::Same)
}

fn verify_known(known: &identity::Identity) -> Verdict {
    of(&Ground::default().verify(known))
}

fn stop_known(known: &identity::Identity, grace: Duration) -> StopOwned {
    stop_identity(&Ground::default(), known, grace)
}

/// [`Identity::stop`], with what a spawner knows.
pub(crate) fn stop_identity(ground: &Ground, known: &identity::Identity, grace: Duration) -> StopOwned {
    let found = |process| {
        let group = known.pgid.zip(known.nonce.map(Proof::Nonce));
        let kin = known.nonce.map(|nonce| Kin {
            ground,
            nonce,
            pid: known.pid,
            group: known.pgid,
            since: known.start_ticks,
            // It may be of an earlier run.
            by: Proof::Nonce(nonce),
        });
        Found { ground, pid: known.pid, process, group, kin, leaf: None, among_many: false }
    };
    match ground.verify(known) {
        Ok(process) => found(Some(process)).stop(grace),
        Err(Verdict::Gone) => found(None).stop(grace),
        Err(verdict) => untouched(verdict),
    }
}

/// A number and a name, with the proof that a member of the group must give, or the nonce of its spawn.
pub(crate) fn stop_named(
    ground: &Ground,
    pid: Pid,
    verified: Result<Process, Verdict>,
    proof: Proof<'_>,
    grace: Duration,
) -> StopOwned {
    let process = match verified {
        Ok(process) => Some(process),
        Err(Verdict::Gone) => None,
        Err(verdict) => return untouched(verdict),
    };
    let stat = process.as_ref().and_then(|_| procfs::stat(pid).ok());
    let group = stat.is_none_or(|stat| stat.pgrp == pid.raw()).then_some(pid);
    let kin = match (proof, stat) {
        (Proof::Nonce(nonce), Some(stat)) => {
            Some(Kin { ground, nonce, pid, group, since: stat.start_ticks, by: proof })
        }
        _ => None,
    };
    let group = group.map(|group| (group, proof));
    Found { ground, pid, process, group, kin, leaf: None, among_many: false }.stop(grace)
}

pub(crate) fn untouched(verdict: Verdict) -> StopOwned {
    match verdict {
        Verdict::Unknown(_) => StopOwned::Unverifiable(verdict),
        Verdict::Gone => StopOwned::NotRunning,
        _ => StopOwned::NotOurs(verdict),
    }
}

/// A verified process, or what an ended one has left of its group.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    ground: &'a Ground,
    pid: Pid,
    process: Option<Process>,
    group: Option<(Pid, Proof<'a>)>,
    /// Whoever has left it, where the nonce is known.
    kin: Option<Kin<'a>>,
    leaf: Option<Cgroup>,
    /// One of many: who is left of its group shows in the looks that all of them share, and is not listed for each.
    among_many: bool,
}

impl<'a> Found<'a> {
    /// What is left of a child that was written down; one of many where those are of one installation.
    pub(crate) fn of_record(
        kin: Kin<'a>,
        process: Option<Process>,
        leaf: Option<Cgroup>,
        among_many: bool,
    ) -> Found<'a> {
        let group = kin.group.map(|group| (group, Proof::Nonce(kin.nonce)));
        Found { ground: kin.ground, pid: kin.pid, process, group, kin: Some(kin), leaf, among_many }
    }

    pub(crate) fn stop(self, grace: Duration) -> StopOwned {
        let in_leaf = self.leaf.as_ref().is_some_and(|leaf| leaf.is_populated() == Ok(true));
        if self.process.is_none() && !in_leaf {
            let group = self.group.map(|(pgid, proof)| members::members(self.ground, pgid, proof));
            let (ours, unproven) = group.unwrap_or_default();
            let away = self.kin.map(|kin| Looks::new().left(kin, None, &[]).0).unwrap_or_default();
            if ours.is_empty() && away.is_empty() {
                // Somebody may be in a group of that number. Nothing says whose it is.
                let nobody = unproven.is_empty();
                let unknown = StopOwned::Unverifiable(Verdict::Unknown(Why::NoMarker));
                return if nobody { StopOwned::NotRunning } else { unknown };
            }
        }
        match Climbs::new([self].into_iter(), grace).run().children.pop() {
            Some(stopped) => StopOwned::of(stopped),
            // Not reached: there is one report for the one.
            None => StopOwned::NotRunning,
        }
    }
}

impl Tree for Found<'_> {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn has_ended(&self) -> bool {
        self.process.as_ref().is_none_or(|process| process.has_ended() == Ok(true))
    }

    fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().and_then(Process::pidfd)
    }

    fn signal(&self, signal: Signal, looks: &mut Looks) -> Result<(), SignalError> {
        if let Some(kin) = self.kin {
            looks.signal(kin, signal);
            self.leaf.iter().for_each(|leaf| members::signal_leaf(leaf, kin, signal));
        }
        let members = || match self.group {
            // The looks have reached whoever proves anything.
            Some(_) if self.among_many => Err(SignalError::Gone),
            Some((pgid, proof)) => members::signal(self.ground, pgid, proof, Some(self.pid), signal),
            None => Err(SignalError::Gone),
        };
        let Some(process) = &self.process else { return members() };
        let group = self.group.map(|_| process.signal_group(signal));
        match group {
            Some(Ok(())) => Ok(()),
            // Nothing keeps the number: one by one.
            Some(Err(SignalError::Unpinned | SignalError::NoGroup)) => members().or(process.signal(signal)),
            // It leads none, or has left it.
            _ => process.signal(signal),
        }
    }

    fn left(&self, ended: bool, after: Option<Instant>, looks: &mut Looks) -> (Vec<Survivor>, Sure) {
        let mut left = Vec::new();
        let process = self.process.as_ref();
        left.extend(process.filter(|_| !ended).map(|process| survivor(process.pid())));
        let listed = self.group.filter(|_| !self.among_many);
        let group = listed.map(|(pgid, proof)| members::members(self.ground, pgid, proof).0);
        left.extend(group.into_iter().flatten().filter(|member| member.pid != self.pid.get()));
        if let Some(leaf) = &self.leaf {
            let (in_leaf, _) = members::in_leaf(self.ground, leaf, self.pid, &left);
            left.extend(in_leaf);
        }
        let Some(kin) = self.kin else { return (left, Sure::Likely) };
        let (away, sure) = looks.left(kin, after, &left);
        left.extend(away);
        (left, sure)
    }

    /// Of a process that is no child of ours nobody tells.
    fn status(&self) -> Option<ExitStatus> {
        None
    }

    fn finish(&self) {}
}

/// A child's identity cannot be written down.
pub(crate) fn unreadable(error: ProcError) -> io::Error {
    match error {
        ProcError::Errno(e) => io::Error::from_raw_os_error(e.raw()),
        ProcError::Gone => io::Error::new(io::ErrorKind::NotFound, "the child has ended and was reaped"),
        ProcError::NoProc => io::Error::new(io::ErrorKind::Unsupported, "there is no /proc"),
        _ => io::Error::new(io::ErrorKind::Unsupported, "/proc does not show this process"),
    }
}
