//! Processes that are found in `/proc` because they prove to be ours, one by one.
//!
//! For groups whose number nothing keeps from being given away: the leader was reaped, and the kernel cannot signal a group through its
//! leader's pidfd (Linux < 6.9, or a filter). A process counts only if it is in the group *and* its environ proves that it is ours; it
//! is pinned before it is looked at, and can be signalled through the pin only.
//!
//! One scan is a picture of something that moves: a member that is made, ends or is in exec meanwhile may be missed. Zombies have ended and
//! are nobody.
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
) -> Result<(), ProcError> {
    let proc = host.proc()?;
    let own = Pid::from_raw(sys::getpid());
    proc.pids(|pid| {
        if pid != Pid::INIT && Some(pid) != own {
            match member(proc, pid, pgid, names, proof) {
                Some(Ok(process)) => visit(Member::Ours(&process)),
                Some(Err(Unproven)) => visit(Member::Unproven(pid)),
                None => {}
            }
        }
        true
    })
}

struct Unproven;

/// The process, if it is a living member of the group and proves to be ours; `None` if it is no living member.
fn member(
    proc: &Proc,
    pid: Pid,
    pgid: Pid,
    names: &Names<'_>,
    proof: Proof<'_>,
) -> Option<Result<Process, Unproven>> {
    // Whoever cannot be looked at is in no group of ours that could be seen.
    let dir = proc.process(pid).ok()?;
    let stat = dir.stat().ok()?;
    if stat.pgrp != pgid.raw() || stat.is_ended() {
        return None;
    }
    let (kind, service, cookie) = match proof {
        Proof::Named(kind, service, cookie) => (kind, service, cookie),
        Proof::Nonce(_) => (ChildKind::Task, "", Cookie::Any),
    };
    let mut scan = Scan::new(names, Markers::new(names, kind, service), cookie);
    match dir.environ(|piece| scan.feed(piece)) {
        Ok(Environ::Bytes(_) | Environ::Empty) => {}
        // A kernel thread is in no group that a process has made.
        Ok(Environ::Ended | Environ::KernelThread) | Err(ProcError::Gone) => return None,
        Err(_) => return Some(Err(Unproven)),
    }
    let carried = scan.carried();
    let ours = match proof {
        Proof::Nonce(nonce) => carried.nonce == Some(nonce),
        Proof::Named(..) => carried.tree == Tree::Ours && carried.named,
    };
    Some(if ours { Ok(Process::of_dir(dir)) } else { Err(Unproven) })
}
