//! The fixtures themselves: scales are checked before anything is weighed.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, process::ExitStatusExt},
    process::{Child, Command},
};

use pidward_tests::{
    announce::Board,
    escape,
    files::{self, TempDir},
    fixture, in_child, launch,
    leftovers::NoLeftovers,
    os,
    proc::{self, eventually},
    report::Report,
    rounds, skip, this_test,
};

fn end(mut child: Child) {
    child.kill().expect("our own child");
    child.wait().expect("our own child");
}

#[test]
fn test_names_are_those_of_the_runner() {
    assert_eq!(this_test!(), "test_names_are_those_of_the_runner");
    let inside = || this_test!();
    assert_eq!(inside(), "test_names_are_those_of_the_runner");
    assert_eq!(skip::test_name("file::outer::inner::here"), "outer::inner");
}

#[test]
fn escapes_come_back() {
    let all: Vec<u8> = (0..=255).collect();
    let text = escape::escape(&all);
    assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)));
    assert_eq!(escape::unescape(&text), Some(all));
    assert_eq!(escape::unescape("\\n"), None);
    assert_eq!(escape::unescape("\\x0"), None);
}

#[test]
fn rounds_are_quick_or_full() {
    assert_eq!(rounds::choose("quick", 1, 2), Some(1));
    assert_eq!(rounds::choose("full", 1, 2), Some(2));
    assert_eq!(rounds::choose("Full", 1, 2), None);
}

#[test]
fn report_tells_what_it_was_given() {
    let guard = NoLeftovers::new();
    let mut command = guard.command(fixture!("report"));
    let odd = std::ffi::OsStr::from_bytes(b"a \xff\n");
    command.arg(odd).env("NAME", "va=lue").current_dir("/proc");
    launch::ignoring(&mut command, &[libc::SIGUSR1]);
    let report = Report::parse(&command.output().expect("report").stdout);
    assert_eq!(report.all("arg")[1], b"a \xff\n");
    assert!(report.all("env").contains(&b"NAME=va=lue".as_slice()));
    assert_eq!(report.text("cwd"), "/proc");
    // Whoever started the test runner may have left more open.
    let ours: Vec<i32> = proc::fds(std::process::id()).into_iter().map(|(n, _)| n).collect();
    assert!(
        report.fds().starts_with(&[0, 1, 2]) && report.fds().iter().all(|n| ours.contains(n)),
        "{ours:?}"
    );
    let own = proc::status(std::process::id(), "SigIgn").unwrap();
    let bit = |signal: i32| 1_u64 << (signal - 1);
    let inherited = u64::from_str_radix(&own, 16).unwrap() & !bit(libc::SIGPIPE);
    assert_eq!(report.set("SigIgn"), inherited | bit(libc::SIGUSR1), "nothing that the runtime has added");
    assert_eq!(report.set("SigCgt"), 0);
    assert_eq!(report.set("SigBlk"), 0);
    assert_eq!(report.number("ppid"), i64::from(std::process::id()));
    assert_eq!(report.number("deathsig"), 0);
    assert_eq!(report.text("umask").len(), 4);
    assert!(report.text("rlimit_nofile").contains(' '));
    for key in ["pgrp", "sid", "nice", "oom_score_adj", "Uid", "Gid", "Groups", "NoNewPrivs", "exe"] {
        report.bytes(key);
    }
}

#[test]
fn report_works_without_streams() {
    let dir = TempDir::new();
    let mut command = Command::new(fixture!("report"));
    command.arg("--to").arg(dir.at("report"));
    launch::blocking(launch::closing(&mut command, &[0, 1, 2]), &[libc::SIGINT, 33]);
    assert_eq!(command.status().expect("report").code(), Some(0));
    let report = Report::parse(&fs::read(dir.at("report")).unwrap());
    assert_eq!(report.set("SigBlk"), 1 << 1 | 1 << 32);
    assert!(report.fds().iter().all(|n| *n > 2), "{report:?}");
}

