//! Why a child ended, and what becomes of the children when their receiver goes.

use std::{
    fs,
    time::{Duration, Instant},
};

use pidward::{Cause, Event, Events, OnLastDrop, Ready, Rung, SendError, Signal, Spawner, Stdio, Transport};
use pidward_tests::{
    channel::{LIMIT, exit_of, next, print, word, zeros},
    fixture,
    leftovers::NoLeftovers,
    proc,
};

fn spawner() -> Spawner {
    Spawner::builder().grace(Duration::from_millis(300)).build().unwrap()
}

#[test]
fn exit_says_why_and_by_which_rung() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let deaf = format!("exec {} --ready-fd 4", fixture!("termdeaf").display());
    let mut node = events.spawn(&spawner, &guard.shell("exec sleep 1000")).unwrap();
    node.child().signal(Signal::KILL).unwrap();
    assert_eq!(exit_of(&events), (Cause::Itself, None, Some(9)), "no stop has begun");
    let node = events.spawn(&spawner, &guard.shell("exec sleep 1000")).unwrap();
    node.begin_stop();
    node.begin_stop();
    assert_eq!(exit_of(&events), (Cause::Stopped, Some(Rung::Term), Some(15)));
    let mut cmd = guard.shell(&deaf);
    let mut node = events.spawn(&spawner, cmd.ready(Ready::Fd(4), LIMIT)).unwrap();
    assert_eq!(word(&next(&events).1), "ready");
    assert_eq!(node.child().stop(Duration::from_millis(100)).rung(), Some(Rung::Kill));
    assert_eq!(exit_of(&events), (Cause::Stopped, Some(Rung::Kill), Some(9)));
    // What is no frame stops it, though it would have gone on; the first reason counts.
    let mut cmd = guard.shell("echo hello; exec sleep 1000");
    let node = events.spawn(&spawner, cmd.channel(Transport::Stdio)).unwrap();
    assert_eq!(word(&next(&events).1), "protocol NotAFrame");
    node.begin_stop();
    assert_eq!(exit_of(&events), (Cause::Protocol, Some(Rung::Term), Some(15)));
}

/// Servers that speak in lines end with their input, by the rule of their protocol; others where it is asked for.
#[test]
fn end_of_the_channel_asks_first() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    for (transport, input) in [(Transport::Lines, ""), (Transport::Socket, "<&3"), (Transport::Stdio, "")] {
        let mut cmd = guard.shell(&format!("trap 'exit 99' TERM; cat {input} >/dev/null; exit 5"));
        cmd.channel(transport);
        if transport != Transport::Lines {
            cmd.ask_grace(Duration::from_secs(30));
        }
        let node = events.spawn(&spawner, &cmd).unwrap();
        node.begin_stop();
        assert_eq!(word(&next(&events).1), "closed");
        let (_, event) = next(&events);
        let Event::Exit { status, cause, rung, .. } = event else { panic!("{event:?}") };
        assert_eq!((cause, rung), (Cause::Stopped, Some(Rung::Ask)), "{transport:?}");
        assert_eq!(status.unwrap().code(), Some(5), "{transport:?}");
    }
    // One that does not care gets SIGTERM after its time.
    let mut cmd = guard.shell("exec sleep 1000");
    cmd.channel(Transport::Lines).ask_grace(Duration::from_millis(200));
    let node = events.spawn(&spawner, &cmd).unwrap();
    let began = Instant::now();
    node.begin_stop();
    assert_eq!(word(&next(&events).1), "closed");
    assert_eq!(exit_of(&events), (Cause::Stopped, Some(Rung::Term), Some(15)));
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[test]
fn receiver_that_goes_stops_its_children_with_their_trees() {
    let guard = NoLeftovers::new();
    let spawner = spawner();
    let deaf = fixture!("termdeaf").display();
    for threaded in [false, true] {
        let mut events = Events::new().unwrap();
        if threaded {
            events = events.on_thread().unwrap();
        }
        let mut nodes = Vec::new();
        for script in ["exec sleep 1000".to_string(), format!("{deaf} >/dev/null & exec {deaf} >/dev/null")] {
            let mut cmd = guard.shell(&script);
            nodes.push(events.spawn(&spawner, cmd.channel(Transport::Socket)).unwrap());
        }
        drop(events);
        let status = nodes[0].child().wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
        proc::eventually("nobody is left", || guard.left().is_empty());
        // Whoever has the node hears of it.
        proc::eventually("nothing is sent any more", || nodes[0].send(b"x") == Err(SendError::Closed));
    }
}

#[test]
fn children_that_are_left_do_not_hang_on_what_nobody_takes() {
    let guard = NoLeftovers::new();
    let spawner = spawner();
    let threads = proc::threads(std::process::id());
    for transport in [Transport::Socket, Transport::Stdio] {
        let events = Events::new().unwrap().on_drop(OnLastDrop::Leave);
        let to = if transport == Transport::Socket { "exec >&$PIDWARD_CHANNEL;" } else { "" };
        // Far more than a socket or pipe holds, and then it is still asked something.
        let script = format!("{to} read go; {}; exit 11", zeros(8 << 20));
        let mut cmd = guard.shell(&script);
        if transport == Transport::Socket {
            cmd.stdin(Stdio::piped());
        }
        let mut node = events.spawn(&spawner, cmd.channel(transport)).unwrap();
        drop(events);
        match node.child().stdin.take() {
            Some(stdin) => drop(stdin),
            None => node.close(),
        }
        assert_eq!(node.child().wait().unwrap().code(), Some(11), "{transport:?}");
    }
    // The thread that read it goes with the last child.
    proc::eventually("its thread has ended", || {
        let names = fs::read_dir("/proc/self/task").unwrap().flatten();
        let name = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        !names.map(name).any(|name| name.starts_with("pidward-channel"))
    });
    assert!(proc::threads(std::process::id()) <= threads + 3);
}

#[test]
fn channel_that_broke_is_of_no_concern_once_the_child_has_ended() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let script = format!("{}; sleep 1000 & exit 3", print(&[0, 0]));
    let mut cmd = guard.shell(&script);
    let _node = events.spawn(&spawner, cmd.channel(Transport::Stdio)).unwrap();
    assert_eq!(word(&next(&events).1), "protocol Cut");
    assert_eq!(exit_of(&events), (Cause::Itself, None, None));
    assert_eq!(guard.end_all().len(), 1, "the grandchild was not to be ended");
}
