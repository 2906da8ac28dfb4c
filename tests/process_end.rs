//! The whole supervisor ends without a word, or is copied by a fork: its children are signalled, or left alone.

use std::{
    io,
    os::fd::AsFd,
    panic::{self, AssertUnwindSafe},
    process,
    time::Duration,
};

use pidward::{Command, Signal, SpawnErrorKind, Spawner};
use pidward_tests::{
    announce::Board,
    child::Again,
    files::TempDir,
    in_child,
    leftovers::NoLeftovers,
    os,
    proc::{self, eventually},
};

const SECOND: Duration = Duration::from_secs(1);

fn sh(guard: &NoLeftovers, script: &str) -> Command {
    let (name, value) = guard.token();
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", script]).env(name, value);
    cmd
}

/// A child that ends with 17 as soon as the other end of `gate` is closed.
fn held(guard: &NoLeftovers, gate: &impl AsFd) -> Command {
    let mut cmd = sh(guard, "read line; exit 17");
    cmd.stdin(gate.as_fd().try_clone_to_owned().expect("a copy of the gate"));
    cmd
}

fn is_our_zombie(pid: u32) -> bool {
    proc::state(pid) == Some('Z') && proc::ppid(pid) == Some(process::id())
}

/// Nothing else is called meanwhile.
#[track_caller]
fn gone_within_a_second(pids: &[u32]) {
    let is_there = |pid: &&u32| proc::alive(**pid) || is_our_zombie(**pid);
    let left = || pids.iter().filter(is_there).collect::<Vec<_>>();
    assert!(proc::until(SECOND, || left().is_empty()), "{:?}", left());
}

#[test]
fn end_of_the_supervisor_signals_its_children_at_once() {
    for how in ["exit", "abort", "kill"] {
        let dir = TempDir::new();
        let path = dir.at("board").display().to_string();
        let again = Again::of("supervisor_that_ends").env("PIDWARD_TEST_DO", how);
        let outcome = again.env("PIDWARD_TEST_BOARD", &path).run();
        assert!(!outcome.timed_out, "{outcome:?}");
        assert_eq!(outcome.status.success(), how == "exit", "{outcome:?}");
        let board = Board::at(path.into());
        let (term, pid) = (board.wait_for("term"), board.wait_for("ready"));
        assert_eq!(term, pid, "the death signal, {how}");
    }
}

/// The other half of the test above; by itself it does nothing.
#[test]
fn supervisor_that_ends() {
    let Ok(how) = std::env::var("PIDWARD_TEST_DO") else { return };
    let board = Board::at(std::env::var_os("PIDWARD_TEST_BOARD").expect("a path").into());
    let spawner = Spawner::new().unwrap();
    let script =
        "trap 'echo term $$ >>\"$0\"; kill $!; exit 0' TERM; sleep 1000 & echo ready $$ >>\"$0\"; wait";
    let child = spawner.spawn(Command::new("/bin/sh").args(["-c", script]).arg(board.path())).unwrap();
    board.wait_for(&format!("ready {}", child.id()));
    match &*how {
        "abort" => process::abort(),
        "kill" => drop(os::signal_pid(process::id(), libc::SIGKILL)),
        _ => process::exit(0),
    }
}

#[test]
fn forked_copy_of_the_host_touches_nothing() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().unwrap();
    let (gate, open) = io::pipe().unwrap();
    let mut child = spawner.spawn(&held(&guard, &gate)).unwrap();
    let killed = spawner.spawn(sh(&guard, "exec sleep 1000").kill_on_drop(true)).unwrap();
    let detached = spawner.spawn_supervised(sh(&guard, "exec sleep 1000")).unwrap();
    let pids = [child.id(), killed.id(), detached];
    // SAFETY: the copy runs nothing that a thread lost in the fork could hold: the spawner's are idle.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        let whole = panic::catch_unwind(AssertUnwindSafe(|| {
            let unsupported = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            unsupported(child.wait().unwrap_err());
            unsupported(child.try_wait().unwrap_err());
            unsupported(child.wait_timeout(SECOND).unwrap_err());
            unsupported(child.kill().unwrap_err());
            unsupported(child.signal(Signal::KILL).unwrap_err());
            unsupported(child.signal_group(Signal::KILL).unwrap_err());
            unsupported(child.state().unwrap_err());
            assert!(child.usage().is_none());
            assert!(!child.stop(Duration::ZERO).is_complete(), "nobody was stopped");
            let error = spawner.spawn(&Command::new("true")).unwrap_err();
            assert_eq!(error.kind(), SpawnErrorKind::ForkedCopy, "{error}");
            let error = spawner.spawn_on_this_thread(&Command::new("true")).unwrap_err();
            assert_eq!(error.kind(), SpawnErrorKind::ForkedCopy, "{error}");
            assert!(!spawner.clone().shutdown(Duration::ZERO).is_complete());
            unsupported(child.wait_with_output().unwrap_err());
            drop((killed, spawner));
        }));
        // SAFETY: ends the copy, running nothing of this program's.
        unsafe { libc::_exit(i32::from(whole.is_err())) };
    }
    assert!(copy > 1);
    let mut raw = 0;
    // SAFETY: writes one number.
    assert_eq!(unsafe { libc::waitpid(copy, &raw mut raw, 0) }, copy);
    assert_eq!(raw, 0, "the copy has failed: see its output");
    assert!(pids.iter().all(|p| proc::alive(*p)), "all live on");
    drop(open);
    // The spawner still sees the end by itself.
    eventually("it ends", || !proc::alive(child.id()));
    gone_within_a_second(&[child.id()]);
    assert_eq!(child.wait().unwrap().code(), Some(17));
    drop(killed);
    drop(spawner);
    assert!(!pids.iter().any(|p| is_our_zombie(*p)));
}
