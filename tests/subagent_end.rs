//! The end of an agent: its handle does not wait, whatever state the agent and the spawner are in, and takes everybody along.

use std::{
    os::unix::process::ExitStatusExt,
    thread,
    time::{Duration, Instant},
};

use pidward::{Command, NodeId, SpawnPayload, Spawner, Stdio, Subagent};
use pidward_tests::{
    announce::Board,
    cgroup::{self, Place},
    files::TempDir,
    fixture,
    frozen::Frozen,
    hung::{At, HungProgram, Interrupt},
    in_child,
    leftovers::NoLeftovers,
    need, os, proc, skip,
};

mod agents;

use agents::{SECOND, Stage};

/// What a handle may take.
const BOUND: Duration = Duration::from_millis(100);

fn timed(what: impl FnOnce()) -> Duration {
    let began = Instant::now();
    what();
    began.elapsed()
}

/// On a busy machine any call may take long for once.
#[track_caller]
fn assert_quick(took: &[Duration]) {
    println!("{took:?}");
    assert!(took.iter().min() < Some(&BOUND) && took.iter().all(|took| *took < SECOND * 5), "{took:?}");
}

/// A script of the shell that is an agent as far as its supervisor knows.
fn script(stage: &Stage, node: u64, script: &str) -> Subagent {
    let payload = SpawnPayload::new("script", "");
    let mut cmd = stage.guard.shell(script);
    Subagent::spawn(cmd.stdin(Stdio::piped()), &payload, NodeId(node), &stage.events, &stage.spawner).unwrap()
}

#[test]
fn drop_takes_the_whole_group_and_does_not_wait() {
    let stage = Stage::new();
    let mut took = Vec::new();
    for _ in 0..5 {
        // One of the group, and one that has left it.
        let agent = script(&stage, 1, "sleep 1000 & setsid sleep 1000 & read never");
        let sleeps = || stage.guard.left().iter().filter(|pid| proc::cmdline(**pid) == "sleep 1000").count();
        proc::eventually("both are there", || sleeps() == 2);
        let pid = agent.pid();
        took.push(timed(|| drop(agent)));
        proc::eventually("nobody is left", || stage.guard.left().is_empty());
        proc::eventually("it is reaped", || proc::state(pid).is_none());
        stage.to_exit();
    }
    assert_quick(&took);
}

#[test]
fn kill_of_an_agent_that_is_stopped_is_quick_however_often() {
    let stage = Stage::new();
    let mut agent = script(&stage, 1, "kill -STOP $$; sleep 1000");
    proc::eventually("it is stopped", || proc::state(agent.pid()) == Some('T'));
    assert_quick(&[(); 3].map(|()| timed(|| agent.kill())));
    assert_eq!(agent.child().wait().unwrap().signal(), Some(libc::SIGKILL));
    assert_quick(&[(); 3].map(|()| timed(|| agent.kill())));
}

#[test]
fn drop_does_not_wait_for_one_that_the_kernel_does_not_let_go_of() {
    need!(os::is_root(), "needs-root: to mount");
    in_child!();
    let stage = Stage::new();
    let dir = TempDir::new();
    let Some(frozen) = Frozen::new(&dir) else {
        skip!("needs-loop");
    };
    let hang = format!("exec >/dev/null 2>&1; echo x > {}", frozen.path().join("file").display());
    let (mut took, mut pids) = (Vec::new(), Vec::new());
    for node in 1..4 {
        let agent = script(&stage, node, &hang);
        pids.push(agent.pid());
        proc::eventually("it hangs", || proc::state(agent.pid()) == Some('D'));
        took.push(timed(|| agent.kill()));
        took.push(timed(|| drop(agent)));
    }
    assert_eq!(pids.iter().filter(|pid| proc::state(**pid) == Some('D')).count(), 3);
    assert_quick(&took);
    frozen.thaw();
    for pid in pids {
        proc::eventually("its end is taken", || proc::state(pid).is_none());
    }
}

#[test]
fn drop_does_not_wait_for_a_spawner_that_hangs() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    let mut program = HungProgram::start(fixture!("hungfs"), At::Open, Interrupt::Answered).unwrap();
    let spawner = Spawner::builder().threads(1).deadline(None).build().unwrap();
    let stage = Stage { events: pidward::Events::new().unwrap(), spawner, guard: NoLeftovers::new() };
    let [two, three] = [2, 3].map(|node| script(&stage, node, "read never"));
    let agents = [stage.start("deaf", ""), two, three];
    let mut hung = Command::new(program.path());
    hung.stdin(Stdio::null());
    thread::scope(|scope| {
        let asker = scope.spawn(|| stage.spawner.spawn(&hung));
        // Somebody hangs, and with it the only thread that spawns.
        program.wait_hung().expect("somebody hangs");
        assert_quick(&agents.map(|agent| timed(|| drop(agent))));
        proc::eventually("nobody is left", || stage.guard.left().is_empty());
        assert!(!asker.is_finished());
        program.fail().unwrap();
        asker.join().unwrap().expect_err("its file cannot be read");
    });
}

#[test]
fn drop_takes_along_whom_only_the_leaf_shows() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let stage = Stage { events: pidward::Events::new().unwrap(), spawner: place.spawner(), guard };
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).arg("bare").env(stage.guard.token().0, stage.guard.token().1).stdin(Stdio::piped());
    let agent = stage.start_as(&mut cmd, &SpawnPayload::new("tree", ""));
    board.wait_for("ready");
    let bare = cgroup::bare(&board);
    let (pid, took) = (agent.pid(), timed(|| drop(agent)));
    assert_quick(&[took]);
    proc::eventually("it has ended", || proc::has_ended(bare) && proc::state(pid).is_none());
    os::reap_orphans();
}
