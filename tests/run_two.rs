//! The two processes that `pidward run` is: what reaches both, and who may be the outer one.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use pidward_tests::{
    announce::Board,
    command::{self, code, finish, run, signal},
    files::TempDir,
    fixture,
    leftovers::NoLeftovers,
    need, os,
    proc::{self, eventually},
};

/// To the whole group of a child that leads one.
#[track_caller]
fn all_of(child: &Child, number: i32) {
    let group = i32::try_from(child.id()).expect("a pid");
    assert!(group > 1 && proc::pgid(child.id()) == Some(child.id()), "a group of its own");
    // SAFETY: takes numbers only; the group is that of a child that is not reaped.
    os::check(unsafe { libc::kill(-group, number) }.into()).expect("a group of ours");
}

/// One that is queued comes as often as it was sent, however close together: none is lost in another.
#[test]
fn a_queued_signal_to_both_processes_of_pidward_comes_once() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let board = Board::at(dir.at("log"));
    let program = [fixture!("trapall").as_os_str(), board.path().as_os_str()];
    let mut cmd = run(&guard, &["--grace", "0s"], &program);
    let child = cmd.process_group(0).spawn().expect("pidward");
    board.wait_for_pid("ready ");
    let (number, last) = (libc::SIGRTMIN() + 6, libc::SIGRTMIN() + 7);
    for _ in 0..20 {
        let before = board.lines().len();
        all_of(&child, number);
        // To the outer one alone, which passes it on after the other.
        signal(child.id(), last);
        eventually("the last one", || {
            board.lines().len() > before && board.lines().last() == Some(&last.to_string())
        });
        assert_eq!(board.lines()[before..], [number.to_string(), last.to_string()]);
    }
    signal(child.id(), libc::SIGTERM);
    assert_eq!(code(&child.wait_with_output().expect("its end")), 128 + libc::SIGKILL);
}

/// The kernel is made to say that somebody else is the parent until that one's pidfd was had: as where the parent has ended meanwhile,
/// and its number was given away.
#[test]
fn who_is_not_the_parent_when_it_is_asked_again_is_no_outer_process() {
    let has_strace =
        Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    need!(has_strace, "needs-strace: answers for the kernel");
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let mut stranger = guard.command("sleep").arg("1000").spawn().expect("a stranger");
    let (number, log, made) = (stranger.id().to_string(), dir.at("log"), dir.at("made"));
    let mut cmd = guard.command("strace");
    cmd.args(["-qq", "-e", &format!("inject=getppid:retval={number}:when=1..2"), "-o"]).arg(&log);
    cmd.arg(command::path()).args(["run", "--outer", &number, "--", "touch"]).arg(&made);
    let output = finish(&mut cmd);
    stranger.kill().expect("it lives");
    stranger.wait().expect("ours");
    let log = fs::read_to_string(log).expect("its log");
    assert!(log.contains(&format!("pidfd_open({number}, ")), "it was had: {log}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(code(&output) == 125 && text.contains("--outer") && text.lines().count() == 1, "{text}");
    assert!(!made.exists(), "nothing was started");
}
