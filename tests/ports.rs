//! Who listens on a port: children and whoever descends from them are ours by IPv4 and IPv6, strangers never are, and who cannot be
//! looked at is unknown.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::OwnedFd,
    process,
    time::Duration,
};

use pidward::{Child, ChildStdin, ChildStdout, Command, Errno, Listener, Spawner, Stdio, Verdict, Why};
use pidward_tests::{
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os,
    place::{self, Hide, NOBODY},
    proc, skip, this_test,
};

const LONG: Duration = Duration::from_secs(10);
const LOOPBACK: &str = "127.0.0.1:0";
const NO_MARKER: Verdict = Verdict::Unknown(Why::NoMarker);
const OTHER: Verdict = Verdict::NotOurs(Why::OtherTree);
const DENIED: Verdict = Verdict::Unknown(Why::Errno(Errno::EACCES));

/// The fixture `listen`, once it has said that it is ready. It ends with its input.
struct Server<I, O> {
    input: I,
    output: BufReader<O>,
    /// Of the process that said `ready`, which need not be the one that was started.
    pid: u32,
    ports: Vec<u16>,
    copy: u32,
}

impl<I: Write, O: Read> Server<I, O> {
    #[track_caller]
    fn of(input: I, output: O) -> Server<I, O> {
        let mut server = Server { input, output: BufReader::new(output), pid: 0, ports: Vec::new(), copy: 0 };
        // Ends with the fixture's last word, or with its output.
        while server.pid == 0 {
            let line = server.line();
            match line.split_once(' ').map(|(word, number)| (word, number.parse().expect("a number"))) {
                Some(("port", port)) => server.ports.push(u16::try_from(port).expect("a port")),
                Some(("copy", pid)) => server.copy = pid,
                Some(("ready", pid)) => server.pid = pid,
                _ => panic!("{line}"),
            }
        }
        server
    }

    /// Lets it close what it opened last.
    fn close(&mut self) {
        self.input.write_all(b"\n").expect("it reads");
        assert_eq!(self.line(), "closed");
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).expect("its output") > 0, "it ended before it was ready");
        line.trim_end().to_owned()
    }
}

/// Started by the spawner.
fn ours(spawner: &Spawner, guard: &NoLeftovers, words: &[&str]) -> (Child, Server<ChildStdin, ChildStdout>) {
    let mut cmd = Command::new(fixture!("listen"));
    served(spawner, cmd.args(words).env(guard.token().0, guard.token().1))
}

