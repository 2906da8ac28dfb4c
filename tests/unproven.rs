//! What a stop does and says where looks prove nothing: they are never quiet, cannot be made, or do not show everybody.

use std::{
    fs,
    io::{Read, Write},
    process::Stdio,
    time::Duration,
};

use pidward::{Child, Command, Rung, Spawner};
use pidward_tests::{
    announce::Board,
    cgroup::Place,
    child::Again,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os,
    place::{self, Hide, NOBODY},
    proc, skip, this_test,
};

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(20);
/// How long whoever got SIGKILL is waited for.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// A tree with one descendant of this kind, ready.
fn tree(spawner: &Spawner, guard: &NoLeftovers, board: &Board, kind: &str) -> Child {
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).arg(kind).env(guard.token().0, guard.token().1);
    let child = spawner.spawn(&cmd).expect("a tree");
    board.wait_for("ready");
    board.wait_for(kind);
    child
}

/// Somebody whose first thread has ended. It looks like one on its way out, so that no look is quiet, and nothing is ever proven.
fn restless(guard: &NoLeftovers, dir: &TempDir) -> std::process::Child {
    let board = Board::at(dir.at("restless"));
    let mut cmd = guard.command(fixture!("lostmain"));
    let child = cmd.arg("--ready-file").arg(board.path()).stdin(Stdio::piped()).spawn().expect("a fixture");
    board.wait_for("ready");
    child
}

#[test]
fn where_nothing_is_proven_who_has_left_the_group_is_looked_for_to_the_end() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let mut restless = restless(&guard, &dir);
    let spawner = Spawner::new().expect("a spawner");
    let stop = |kind: &str, grace: Duration| {
        let mut child = tree(&spawner, &guard, &Board::at(dir.at(kind)), kind);
        let mut report = child.stop(grace);
        assert!(report.is_complete(), "{kind}: {report:?}");
        report.children.remove(0)
    };
    // Nobody of its tree was ever seen elsewhere.
    let near = stop("child", LONG);
    assert!(near.rung == Some(Rung::Term) && !near.proven, "{near:?}");
    let away = stop("daemon", Duration::ZERO);
    assert!(away.took >= KILL_LIMIT && !away.proven, "{away:?}");
    drop(restless.stdin.take());
    restless.wait().expect("its end");
}

/// Whoever may write to other groups leaves its leaf as it left the child's group.
#[test]
fn an_empty_leaf_proves_nothing_where_somebody_had_left_the_group() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let mut restless = restless(&guard, &dir);
    let place = Place::new().expect("as above");
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("root may");
    let spawner = place.spawner();
    let board = Board::at(dir.at("board"));
    let mut child = tree(&spawner, &guard, &board, "daemon");
    let daemon = board.wait_for_pid("daemon");
    fs::write(elsewhere.join("cgroup.procs"), daemon.to_string()).expect("root may");
    let report = child.stop(Duration::ZERO);
    assert!(report.is_complete() && proc::has_ended(daemon), "{report:?}");
    assert!(report.children[0].took >= KILL_LIMIT && !report.children[0].proven, "{report:?}");
    drop(restless.stdin.take());
    restless.wait().expect("its end");
}

#[test]
fn a_stop_that_could_not_look_does_not_call_anything_proven_and_sees_again_later() {
    in_child!();
    let guard = NoLeftovers::alone();
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: reads one rlimit.
    os::check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }.into())
        .expect("a lower limit");
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    let dir = TempDir::new();
    let [first, second] = ["first", "second"].map(|name| {
        let board = Board::at(dir.at(name));
        let mut cmd = Command::new(fixture!("tree"));
        cmd.arg(board.path()).arg("daemon").env(guard.token().0, guard.token().1);
        let child = spawner.spawn(&cmd).expect("a tree");
        board.wait_for("ready");
        (child, board.wait_for_pid("daemon"))
    });
    let ((mut first, away), (second, _)) = (first, second);
    let mut full: Vec<fs::File> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    // As many as a look at /proc itself takes, and one process less.
    full.truncate(full.len() - 2);
    second.identity().expect_err("no descriptor for it");
    let report = first.stop(SHORT);
    assert!(!report.children[0].proven, "{report:?}");
    drop(full);
    second.identity().expect("there are descriptors again");
    assert!(!proc::has_ended(away), "else the look was good");
    let report = first.stop(SHORT);
    assert!(report.children[0].proven && proc::has_ended(away), "{report:?}");
    assert!(spawner.shutdown(SHORT).is_complete());
}

/// Whom nobody may look at is no descendant that was missed: neither one whose environ is closed, nor one whose whole directory is.
#[test]
fn processes_of_another_user_do_not_keep_a_stop_from_being_proven() {
    const HIDES: &str = "PIDWARD_TEST_HIDES";
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    let Some(hides) = std::env::var_os(HIDES) else {
        for hides in ["no", "yes"] {
            Again::of(&this_test!()).env(HIDES, hides).in_pid_namespace().run().check();
        }
        return;
    };
    let guard = NoLeftovers::new();
    let mut roots = guard.command("sh");
    // Its child is made after the spawner: its start does not tell it from a descendant.
    roots.args(["-c", "read go; sleep 1000 & echo; read end; kill $!; wait"]);
    let mut roots = roots.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    if hides == "yes" {
        place::hide_processes(Hide::Contents);
    }
    place::become_user(NOBODY);
    let spawner = Spawner::new().expect("a spawner");
    let mut cmd = Command::new("sleep");
    let mut child = spawner.spawn(cmd.arg("1000").env(guard.token().0, guard.token().1)).expect("sleep");
    let input = roots.stdin.as_mut().expect("piped");
    input.write_all(b"\n").expect("it reads");
    roots.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("its child is there");
    let report = child.stop(LONG);
    assert!(report.is_complete() && report.children[0].proven, "{report:?}");
    drop(roots.stdin.take());
    assert!(roots.wait().expect("its end").code().is_some());
}
