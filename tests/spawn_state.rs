//! What a program finds when it starts: descriptors, signals, limits, rights. Each is asked of a real child that
//! reports on itself.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::PathBuf,
    thread,
};

use pidward::{Command, Resource, Signal, Spawner, Stdio};
use pidward_tests::{
    announce::Board,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os,
    proc::{self, LIMIT, eventually},
    report::Report,
    rounds::rounds,
};

/// A command that the guard knows.
fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut cmd = Command::new(program);
    let (name, value) = guard.token();
    cmd.env(name, value).stdin(Stdio::null());
    cmd
}

fn report(guard: &NoLeftovers) -> Command {
    command(guard, fixture!("report"))
}

/// What the program says of itself, started both ways: by a spawner, and by the thread that asks.
fn run(mut cmd: Command) -> [Report; 2] {
    cmd.stdout(Stdio::piped());
    let spawner = Spawner::new().expect("a spawner");
    [spawner.spawn(&cmd), spawner.spawn_on_this_thread(&cmd)].map(|child| {
        let out = child.expect("a child").wait_with_output().expect("its output");
        assert!(out.status.success(), "{:?}", out.status);
        Report::parse(&out.stdout)
    })
}

/// A copy of the fixture that every user may run.
fn public_report(dir: &TempDir) -> PathBuf {
    fs::set_permissions(dir.at(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(fixture!("report"), dir.at("report")).unwrap();
    dir.at("report")
}

/// An open descriptor that exec would pass on, at this number or above.
fn junk(least: i32) -> i32 {
    let file = File::open("/dev/null").unwrap();
    // SAFETY: makes a copy of an open descriptor.
    let fd = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, least) };
    assert!(fd >= least, "{}", io::Error::last_os_error());
    fd
}

#[test]
fn junk_descriptors_of_the_parent_do_not_reach_the_child() {
    in_child!();
    let guard = NoLeftovers::alone();
    for least in [3, 4, 100, 101, 500, 1000] {
        junk(least);
    }
    for report in run(report(&guard)) {
        assert_eq!(report.fds(), [0, 1, 2]);
    }
    let mut cmd = report(&guard);
    // The sources stand in each other's way: what goes to 8 is 7 here, and the other way round.
    let files = [File::open("/dev/zero").unwrap(), File::open("/dev/full").unwrap()];
    for (file, number) in files.iter().zip([7, 8]) {
        // SAFETY: nothing else of this process uses the two numbers.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
    }
    // SAFETY: as above.
    cmd.pass_fd(unsafe { OwnedFd::from_raw_fd(7) }, 8);
    // SAFETY: as above.
    cmd.pass_fd(unsafe { OwnedFd::from_raw_fd(8) }, 7).pass_fd(files[0].try_clone().unwrap(), 600);
    for report in run(cmd) {
        assert_eq!(report.fds(), [0, 1, 2, 7, 8, 600]);
        let fds = report.all("fd");
        assert_eq!(fds[3..], [&b"7 /dev/full"[..], b"8 /dev/zero", b"600 /dev/zero"]);
    }
}

#[test]
fn closed_standard_streams_of_the_parent_become_null_in_the_child() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let old = Spawner::new().unwrap();
    let run = |spawner: &Spawner, name: &str, here: bool| {
        let mut cmd = Command::new(fixture!("report"));
        let (entry, value) = guard.token();
        cmd.arg("--to").arg(dir.at(name)).env(entry, value);
        let child = if here { spawner.spawn_on_this_thread(&cmd) } else { spawner.spawn(&cmd) };
        child.map_err(|e| e.to_string())?.wait().map_err(|e| e.to_string())
    };
    let names = ["old", "old here", "new", "new here"];
    let answers = os::with_std_closed(|| {
        let mut answers = vec![run(&old, names[0], false), run(&old, names[1], true)];
        // What a spawner opens for itself must not pass for a standard stream.
        let new = Spawner::new().unwrap();
        answers.extend([run(&new, names[2], false), run(&new, names[3], true)]);
        answers
    });
    for (answer, name) in answers.into_iter().zip(names) {
        assert!(answer.expect("a child").success(), "{name}");
        let report = Report::parse(&fs::read(dir.at(name)).unwrap());
        assert_eq!(report.all("fd"), [&b"0 /dev/null"[..], b"1 /dev/null", b"2 /dev/null"], "{name}");
    }
}

#[test]
fn a_later_child_does_not_hold_the_input_of_an_earlier_one() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let each = rounds(8, 50);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut sleeps = Vec::new();
                for _ in 0..each {
                    let mut cat = command(&guard, "cat");
                    cat.stdin(Stdio::piped()).stdout(Stdio::null());
                    let mut cat = spawner.spawn(&cat).expect("cat");
                    sleeps.push(spawner.spawn(command(&guard, "sleep").arg("1000")).expect("sleep"));
                    let fds = proc::fds(cat.id());
                    // Files it opens itself are no pipes.
                    let is_pipe =
                        |(n, what): &&(i32, PathBuf)| *n > 2 && what.to_string_lossy().starts_with("pipe:");
                    assert_eq!(fds.iter().filter(is_pipe).count(), 0, "{fds:?}");
                    drop(cat.stdin.take());
                    let ended = cat.wait_timeout(LIMIT).expect("a status");
                    assert!(ended.is_some_and(|s| s.success()), "a cat without input goes on");
                }
                for mut sleep in sleeps {
                    assert!(sleep.try_wait().unwrap().is_none());
                    sleep.kill().unwrap();
                    sleep.wait().unwrap();
                }
            });
        }
    });
}