/// The same by way of a program that runs the fixture.
fn served(spawner: &Spawner, cmd: &mut Command) -> (Child, Server<ChildStdin, ChildStdout>) {
    let mut child = spawner.spawn(cmd.stdin(Stdio::piped()).stdout(Stdio::piped())).expect("a child");
    let server = Server::of(child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    (child, server)
}

/// Started by nobody's spawner.
fn stranger(
    cmd: &mut process::Command,
    words: &[&str],
) -> (process::Child, Server<process::ChildStdin, process::ChildStdout>) {
    let cmd = cmd.args(words).stdin(process::Stdio::piped()).stdout(process::Stdio::piped());
    let mut child = cmd.spawn().expect("a stranger");
    let server = Server::of(child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    (child, server)
}

fn end<I, O>(mut child: process::Child, server: Server<I, O>) {
    drop(server);
    child.wait().expect("its end");
}

/// Pid and verdict of the one listener of a port of the loopback. By IPv6 somebody else may have the number.
#[track_caller]
fn one(spawner: &Spawner, port: u16) -> (Option<u32>, Verdict) {
    let mut list = spawner.listeners(port).expect("an answer");
    list.retain(|listener| listener.address == SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let [Listener { pid, verdict, .. }] = list[..] else { panic!("one listener: {list:?}") };
    (pid, verdict)
}

/// None of ours is there. By now another test's may be.
#[track_caller]
fn none_of_ours(spawner: &Spawner, port: u16) {
    let list = spawner.listeners(port).expect("an answer");
    assert!(list.iter().all(|listener| listener.verdict != Verdict::Same), "{list:?}");
}

/// A port that nobody listens on any more.
fn free_port() -> u16 {
    TcpListener::bind(LOOPBACK).and_then(|socket| socket.local_addr()).expect("a port").port()
}

#[test]
fn a_childs_sockets_are_ours_by_ipv4_by_ipv6_and_by_both() {
    need!(TcpListener::bind("[::1]:0").is_ok(), "needs-ipv6: the loopback");
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    // The last is a socket of IPv6 that takes IPv4.
    let addresses = ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"];
    let words = addresses.map(|address| format!("{address}:0"));
    let (mut child, server) = ours(&spawner, &guard, &words.each_ref().map(String::as_str));
    for (address, port) in addresses.iter().zip(&server.ports) {
        let list = spawner.listeners(*port).expect("an answer");
        let at: SocketAddr = format!("{address}:{port}").parse().expect("an address");
        // Another test's may have the port by the other protocol.
        let listener = list.iter().find(|listener| listener.address == at).expect("a listener there");
        assert_eq!((listener.pid, listener.verdict), (Some(child.id()), Verdict::Same), "{list:?}");
    }
    assert!(child.stop(LONG).is_complete());
    server.ports.iter().for_each(|port| none_of_ours(&spawner, *port));
}

/// Only in a network namespace of its own: elsewhere it would be open to everybody.
#[test]
fn a_socket_of_all_addresses_of_both_protocols_is_one_listener() {
    const CASE: &str = "PIDWARD_TEST_CASE";
    let guard = NoLeftovers::new();
    if std::env::var_os(CASE).is_none() {
        need!(os::is_root() && skip::has_namespaces(), "needs-namespaces: a network namespace");
        need!(TcpListener::bind("[::1]:0").is_ok(), "needs-ipv6: sockets of it");
        let mut again = guard.command("unshare");
        again.arg("--net").arg(std::env::current_exe().expect("the test's path")).env(CASE, "1");
        let output = again.args(["--exact", &this_test!(), "--nocapture"]).output().expect("unshare");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
    let spawner = Spawner::new().expect("a spawner");
    let (mut child, server) = ours(&spawner, &guard, &["[::]:0"]);
    let list = spawner.listeners(server.ports[0]).expect("an answer");
    let [Listener { address, pid, verdict, .. }] = list[..] else { panic!("one listener: {list:?}") };
    assert_eq!((address.ip().to_string().as_str(), pid, verdict), ("::", Some(child.id()), Verdict::Same));
    assert!(child.stop(LONG).is_complete());
}

#[test]
fn a_grandchild_is_ours_also_for_another_run_of_the_installation() {
    let guard = NoLeftovers::new();
    let build = || Spawner::builder().installation("00112233445566778899aabbccddeeff").build();
    let (first, second) = (build().expect("a spawner"), build().expect("a spawner"));
    let mut cmd = guard.shell("\"$0\" 127.0.0.1:0; exit $?");
    let (mut child, server) = served(&first, cmd.arg(fixture!("listen")));
    assert!(server.pid != child.id(), "a grandchild");
    for spawner in [&first, &second] {
        assert_eq!(one(spawner, server.ports[0]), (Some(server.pid), Verdict::Same));
    }
    assert!(child.stop(LONG).is_complete());
    none_of_ours(&second, server.ports[0]);
}

#[test]
fn a_descendant_of_a_child_that_does_not_carry_the_run_is_ours_too() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let mut cmd = guard.shell("\"$0\" 127.0.0.1:0; exit $?");
    let (mut child, server) = served(&spawner, cmd.arg(fixture!("listen")).survives_supervisor(true));
    assert_eq!(one(&spawner, server.ports[0]), (Some(server.pid), Verdict::Same));
    assert!(child.stop(LONG).is_complete());
}

#[test]
fn a_child_that_overwrote_its_environ_is_known_to_its_own_spawner() {
    let guard = NoLeftovers::new();
    let build = || Spawner::builder().installation("ffeeddccbbaa99887766554433221100").build();
    let (first, second) = (build().expect("a spawner"), build().expect("a spawner"));
    let socket = TcpListener::bind(LOOPBACK).expect("a port");
    let port = socket.local_addr().expect("its address").port();
    let mut cmd = Command::new(fixture!("strange"));
    cmd.arg("zeros").env(guard.token().0, guard.token().1).stderr(Stdio::from(OwnedFd::from(socket)));
    let (mut child, _server) = served(&first, &mut cmd);
    guard.watch(child.id());
    // The command has a copy of its own.
    assert_eq!(one(&first, port), (Some(child.id()), Verdict::Same));
    drop(cmd);
    assert_eq!(one(&first, port), (Some(child.id()), Verdict::Same));
    assert_eq!(one(&second, port), (Some(child.id()), NO_MARKER));
    assert!(child.stop(LONG).is_complete());
}

#[test]
fn a_strangers_socket_is_not_ours_and_neither_is_our_own() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let (child, server) = stranger(&mut guard.command(fixture!("listen")), &[LOOPBACK, "fork"]);
    let (pid, verdict) = one(&spawner, server.ports[0]);
    assert!(pid == Some(server.pid) || pid == Some(server.copy));
    assert_eq!(verdict, NO_MARKER, "what shows nothing proves nothing");
    end(child, server);
    let own = TcpListener::bind(LOOPBACK).expect("a port");
    let port = own.local_addr().expect("its address").port();
    assert_eq!(one(&spawner, port), (Some(process::id()), Verdict::NotOurs(Why::Us)));
}

#[test]
fn a_descendant_of_another_installation_is_not_ours() {
    let guard = NoLeftovers::new();
    let (spawner, other) = (Spawner::new().expect("a spawner"), Spawner::new().expect("another"));
    // With a copy of itself that never calls exec, as servers have them.
    let (mut child, server) = ours(&other, &guard, &[LOOPBACK, "fork"]);
    assert_eq!(one(&spawner, server.ports[0]).1, OTHER);
    assert_eq!(one(&other, server.ports[0]).1, Verdict::Same);
    assert!(child.stop(LONG).is_complete());
    // And a stranger that has inherited its markers.
    let (name, value) = other.tree_entry();
    let (child, server) = stranger(guard.command(fixture!("listen")).env(name, value), &[LOOPBACK]);
    assert_eq!(one(&spawner, server.ports[0]), (Some(server.pid), OTHER));
    end(child, server);
}

#[test]
fn a_port_is_nobodys_once_the_child_has_closed_it() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let (mut child, mut server) = ours(&spawner, &guard, &[LOOPBACK, LOOPBACK]);
    server.close();
    none_of_ours(&spawner, server.ports[1]);
    assert_eq!(one(&spawner, server.ports[0]), (Some(child.id()), Verdict::Same));
    assert!(child.stop(LONG).is_complete());
    none_of_ours(&spawner, server.ports[0]);
}

#[test]
fn a_socket_that_several_hold_is_ours_if_one_of_them_is() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    // The child is gone, and its copy, which shows what the child had, has it still.
    let (mut child, server) = ours(&spawner, &guard, &[LOOPBACK, "fork"]);
    os::signal_pid(child.id(), libc::SIGKILL).expect("a child not yet reaped");
    child.wait().expect("its end");
    assert_eq!(one(&spawner, server.ports[0]), (Some(server.copy), Verdict::Same));
    drop(server);
    proc::eventually("nobody is left", || guard.left().is_empty());
    // We and a child.
    let socket = TcpListener::bind(LOOPBACK).expect("a port");
    let port = socket.local_addr().expect("its address").port();
    let mut cat = Command::new("cat");
    cat.env(guard.token().0, guard.token().1).stdin(Stdio::piped());
    cat.stderr(Stdio::from(OwnedFd::from(socket.try_clone().expect("a copy"))));
    let mut child = spawner.spawn(&cat).expect("cat");
    assert_eq!(one(&spawner, port), (Some(child.id()), Verdict::Same));
    assert!(child.stop(LONG).is_complete());
    assert_eq!(one(&spawner, port), (Some(process::id()), Verdict::NotOurs(Why::Us)));
}

