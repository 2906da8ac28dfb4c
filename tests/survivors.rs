//! Children that are meant to outlive their supervisor: nobody ends them when it is killed, and whoever has their identity can. And
//! spawners that have no guard.

use std::{process::Stdio, time::Duration};

use pidward::{Command, Identity, Spawner, StopOwned, Verdict};
use pidward_core::{
    Errno, Id128,
    guard::{Charge, Guard},
    marker::Names,
};
use pidward_tests::{announce::Board, files::TempDir, fixture, in_child, leftovers::NoLeftovers, os, proc};

const GRACE: Duration = Duration::from_millis(300);

#[test]
fn a_child_that_may_lives_on_and_is_stopped_by_its_identity() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(fixture!("supervisor"));
    cmd.arg(board.path()).args(["200", "survive", "daemon", "deaf"]);
    let mut supervisor = cmd.stdin(Stdio::piped()).spawn().expect("a supervisor");
    let own = board.wait_for_pid("guard");
    for word in ["daemon", "deaf", "ready", "written"] {
        board.wait_for(word);
    }
    let identity: Identity = board.wait_for("identity").parse().expect("a line");
    proc::eventually("all of it", || guard.left().len() >= 4);
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    proc::eventually("the guard has found nobody", || proc::has_ended(own));
    assert_eq!((identity.verify(), guard.left().len()), (Verdict::Same, 3), "the leader and two others");
    let stop = identity.stop(Duration::from_millis(200));
    assert!(matches!(stop, StopOwned::Stopped(_)), "{stop:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn a_stop_by_the_handle_of_such_a_child_takes_its_daemons_along() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).arg("daemon").survives_supervisor(true).env(guard.token().0, guard.token().1);
    let mut child = spawner.spawn(&cmd).expect("a tree");
    let daemon = board.wait_for_pid("daemon");
    board.wait_for("ready");
    let report = child.stop(GRACE);
    assert!(report.is_complete() && proc::has_ended(daemon), "{report:?}");
}

#[test]
fn a_spawner_without_a_guard_or_whose_children_begin_a_namespace_has_none() {
    in_child!();
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    assert_eq!(spawner.guard_pid(), None);
    assert!(proc::all_children(std::process::id()).is_empty(), "nobody but us");
    drop(spawner);
    if os::is_root() {
        // SAFETY: takes a number only.
        os::check(unsafe { libc::unshare(libc::CLONE_NEWPID) }.into()).expect("root may");
        let charge = Charge {
            names: Names::DEFAULT,
            run: Id128::from_bytes([0; 16]),
            grace: GRACE,
            limit: GRACE,
            cgroup: None,
        };
        let refused = Guard::start(&charge).err();
        assert_eq!(refused, Some(Errno::EOPNOTSUPP), "it would be pid 1 of the namespace");
    }
}
