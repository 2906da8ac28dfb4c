//! A stop takes the whole tree: the group, and whoever has left it and still shows that it descends from the child.

use std::{
    fs,
    time::{Duration, Instant},
};

use pidward::{CgroupPlace, Child, Command, Rung, Spawner, StopOwned};
use pidward_tests::{
    announce::Board, cgroup::Place, command, files::TempDir, fixture, in_child, leftovers::NoLeftovers, need,
    os, proc, rounds::rounds, skip,
};

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(20);
/// Everything that a tree can be made of and that carries its environ.
const ALL: [&str; 6] = ["child", "grandchild", "daemon", "stopped", "deaf", "storm:200"];
/// As many processes: the leader, the parent of the grandchild, the end of the storm and the others.
const COUNT: usize = 8;

/// A tree of these, ready: as many as are expected, counted by what they carry.
fn tree(spawner: &Spawner, guard: &NoLeftovers, board: &Board, kinds: &[&str], count: usize) -> Child {
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).args(kinds).env(guard.token().0, guard.token().1);
    let child = spawner.spawn(&cmd).expect("a tree");
    board.wait_for(&format!("ready {}", child.id()));
    for kind in kinds.iter().filter(|kind| **kind != "exit") {
        board.wait_for(kind.split(':').next().unwrap_or_default());
    }
    proc::eventually("all of the tree", || guard.left().len() >= count);
    child
}

fn nobody(guard: &NoLeftovers) {
    let left: Vec<_> = guard.left().into_iter().filter(|pid| !proc::ending(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_stop_takes_sessions_stopped_and_deaf_ones_and_a_storm_along() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    for _ in 0..rounds(3, 30) {
        let dir = TempDir::new();
        let mut child = tree(&spawner, &guard, &Board::at(dir.at("board")), &ALL, COUNT);
        let began = Instant::now();
        let report = child.stop(SHORT);
        assert!(report.is_complete() && report.rung() >= Some(Rung::Kill), "{report:?}");
        assert!(began.elapsed() >= SHORT, "the deaf one had its grace");
        nobody(&guard);
    }
}

#[test]
fn what_a_leader_that_has_ended_left_in_sessions_of_its_own_is_stopped_too() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let dir = TempDir::new();
    let mut child = tree(&spawner, &guard, &Board::at(dir.at("board")), &["daemon", "exit"], 1);
    assert!(child.wait().expect("its end").success());
    let daemon = guard.left();
    assert!(daemon.len() == 1 && proc::sid(daemon[0]) == Some(daemon[0]), "a session of its own");
    let report = child.stop(LONG);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.rung(), Some(Rung::Term), "it was asked politely: {report:?}");
    nobody(&guard);
}

#[test]
fn a_dropped_child_that_is_killed_on_drop_takes_its_daemons_along() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).args(["daemon", "deaf"]).env(guard.token().0, guard.token().1).kill_on_drop(true);
    let child = spawner.spawn(&cmd).expect("a tree");
    board.wait_for("ready");
    board.wait_for("daemon");
    board.wait_for("deaf");
    drop(child);
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn a_shutdown_takes_every_tree_within_one_grace() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let dir = TempDir::new();
    let boards: Vec<Board> = (0..20).map(|n| Board::at(dir.at(format!("{n}")))).collect();
    let children: Vec<Child> =
        boards.iter().map(|board| tree(&spawner, &guard, board, &["daemon", "deaf"], 3)).collect();
    proc::eventually("all trees", || guard.left().len() == 3 * boards.len());
    let began = Instant::now();
    let report = spawner.shutdown(SHORT);
    assert!(report.is_complete() && report.children.len() == children.len(), "{report:?}");
    assert!(began.elapsed() < SHORT * 2 + Duration::from_secs(10), "{:?}", began.elapsed());
    nobody(&guard);
}

/// Without a leaf such a one may be too fast for every look. Then nothing is called proven, and it is found when it stays.
#[test]
fn who_forks_and_ends_in_a_loop_outside_the_group_ends_or_nothing_is_proven() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(900)));
    let place = Place::new();
    let at = place.as_ref().map(Place::at);
    for at in at.into_iter().chain([CgroupPlace::Off]) {
        let leaf = at != CgroupPlace::Off;
        let spawner = Spawner::builder().cgroup(at).build().expect("a spawner");
        let mut proven = 0;
        for _ in 0..rounds(5, 60) {
            let guard = NoLeftovers::new();
            let dir = TempDir::new();
            let mut child = tree(&spawner, &guard, &Board::at(dir.at("board")), &["runaway:10000"], 1);
            let report = child.stop(Duration::ZERO);
            let sure = leaf || report.children[0].proven;
            if sure {
                assert!(report.is_complete(), "{report:?}");
                // Nobody is between two looks of this test either.
                for _ in 0..20 {
                    nobody(&guard);
                }
            }
            proven += usize::from(sure);
            proc::eventually("nobody is left", || {
                drop(child.stop(Duration::ZERO));
                guard.left().is_empty()
            });
            // This process is pid 1 of its namespace: the ends of the chain have come to it, and fill its numbers.
            os::reap_orphans();
        }
        println!("leaf {leaf}: {proven} of {} sure", rounds(5, 60));
    }
}

#[test]
fn in_a_quiet_place_it_is_proven_that_nobody_is_left() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let dir = TempDir::new();
    let mut child = tree(&spawner, &guard, &Board::at(dir.at("board")), &["daemon"], 2);
    let report = child.stop(LONG);
    assert!(report.is_complete() && report.children.iter().all(|child| child.proven), "{report:?}");
}

