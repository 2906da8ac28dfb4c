//! Orphans that come to this process because it is a subreaper: their zombies go, those of the host's own children stay.
//!
//! Whoever descends from a child of ours and loses its parent becomes our child. It is reaped when it has ended, if it proved to be ours
//! while it lived (it carried the run, or was in a leaf), or ended in the group or session of a child that lives. Every other zombie
//! is left to whoever may wait for it.

use std::{
    collections::HashMap,
    process,
    sync::Mutex,
    time::{Duration, Instant},
};

use pidward_core::{
    Pid,
    reap::take_away,
    sweep::{self, Proof},
};

use super::{guard::LOOK, queue::lock, shared::Shared};
use crate::say::say;

#[derive(Debug, Default)]
pub(super) struct Orphans {
    looked: Mutex<Option<Instant>>,
    /// Those that have proved to be ours, by pid, with their start. A child that is not yet on the spawner's list looks like one.
    ours: Mutex<HashMap<Pid, u64>>,
}

impl Orphans {
    /// Looks at most once a second, since it reads all of `/proc`. How long until it must be looked again.
    pub(super) fn look(&self, shared: &Shared) -> Duration {
        let mut last = lock(&self.looked);
        let left = last.map_or(Duration::ZERO, |looked| LOOK.saturating_sub(looked.elapsed()));
        if !left.is_zero() {
            return left;
        }
        *last = Some(Instant::now());
        let (ground, host) = (&shared.ground, shared.ground.host());
        let Ok(proc) = host.proc() else { return LOOK };
        let children = shared.children();
        let groups: Vec<i32> = children.iter().filter_map(|entry| entry.child.pgid()).map(Pid::raw).collect();
        let is_child = |pid: Pid| {
            children.iter().any(|entry| entry.pid() == pid) || shared.guard.pid() == Some(pid.get())
        };
        let (names, proof) = (ground.names(), Proof::Cookie(ground.run_cookie()));
        let mut in_leaves = Vec::new();
        if let Some(home) = &shared.home {
            home.group().members(proc, |process, _| in_leaves.push(process.pid()));
        }
        let looked = proc.pids(|pid| {
            // From before it is looked at: a child that ends is forgotten before or after this, and not in between.
            let mut ours = lock(&self.ours);
            let Ok(dir) = proc.listed(pid) else { return true };
            let Some(stat) = dir.stat().ok().filter(|stat| stat.ppid == process::id()) else { return true };
            let known = ours.get(&pid) == Some(&stat.start_ticks);
            if is_child(pid) || known && !stat.is_ended() {
                return true;
            }
            if !stat.is_ended() {
                if in_leaves.contains(&pid) || sweep::one(&host, &names, pid, proof).is_some() {
                    ours.insert(pid, stat.start_ticks);
                }
                return true;
            }
            if known || groups.contains(&stat.pgrp) || groups.contains(&stat.session) {
                if take_away(&dir) {
                    say!(debug, "orphan {pid} has ended");
                }
                ours.remove(&pid);
            }
            true
        });
        if let Err(e) = looked {
            say!(debug, "orphans: {e:?}");
        }
        LOOK
    }

    /// A child has ended, and its status is its owner's. Before it goes off the spawner's list.
    pub(super) fn forget(&self, child: Pid) {
        lock(&self.ours).remove(&child);
    }
}
