//! Processes that are found in `/proc` because they prove to be ours, one by one.
//!
//! For what no handle reaches: descendants that have left their group, and groups whose number nothing keeps from being given away (the
//! leader was reaped, and the kernel cannot signal a group through its leader's pidfd). A process counts only if its environ proves that
//! it is ours; it is pinned before it is looked at, and can be signalled through the pin only.
//!
//! One scan is a picture of something that moves: who forks and ends in a loop can be missed by it, and by the next. Two scans in a row that
//! find nobody and are [quiet](Seen::is_quiet) have missed nobody. Zombies have ended and are nobody. Who has lost its environ, by
//! `env -i` or by overwriting it, or may not be read, is not found.
#![forbid(unsafe_code)]

use core::time::Duration;

use crate::{
    Errno, Id128, Pid, Signal,
    cgroup::Cgroup,
    identity::{Host, Process},
    marker::{Carried, ChildKind, Cookie, Markers, Names, Run, Scan, Tree},
    procfs::{Environ, Proc, ProcDir, ProcError, Stat},
    signal::{self, GroupMeans, SignalError},
    sys,
};

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In this group.
    Group(Pid),
    /// Among all processes that were made at this clock tick since boot, or later: who was made before its supervisor is no descendant.
    Since(u64),
}

/// What proves that a process is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof<'a> {
    /// It carries the nonce of this spawn: it is the child or descends from it. The best one where it is known: a group's number may have
    /// become that of another child of ours.
    Nonce(Id128),
    /// It carries a run entry.
    Cookie(Cookie),
    /// It carries a run entry of this installation, or the nonce of a spawn by it: whoever is to outlive its supervisor has the nonce alone.
    Installation(Id128),
    /// It carries the nonce of some spawn, of whatever installation.
    Spawned,
    /// It is a child of the caller: for programs that own all their children.
    Child,
    /// It carries a run entry, and is of this kind and name or descends from such a child.
    Named(ChildKind, &'a str, Cookie),
}

/// A living process within the scope.
#[derive(Debug)]
pub enum Member<'a> {
    /// It is ours.
    Ours(&'a Process, &'a Stat, Carried),
    /// It does not prove to be ours, or cannot be read. Of [`Scope::Group`] only: elsewhere nearly everybody is such.
    Unproven(Pid),
}

/// How much moved while a scan went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Processes that ended, or were in exec, between the look at the list and the look at them.
    pub moved: u32,
    /// All zombies, as one number: another one the next time means that somebody has ended, or was reaped.
    pub zombies: u64,
}

impl Seen {
    /// Whether nothing moved, compared with the scan before. Two quiet scans without a member prove that there is none.
    pub fn is_quiet(&self, before: &Seen) -> bool {
        self.moved == 0 && self == before
    }
}

/// The longest wait between two scans while the grace runs.
const PAUSE: Duration = Duration::from_millis(20);