#[test]
fn leftovers_are_found_named_and_ended() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut top =
        guard.command(fixture!("tree")).arg(board.path()).args(["daemon", "bare", "exit"]).spawn().unwrap();
    let (daemon, bare) = (board.wait_for_pid("daemon"), board.wait_for_pid("bare"));
    board.wait_for("ready");
    top.wait().unwrap();
    guard.watch(bare);
    eventually("the bare one has lost the entry", || proc::carriers(&guard.entry()) == [daemon]);
    eventually("the bare one is sleep", || proc::cmdline(bare) == "/bin/sleep 1000");
    let mut both = [daemon, bare];
    both.sort_unstable();
    assert_eq!(guard.left(), both);
    let failed = std::panic::catch_unwind(|| drop(guard)).expect_err("the guard has to fail the test");
    let text = failed.downcast_ref::<String>().expect("a message");
    for (pid, program) in [(daemon, "tree"), (bare, "/bin/sleep 1000")] {
        let line = text.lines().find(|l| l.starts_with(&format!("{pid} "))).expect("a line for each");
        assert!(line.contains(program), "{text}");
    }
    assert!(!proc::alive(daemon) && !proc::alive(bare));
}

#[test]
fn a_guard_alone_sees_children_without_the_entry() {
    in_child!();
    let guard = NoLeftovers::alone();
    let child = Command::new("sleep").arg("1000").env_clear().spawn().unwrap();
    assert_eq!(guard.left(), [child.id()]);
    assert_eq!(guard.end_all().len(), 1);
    assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(libc::SIGKILL));
}

#[test]
fn tree_makes_what_it_is_told() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let kinds = ["child", "grandchild", "daemon", "stopped", "deaf", "storm:20"];
    let top = guard.command(fixture!("tree")).arg(board.path()).args(kinds).spawn().unwrap();
    let ready = board.wait_for_pid("ready");
    assert_eq!(ready, top.id());
    assert_eq!(proc::ppid(board.wait_for_pid("child")), Some(ready));
    let (parent, grandchild) = (board.wait_for_pid("parent"), board.wait_for_pid("grandchild"));
    assert_eq!((proc::ppid(parent), proc::ppid(grandchild)), (Some(ready), Some(parent)));
    let daemon = board.wait_for_pid("daemon");
    assert_eq!((proc::sid(daemon), proc::pgid(daemon)), (Some(daemon), Some(daemon)));
    let stopped = board.wait_for_pid("stopped");
    eventually("it has stopped", || proc::state(stopped) == Some('T'));
    let last = board.wait_for_pid("storm");
    assert_ne!(last, board.wait_for_pid("first"));
    let deaf = board.wait_for_pid("deaf");
    os::signal_pid(deaf, libc::SIGTERM).unwrap();
    assert!(proc::alive(deaf) && proc::pgid(deaf) != Some(deaf));
    assert_eq!(guard.end_all().len(), 8);
    end(top);
}

#[test]
fn termdeaf_ignores_and_listens() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let child = guard
        .command(fixture!("termdeaf"))
        .arg("--ready-file")
        .arg(board.path())
        .arg("--listen")
        .spawn()
        .unwrap();
    let line = board.wait_for("ready");
    let port = line.split(' ').nth(1).expect("a port").parse().unwrap();
    std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        os::signal_pid(child.id(), signal).unwrap();
    }
    std::net::TcpStream::connect(("127.0.0.1", port)).expect("it still listens");
    end(child);
}

#[test]
fn trapall_notes_each_signal() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let child = guard.command(fixture!("trapall")).arg(board.path()).spawn().unwrap();
    board.wait_for("ready");
    for signal in (1..=64).filter(|s| ![libc::SIGKILL, libc::SIGSTOP].contains(s)) {
        os::signal_pid(child.id(), signal).unwrap();
        eventually("it has noted the signal", || {
            board.lines().last().is_some_and(|l| *l == signal.to_string())
        });
    }
    end(child);
}

#[test]
fn burn_and_exitwith_do_as_they_are_told() {
    let code = |program, args: &[&str]| Command::new(program).args(args).status().unwrap();
    assert_eq!(code(fixture!("burn"), &["3"]).code(), Some(3));
    assert_eq!(code(fixture!("exitwith"), &["200"]).code(), Some(200));
    assert_eq!(code(fixture!("exitwith"), &["signal", "15"]).signal(), Some(15));
}

#[test]
fn tiny_program_exits_with_its_code() {
    let Some(bytes) = files::tiny_program(77) else { skip!("needs-isa: machine code") };
    let dir = TempDir::new();
    files::program(&dir.at("tiny"), &bytes);
    assert_eq!(Command::new(dir.at("tiny")).status().unwrap().code(), Some(77));
    assert!(fs::metadata(dir.at("tiny")).unwrap().len() < 200);
}