#[test]
fn a_port_of_another_network_namespace_is_not_shown_and_a_socket_of_ours_there_is() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces: a network namespace");
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    // Nobody but itself can reach it there.
    let (mut child, server) = ours(&spawner, &guard, &["apart", "0.0.0.0:0"]);
    none_of_ours(&spawner, server.ports[0]);
    assert!(child.stop(LONG).is_complete());
    let (mut child, server) = ours(&spawner, &guard, &[LOOPBACK, "apart"]);
    assert_eq!(one(&spawner, server.ports[0]), (Some(child.id()), Verdict::Same));
    assert!(child.stop(LONG).is_complete());
}

#[test]
fn whoever_cannot_be_looked_at_is_unknown() {
    need!(os::is_root(), "needs-root: to become another user");
    in_child!();
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let program = place::copy_for(NOBODY, &dir, fixture!("listen"));
    let (roots, root) = stranger(&mut guard.command(&program), &[LOOPBACK]);
    place::become_user(NOBODY);
    let spawner = Spawner::new().expect("a spawner");
    assert_eq!(one(&spawner, root.ports[0]), (None, DENIED));
    let mut cmd = Command::new(&program);
    cmd.args(["undumpable", LOOPBACK]).env(guard.token().0, guard.token().1);
    let (mut child, server) = served(&spawner, &mut cmd);
    assert_eq!(one(&spawner, server.ports[0]), (None, DENIED), "a child of ours, though");
    assert!(child.stop(LONG).is_complete());
    end(roots, root);
}

