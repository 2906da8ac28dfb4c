//! Orphans that came to us, as they do to pid 1 and to a subreaper: their statuses are taken, so that no zombie stays, and in the end
//! whoever of them lives is stopped.

use std::time::Duration;

use pidward_core::{
    identity::Host,
    marker::Names,
    reap::{Target, any_ended, try_reap},
    sweep::{self, Proof, Scope},
};

use crate::output;

/// How long after SIGKILL the kernel may take.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// From now on orphans come to us. Linux 3.4.
pub(super) fn adopt() {
    if let Err(e) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        log::warn!("orphans do not come to us: {e}");
    }
}

/// Stops every child that we still have: none of them is our own any more. Whether nobody is left; else each is named.
pub(super) fn stop(grace: Duration) -> bool {
    let host = Host::look();
    let (names, scope, proof) = (Names::DEFAULT, Scope::Since(0), Proof::Child);
    match sweep::end_all(&host, &names, scope, proof, None, (grace, KILL_LIMIT), |_, _| true) {
        // On a machine that is never quiet there may be nobody all the same.
        Ok(false) => {
            let mut left = false;
            let _ = sweep::each(&host, &names, scope, proof, |member| {
                if let sweep::Member::Ours(process, stat, _) = member {
                    let state: char = stat.state.letter().into();
                    output::complain(&format!("process {} (state {state}) survived the stop", process.pid()));
                    left = true;
                }
            });
            !left
        }
        Err(e) => {
            log::warn!("orphans cannot be looked for, and may live on: {e:?}");
            true
        }
        Ok(true) => true,
    }
}

/// Reaps every zombie of ours but the program itself, whose status its owner takes.
pub(super) fn reap(own: u32) {
    // Ends when there is no zombie, or the program is the next: each round takes one.
    while let Ok(Some(pid)) = any_ended() {
        if pid.get() == own || try_reap(Target::Pid(pid)).is_err() {
            return;
        }
        log::debug!("orphan {pid} has ended");
    }
}
