//! Why a child ended, and what becomes of the children when their receiver goes.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use pidward::{
    Cause, Command, Event, Events, Node, OnLastDrop, Ready, Rung, SendError, Signal, Spawner, Stdio,
    Transport,
};
use pidward_tests::{
    announce::{Board, say},
    channel::{LIMIT, exit_of, next, print, word, zeros},
    files::TempDir,
    fixture,
    leftovers::NoLeftovers,
    os, proc,
    rounds::rounds,
    this_test,
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
        assert_eq!(status.signal(), Some(15));
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

/// Set where this test's program is the supervisor, to where it says that frames go to and fro.
const BOARD: &str = "PIDWARD_TEST_BOARD";

/// Children that are deaf to SIGTERM, and see the end of their input.
fn deaf(guard: bool, before: &str, on_thread: bool) -> (Spawner, Events, Vec<Node>) {
    let spawner = Spawner::builder().guard(guard).grace(Duration::from_millis(300)).build().unwrap();
    let events = Events::new().unwrap();
    let events = if on_thread { events.on_thread().unwrap() } else { events };
    let mut nodes = Vec::new();
    for transport in [Transport::Stdio, Transport::Socket, Transport::Stdio, Transport::Socket] {
        let ends = if transport == Transport::Socket { "<&3 >&3" } else { "" };
        let mut cmd = Command::new("/bin/sh");
        cmd.args(["-c", &format!("trap '' TERM; {before} exec cat {ends}")]).channel(transport);
        nodes.push(events.spawn(&spawner, &cmd).unwrap());
    }
    (spawner, events, nodes)
}

/// Frames go to and fro until it is killed; each child has one of its own that holds the channel.
fn talk(board: &Path, on_thread: bool) -> ! {
    let (_spawner, events, nodes) = deaf(true, "sleep 1000 &", on_thread);
    for round in 0_u32.. {
        for node in &nodes {
            // What is not taken now is written later.
            let _ = node.send(&[0; 60_000]);
        }
        let (_, event) = next(&events);
        assert!(matches!(event, Event::Frame(_)), "{event:?}");
        if round == 20 {
            say(board, "ready");
        }
    }
    unreachable!("it is killed before that")
}

#[test]
fn supervisor_killed_while_frames_go_to_and_fro_leaves_nobody() {
    let test = this_test!();
    if let Some(board) = std::env::var_os(BOARD) {
        let on_thread = board.as_encoded_bytes().ends_with(b"1");
        talk(Path::new(&board), on_thread);
    }
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    for round in 0..rounds(4, 40) {
        let board = Board::at(dir.at(format!("board {round} {}", round % 2)));
        let mut cmd = guard.command(std::env::current_exe().unwrap());
        cmd.args(["--exact", &test, "--nocapture"])
            .env(BOARD, board.path())
            .stdout(std::process::Stdio::null());
        let mut supervisor = cmd.spawn().unwrap();
        board.wait_for("ready");
        assert!(guard.left().len() > 8, "it and its children, with their own");
        thread::sleep(Duration::from_millis(round as u64 % 10));
        supervisor.kill().unwrap();
        assert_eq!(supervisor.wait().unwrap().signal(), Some(libc::SIGKILL));
        proc::eventually("nobody is left", || guard.left().is_empty());
    }
}

/// Nobody but the channel tells them: each other's ends and their own of the supervisor's side are not theirs.
#[test]
fn supervisor_killed_before_the_first_frame_ends_the_channel() {
    let test = this_test!();
    if let Some(board) = std::env::var_os(BOARD) {
        let _all = deaf(false, "", false);
        say(Path::new(&board), "ready");
        os::sleep_for_ever();
    }
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(std::env::current_exe().unwrap());
    cmd.args(["--exact", &test, "--nocapture"]).env(BOARD, board.path()).stdout(std::process::Stdio::null());
    let mut supervisor = cmd.spawn().unwrap();
    board.wait_for("ready");
    // As `cat` they are deaf.
    let cats = || guard.left().into_iter().filter(|pid| proc::cmdline(*pid) == "cat").count();
    proc::eventually("each is there", || cats() == 4);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    proc::eventually("each has read the end", || guard.left().is_empty());
}
