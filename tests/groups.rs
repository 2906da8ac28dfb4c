//! The rest of a group whose leader is gone: through the leader's pidfd, else member by member, each only if it proves to be ours.
//! No number that nobody pins is ever signalled.

use std::{io::Read, ptr, time::Duration};

use pidward::{Child, Command, Rung, Spawner, Stdio, StopOwned, Verdict};
use pidward_tests::{
    files::TempDir, fixture, in_child, leftovers::NoLeftovers, need, os, proc, seccomp::Filter, skip,
};

const SHORT: Duration = Duration::from_millis(300);

fn sh(guard: &NoLeftovers, script: &str) -> Command {
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", script]).env(guard.token().0, guard.token().1).stdout(Stdio::piped());
    cmd
}

/// Starts it and waits for so many lines.
fn ready(spawner: &Spawner, cmd: &Command, lines: usize) -> Child {
    let mut child = spawner.spawn(cmd).expect("a child");
    let out = child.stdout.as_mut().expect("piped");
    let (mut seen, mut byte) = (0, [0]);
    while seen < lines {
        assert_eq!(out.read(&mut byte).expect("its output"), 1, "it ended before it was ready");
        seen += usize::from(byte == *b"\n");
    }
    child
}

/// The group flag of `pidfd_send_signal` as kernels below 6.9 answer it; any signal by number ends the process.
fn only_one_by_one() {
    let flags = u64::from(u32::MAX);
    Filter::new()
        .errno_if(libc::SYS_pidfd_send_signal, 3, flags, 4, libc::EINVAL)
        .kill(libc::SYS_kill)
        .kill(libc::SYS_tkill)
        .install();
}

/// Ends the leader and takes its status, so that nothing keeps its number.
fn reap(child: &Child) {
    os::signal_pid(child.id(), libc::SIGKILL).expect("the leader");
    let pid = libc::pid_t::try_from(child.id()).expect("a pid");
    // Whoever comes first has the status; the other finds nobody.
    // SAFETY: a null status is not written.
    unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
    proc::eventually("the leader is reaped", || proc::state(child.id()).is_none());
}

const THREE: &str = "sleep 1000 & (trap '' TERM; echo ready; exec sleep 1000) & (trap '' TERM; echo ready; sleep 1000) & sleep 1000";

#[test]
fn members_of_a_reaped_leader_are_ended_through_its_pidfd() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let mut child = ready(&spawner, &sh(&guard, THREE), 2);
    reap(&child);
    Filter::new().kill(libc::SYS_kill).kill(libc::SYS_tkill).install();
    let report = child.stop(SHORT);
    assert!(report.is_complete() && report.rung() >= Some(Rung::Kill), "{report:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn without_the_group_flag_members_are_ended_one_by_one() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    // A process of another group, which takes down every signal.
    let log = dir.at("log");
    let mut stranger = guard.command(fixture!("trapall")).arg(&log).spawn().expect("a stranger");
    proc::eventually("the stranger", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    only_one_by_one();
    let spawner = Spawner::new().expect("a spawner");
    let mut child = ready(&spawner, &sh(&guard, THREE), 2);
    reap(&child);
    let members = || guard.left().into_iter().filter(|pid| *pid != stranger.id()).count();
    assert!(members() >= 3, "the leader leaves them behind");
    let report = child.stop(SHORT);
    assert!(report.is_complete() && report.rung() >= Some(Rung::Kill), "{report:?}");
    proc::eventually("only the stranger is left", || guard.left() == [stranger.id()]);
    let text = std::fs::read_to_string(&log).expect("its log");
    assert_eq!(text, format!("ready {}\n", stranger.id()));
    os::signal_pid(stranger.id(), libc::SIGKILL).expect("the stranger");
    stranger.wait().expect("its status");
}

#[test]
fn a_member_that_proves_nothing_is_reported_and_not_signalled() {
    in_child!();
    let guard = NoLeftovers::alone();
    only_one_by_one();
    let spawner = Spawner::new().expect("a spawner");
    let script = "env -i sh -c 'echo ready; exec sleep 1000' & echo ready; sleep 1000";
    let mut child = ready(&spawner, &sh(&guard, script), 2);
    let group = child.pgid().expect("a leader");
    reap(&child);
    let report = child.stop(SHORT);
    let left: Vec<u32> = report.survivors().map(|survivor| survivor.pid).collect();
    assert_eq!(left.len(), 1, "{report:?}");
    assert!(proc::alive(left[0]) && proc::pgid(left[0]) == Some(group), "{report:?}");
    os::signal_pid(left[0], libc::SIGKILL).expect("the survivor");
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn without_proc_nobody_can_be_pinned_and_nothing_is_sent() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    only_one_by_one();
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let mut child = ready(&spawner, &sh(&guard, "(echo ready; exec sleep 1000) & exec sleep 1000"), 1);
    reap(&child);
    let (what, place) = (c"tmpfs".as_ptr(), c"/proc".as_ptr());
    // SAFETY: strings with their ends; the mount namespace is this test's own.
    assert_eq!(unsafe { libc::mount(what, place, what, 0, ptr::null()) }, 0);
    let report = child.stop(Duration::ZERO);
    // SAFETY: takes away what was mounted above.
    assert_eq!(unsafe { libc::umount2(place, 0) }, 0);
    assert!(!report.is_complete() && report.survivors().all(|survivor| survivor.state == '?'), "{report:?}");
    let left = guard.left();
    assert_eq!(left.len(), 1, "it was not signalled");
    os::signal_pid(left[0], libc::SIGKILL).expect("the one that is left");
}

#[test]
fn the_rest_of_a_recorded_group_is_stopped_by_whoever_has_the_identity() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let child = ready(&spawner, &sh(&guard, THREE), 2);
    let identity = child.identity().expect("an identity");
    assert_eq!(identity.verify(), Verdict::Same);
    reap(&child);
    assert_eq!(identity.verify(), Verdict::Gone);
    Filter::new().kill(libc::SYS_kill).kill(libc::SYS_tkill).install();
    match identity.stop(SHORT) {
        StopOwned::Stopped(stopped) => assert!(stopped.rung >= Some(Rung::Kill), "{stopped:?}"),
        other => panic!("{other:?}"),
    }
    proc::eventually("nobody is left", || guard.left().is_empty());
    assert!(matches!(identity.stop(SHORT), StopOwned::NotRunning));
}
