//! `pidward run`: codes, signals, grace, and nobody left.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Output},
    time::{Duration, Instant},
};

use pidward_tests::{
    announce::Board,
    cgroup,
    command::{child_of, code, finish, inner_of, run, signal},
    files::TempDir,
    fixture,
    leftovers::NoLeftovers,
    need, os,
    proc::{self, eventually},
    skip,
};

#[track_caller]
fn end(child: Child) -> Output {
    let ended = proc::until(Duration::from_secs(120), || proc::has_ended(child.id()));
    assert!(ended, "pidward has not ended");
    child.wait_with_output().expect("pidward's end")
}

#[test]
fn every_exit_code_is_passed_on() {
    let guard = NoLeftovers::new();
    let program = fixture!("exitwith").to_str().expect("a path");
    for number in 0..=255 {
        let output = finish(&mut run(&guard, &[], &[program, &number.to_string()]));
        assert_eq!(code(&output), number);
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "silent when all is well: {output:?}");
    }
}

#[test]
fn a_signal_that_ends_the_program_is_128_and_its_number() {
    let guard = NoLeftovers::new();
    let program = fixture!("exitwith").to_str().expect("a path");
    for number in [1, 2, 3, 6, 9, 13, 14, 15, 31, 34, 64] {
        let output = finish(&mut run(&guard, &[], &[program, "signal", &number.to_string()]));
        assert_eq!(code(&output), 128 + number);
    }
}

#[test]
fn a_program_that_cannot_be_run_is_126_or_127() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let (plain, script) = (dir.at("plain"), dir.at("script"));
    fs::write(&plain, "no program").expect("a file");
    pidward_tests::files::program(&script, b"#!/no/such/interpreter\n");
    let rows = [
        ("no-such-program-anywhere", 127, "no such program"),
        ("/no/such/program", 127, "no such program"),
        (plain.to_str().expect("a path"), 126, "no execute permission"),
        (script.to_str().expect("a path"), 126, "interpreter"),
        ("/", 126, "is a directory"),
    ];
    for (program, expected, words) in rows {
        let output = finish(&mut run(&guard, &[], &[program]));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(&output), expected, "{text}");
        assert!(text.starts_with("pidward: ") && text.contains(words) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn every_signal_that_can_be_caught_is_passed_on() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let board = Board::at(dir.at("log"));
    let program = [fixture!("trapall").as_os_str(), board.path().as_os_str()];
    let child = run(&guard, &["--grace", "1h"], &program).spawn().expect("pidward");
    board.wait_for_pid("ready ");
    // SIGTERM, SIGINT and SIGHUP begin a stop and have tests of their own.
    let walked = (1..=64).filter(|n| {
        ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP].contains(n)
    });
    for number in walked {
        signal(child.id(), number);
        eventually(&format!("signal {number}"), || board.lines().contains(&number.to_string()));
    }
    assert!(!board.lines().contains(&libc::SIGCHLD.to_string()));
    let begun = Instant::now();
    // Each is in the log before the next is sent: two that are pending at once are one.
    for number in [libc::SIGHUP, libc::SIGINT] {
        signal(child.id(), number);
        board.wait_for(&number.to_string());
    }
    signal(child.id(), libc::SIGTERM);
    assert_eq!(code(&end(child)), 128 + libc::SIGKILL);
    assert!(begun.elapsed() < Duration::from_secs(60), "the second word for a stop waits for no grace");
}

#[test]
fn sigterm_stops_the_program_in_its_grace() {
    let guard = NoLeftovers::new();
    let output = {
        let script = "trap 'exit 42' TERM; echo up; while :; do sleep 0.02; done";
        let child = run(&guard, &["--grace", "1h"], &["sh", "-c", script]).spawn().expect("pidward");
        let program = child_of(child.id());
        eventually("a shell that has set its trap", || {
            proc::status(program, "SigCgt")
                .is_some_and(|set| u64::from_str_radix(&set, 16).is_ok_and(|s| s & 1 << 14 != 0))
        });
        signal(child.id(), libc::SIGTERM);
        end(child)
    };
    assert_eq!(code(&output), 42);
    assert_eq!(output.stdout, b"up\n");
}

/// A program that is deaf to everything, ready.
fn deaf(guard: &NoLeftovers, dir: &TempDir, grace: &str) -> (Child, u32) {
    let board = Board::at(dir.at("deaf"));
    let program = fixture!("termdeaf").to_str().expect("a path");
    let place = board.path().to_str().expect("a path").to_owned();
    let child = run(guard, &["--grace", grace], &[program, "--ready-file", &place]).spawn().expect("pidward");
    let pid = board.wait_for_pid("ready ");
    (child, pid)
}

