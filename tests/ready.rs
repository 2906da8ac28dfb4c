//! A child becomes ready once, by what it was asked for, or fails to start and goes with its tree.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use pidward::{Cause, Command, Events, Ready, Rung, SpawnErrorKind, Spawner, StartFailure, Stdio, Transport};
use pidward_tests::{
    channel::{LIMIT, exit_of, frame, next, print, to_exit, word},
    fixture,
    leftovers::NoLeftovers,
    need, os, proc,
};

/// The next event as a word.
#[track_caller]
fn next_word(events: &Events) -> String {
    word(&next(events).1)
}

fn spawner() -> Spawner {
    Spawner::builder().grace(Duration::from_millis(300)).build().unwrap()
}

/// A program that ends with its standard input.
fn program(guard: &NoLeftovers, name: &std::path::Path, args: &[&str]) -> Command {
    let mut cmd = Command::new(name);
    let (key, value) = guard.token();
    cmd.args(args).env(key, value).stdin(Stdio::piped()).stdout(Stdio::null());
    cmd
}

#[test]
fn frame_says_it_and_comes_too() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let frames = [frame(b"warming up"), frame(b"up"), frame(b"up")].concat();
    let mut cmd = guard.shell(&format!("exec >&$PIDWARD_CHANNEL; {}; exit 2", print(&frames)));
    cmd.channel(Transport::Socket).ready(Ready::Frame(|frame| frame == b"up"), LIMIT);
    let _node = events.spawn(&spawner, &cmd).unwrap();
    assert_eq!(to_exit(&events), ["frame warming up", "ready", "frame up", "frame up", "closed", "exit 2"]);
}

#[test]
fn newline_on_a_descriptor_says_it() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    // In pieces, more than once, and as the last thing before the end.
    for script in [
        "printf 'not ' >&7; sleep 0.1; printf 'yet\\nand more' >&7; read line; printf '\\n' >&7; exit 3",
        "echo >&7; exec 7>&-; read line; exit 3",
        "echo >&7; exit 3",
    ] {
        let mut cmd = guard.shell(script);
        cmd.stdin(Stdio::piped()).ready(Ready::Fd(7), LIMIT);
        let mut node = events.spawn(&spawner, &cmd).unwrap();
        assert_eq!(next_word(&events), "ready", "{script}");
        drop(node.child().stdin.take());
        assert_eq!(exit_of(&events), (Cause::Itself, None, None), "{script}");
    }
    // Beside a channel, each at its number.
    let mut cmd = guard.shell(&format!("{} >&$PIDWARD_CHANNEL; echo >&3; exit 4", print(&frame(b"x"))));
    cmd.channel(Transport::Socket).ready(Ready::Fd(3), LIMIT);
    let _node = events.spawn(&spawner, &cmd).unwrap();
    let words = to_exit(&events);
    assert!(words.contains(&"ready".to_string()) && words.contains(&"frame x".to_string()), "{words:?}");
}

#[test]
fn message_to_the_notify_socket_says_it() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let notify = fixture!("notify");
    let mut cmd = program(
        &guard,
        notify,
        &["STATUS=READY=1", "READY=10", "", "STATUS=x\nREADY=1\nMAINPID=1", "READY=1"],
    );
    let mut node = events.spawn(&spawner, cmd.ready(Ready::Notify, LIMIT)).unwrap();
    assert_eq!(next_word(&events), "ready");
    drop(node.child().stdin.take());
    assert_eq!(exit_of(&events), (Cause::Itself, None, None));
    // The last of several words before the end.
    for round in 0..30 {
        let mut cmd = program(&guard, notify, &["STATUS=1", "STATUS=2", "STATUS=3", "STATUS=4", "READY=1"]);
        cmd.stdin(Stdio::null()).ready(Ready::Notify, LIMIT);
        let _node = events.spawn(&spawner, &cmd).unwrap();
        assert_eq!(next_word(&events), "ready", "round {round}");
        assert_eq!(exit_of(&events), (Cause::Itself, None, None));
    }
    // A grandchild says it, and has ended by the time it is read.
    let mut cmd = guard.shell(&format!("{} READY=1 </dev/null; read line", notify.display()));
    let mut node = events.spawn(&spawner, cmd.stdin(Stdio::piped()).ready(Ready::Notify, LIMIT)).unwrap();
    assert_eq!(next_word(&events), "ready");
    drop(node.child().stdin.take());
    exit_of(&events);
}

