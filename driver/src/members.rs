//! Who is left of a child and its group.

use pidward_core::{
    Pid,
    procfs::{Proc, ProcError},
};

use crate::{spawner::Entry, stop::Survivor};

/// The child, if it has not ended, and the living members of the group it was started as the leader of.
///
/// Zombies are nobody: they have ended, and their parent may take its time. Where `/proc` cannot tell, whoever may be left is left:
/// the group is listed under the number of its leader.
pub(crate) fn left(entry: &Entry, ended: bool) -> Vec<Survivor> {
    let mut left = Vec::new();
    let leader = entry.pid();
    let proc = Proc::open();
    if !ended {
        let stat = proc.as_ref().ok().and_then(|proc| proc.process(leader).ok()?.stat().ok());
        let state = stat.map_or('?', |stat| stat.state.letter().into());
        left.push(Survivor { pid: leader.get(), state });
    }
    let Some(pgid) = entry.child.pgid() else { return left };
    if entry.group_is_gone() {
        return left;
    }
    let listed = proc.and_then(|proc| {
        proc.pids(|pid| {
            if pid != leader {
                left.extend(member(&proc, pid, pgid));
            }
            true
        })
    });
    if listed.is_err() && left.is_empty() {
        left.push(Survivor { pid: pgid.get(), state: '?' });
    }
    left
}

/// The process, if it lives and is in the group.
fn member(proc: &Proc, pid: Pid, pgid: Pid) -> Option<Survivor> {
    match proc.process(pid).and_then(|process| process.stat()) {
        Ok(stat) if stat.pgrp == pgid.raw() && !stat.is_ended() => {
            Some(Survivor { pid: pid.get(), state: stat.state.letter().into() })
        }
        // Listed a moment ago, gone now.
        Ok(_) | Err(ProcError::Gone) => None,
        Err(e) => {
            log::debug!("process {pid} may be in the group {pgid}: {e:?}");
            None
        }
    }
}
