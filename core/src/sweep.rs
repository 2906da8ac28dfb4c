//! Processes that are found in `/proc` because they prove to be ours, one by one.
//!
//! For groups whose number nothing keeps from being given away: the leader was reaped, and the kernel cannot signal a group through its
//! leader's pidfd (Linux < 6.9, or a filter). A process counts only if it is in the group *and* its environ proves that it is ours; it
//! is pinned before it is looked at, and can be signalled through the pin only.
//!
//! One scan is a picture of something that moves: a member that is made meanwhile may be missed ([`Seen::is_clean`]). Zombies have ended
//! and are nobody.
#![forbid(unsafe_code)]

use crate::{
    Id128, Pid,
    identity::{Host, Process},
    marker::{ChildKind, Cookie, Markers, Names, Scan, Tree},
    procfs::{Environ, Proc, ProcError},
    sys,
};

/// What proves that a process is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof<'a> {
    /// It carries the nonce of this spawn: it is the child or descends from it. The best one where it is known: a group's number may have
    /// become that of another child of ours.
    Nonce(Id128),
    /// It carries a run entry, and is of this kind and name or descends from such a child.
    Named(ChildKind, &'a str, Cookie),
}

/// What a scan came across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Living members that are ours.
    pub ours: u32,
    /// Living members that do not prove to be.
    pub unproven: u32,
    /// Processes that ended or were in exec while they were looked at: what they left behind may have been missed.
    pub changed: u32,
}

impl Seen {
    /// Whether nobody was there, and nothing moved meanwhile.
    pub const fn is_clean(&self) -> bool {
        self.ours == 0 && self.unproven == 0 && self.changed == 0
    }
}

/// A living member of the group.
#[derive(Debug)]
pub enum Member<'a> {
    /// It is ours.
    Ours(&'a Process),
    /// It does not prove to be ours, or cannot be read.
    Unproven(Pid),
}

/// Gives every living member of a group to `visit`. Never the caller itself, and never pid 1.
///
/// # Errors
/// `/proc` cannot be read.
pub fn members(
    host: &Host,
    pgid: Pid,
    names: &Names<'_>,
    proof: Proof<'_>,
    mut visit: impl FnMut(Member<'_>),
) -> Result<Seen, ProcError> {
    let proc = host.proc()?;
    let own = Pid::from_raw(sys::getpid());
    let mut seen = Seen::default();
    let counter = |count: &mut u32| *count = count.saturating_add(1);
    proc.pids(|pid| {
        if pid != Pid::INIT && Some(pid) != own {
            match member(proc, pid, pgid, names, proof) {
                Ok(Some(process)) => {
                    counter(&mut seen.ours);
                    visit(Member::Ours(&process));
                }
                Ok(None) => {}
                Err(Miss::Moved) => counter(&mut seen.changed),
                Err(Miss::Unproven) => {
                    counter(&mut seen.unproven);
                    visit(Member::Unproven(pid));
                }
            }
        }
        true
    })?;
    Ok(seen)
}

enum Miss {
    Moved,
    Unproven,
}

/// The process, if it is a living member of the group and proves to be ours; `None` if it is no living member.
fn member(
    proc: &Proc,
    pid: Pid,
    pgid: Pid,
    names: &Names<'_>,
    proof: Proof<'_>,
) -> Result<Option<Process>, Miss> {
    let miss = |e| if e == ProcError::Gone { Miss::Moved } else { Miss::Unproven };
    let looked = proc.process(pid).and_then(|dir| Ok((dir.stat()?, dir)));
    let (stat, dir) = match looked {
        Ok(looked) => looked,
        Err(ProcError::Gone) => return Err(Miss::Moved),
        // Whoever cannot be looked at cannot be in a group of ours that we could read.
        Err(_) => return Ok(None),
    };
    if stat.pgrp != pgid.raw() || stat.is_ended() {
        return Ok(None);
    }
    let (kind, service, cookie) = match proof {
        Proof::Named(kind, service, cookie) => (kind, service, cookie),
        Proof::Nonce(_) => (ChildKind::Task, "", Cookie::Any),
    };
    let mut scan = Scan::new(names, Markers::new(names, kind, service), cookie);
    match dir.environ(|piece| scan.feed(piece)).map_err(miss)? {
        Environ::Bytes(_) => {}
        // A kernel thread is in no group that a process has made.
        _ => return Err(Miss::Moved),
    }
    let carried = scan.carried();
    let ours = match proof {
        Proof::Nonce(nonce) => carried.nonce == Some(nonce),
        Proof::Named(..) => carried.tree == Tree::Ours && carried.named,
    };
    if ours { Ok(Some(Process::of_dir(dir))) } else { Err(Miss::Unproven) }
}
