//! Children that are meant to outlive their supervisor: nobody ends them when it is killed, and whoever has their identity can.

use std::{process::Stdio, time::Duration};

use pidward::{Identity, StopOwned, Verdict};
use pidward_tests::{announce::Board, files::TempDir, fixture, in_child, leftovers::NoLeftovers, proc};

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
