//! A number and a name are stopped like a child, by whoever has the installation, without a handle; also where calls are refused, and
//! never on less proof.

use std::{
    fs,
    io::Read,
    time::{Duration, Instant},
};

use pidward::{Child, ChildKind, Command, Rung, ServiceName, Spawner, Stdio, StopOwned, Verdict, Why};
use pidward_tests::{
    announce::Board, child::Again, files::TempDir, fixture, in_child, leftovers::NoLeftovers, proc,
    seccomp::Filter, this_test,
};

const INSTALLATION: &str = "00112233445566778899aabbccddeeff";
const KIND: ChildKind = ChildKind::Agent;
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

fn name() -> ServiceName {
    "greeter".parse().expect("a name")
}

/// One that has the child, and one that has only its installation, as after a restart.
fn two() -> (Spawner, Spawner) {
    let build = || Spawner::builder().installation(INSTALLATION).build().expect("a spawner");
    (build(), build())
}

fn start(spawner: &Spawner, guard: &NoLeftovers, script: &str) -> Child {
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", script]).kind(KIND).service(&name()).env(guard.token().0, guard.token().1);
    let mut child = spawner.spawn(cmd.stdout(Stdio::piped())).expect("a child");
    let out = child.stdout.as_mut().expect("piped");
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"ready\n") {
        assert_eq!(out.read(&mut byte).expect("its output"), 1, "it ended before it was ready");
        text.extend(byte);
    }
    child
}

