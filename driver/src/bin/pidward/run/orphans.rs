//! Orphans that came to us, as they do to pid 1 and to a subreaper: their statuses are taken, so that no zombie stays.

use pidward_core::reap::{Target, any_ended, try_reap};

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
