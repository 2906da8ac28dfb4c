//! Published MCP servers, directly and through their launchers: they start, show their tools and end as their protocol has it, and nobody
//! is left of them, also when their host is killed in the middle.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use pidward::{Cause, Command, Event, Events, Node, Rung, Spawner, Transport};
use pidward_tests::{
    announce::Board,
    channel, command,
    files::TempDir,
    in_child,
    leftovers::NoLeftovers,
    mcp::{self, Server},
    need, os, proc,
    rounds::rounds,
};
use serde_json::{Value, json};

/// For all rounds of a test.
fn limit() -> Duration {
    Duration::from_secs(60 * rounds(5, 60) as u64)
}

fn place() -> &'static Path {
    env!("CARGO_TARGET_TMPDIR").as_ref()
}

fn command(guard: &NoLeftovers, server: &Server) -> Command {
    let mut cmd = Command::new(&server.words[0]);
    cmd.args(&server.words[1..]).envs(server.env.clone()).current_dir(&server.dir);
    cmd.env(guard.token().0, guard.token().1).channel(Transport::Lines).stderr_events(true);
    cmd
}

/// Greets the server and asks for its tools: their names, and what it has printed that is no message.
#[track_caller]
fn tools(events: &Events, node: &Node) -> (Vec<String>, Vec<String>) {
    let send = |message: Value| node.send(message.to_string().as_bytes()).expect("it reads");
    let client = json!({"name": "tests", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    let (mut stray, mut said) = (Vec::new(), Vec::new());
    // Ends with the tools; every event comes within the limit.
    loop {
        match channel::next(events).1 {
            Event::Frame(line) => match serde_json::from_slice::<Value>(&line) {
                Ok(message) if message["id"] == 1 => {
                    assert!(message["result"]["serverInfo"]["name"].is_string(), "{message}");
                    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
                    send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
                }
                Ok(message) if message["id"] == 2 => {
                    let tools = message["result"]["tools"].as_array().expect("a list");
                    let names = tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned());
                    return (names.collect(), stray);
                }
                Ok(_) => {}
                Err(_) => stray.push(String::from_utf8_lossy(&line).into_owned()),
            },
            Event::Stderr(line) => said.push(String::from_utf8_lossy(&line).into_owned()),
            event => panic!("{event:?} after {said:?}"),
        }
    }
}

/// The code, cause and rung of the exit.
#[track_caller]
fn exit(events: &Events) -> (Option<i32>, Cause, Option<Rung>) {
    // Ends with the exit, which is the last event.
    loop {
        if let Event::Exit { status, cause, rung, .. } = channel::next(events).1 {
            return (status.and_then(|status| status.code()), cause, rung);
        }
    }
}

/// From the start to the stop, again and again, under one supervisor that stays. Each ends by the end of its input.
fn cycles(server: &Server) {
    let guard = NoLeftovers::alone();
    let (spawner, events) = (Spawner::new().expect("a spawner"), Events::new().expect("a receiver"));
    for round in 0..rounds(3, 100) {
        // However loaded the machine is: SIGTERM would be a fault.
        let node =
            events.spawn(&spawner, command(&guard, server).ask_grace(channel::LIMIT)).expect("a server");
        let (names, stray) = tools(&events, &node);
        assert!(names.iter().any(|name| name == server.tool) && stray.is_empty(), "{names:?} {stray:?}");
        assert!(guard.left().len() >= server.processes, "{round}: {:?}", guard.left());
        node.begin_stop();
        assert_eq!(exit(&events), (Some(0), Cause::Stopped, Some(Rung::Ask)), "{round}");
        proc::eventually("nobody is left", || guard.left().is_empty());
    }
}

macro_rules! cycles {
    ($($test:ident: $language:ident, $reason:literal, $which:literal;)*) => {$(
        #[test]
        fn $test() {
            let servers = mcp::$language(place());
            need!(servers.is_some(), $reason);
            in_child!(|again| again.limit(limit()));
            cycles(&servers.expect("some")[$which]);
        }
    )*};
}

cycles! {
    server_in_python_leaves_nobody: python, "needs-mcp-python", 0;
    server_in_python_by_its_launcher_leaves_nobody: python, "needs-mcp-python", 1;
    server_in_javascript_leaves_nobody: node, "needs-mcp-node", 0;
    server_in_javascript_by_its_launcher_leaves_nobody: node, "needs-mcp-node", 1;
}

/// A launcher that prints before the server speaks, and starts somebody in a session of its own who is deaf to everything but SIGKILL.
const LAUNCHER: &str = "import os, signal, sys\n\
    print('Loading model: 10 %', flush=True)\n\
    if os.fork() == 0:\n\
    \x20   os.setsid()\n\
    \x20   for deaf in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM): signal.signal(deaf, signal.SIG_IGN)\n\
    \x20   open(sys.argv[1], 'a').write('deaf %d\\n' % os.getpid())\n\
    \x20   while True: signal.pause()\n\
    os.execv(sys.executable, [sys.executable, '-m', 'mcp_server_time'])\n";

fn launched(server: &Server, board: &Board) -> Server {
    let mut server = server.clone();
    server.words.truncate(1);
    server.words.extend(["-c".into(), LAUNCHER.into(), board.path().into()]);
    server
}

#[test]
fn what_a_launcher_prints_is_shown_and_whom_it_has_started_ends_with_it() {
    let servers = mcp::python(place());
    need!(servers.is_some(), "needs-mcp-python");
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let board = Board::at(dir.at("board"));
    let server = launched(&servers.expect("some")[0], &board);
    let spawner = Spawner::builder().grace(Duration::from_millis(300)).build().expect("a spawner");
    let events = Events::new().expect("a receiver");
    let node = events.spawn(&spawner, &command(&guard, &server)).expect("a server");
    let (names, stray) = tools(&events, &node);
    assert!(names.iter().any(|name| name == server.tool), "{names:?}");
    assert_eq!(stray, ["Loading model: 10 %"]);
    let deaf = board.wait_for_pid("deaf");
    assert!(proc::alive(deaf));
    node.begin_stop();
    assert_eq!(exit(&events).1, Cause::Stopped);
    proc::eventually("nobody is left", || guard.left().is_empty());
}

/// Reads on to a line that has this in it, so many times.
#[track_caller]
fn read_to(output: &mut BufReader<std::process::ChildStdout>, words: &str, mut count: usize) {
    let mut all = String::new();
    // Ends with the count, or with the output.
    while count > 0 {
        let before = all.len();
        let read = output.read_line(&mut all).expect("its output");
        assert!(read > 0, "no {words:?} in {all}");
        count -= usize::from(all[before..].contains(words));
    }
}

/// A host of all servers, killed while they start, when the first has answered, and when the last has shown its tools.
#[test]
fn host_that_is_killed_in_the_middle_leaves_nobody() {
    let (python, node) = (mcp::python(place()), mcp::node(place()));
    need!(python.is_some(), "needs-mcp-python");
    need!(node.is_some(), "needs-mcp-node");
    in_child!(|again| again.limit(limit()));
    let servers = [python, node].map(|servers| servers.expect("some")).concat();
    let guard = NoLeftovers::alone();
    let moments = [(": pid ", 5), (": server ", 1), (": tools: ", 1)];
    for round in 0..rounds(3, 30) {
        let dir = TempDir::new();
        let board = Board::at(dir.at("board"));
        let mut cmd = guard.command(command::example("mcp_host"));
        for server in servers.iter().chain([&launched(&servers[0], &board)]) {
            cmd.arg("--").args(&server.words).envs(server.env.clone());
        }
        // Where npx finds its package.
        cmd.current_dir(&servers[3].dir).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut host: Child = cmd.spawn().expect("a host");
        let mut output = BufReader::new(host.stdout.take().expect("piped"));
        let (words, count) = moments[round % moments.len()];
        read_to(&mut output, words, count);
        let deaf = board.wait_for_pid("deaf");
        assert!(proc::alive(deaf), "nothing but a guard ends it");
        host.kill().expect("it lives");
        host.wait().expect("ours");
        proc::eventually("nobody is left", || guard.left().is_empty());
        os::reap_orphans();
    }
}