#[test]
fn message_of_another_user_says_nothing() {
    need!(os::is_root(), "needs-root: to become another user");
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let mut cmd = guard.shell("exec sleep 1000");
    let mut node = events.spawn(&spawner, cmd.ready(Ready::Notify, LIMIT)).unwrap();
    let child = node.child().id();
    let environ = proc::own_environ(child);
    let address = environ.iter().find_map(|entry| entry.strip_prefix(b"NOTIFY_SOCKET=")).unwrap();
    let address = String::from_utf8(address.to_vec()).unwrap();
    // The fixture may stand where another user must not look, so it is opened before.
    let say = |user: u32| {
        let mut cmd = guard.shell("exec /proc/self/fd/9 READY=1 </dev/null");
        let program = std::fs::File::open(fixture!("notify")).unwrap();
        cmd.env("NOTIFY_SOCKET", &address).uid(user).gid(user).pass_fd(program, 9);
        let status = spawner.spawn(&cmd).unwrap().wait().unwrap();
        assert!(status.success(), "{status}");
    };
    say(65_432);
    assert!(events.recv(Some(Duration::from_millis(300))).is_none());
    say(0);
    assert_eq!(next_word(&events), "ready");
    node.begin_stop();
    exit_of(&events);
}

#[test]
fn port_that_the_tree_listens_on_says_it() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let listen = fixture!("listen").display().to_string();
    for script in [
        "exec {} 127.0.0.1:PORT",
        // A member of the group, and one that has left it.
        "exec 5<&0; {} 127.0.0.1:PORT <&5 & wait",
        "exec 5<&0; setsid {} 127.0.0.1:PORT <&5 & wait",
    ] {
        // Somebody else has the port at first.
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = stranger.local_addr().unwrap().port();
        let script = script.replace("{}", &listen).replace("PORT", &port.to_string());
        let mut cmd = guard.shell(&format!("read go; {script}"));
        cmd.stdin(Stdio::piped()).stdout(Stdio::null()).ready(Ready::Port(port), LIMIT);
        let mut node = events.spawn(&spawner, &cmd).unwrap();
        assert!(events.recv(Some(Duration::from_millis(200))).is_none(), "the stranger's port counted");
        drop(stranger);
        let mut stdin = node.child().stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, b"go\n").unwrap();
        assert_eq!(next_word(&events), "ready", "{script}");
        node.begin_stop();
        assert_eq!(exit_of(&events).0, Cause::Stopped);
        drop(stdin);
        proc::eventually("nobody is left", || guard.left().is_empty());
    }
}

#[test]
fn whoever_does_not_become_ready_goes_with_its_tree() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let deaf = fixture!("termdeaf").display().to_string();
    let failed = |script: &str, limit: Duration| {
        let mut cmd = guard.shell(&script.replace("{}", &deaf));
        let _node = events.spawn(&spawner, cmd.stdout(Stdio::null()).ready(Ready::Fd(4), limit)).unwrap();
        let failed = next_word(&events);
        let exit = exit_of(&events);
        proc::eventually("nobody is left", || guard.left().is_empty());
        (failed, exit.0, exit.1)
    };
    // It ends, and leaves somebody who is deaf; nothing was done to itself.
    let word = format!("failed {:?}", StartFailure::Ended);
    assert_eq!(failed("{} & exit 3", LIMIT), (word, Cause::Itself, None));
    let word = format!("failed {:?}", StartFailure::TimedOut);
    let limit = Duration::from_millis(300);
    let began = Instant::now();
    assert_eq!(failed("{} 4>&- & exec sleep 1000", limit), (word.clone(), Cause::NotReady, Some(Rung::Term)));
    assert!(began.elapsed() >= limit);
    assert_eq!(failed("exec {}", limit), (word, Cause::NotReady, Some(Rung::Kill)));
    let word = format!("failed {:?}", StartFailure::Closed);
    assert_eq!(failed("exec 4>&-; exec sleep 1000", LIMIT), (word, Cause::NotReady, Some(Rung::Term)));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let refused = |cmd: &Command| {
        let error = events.spawn(&spawner, cmd).unwrap_err();
        assert_eq!(error.kind(), SpawnErrorKind::InvalidInput, "{error}");
    };
    for ready in [Ready::Fd(0), Ready::Fd(2), Ready::Fd(u32::MAX), Ready::Port(0), Ready::Frame(|_| true)] {
        refused(guard.shell("true").ready(ready, LIMIT));
    }
    let null = std::fs::File::open("/dev/null").unwrap();
    refused(guard.shell("true").pass_fd(null, 5).ready(Ready::Fd(5), LIMIT));
    // Nobody would hear it.
    let error = spawner.spawn(guard.shell("true").ready(Ready::Notify, LIMIT)).unwrap_err();
    assert_eq!(error.kind(), SpawnErrorKind::InvalidInput, "{error}");
}
