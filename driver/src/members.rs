//! Who is left of a child and its group.

use pidward_core::{
    Pid,
    procfs::{self, ProcError},
};

use crate::{spawner::Entry, stop::Survivor};

/// The child, if it has not ended, and the living members of the group it was started as the leader of.
///
/// Zombies are nobody: they have ended, and their parent may take its time. Where `/proc` cannot tell, whoever may be left is left:
/// the group is listed under the number of its leader.
pub(crate) fn left(entry: &Entry, ended: bool) -> Vec<Survivor> {
    let mut left = Vec::new();
    let leader = entry.pid();
    if !ended {
        left.push(Survivor {
            pid: leader.get(),
            state: procfs::stat(leader).map_or('?', |s| s.state.letter().into()),
        });
    }
    let Some(pgid) = entry.child.pgid() else { return left };
    if entry.group_is_gone() {
        return left;
    }
    let listed = procfs::pids(|pid| {
        if pid != leader {
            left.extend(member(pid, pgid));
        }
        true
    });
    if listed.is_err() && left.is_empty() {
        left.push(Survivor { pid: pgid.get(), state: '?' });
    }
    left
}

/// The process, if it lives and is in the group.
fn member(pid: Pid, pgid: Pid) -> Option<Survivor> {
    match procfs::stat(pid) {
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