/// Gives every living process within the scope that proves to be ours to `visit`. Never the caller itself, and never pid 1.
///
/// # Errors
/// `/proc` cannot be read.
pub fn each(
    host: &Host,
    names: &Names<'_>,
    scope: Scope,
    proof: Proof<'_>,
    mut visit: impl FnMut(Member<'_>),
) -> Result<Seen, ProcError> {
    let proc = host.proc()?;
    let own = Pid::own();
    let mut seen = Seen::default();
    proc.pids(|pid| {
        if pid != Pid::INIT && Some(pid) != own {
            match look(proc, pid, names, scope, proof) {
                Look::Ours(process, stat, carried) => visit(Member::Ours(&process, &stat, carried)),
                Look::Unproven if matches!(scope, Scope::Group(_)) => visit(Member::Unproven(pid)),
                Look::Unproven | Look::Outside => {}
                Look::Moved => seen.moved = seen.moved.saturating_add(1),
                Look::Zombie(made) => {
                    let mixed = u64::from(pid.get()).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ made;
                    seen.zombies = seen.zombies.wrapping_add(mixed.wrapping_mul(0xff51_afd7_ed55_8ccd));
                }
            }
        }
        true
    })?;
    Ok(seen)
}

/// Ends every process within the scope that proves to be ours and that `take` agrees to: SIGTERM (with SIGCONT), SIGKILL after `grace`;
/// each also to the group that it leads, where the kernel can do that safely, and to the session that it leads. `true` when nobody is
/// left: two scans in a row were quiet and found nobody. It gives up when `limit` has passed after the grace.
///
/// With a `leaf` also everybody in it, whatever they carry.
///
/// # Errors
/// `/proc` cannot be read.
pub fn end_all(
    host: &Host,
    names: &Names<'_>,
    scope: Scope,
    proof: Proof<'_>,
    leaf: Option<&Cgroup>,
    (grace, limit): (Duration, Duration),
    mut take: impl FnMut(&Process, &Carried) -> bool,
) -> Result<bool, ProcError> {
    let began = sys::monotonic();
    let (mut asked, mut before, mut pause) = (false, None, Duration::from_millis(1));
    // A clock that a filter hides stands still; then the pauses count.
    let mut paused = Duration::ZERO;
    // Ends when nobody is left, or with the limit.
    loop {
        let waited = sys::monotonic().saturating_sub(began).max(paused);
        let kill = waited >= grace;
        let signals: &[Signal] = match (kill, asked) {
            (true, _) => &[Signal::KILL],
            (false, false) => &[Signal::TERM, Signal::CONT],
            (false, true) => &[],
        };
        let mut found = false;
        if let (Some(leaf), Ok(proc)) = (leaf, host.proc()) {
            // One that cannot be asked has been removed.
            found |= leaf.is_populated().unwrap_or(false);
            if kill && found {
                let _ = leaf.kill(proc);
            } else if !asked {
                leaf.members(proc, |process, _| {
                    // Carriers get it below, and once is enough: the second is often taken for impatience.
                    if one(host, names, process.pid(), proof).is_none() {
                        signals.iter().for_each(|signal| _ = process.signal(*signal));
                    }
                });
            }
        }
        let seen = each(host, names, scope, proof, |member| {
            if let Member::Ours(process, stat, carried) = member
                && take(process, &carried)
            {
                found = true;
                // Refused or gone: the next scan tells.
                let _ = signal_led(host, names, process, (stat.pgrp, stat.session), proof, signals);
            }
        })?;
        asked = true;
        let quiet = !found && before.is_some_and(|before| seen.is_quiet(&before));
        if quiet || waited >= grace.saturating_add(limit) {
            return Ok(quiet);
        }
        before = (!found).then_some(seen);
        if sys::readable([], pause).is_ok() {
            paused = paused.saturating_add(pause);
        }
        // Who forks and ends in a loop is met the sooner.
        pause = if kill { Duration::from_millis(1) } else { pause.saturating_mul(2).min(PAUSE) };
    }
}

/// Sends signals to a process that proves to be ours, to the group that it leads, where the kernel can do that safely, and to the session
/// that it leads; with the group and the session that it is in. Each of them gets a signal once: whoever is in the group of another that
/// proves to be ours has it from there.
///
/// # Errors
/// As [`Process::signal`], of the last signal to the process itself.
pub fn signal_led(
    host: &Host,
    names: &Names<'_>,
    process: &Process,
    (group, session): (i32, i32),
    proof: Proof<'_>,
    signals: &[Signal],
) -> Result<(), SignalError> {
    let leads = |number: i32| number == process.pid().raw();
    let leader = Pid::from_raw(group).filter(|leader| *leader != process.pid());
    let has_it = || leader.is_some_and(|leader| one(host, names, leader, proof).is_some());
    // The second SIGTERM is often taken for impatience, the second SIGKILL is not.
    if signals.iter().all(|signal| *signal != Signal::KILL)
        && signal::group_means() == GroupMeans::Pidfd
        && has_it()
    {
        return Ok(());
    }
    if leads(session) && !signals.is_empty() {
        // As long as it lives the number of its session is its own.
        bare_members(host, names, process.pid(), proof, signals);
    }
    let mut sent = Ok(());
    for signal in signals {
        let by_group = leads(group) && process.signal_group(*signal).is_ok();
        sent = if by_group { Ok(()) } else { process.signal(*signal) };
    }
    sent
}

/// Sends signals to those in a session that prove nothing, and have left the leader's group.
fn bare_members(host: &Host, names: &Names<'_>, leader: Pid, proof: Proof<'_>, signals: &[Signal]) {
    let Ok(proc) = host.proc() else { return };
    let _ = proc.pids(|pid| {
        if let Ok(dir) = proc.listed(pid)
            && dir.stat().is_ok_and(|stat| stat.session == leader.raw() && stat.pgrp != leader.raw())
            && one(host, names, pid, proof).is_none()
        {
            let process = Process::of_dir(dir);
            signals.iter().for_each(|signal| _ = process.signal(*signal));
        }
        true
    });
}

/// The process with this number, if it lives and proves to be ours; pinned.
pub fn one(host: &Host, names: &Names<'_>, pid: Pid, proof: Proof<'_>) -> Option<Process> {
    match look(host.proc().ok()?, pid, names, Scope::Since(0), proof) {
        Look::Ours(process, ..) => Some(process),
        _ => None,
    }
}

enum Look {
    Ours(Process, Stat, Carried),
    Unproven,
    Outside,
    Moved,
    /// Made at this tick.
    Zombie(u64),
}

/// Whether the process is there and may not be looked at: another user's, or one that means it.
const fn is_secret(error: ProcError) -> bool {
    matches!(error, ProcError::Hidden | ProcError::ThreadId | ProcError::Errno(Errno::EACCES | Errno::EPERM))
}

fn look(proc: &Proc, pid: Pid, names: &Names<'_>, scope: Scope, proof: Proof<'_>) -> Look {
    let (dir, stat): (ProcDir, Stat) = match proc.listed(pid).and_then(|dir| Ok((dir.stat()?, dir))) {
        Ok((stat, dir)) => (dir, stat),
        Err(ProcError::Gone) => return Look::Moved,
        Err(e) if is_secret(e) => return Look::Outside,
        // No descriptor or no memory to be had, say: then nothing is known of it.
        Err(_) => return Look::Moved,
    };
    let within = match scope {
        Scope::Group(pgid) => stat.pgrp == pgid.raw(),
        Scope::Since(ticks) => stat.start_ticks >= ticks && !stat.is_kernel_thread(),
    };
    if !within {
        return Look::Outside;
    }
    if stat.is_ended() {
        return Look::Zombie(stat.start_ticks);
    }
    if proof == Proof::Child {
        let ours = Pid::new(stat.ppid) == Pid::own();
        let nothing = Carried { named: false, nonce: None, tree: Tree::None };
        return if ours { Look::Ours(Process::of_dir(dir), stat, nothing) } else { Look::Outside };
    }
    let (kind, service, cookie) = match proof {
        Proof::Named(kind, service, cookie) => (kind, service, cookie),
        Proof::Cookie(cookie) => (ChildKind::Task, "", cookie),
        Proof::Installation(id) => (ChildKind::Task, "", Cookie::Installation(id)),
        Proof::Nonce(_) | Proof::Spawned | Proof::Child => (ChildKind::Task, "", Cookie::Any),
    };
    let mut scan = Scan::new(names, Markers::new(names, kind, service), cookie);
    match dir.environ(|piece| scan.feed(piece)) {
        Ok(Environ::Bytes(_)) => {}
        Ok(Environ::Empty) if !stat.has_environ() => return Look::Moved,
        Ok(Environ::Ended) | Err(ProcError::Gone) => return Look::Moved,
        Err(e) if !is_secret(e) => return Look::Moved,
        Ok(_) | Err(_) => return Look::Unproven,
    }
    let carried = scan.carried();
    let ours = match proof {
        Proof::Nonce(nonce) => carried.nonce == Some(nonce),
        Proof::Spawned => carried.nonce.is_some(),
        Proof::Cookie(_) | Proof::Child => carried.tree == Tree::Ours,
        Proof::Installation(id) => {
            carried.tree == Tree::Ours || carried.nonce.is_some_and(|nonce| Run::spawned(id, nonce))
        }
        Proof::Named(..) => carried.tree == Tree::Ours && carried.named,
    };
    if ours { Look::Ours(Process::of_dir(dir), stat, carried) } else { Look::Unproven }
}