#[test]
fn a_program_deaf_to_sigterm_gets_sigkill_after_the_grace() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let (child, _) = deaf(&guard, &dir, "700ms");
    let begun = Instant::now();
    signal(child.id(), libc::SIGTERM);
    assert_eq!(code(&end(child)), 137);
    let took = begun.elapsed();
    assert!((Duration::from_millis(700)..Duration::from_secs(20)).contains(&took), "{took:?}");
}

#[test]
fn a_second_sigterm_or_sigint_sends_sigkill_at_once() {
    for second in [libc::SIGTERM, libc::SIGINT] {
        let (guard, dir) = (NoLeftovers::new(), TempDir::new());
        let (child, _) = deaf(&guard, &dir, "1h");
        signal(child.id(), libc::SIGTERM);
        // Two that are pending at once are one.
        eventually("the first is taken", || {
            proc::status(child.id(), "ShdPnd").is_some_and(|set| set.bytes().all(|digit| digit == b'0'))
        });
        signal(child.id(), second);
        assert_eq!(code(&end(child)), 137);
    }
}

#[test]
fn a_second_signal_is_not_lost_while_the_first_waits() {
    let place = cgroup::Place::new();
    need!(place.is_some(), "needs-cgroup2");
    let place = place.expect("looked at above");
    for number in [libc::SIGTERM, libc::SIGINT] {
        let (guard, dir) = (NoLeftovers::new(), TempDir::new());
        let (child, _) = deaf(&guard, &dir, "1h");
        let inner = inner_of(child.id());
        fs::write(place.path().join("cgroup.procs"), inner.to_string()).expect("a member");
        fs::write(place.path().join("cgroup.freeze"), "1").expect("frozen");
        let has =
            |pid, set: &str| proc::status(pid, set).is_some_and(|set| set.bytes().any(|digit| digit != b'0'));
        for _ in 0..2 {
            signal(child.id(), number);
            eventually("it is taken, and passed on", || {
                !has(child.id(), "ShdPnd") && proc::state(child.id()) == Some('S') && has(inner, "ShdPnd")
            });
        }
        fs::write(place.path().join("cgroup.freeze"), "0").expect("thawed");
        assert_eq!(code(&end(child)), 137);
    }
}

#[test]
fn sigint_is_passed_on_as_it_is_and_then_the_ladder_begins() {
    let guard = NoLeftovers::new();
    let output = finish_after(&guard, "trap 'exit 5' INT; trap 'exit 6' TERM", libc::SIGINT);
    assert_eq!(code(&output), 5);
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let (child, _) = deaf(&guard, &dir, "200ms");
    signal(child.id(), libc::SIGINT);
    assert_eq!(code(&end(child)), 137, "nobody survives a program that is deaf to both");
}

/// A shell with these traps gets a signal by way of pidward.
fn finish_after(guard: &NoLeftovers, traps: &str, number: i32) -> Output {
    let dir = TempDir::new();
    let board = Board::at(dir.at("up"));
    let script = format!("{traps}; echo up >\"$0\"; while :; do sleep 0.02; done");
    let place = board.path().to_str().expect("a path").to_owned();
    let child = run(guard, &["--grace", "1h"], &["sh", "-c", &script, &place]).spawn().expect("pidward");
    board.wait_for("up");
    signal(child.id(), number);
    end(child)
}

#[test]
fn who_is_left_of_the_group_is_stopped_and_the_code_stays() {
    let guard = NoLeftovers::new();
    let script = "sleep 1000 >/dev/null 2>&1 & (trap '' TERM; exec sleep 1000 >/dev/null 2>&1) & exit 3";
    let output = finish(&mut run(&guard, &["--grace", "100ms"], &["sh", "-c", script]));
    assert_eq!(code(&output), 3);
    assert_eq!(guard.left(), Vec::<u32>::new());
}

#[test]
fn sigkill_of_pidward_ends_the_program() {
    let guard = NoLeftovers::new();
    let mut child = run(&guard, &[], &["sleep", "1000"]).spawn().expect("pidward");
    let program = child_of(child.id());
    eventually("the program", || proc::cmdline(program).starts_with("sleep"));
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    eventually("the program's end", || !proc::alive(program));
    eventually("the inner one's end", || guard.left().is_empty());
}

