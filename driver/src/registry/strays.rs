//! Whoever a dead run has left that no record knows.

use std::{collections::HashSet, time::Duration};

use pidward_core::{
    Id128, Pid,
    marker::{Carried, Cookie},
    sweep::{self, Member, Proof, Scope},
};

use super::{Inner, Leftover, Policy, Reconciled, Reconciliation, tree::Above};
use crate::{
    members,
    say::say,
    spawner::{Ground, lock},
    stop::KILL_LIMIT,
};

impl Inner {
    /// Whoever carries an entry of a run that has ended and is of no record that stays. Whether it is proven that nobody is left.
    pub(super) fn sweep(
        &self,
        ground: &Ground,
        dead: &HashSet<Id128>,
        grace: Duration,
        decide: &mut dyn FnMut(Leftover<'_>) -> Policy,
        done: &mut Reconciliation,
    ) -> bool {
        let (host, names) = (ground.host(), ground.names());
        let (scope, proof) = (Scope::Since(0), Proof::Installation(self.installation));
        let spared: HashSet<Id128> = done.children.iter().filter_map(Reconciled::spared).collect();
        let above = Above::look(ground);
        let runs = lock(&self.runs).clone();
        let carries = |pid: Pid, run: &Id128| {
            sweep::one(&host, &names, pid, Proof::Cookie(Cookie::Run(*run))).is_some()
        };
        let is_stray = |pid: Pid, carried: &Carried| {
            !carried.nonce.is_some_and(|nonce| spared.contains(&nonce) || self.is_used(nonce))
                && !above.has(pid)
                && dead.iter().any(|run| carries(pid, run))
                && !runs.iter().any(|run| carries(pid, run))
        };
        let list = || {
            let mut found = Vec::new();
            let seen = sweep::each(&host, &names, scope, proof, |member| match member {
                Member::Ours(process, _, carried) if is_stray(process.pid(), &carried) => {
                    found.push(members::survivor(process.pid()));
                }
                _ => {}
            });
            if let Err(e) = seen {
                say!(warn, "whoever has no record cannot be looked for, and may live on: {e:?}");
            }
            found
        };
        let known: HashSet<u32> = done.children.iter().flat_map(Reconciled::survivors).collect();
        let found = list();
        if found.iter().all(|stray| known.contains(&stray.pid)) {
            return spared.is_empty() && known.is_empty();
        }
        if decide(Leftover::Strays) != Policy::Stop {
            done.strays = found;
            return false;
        }
        let mut stopped = HashSet::new();
        let ended =
            sweep::end_all(&host, &names, scope, proof, None, (grace, KILL_LIMIT), |process, carried| {
                let take = !known.contains(&process.pid().get()) && is_stray(process.pid(), carried);
                if take {
                    stopped.insert(process.pid());
                }
                take
            });
        if ended != Ok(true) {
            done.strays = list();
            done.strays.retain(|stray| !known.contains(&stray.pid));
        }
        done.strays_stopped = stopped.len().saturating_sub(done.strays.len());
        ended == Ok(true) && spared.is_empty() && known.is_empty()
    }
}
