//! What ends, and what then happens: spawners, children's owners, threads and whole processes.

use std::{
    io,
    os::{fd::AsFd, unix::process::ExitStatusExt},
    panic::{self, AssertUnwindSafe},
    process, thread,
    time::{Duration, Instant},
};

use pidward::{Command, OnLastDrop, Spawner};
use pidward_tests::{
    announce::Board,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    proc::{self, eventually},
    rounds::rounds,
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

/// A child that is deaf to SIGTERM, and its board.
fn deaf(guard: &NoLeftovers, dir: &TempDir) -> (Command, Board) {
    let (board, (name, value)) = (Board::at(dir.at("board")), guard.token());
    let mut cmd = Command::new(fixture!("termdeaf"));
    cmd.arg("--ready-file").arg(board.path()).env(name, value);
    (cmd, board)
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

/// The threads of this process whose name begins so. Only in a process of its own.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("our threads");
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("comm")).ok());
    names.filter(|n| n.starts_with(name)).count()
}

#[test]
fn dropped_child_that_runs_goes_on_and_is_reaped_at_its_end() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let (gate, open) = io::pipe().unwrap();
    let child = spawner.spawn(&held(&guard, &gate)).unwrap();
    let pid = child.id();
    drop(child);
    assert!(!proc::until(SECOND / 5, || !proc::alive(pid)), "it goes on");
    drop(open);
    eventually("it ends", || !proc::alive(pid));
    gone_within_a_second(&[pid]);
}

#[test]
fn dropped_children_that_have_ended_leave_no_zombies() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let start = |_| spawner.spawn(&sh(&guard, "exit 0")).unwrap();
    let children: Vec<_> = (0..rounds(100, 500)).map(start).collect();
    let pids: Vec<u32> = children.iter().map(pidward::Child::id).collect();
    eventually("all have ended", || !pids.iter().any(|p| proc::alive(*p)));
    let began = Instant::now();
    drop(children);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    gone_within_a_second(&pids);
}

#[test]
fn kill_on_drop_ends_the_whole_group_without_waiting() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let spawner = Spawner::new().unwrap();
    let board = Board::at(dir.at("board"));
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).args(["deaf", "grandchild", "stopped"]).env(guard.token().0, guard.token().1);
    let child = spawner.spawn(cmd.kill_on_drop(true)).unwrap();
    board.wait_for("ready");
    let pids = ["deaf", "grandchild", "parent", "stopped"].map(|kind| board.wait_for_pid(kind));
    let leader = child.id();
    let began = Instant::now();
    drop(child);
    assert!(began.elapsed() < SECOND / 10, "{:?}", began.elapsed());
    gone_within_a_second(&[leader]);
    assert!(proc::until(SECOND, || !pids.iter().any(|p| proc::alive(*p))));
}

#[test]
fn drop_during_a_panic_is_a_drop() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let mut cmd = sh(&guard, "exec sleep 1000");
    let (killed, (gate, open)) = (spawner.spawn(cmd.kill_on_drop(true)).unwrap(), io::pipe().unwrap());
    let left = spawner.spawn(&held(&guard, &gate)).unwrap();
    let (dead, alive) = (killed.id(), left.id());
    let unwound = panic::catch_unwind(AssertUnwindSafe(|| {
        let _both = (killed, left);
        panic::resume_unwind(Box::new("with children in hand"));
    }));
    assert!(unwound.is_err());
    gone_within_a_second(&[dead]);
    assert!(proc::alive(alive));
    drop(open);
    eventually("it ends", || !proc::alive(alive));
    gone_within_a_second(&[alive]);
}

#[test]
fn last_handle_without_children_takes_the_threads_along() {
    in_child!();
    let guard = NoLeftovers::alone();
    let before = proc::threads(process::id());
    let spawner = Spawner::new().unwrap();
    let other = spawner.clone();
    assert_eq!(spawner.spawn(&sh(&guard, "exit 1")).unwrap().wait().unwrap().code(), Some(1));
    assert_eq!((threads("pidward-spawner"), threads("pidward-events")), (1, 1));
    drop(spawner);
    assert_eq!(other.spawn(&sh(&guard, "exit 2")).unwrap().wait().unwrap().code(), Some(2));
    drop(other);
    // The kernel takes a thread off the list a moment after it was joined.
    assert!(proc::until(SECOND, || proc::threads(process::id()) == before));
}

#[test]
fn last_handle_with_an_owned_child_returns_and_the_child_lives() {
    in_child!();
    let guard = NoLeftovers::alone();
    let before = proc::threads(process::id());
    let spawner = Spawner::new().unwrap();
    let (gate, open) = io::pipe().unwrap();
    let mut child = spawner.spawn(&held(&guard, &gate)).unwrap();
    let began = Instant::now();
    drop(spawner);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert!(child.wait_timeout(SECOND / 2).unwrap().is_none(), "it lives");
    assert_eq!(threads("pidward-spawner"), 1, "so does the thread it is tied to");
    drop(open);
    assert_eq!(child.wait().unwrap().code(), Some(17));
    assert!(proc::until(SECOND * 3, || proc::threads(process::id()) == before));
}