#[test]
fn signals_that_the_parent_ignores_blocks_or_handles_are_default_in_the_child() {
    in_child!(|again| again.ignoring(&[libc::SIGPIPE, libc::SIGCHLD, libc::SIGTERM, 40, 64]));
    extern "C" fn handler(_: libc::c_int) {}
    let guard = NoLeftovers::alone();
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
    // SAFETY: a set of zeros is the empty one.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes one set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: reads one set.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
    for report in run(report(&guard)) {
        for set in ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
            assert_eq!(report.set(set), 0, "{set}");
        }
    }
    let mut cmd = report(&guard);
    cmd.keep_ignored(true);
    for report in run(cmd) {
        // Whoever started the test runner may have ignored more. SIGCHLD is back at its default by now.
        let ours = proc::status(std::process::id(), "SigIgn").unwrap();
        assert_eq!(report.set("SigIgn"), u64::from_str_radix(&ours, 16).unwrap());
        let kept = [libc::SIGPIPE, libc::SIGTERM, 40, 64].into_iter().fold(0, |set, n| set | 1 << (n - 1));
        assert_eq!(report.set("SigIgn") & kept, kept);
        assert_eq!(report.set("SigCgt"), 0);
    }
    // Where SIGCHLD was ignored, statuses come all the same.
    let status = command(&guard, fixture!("exitwith")).arg("5").status();
    assert_eq!(status.unwrap().code(), Some(5));
}

#[test]
fn the_death_signal_is_armed_and_the_group_is_its_own() {
    let guard = NoLeftovers::new();
    let own = std::process::id();
    for report in run(report(&guard)) {
        assert_eq!(report.number("deathsig"), 15);
        assert_eq!(report.number("ppid"), i64::from(own));
        assert_eq!(report.number("pgrp"), report.number("pid"));
        assert_eq!(report.number("sid"), i64::from(proc::sid(own).unwrap()));
    }
    let mut cmd = report(&guard);
    cmd.death_signal(None).own_session(true);
    for report in run(cmd) {
        assert_eq!(report.number("deathsig"), 0);
        assert_eq!([report.number("pgrp"), report.number("sid")], [report.number("pid"); 2]);
    }
    let mut cmd = report(&guard);
    cmd.death_signal(Signal::new(64)).own_group(false);
    for report in run(cmd) {
        assert_eq!(report.number("deathsig"), 64);
        assert_eq!(report.number("pgrp"), i64::from(proc::pgid(own).unwrap()));
    }
}

/// The supervisor of the test below, in a process of its own: says who its child is and waits.
#[test]
fn supervisor_of_another_user() {
    let Some(board) = std::env::var_os("PIDWARD_TEST_BOARD") else { return };
    let spawner = Spawner::new().unwrap();
    let mut cmd = Command::new(std::env::var_os("PIDWARD_TEST_PROGRAM").unwrap());
    cmd.args(["--then", "sleep"]).stdout(Stdio::piped()).uid(65534).gid(65534);
    let mut child = spawner.spawn(&cmd).unwrap();
    assert!(!child.mechanism().shares_memory());
    child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    fs::write(board, format!("child {}\n", child.id())).unwrap();
    os::sleep_for_ever();
}

#[test]
fn a_change_of_user_does_not_disarm_the_death_signal() {
    need!(os::is_root(), "needs-root: another user");
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let program = public_report(&dir);
    // SAFETY: asks only.
    let dumpable = || unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
    assert_eq!(dumpable(), 1);
    let mut cmd = command(&guard, &program);
    cmd.uid(65534).gid(65533).groups(&[7, 5]);
    for report in run(cmd) {
        assert_eq!(report.number("deathsig"), 15);
        assert_eq!(report.text("Uid"), "65534\t65534\t65534\t65534");
        assert_eq!(report.text("Gid"), "65533\t65533\t65533\t65533");
        assert_eq!(report.text("Groups").trim(), "5 7");
    }
    assert_eq!(dumpable(), 1, "the child's new user has marked the supervisor");
    let mut cmd = command(&guard, &program);
    cmd.uid(65534);
    for report in run(cmd) {
        assert_eq!(report.text("Groups").trim(), "", "root's groups stay with root");
    }
    let board = Board::at(dir.at("board"));
    let mut supervisor = guard
        .command(std::env::current_exe().unwrap())
        .args(["--exact", "supervisor_of_another_user", "--nocapture"])
        .env("PIDWARD_TEST_BOARD", board.path())
        .env("PIDWARD_TEST_PROGRAM", &program)
        .spawn()
        .unwrap();
    let child = board.wait_for_pid("child");
    assert!(proc::alive(child));
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    eventually("the child of the other user has ended", || !proc::alive(child));
}

#[test]
fn no_new_privs_is_the_parents_unless_asked_for() {
    in_child!();
    let guard = NoLeftovers::alone();
    let flag = |cmd| run(cmd).map(|report| report.number("NoNewPrivs"));
    assert_eq!(proc::status(std::process::id(), "NoNewPrivs").as_deref(), Some("0"), "here to begin with");
    let mut cmd = report(&guard);
    cmd.nice(1).oom_score_adj(500).umask(0o22).rlimit(Resource::Core, 0, 0).current_dir("/");
    assert_eq!(flag(cmd), [0, 0]);
    let mut cmd = report(&guard);
    cmd.no_new_privs(true);
    assert_eq!(flag(cmd), [1, 1]);
    assert_eq!(flag(report(&guard)), [0, 0], "the parent's own flag is as it was");
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    assert_eq!(flag(report(&guard)), [1, 1]);
}