#[test]
fn a_timeout_stops_the_program_with_124() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let output = finish(&mut run(&guard, &["--timeout", "200ms"], &["sleep", "1000"]));
    assert_eq!(code(&output), 124);
    let place = dir.at("x").to_str().expect("a path").to_owned();
    let deaf = [fixture!("termdeaf").to_str().expect("a path"), "--ready-file", &place];
    let output = finish(&mut run(&guard, &["--timeout", "200ms", "--grace", "100ms"], &deaf));
    assert_eq!(code(&output), 124);
    let output = finish(&mut run(&guard, &["--timeout", "1h"], &["true"]));
    assert_eq!(code(&output), 0);
}

#[test]
fn a_stop_from_outside_is_reported_at_once() {
    use std::io::{BufRead, BufReader};
    let guard = NoLeftovers::new();
    let mut child = run(&guard, &[], &["sleep", "1000"]).spawn().expect("pidward");
    let program = child_of(child.id());
    eventually("the program", || proc::cmdline(program).starts_with("sleep"));
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let begun = Instant::now();
    signal(program, libc::SIGSTOP);
    let line = lines.next().expect("a line").expect("text");
    assert!(line.starts_with("pidward: warn: ") && line.contains("SIGSTOP"), "{line}");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    signal(child.id(), libc::SIGCONT);
    eventually("the program goes on", || proc::state(program) != Some('T'));
    signal(child.id(), libc::SIGTERM);
    assert_eq!(code(&end(child)), 143);
}

#[test]
fn pid_1_of_a_namespace_stops_on_sigterm_and_reaps_orphans() {
    need!(skip::has_namespaces(), "needs-namespaces: a pid namespace");
    let guard = NoLeftovers::new();
    let ours = run(&guard, &[], &["sleep", "1000"]);
    let mut unshare = guard.command("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    let child = unshare.arg(ours.get_program()).args(ours.get_args()).spawn().expect("unshare");
    let first = child_of(child.id());
    let program = child_of(first);
    eventually("the program", || proc::cmdline(program).starts_with("sleep"));
    signal(first, libc::SIGTERM);
    assert_eq!(code(&end(child)), 143);

    let script = "p=$(sh -c 'sleep 0.1 >/dev/null & echo $!'); n=0
        while [ -d /proc/$p ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done; [ ! -d /proc/$p ]";
    let ours = run(&guard, &[], &["sh", "-c", script]);
    let mut unshare = guard.command("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    let output = finish(unshare.arg(ours.get_program()).args(ours.get_args()));
    assert_eq!(code(&output), 0, "a zombie stays: {output:?}");
}

#[test]
fn a_signal_to_both_processes_of_pidward_is_one_signal() {
    let guard = NoLeftovers::new();
    let script = "trap 'echo once' USR1; trap 'echo term; sleep 0.3; exit 41' TERM; echo ready; while :; do sleep 0.05; done";
    let mut cmd = run(&guard, &[], &["sh", "-c", script]);
    std::os::unix::process::CommandExt::process_group(&mut cmd, 0);
    let mut child = cmd.spawn().expect("pidward");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        line
    };
    let group = i32::try_from(child.id()).expect("a pid");
    assert!(group > 1 && proc::pgid(child.id()) == Some(child.id()), "a group of its own");
    // SAFETY: takes numbers only; the group is that of a child that is not reaped.
    let all = |number| os::check(unsafe { libc::kill(-group, number) }.into()).expect("a group of ours");
    assert_eq!(line(), "ready\n");
    all(libc::SIGUSR1);
    assert_eq!(line(), "once\n");
    // The second way would be impatience, and SIGKILL.
    all(libc::SIGTERM);
    assert_eq!(line(), "term\n", "and no other USR1");
    assert_eq!(child.wait().expect("pidward's end").code(), Some(41));
}

#[test]
fn a_hangup_is_passed_on_as_often_as_it_comes() {
    let guard = NoLeftovers::new();
    let script = "trap 'echo hup' HUP; trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = run(&guard, &["--grace", "60s"], &["sh", "-c", script]).spawn().expect("pidward");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    for words in ["ready", "hup", "hup", "hup"] {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert_eq!(line.trim_end(), words);
        signal(child.id(), libc::SIGHUP);
    }
    signal(child.id(), libc::SIGTERM);
    assert_eq!(child.wait().expect("pidward's end").code(), Some(7));
}
