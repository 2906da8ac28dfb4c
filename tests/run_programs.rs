//! `pidward run` with programs that nobody here has written.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use pidward_tests::{
    command::{child_of, code, run, signal},
    leftovers::NoLeftovers,
    need,
    proc::{self, eventually},
    pty::Pty,
};

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Python's web server under pidward, and its port.
fn server(guard: &NoLeftovers) -> (Child, u16) {
    let words = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"];
    let mut child = run(guard, &["--grace", "1h"], &words).spawn().expect("pidward");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    let port = line.split("port ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    (child, port.unwrap_or_else(|| panic!("no port in {line}")))
}

fn get(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn a_web_server_serves_and_stops_and_its_port_is_free() {
    need!(is_there("python3"), "needs-python: a web server");
    let guard = NoLeftovers::new();
    let (mut child, port) = server(&guard);
    assert!(get(port).contains(" 200 "));
    signal(child.id(), libc::SIGTERM);
    let status = child.wait().expect("pidward's end");
    assert_eq!(status.code(), Some(143));
    TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
}

#[test]
fn a_web_server_ends_with_a_pidward_that_was_killed() {
    need!(is_there("python3"), "needs-python: a web server");
    let guard = NoLeftovers::new();
    let (mut child, port) = server(&guard);
    assert!(get(port).contains(" 200 "));
    let program = child_of(child.id());
    child.kill().expect("a child of ours");
    child.wait().expect("pidward's end");
    eventually("the server's end", || !proc::alive(program));
    eventually("the inner one's end", || guard.left().is_empty());
    TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
}

#[test]
fn node_gets_the_signal_and_its_code_comes_back() {
    need!(is_there("node"), "needs-node: a Node program");
    let guard = NoLeftovers::new();
    let script =
        "process.on('SIGTERM', () => process.exit(9)); console.log('up'); setInterval(() => {}, 1000)";
    let mut child = run(&guard, &["--grace", "1h"], &["node", "-e", script]).spawn().expect("pidward");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    signal(child.id(), libc::SIGTERM);
    assert_eq!(code(&child.wait_with_output().expect("pidward's end")), 9);
}

/// A program under pidward that has started something which would outlive it: whoever carries the entry, when all of them are there.
fn with_helpers(guard: &NoLeftovers, words: &[&str], is_there: impl Fn(&str) -> bool) -> Child {
    let child = run(guard, &["--grace", "300ms"], words).spawn().expect("pidward");
    eventually("its helpers", || guard.left().into_iter().any(|pid| is_there(&proc::cmdline(pid))));
    child
}

#[test]
fn a_terminal_multiplexer_that_became_a_daemon_ends_with_its_supervisor() {
    need!(Command::new("tmux").arg("-V").output().is_ok(), "needs-tmux: a program that becomes a daemon");
    for kill in [false, true] {
        let guard = NoLeftovers::new();
        let dir = pidward_tests::files::TempDir::new();
        let socket = dir.at("socket");
        let session = format!("tmux -S {} new-session -d 'sleep 1000'; exec sleep 1000", socket.display());
        let mut child = with_helpers(&guard, &["/bin/sh", "-c", &session], |line| line == "sleep 1000");
        eventually("the server", || {
            guard.left().into_iter().any(|pid| proc::cmdline(pid).starts_with("tmux"))
        });
        let number = if kill { libc::SIGKILL } else { libc::SIGTERM };
        signal(child.id(), number);
        child.wait().expect("pidward's end");
        eventually("nobody is left", || guard.left().is_empty());
    }
}

#[test]
fn a_pager_that_does_not_end_ends_with_its_supervisor() {
    need!(is_there("git"), "needs-git: a program that starts a pager");
    for kill in [false, true] {
        let guard = NoLeftovers::new();
        let words = ["git", "-p", "-c", "core.pager=cat >/dev/null; trap '' TERM; sleep 1000", "help", "-a"];
        // It starts one on a terminal only.
        let pty = Pty::open().expect("a terminal");
        let mut child = pty.spawn(&mut run(&guard, &["--grace", "300ms"], &words)).expect("pidward");
        eventually("the pager", || guard.left().into_iter().any(|pid| proc::cmdline(pid) == "sleep 1000"));
        let number = if kill { libc::SIGKILL } else { libc::SIGTERM };
        signal(child.id(), number);
        child.wait().expect("pidward's end");
        eventually("nobody is left", || guard.left().is_empty());
    }
}