#[track_caller]
fn stopped(stop: StopOwned) -> pidward::Stopped {
    match stop {
        StopOwned::Stopped(stopped) => stopped,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_polite_child_ends_by_term_and_a_deaf_one_by_kill() {
    let guard = NoLeftovers::new();
    let (first, second) = two();
    let child = start(&first, &guard, "trap 'exit 42' TERM; echo ready; while :; do sleep 1; done");
    let began = Instant::now();
    let report = stopped(second.stop_owned(child.id(), KIND, &name(), LONG));
    assert!(report.rung == Some(Rung::Term) && began.elapsed() < LONG, "{report:?}");
    let child = start(&first, &guard, "trap '' TERM; echo ready; while :; do sleep 1; done");
    let began = Instant::now();
    let report = stopped(second.stop_owned(child.id(), KIND, &name(), SHORT));
    assert!(report.rung >= Some(Rung::Kill) && began.elapsed() >= SHORT, "{report:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn no_grace_is_kill_after_one_look() {
    let guard = NoLeftovers::new();
    let (first, second) = two();
    let child = start(&first, &guard, "trap '' TERM; echo ready; exec sleep 1000");
    let report = stopped(second.stop_owned(child.id(), KIND, &name(), Duration::ZERO));
    assert!(report.rung >= Some(Rung::Kill), "{report:?}");
    assert!(!pidward::is_running(child.id()));
}

#[test]
fn the_whole_group_is_stopped_also_behind_a_leader_that_has_ended() {
    let guard = NoLeftovers::new();
    let (first, second) = two();
    let deaf = "(trap '' TERM; echo ready; exec sleep 1000) &";
    let child = start(&first, &guard, &format!("{deaf} sleep 1000"));
    let report = stopped(second.stop_owned(child.id(), KIND, &name(), SHORT));
    assert!(report.rung >= Some(Rung::Kill), "{report:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
    // The leader ends by itself, and its owner reaps it.
    let mut child = start(&first, &guard, &format!("{deaf} exit 3"));
    assert_eq!(child.wait().expect("its status").code(), Some(3));
    proc::eventually("it is reaped", || proc::state(child.id()).is_none());
    assert_eq!(guard.left().len(), 1);
    let other: ServiceName = "other".parse().expect("a name");
    assert!(matches!(second.stop_owned(child.id(), KIND, &other, SHORT), StopOwned::Unverifiable(_)));
    assert_eq!(guard.left().len(), 1, "by another name it is nobody's");
    let report = stopped(second.stop_owned(child.id(), KIND, &name(), SHORT));
    assert!(report.rung >= Some(Rung::Kill), "{report:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
    assert!(matches!(second.stop_owned(child.id(), KIND, &name(), SHORT), StopOwned::NotRunning));
}

#[test]
fn a_child_that_has_ended_and_was_not_reaped_does_not_wait_out_the_grace() {
    let guard = NoLeftovers::new();
    let (_, second) = two();
    let mut child = guard.command("/bin/sh").args(["-c", "exit 7"]).spawn().expect("a shell");
    proc::eventually("a zombie", || proc::state(child.id()) == Some('Z'));
    let began = Instant::now();
    let stop = second.stop_owned(child.id(), KIND, &name(), LONG);
    assert!(matches!(stop, StopOwned::NotRunning) && began.elapsed() < Duration::from_secs(5), "{stop:?}");
    assert_eq!(child.wait().expect("its status, which nobody took").code(), Some(7));
}

#[test]
fn a_live_process_without_markers_is_left_alone() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let (_, second) = two();
    let log = dir.at("log");
    let mut stranger = guard.command(fixture!("trapall")).arg(&log).spawn().expect("a stranger");
    Board::at(log.clone()).wait_for("ready");
    let stop = second.stop_owned(stranger.id(), KIND, &name(), SHORT);
    assert!(matches!(stop, StopOwned::Unverifiable(Verdict::Unknown(Why::NoMarker))), "{stop:?}");
    assert_eq!(fs::read_to_string(&log).expect("its log"), format!("ready {}\n", stranger.id()));
    stranger.kill().expect("the stranger");
    stranger.wait().expect("its status");
}

/// `P_PIDFD` of waitid(2).
const P_PIDFD: u64 = 3;

/// Spawn, verify, stop and reap where calls on pidfds are refused: as strict as ever, and it works as far as it can be safe.
#[test]
fn refused_calls_make_no_verdict_weaker() {
    const CASE: &str = "PIDWARD_TEST_CASE";
    let Ok(case) = std::env::var(CASE) else {
        let all = [libc::ENOSYS, libc::EPERM, libc::EINVAL];
        // Where nothing can be sent, each case takes the whole kill limit.
        for (call, errnos) in [("open", &all[..]), ("wait", &all), ("signal", &all[..2]), ("all", &all[2..])]
        {
            for errno in errnos {
                Again::of(&this_test!()).env(CASE, &format!("{call} {errno}")).run().check();
            }
        }
        return;
    };
    let (call, errno) = case.split_once(' ').expect("two words");
    let errno: i32 = errno.parse().expect("a number");
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let mut stranger = guard.command(fixture!("trapall")).arg(dir.at("log")).spawn().expect("a stranger");
    Board::at(dir.at("log")).wait_for("ready");
    let (open, signal, wait) = (
        |filter: Filter| filter.errno(libc::SYS_pidfd_open, errno),
        |filter: Filter| filter.errno(libc::SYS_pidfd_send_signal, errno),
        |filter: Filter| filter.errno_if(libc::SYS_waitid, 0, u64::from(u32::MAX), P_PIDFD, errno),
    );
    match call {
        "open" => open(Filter::new()),
        "signal" => signal(Filter::new()),
        "wait" => wait(Filter::new()),
        _ => wait(signal(open(Filter::new()))),
    }
    .install();
    let (first, second) = two();
    let mut child = start(&first, &guard, "trap '' TERM; echo ready; exec sleep 1000");
    proc::eventually("exec", || proc::cmdline(child.id()).starts_with("sleep"));
    let identity = child.identity().expect("an identity");
    assert_eq!(second.verify(child.id(), KIND, &name()), Verdict::Same, "{case}");
    assert_eq!(identity.verify(), Verdict::Same, "{case}");
    assert_eq!(second.verify(child.id(), ChildKind::Mcp, &name()), Verdict::Unknown(Why::NoMarker), "{case}");
    assert_eq!(second.verify(stranger.id(), KIND, &name()), Verdict::Unknown(Why::NoMarker), "{case}");
    assert!(
        matches!(second.stop_owned(stranger.id(), KIND, &name(), SHORT), StopOwned::Unverifiable(_)),
        "{case}"
    );
    match second.stop_owned(child.id(), KIND, &name(), SHORT) {
        // Nothing but a pidfd, or the directory that takes its place, pins the process of somebody else.
        StopOwned::Survived(survived) => {
            assert!(matches!(call, "signal" | "all"), "{case}: {survived:?}");
            assert!(proc::alive(child.id()), "{case}");
            assert!(child.stop(SHORT).is_complete(), "{case}: it is ours and unreaped");
        }
        StopOwned::Stopped(_) => assert!(matches!(call, "open" | "wait"), "{case}"),
        other => panic!("{case}: {other:?}"),
    }
    assert!(child.wait().is_ok(), "{case}");
    assert_eq!(identity.verify(), Verdict::Gone, "{case}");
    let text = fs::read_to_string(dir.at("log")).expect("its log");
    assert_eq!(text, format!("ready {}\n", stranger.id()), "{case}");
    stranger.kill().expect("the stranger");
    stranger.wait().expect("its status");
}

#[test]
fn a_forked_copy_of_the_program_stops_nobody() {
    in_child!();
    let guard = NoLeftovers::alone();
    let (first, _) = two();
    let mut child = start(&first, &guard, "echo ready; exec sleep 1000");
    // SAFETY: the copy makes one call of the library and ends.
    match unsafe { libc::fork() } {
        0 => {
            let stop = first.stop_owned(child.id(), KIND, &name(), SHORT);
            let refused = matches!(stop, StopOwned::Unverifiable(Verdict::Unknown(Why::Unsupported)));
            // SAFETY: ends the copy.
            unsafe { libc::_exit(i32::from(!refused)) }
        }
        copy => {
            let mut status = 0;
            assert!(copy > 1, "a fork");
            // SAFETY: writes one int.
            assert_eq!(unsafe { libc::waitpid(copy, &raw mut status, 0) }, copy);
            assert_eq!(status, 0, "the copy was refused");
        }
    }
    assert!(proc::alive(child.id()));
    assert!(child.stop(LONG).is_complete());
}