#[test]
fn whoever_is_not_even_listed_is_unknown() {
    need!(os::is_root(), "needs-root: to become another user");
    in_child!(|again| again.in_mount_namespace());
    let guard = NoLeftovers::new();
    let (roots, root) = stranger(&mut guard.command(fixture!("listen")), &[LOOPBACK]);
    place::hide_processes(Hide::Processes);
    // Who has no other process: one that has just become undumpable would be listed, and denied.
    place::become_user(NOBODY - 1);
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    assert_eq!(one(&spawner, root.ports[0]), (None, Verdict::Unknown(Why::Errno(Errno::EPERM))));
    end(roots, root);
}

#[test]
fn without_proc_there_is_no_answer() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces: a place without /proc");
    in_child!(|again| again.in_mount_namespace());
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    place::empty_proc();
    let error = spawner.listeners(free_port()).expect_err("nothing is known");
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
}

#[test]
fn only_who_listens_to_tcp_counts() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let own = TcpListener::bind(LOOPBACK).expect("a port");
    let port = own.local_addr().expect("its address").port();
    let (mut child, server) = ours(&spawner, &guard, &[&format!("connect:{port}"), "udp"]);
    let (accepted, from) = own.accept().expect("the child");
    assert_eq!(from.port(), server.ports[0]);
    none_of_ours(&spawner, server.ports[0]);
    assert_eq!(one(&spawner, port), (Some(process::id()), Verdict::NotOurs(Why::Us)));
    // By TCP somebody else may have the number.
    let list = spawner.listeners(server.ports[1]).expect("an answer");
    assert!(list.iter().all(|listener| listener.pid != Some(child.id())), "{list:?}");
    drop(accepted);
    assert!(child.stop(LONG).is_complete());
}

#[test]
fn where_nobody_listens_there_is_no_listener() {
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    let is_free = |port| spawner.listeners(port).expect("an answer").is_empty();
    assert!(is_free(0), "no socket has it");
    // Another test may get the number at once, though hardly each time.
    assert!((0..5).any(|_| is_free(free_port())));
}
