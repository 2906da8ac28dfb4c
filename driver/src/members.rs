//! Who is left of a child and its group.

use pidward_core::{
    Errno, Pid, Signal,
    cgroup::Cgroup,
    procfs::{self, ProcError},
    signal::SignalError,
    sweep::{self, Member, Proof, Scope},
};

use crate::{
    carriers::Kin,
    report::Survivor,
    say::say,
    spawner::{Entry, Ground},
};

/// The child, if it has not ended, and the living members of the group it was started as the leader of.
///
/// Zombies are nobody: they have ended, and their parent may take its time. Where `/proc` cannot tell, whoever may be left is left:
/// the group is listed under the number of its leader.
pub(crate) fn left(entry: &Entry, ended: bool) -> Vec<Survivor> {
    let leader = entry.pid();
    let mut left: Vec<Survivor> = (!ended).then(|| survivor(leader)).into_iter().collect();
    let asked = entry.ask_group();
    let (Some(pgid), Some(nonce)) = (entry.child.pgid(), entry.about.nonce) else { return left };
    if matches!(asked, Err(SignalError::Gone | SignalError::NoGroup)) {
        return left;
    }
    let (ours, unproven) = members(&entry.ground, pgid, Proof::Nonce(nonce));
    left.extend(ours.into_iter().filter(|member| member.pid != leader.get() || ended && member.state == '?'));
    // Where nothing keeps the number it may be that of a stranger's group by now. It is, if somebody has it as pid: it is not given away
    // while the group has a member.
    if asked != Err(SignalError::Unpinned) || procfs::stat(pgid) == Err(ProcError::Gone) {
        left.extend(unproven.into_iter().filter(|member| member.pid != leader.get()));
    }
    left
}

/// Who lives in the child's leaf and is not among `known`; and whether the kernel says that nobody does.
pub(crate) fn in_leaf(
    ground: &Ground,
    leaf: &Cgroup,
    child: Pid,
    known: &[Survivor],
) -> (Vec<Survivor>, bool) {
    let (mut left, host) = (Vec::new(), ground.host());
    match leaf.is_populated() {
        // Removed: that is only done to an empty one.
        Ok(false) | Err(Errno::ENODEV | Errno::ENOENT) => return (left, true),
        Ok(true) => {}
        Err(_) => return (left, false),
    }
    let mut seen = false;
    if let Ok(proc) = host.proc() {
        leaf.members(proc, |process, stat| {
            let pid = process.pid().get();
            seen = true;
            if !known.iter().any(|known| known.pid == pid) {
                left.push(Survivor { pid, state: stat.state.letter().into() });
            }
        });
    }
    // Somebody is there whom we cannot see.
    if !seen && known.is_empty() {
        left.push(Survivor { pid: child.get(), state: '?' });
    }
    (left, false)
}

/// Sends a signal to those in a child's leaf that neither its group nor what they carry shows; SIGKILL to all in it.
pub(crate) fn signal_leaf(leaf: &Cgroup, kin: Kin<'_>, signal: Signal) {
    let (host, group) = (kin.ground.host(), kin.group.map(Pid::raw));
    let Ok(proc) = host.proc() else { return };
    if signal == Signal::KILL {
        match leaf.kill(proc) {
            // Removed, as is only done to an empty one: by the supervisor, where somebody else stops its child.
            Ok(()) | Err(Errno::ENOENT | Errno::ENODEV) => {}
            Err(e) => say!(warn, "SIGKILL to the cgroup of process {}: {e}", kin.pid),
        }
        return;
    }
    let names = kin.ground.names();
    leaf.members(proc, |process, stat| {
        if Some(stat.pgrp) != group
            && sweep::one(&host, &names, process.pid(), Proof::Nonce(kin.nonce)).is_none()
        {
            let _ = process.signal(signal);
        }
    });
}

/// Somebody who lives, with the state that it shows.
pub(crate) fn survivor(pid: Pid) -> Survivor {
    Survivor { pid: pid.get(), state: procfs::stat(pid).map_or('?', |stat| stat.state.letter().into()) }
}

/// Who lives in the group and proves to be ours, and who does not prove it. Where `/proc` cannot be read whoever may be left is left.
pub(crate) fn members(ground: &Ground, pgid: Pid, proof: Proof<'_>) -> (Vec<Survivor>, Vec<Survivor>) {
    let (mut ours, mut unproven) = (Vec::new(), Vec::new());
    let scope = Scope::Group(pgid);
    let seen = sweep::each(&ground.host(), &ground.names(), scope, proof, |member| match member {
        Member::Ours(process, ..) => ours.push(survivor(process.pid())),
        Member::Unproven(pid) => unproven.push(survivor(pid)),
    });
    if seen.is_err() && ours.is_empty() {
        ours.push(Survivor { pid: pgid.get(), state: '?' });
    }
    (ours, unproven)
}

/// Sends a signal to every living member of the group that proves to be ours, but not to `except`.
///
/// # Errors
/// [`SignalError::Gone`]: there is none. [`SignalError::Unpinned`]: there are members, and none proves to be ours.
pub(crate) fn signal(
    ground: &Ground,
    pgid: Pid,
    proof: Proof<'_>,
    except: Option<Pid>,
    signal: Signal,
) -> Result<(), SignalError> {
    let (mut sent, mut unproven) = (Err(SignalError::Gone), false);
    let scope = Scope::Group(pgid);
    let looked = sweep::each(&ground.host(), &ground.names(), scope, proof, |member| match member {
        Member::Ours(process, ..) if Some(process.pid()) == except => {}
        Member::Ours(process, ..) => {
            let reached = process.signal(signal);
            // One that was reached is enough.
            sent = sent.or(reached);
        }
        Member::Unproven(_) => unproven = true,
    });
    match sent {
        Err(SignalError::Gone) if unproven || looked.is_err() => Err(SignalError::Unpinned),
        sent => sent,
    }
}
