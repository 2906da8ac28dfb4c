//! Exec in place: the calling process itself becomes the program.
#![forbid(unsafe_code)]

use core::convert::Infallible;

use super::{
    Plan, SpawnError, Step, child,
    launch::{self, at},
};
use crate::{Errno, sys};

/// Runs the steps of `plan` in the calling process and execs; returns on failure only.
///
/// Differs from a spawn where there is no child: the group, the leaf, the death signal and the parent check are left alone,
/// and so is every descriptor that is not passed (close-on-exec decides, as always with exec). A failure leaves done what was
/// done. A process that means to go on uses a plan that changes nothing: no descriptors, [`Keep`](super::Keep) of mask and ignored
/// signals, none of the optional steps. Its handlers and descriptors are then untouched; exec itself takes handlers away.
///
/// The caller makes sure that no children live that its end would take down.
#[must_use = "it returns only if it failed"]
pub fn replace(plan: &Plan<'_>) -> SpawnError {
    let Err(failed) = steps(plan);
    failed
}

fn steps(plan: &Plan<'_>) -> Result<Infallible, SpawnError> {
    if !plan.is_sound() {
        return Err(SpawnError::new(Step::Plan, Errno::EINVAL));
    }
    let program = launch::open_program(plan).map_err(at(Step::Prepare))?;
    let score = launch::score_text(plan);
    let old = sys::set_mask(sys::SigSet::MAX).map_err(at(Step::Prepare))?;
    let run = || {
        if !plan.keep.ignored {
            child::dispositions(plan).map_err(at(Step::Dispositions))?;
        }
        child::rlimits(plan).map_err(at(Step::Rlimits))?;
        plan.nice.map_or(Ok(()), sys::set_nice).map_err(at(Step::Nice))?;
        child::oom_score(score.as_bytes()).map_err(at(Step::OomScore))?;
        let new = plan.credentials;
        new.groups.map_or(Ok(()), sys::set_groups).map_err(at(Step::Groups))?;
        new.gid.map_or(Ok(()), sys::set_gid).map_err(at(Step::Gid))?;
        new.uid.map_or(Ok(()), sys::set_uid).map_err(at(Step::Uid))?;
        plan.cwd.map_or(Ok(()), sys::chdir).map_err(at(Step::Cwd))?;
        if plan.no_new_privs {
            sys::set_no_new_privs().map_err(at(Step::NoNewPrivs))?;
        }
        if !plan.fds.is_empty() {
            child::place_fds(plan.fds).map_err(at(Step::Fds))?;
        }
        child::masks(plan).map_err(at(Step::Mask))?;
        // By the open file or not at all: what a failure leaves is for the caller to go on with.
        Err(SpawnError::new(Step::Exec, child::exec(plan, launch::number(program.as_ref()), b"\0")))
    };
    let failed = run();
    let _ = sys::set_mask(old);
    failed
}