#[test]
fn who_has_no_environ_outside_the_group_is_not_found_and_a_strangers_is_not_touched() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let mut stranger = guard.command(fixture!("trapall")).arg(dir.at("log")).spawn().expect("a stranger");
    Board::at(dir.at("log")).wait_for("ready");
    let spawner = Spawner::new().expect("a spawner");
    let board = Board::at(dir.at("board"));
    let mut child = tree(&spawner, &guard, &board, &["bare", "daemon"], 2);
    let bare = board.wait_for_pid("bare");
    proc::eventually("exec", || proc::environ(bare).is_empty() && proc::cmdline(bare).contains("sleep"));
    let report = child.stop(LONG);
    assert!(report.is_complete(), "{report:?}");
    assert!(proc::alive(bare), "only a leaf of its own, or a subreaper, would reach it");
    os::signal_pid(bare, libc::SIGKILL).expect("the bare one");
    assert_eq!(fs::read_to_string(dir.at("log")).expect("its log"), format!("ready {}\n", stranger.id()));
    stranger.kill().expect("the stranger");
    stranger.wait().expect("its status");
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn whoever_has_the_identity_takes_the_daemons_along_too() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    // As after a restart: it is another run.
    let later = Spawner::new().expect("a spawner");
    for (ends_first, by_later) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = TempDir::new();
        let mut child = tree(&spawner, &guard, &Board::at(dir.at("board")), &["daemon", "deaf"], 3);
        let identity = child.identity().expect("an identity");
        if ends_first {
            child.kill().expect("the leader");
            child.wait().expect("its end");
        }
        let stop = || if by_later { later.stop_identity(&identity, SHORT) } else { identity.stop(SHORT) };
        let stopped = stop();
        assert!(matches!(stopped, StopOwned::Stopped(_)), "{stopped:?}");
        nobody(&guard);
        assert!(matches!(stop(), StopOwned::NotRunning));
    }
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn a_shutdown_takes_what_ended_children_and_supervisors_below_left_behind() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let spawner = Spawner::new().expect("a spawner");
    // A child that has ended and is forgotten, with a daemon; and a supervisor further down that is killed, with a deaf daemon of its child.
    drop(tree(&spawner, &guard, &Board::at(dir.at("ended")), &["daemon", "exit"], 1));
    let inner = Board::at(dir.at("inner"));
    let mut cmd = Command::new(command::path());
    cmd.args(["run", "--no-guard", "--"]).arg(fixture!("tree")).arg(inner.path()).args(["deaf", "daemon"]);
    let below = cmd.env(guard.token().0, guard.token().1).env("XDG_RUNTIME_DIR", command::records());
    let mut below = spawner.spawn(below).expect("pidward");
    inner.wait_for("ready");
    inner.wait_for("deaf");
    inner.wait_for("daemon");
    below.kill().expect("the supervisor below");
    below.wait().expect("its end");
    proc::eventually("the death signal has come", || guard.left().len() == 3);
    let began = Instant::now();
    let report = spawner.shutdown(SHORT);
    assert!(report.is_complete() && report.strays.is_empty(), "{report:?}");
    assert!(began.elapsed() >= SHORT, "the deaf one had its grace");
    nobody(&guard);
}

#[test]
fn the_command_takes_daemons_along_when_the_program_ends_by_itself() {
    let guard = NoLeftovers::new();
    let script = "setsid sleep 1000 >/dev/null 2>&1 & exit 3";
    let output = command::finish(&mut command::run(&guard, &[], &["sh", "-c", script]));
    assert_eq!(command::code(&output), 3, "{output:?}");
    nobody(&guard);
}

#[test]
fn a_shutdown_of_many_deaf_ones_takes_one_grace_and_not_one_look_for_each() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let many = rounds(200, 1000);
    for _ in 0..many {
        let mut cmd = Command::new(fixture!("termdeaf"));
        cmd.arg("--ready-file").arg(board.path()).env(guard.token().0, guard.token().1);
        spawner.spawn_supervised(cmd).expect("a child");
    }
    proc::eventually("all of them", || board.lines().len() == many);
    let began = Instant::now();
    let report = spawner.shutdown(SHORT);
    assert!(report.is_complete() && report.children.len() == many, "{report:?}");
    let took = began.elapsed();
    println!("{many} children in {took:?}");
    assert!(took >= SHORT && took < SHORT + Duration::from_secs(15), "{took:?}");
    nobody(&guard);
}

#[test]
fn under_the_command_who_has_lost_everything_ends_too_without_a_leaf() {
    in_child!(|again| again.limit(Duration::from_secs(600)));
    // It ends by itself, is stopped, or is killed.
    for number in [0, libc::SIGTERM, libc::SIGKILL].repeat(rounds(1, 20)) {
        let guard = NoLeftovers::alone();
        let dir = TempDir::new();
        let board = Board::at(dir.at("board"));
        let (board_path, tree) =
            (board.path().to_str().expect("a path"), fixture!("tree").to_str().expect("a path"));
        let mut kinds = vec![tree, board_path, "bare"];
        kinds.extend((number == 0).then_some("exit"));
        let mut cmd = command::run(&guard, &["--cgroup", "off", "--grace", "300ms"], &kinds);
        let mut run = cmd.spawn().expect("pidward");
        let bare = board.wait_for_pid("bare");
        if number != 0 {
            proc::eventually("exec", || {
                proc::environ(bare).is_empty() && proc::cmdline(bare).contains("sleep")
            });
            command::signal(run.id(), number);
        }
        run.wait().expect("its end");
        proc::eventually("it has ended", || proc::has_ended(bare) && guard.left().is_empty());
    }
}