#[test]
fn last_handle_with_detached_children_stops_them() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let grace = SECOND / 2;
    let spawner = Spawner::builder().grace(grace).build().unwrap();
    let (cmd, board) = deaf(&guard, &dir);
    let pid = spawner.spawn_supervised(cmd).unwrap();
    board.wait_for(&format!("ready {pid}"));
    let polite = spawner.spawn(&sh(&guard, "exec sleep 1000")).unwrap();
    let pids = [pid, polite.id()];
    drop(polite);
    let began = Instant::now();
    drop(spawner);
    let took = began.elapsed();
    assert!(took >= grace && took < grace + SECOND * 5, "{took:?}");
    assert!(!pids.iter().any(|p| proc::alive(*p) || is_our_zombie(*p)));
}

#[test]
fn last_handle_may_leave_detached_children() {
    in_child!();
    let guard = NoLeftovers::alone();
    let before = proc::threads(process::id());
    let spawner = Spawner::builder().on_last_drop(OnLastDrop::Leave).build().unwrap();
    let (gate, open) = io::pipe().unwrap();
    let pid = spawner.spawn_supervised(held(&guard, &gate)).unwrap();
    let began = Instant::now();
    drop(spawner);
    assert!(began.elapsed() < SECOND / 2, "{:?}", began.elapsed());
    assert!(!proc::until(SECOND / 2, || !proc::alive(pid)), "it goes on");
    drop(open);
    eventually("it ends", || !proc::alive(pid));
    gone_within_a_second(&[pid]);
    assert!(proc::until(SECOND * 3, || proc::threads(process::id()) == before));
}

#[test]
fn owner_that_lets_go_after_the_last_handle_has_it_stopped() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let child = spawner.spawn(&sh(&guard, "exec sleep 1000")).unwrap();
    let pid = child.id();
    drop(spawner);
    assert!(proc::alive(pid));
    drop(child);
    eventually("it is stopped", || !proc::alive(pid));
    gone_within_a_second(&[pid]);
}

#[test]
fn end_of_the_thread_that_asked_ends_nobody() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let ask = || spawner.spawn(&sh(&guard, "exec sleep 1000")).unwrap();
    let mut child = thread::scope(|scope| scope.spawn(ask).join().unwrap());
    assert!(child.wait_timeout(SECOND).unwrap().is_none(), "it lives on");
    // Whereas this is what a spawn on the thread itself means.
    let here = || spawner.spawn_on_this_thread(&sh(&guard, "exec sleep 1000")).unwrap();
    let mut tied = thread::scope(|scope| scope.spawn(here).join().unwrap());
    assert_eq!(tied.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert!(child.try_wait().unwrap().is_none());
    assert!(child.stop(SECOND).is_complete());
}

#[test]
fn two_spawners_do_not_know_each_other() {
    let guard = NoLeftovers::new();
    let (one, two) = (Spawner::new().unwrap(), Spawner::new().unwrap());
    assert_ne!(one.tree_entry(), two.tree_entry());
    let mut first = one.spawn(&sh(&guard, "exec sleep 1000")).unwrap();
    let mut second = two.spawn(&sh(&guard, "exec sleep 1000")).unwrap();
    let report = one.shutdown(SECOND * 5);
    assert_eq!(report.children.iter().map(|c| c.pid).collect::<Vec<_>>(), [first.id()]);
    assert_eq!(first.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert!(second.try_wait().unwrap().is_none());
    assert_eq!(two.spawn(&sh(&guard, "exit 3")).unwrap().wait().unwrap().code(), Some(3));
    assert!(second.stop(SECOND).is_complete());
}

#[test]
fn shutdown_beside_other_askers_leaves_no_child() {
    let guard = NoLeftovers::new();
    for _ in 0..rounds(10, 100) {
        let spawner = Spawner::new().expect("a spawner");
        thread::scope(|scope| {
            let ask = || {
                let mut children = Vec::new();
                // Ends with the spawner.
                while let Ok(child) = spawner.spawn(&sh(&guard, "exec sleep 1000")) {
                    children.push(child);
                }
                children
            };
            let askers: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
            thread::sleep(SECOND / 100);
            let report = spawner.clone().shutdown(SECOND * 20);
            assert!(report.is_complete(), "{report:?}");
            for mut child in askers.into_iter().flat_map(|asker| asker.join().expect("no panic")) {
                let status = child.wait_timeout(SECOND * 20).expect("a status");
                assert!(status.is_some(), "process {} lives on", child.id());
            }
        });
    }
}

/// The child is made when its asker has gone, and every handle with it: nobody else looks whether it has ended.
#[test]
fn a_spawn_that_is_given_up_while_it_is_made_does_not_keep_the_last_drop() {
    in_child!();
    let _guard = NoLeftovers::alone();
    let mut cmd = Command::new("/bin/true");
    cmd.deadline(Duration::ZERO);
    // One in some ten comes at the very moment.
    for _ in 0..rounds(200, 2000) {
        let spawner = Spawner::builder().guard(false).build().expect("a spawner");
        let _ = spawner.spawn(&cmd);
    }
}
