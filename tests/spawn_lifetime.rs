//! Whose end is the child's end, and what thousands of spawns leave behind.

use std::{
    fs,
    io::{Read, Write},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::Stdio as StdStdio,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
    thread,
    time::Duration,
};

use pidward::{Command, Spawner, Stdio};
use pidward_tests::{
    announce::Board,
    files::{self, TempDir},
    in_child,
    leftovers::NoLeftovers,
    need, os,
    proc::{self, eventually},
    rounds::rounds,
};

fn sleep(guard: &NoLeftovers) -> Command {
    let mut cmd = Command::new("sleep");
    let (name, value) = guard.token();
    cmd.arg("1000").env(name, value).stdin(Stdio::null());
    cmd
}

/// The supervisor of tests below, in a process of its own: it does as its environment says, once, and waits.
#[test]
fn supervisor_that_is_killed() {
    let Some(board) = std::env::var_os("PIDWARD_TEST_BOARD") else { return };
    let board = Path::new(&board);
    let spawner = Spawner::new().unwrap();
    let say = |line: &str| {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(board).unwrap();
        writeln!(file, "{line}").unwrap();
    };
    let mut cmd = Command::new(std::env::var_os("PIDWARD_TEST_PROGRAM").unwrap());
    cmd.arg("1000").stdin(Stdio::null());
    let here = std::env::var_os("PIDWARD_TEST_HERE").is_some();
    say("ready");
    if here {
        // Whoever traces this process waits for this thread.
        let tid = fs::read_link("/proc/thread-self").unwrap();
        say(&format!("thread {}", tid.file_name().unwrap().display()));
        let mut byte = [0];
        std::io::stdin().read_exact(&mut byte).unwrap();
    }
    let child = if here { spawner.spawn_on_this_thread(&cmd) } else { spawner.spawn(&cmd) };
    say(&format!("child {}", child.unwrap().id()));
    os::sleep_for_ever();
}

fn supervisor(guard: &NoLeftovers, board: &Board, program: &Path) -> std::process::Command {
    let mut cmd = guard.command(std::env::current_exe().unwrap());
    cmd.args(["--exact", "supervisor_that_is_killed", "--nocapture"]).process_group(0);
    cmd.env("PIDWARD_TEST_BOARD", board.path()).env("PIDWARD_TEST_PROGRAM", program);
    cmd
}

#[test]
fn sigkill_of_the_supervisor_ends_the_child_at_once() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    for round in 0..rounds(5, 50) {
        let board = Board::at(dir.at(round.to_string()));
        let mut supervisor = supervisor(&guard, &board, Path::new("/bin/sleep")).spawn().unwrap();
        let child = board.wait_for_pid("child");
        assert!(proc::alive(child));
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        assert!(proc::until(Duration::from_secs(5), || !proc::alive(child)), "the child lives on");
    }
}

#[test]
fn the_end_of_the_thread_that_asked_does_not_end_the_child() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let mut child = thread::scope(|s| s.spawn(|| spawner.spawn(&sleep(&guard))).join()).unwrap().unwrap();
    // Another thread's end, and time enough for a signal to come.
    assert_eq!(child.wait_timeout(Duration::from_millis(500)).unwrap(), None);
    assert_eq!(proc::state(child.id()), Some('S'));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_end_of_the_thread_that_made_it_ends_the_child() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let here = || spawner.spawn_on_this_thread(&sleep(&guard));
    let mut child = thread::scope(|s| s.spawn(here).join()).unwrap().unwrap();
    let status = child.wait_timeout(proc::LIMIT).unwrap().expect("it has ended");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
}

/// Holds the child at a call of its own by strace, kills the supervisor, lets the child go.
fn killed_in_a_window(call: &str) {
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let number = if call == "prctl" { libc::SYS_prctl } else { libc::SYS_execve }.to_string();
    let number = number.as_str();
    let (ran, program) = (dir.at("ran"), dir.at("program"));
    files::program(&program, format!("#!/bin/sh\n: >'{}'\n", ran.display()).as_bytes());
    for round in 0..rounds(10, 200) {
        let board = Board::at(dir.at(format!("board{round}")));
        let mut cmd = supervisor(&guard, &board, &program);
        let mut supervisor = cmd.env("PIDWARD_TEST_HERE", "1").stdin(StdStdio::piped()).spawn().unwrap();
        let thread = board.wait_for("thread");
        let log = dir.at(format!("log{round}"));
        let mut strace = guard
            .command("strace")
            .args(["-f", "-qq", "-e", &format!("trace={call}"), "-o"])
            .arg(&log)
            .args(["-e", &format!("inject={call}:delay_enter=400ms"), "-p", &thread])
            .spawn()
            .unwrap();
        let tid: u32 = thread.parse().unwrap();
        eventually("it is traced", || proc::status(tid, "TracerPid").is_some_and(|t| t != "0"));
        supervisor.stdin.take().unwrap().write_all(b"x").unwrap();
        let own = supervisor.id();
        // The tracer stops it at other calls too, for a moment only; the kernel says at which it is.
        let held = |pid: &u32| {
            let at = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            at.split(' ').next() == Some(number) && proc::state(*pid) == Some('t')
        };
        let mut child = None;
        eventually("a child is held in the window", || {
            child = proc::children(own).into_iter().find(held);
            child.is_some()
        });
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        let child = child.unwrap();
        eventually("the child has ended by itself", || !proc::alive(child));
        eventually("strace has ended", || strace.try_wait().unwrap().is_some());
        assert!(fs::read_to_string(&log).unwrap().contains(&format!("{call}(")), "it came to the call");
        assert!(!ran.exists(), "the program ran after its supervisor's end, round {round}");
    }
}

#[test]
fn a_supervisor_killed_before_the_death_signal_is_armed_takes_the_child_along() {
    need!(has_strace(), "needs-strace: holds the child in the window");
    in_child!(|again| again.limit(Duration::from_secs(1200)));
    killed_in_a_window("prctl");
}

#[test]
fn a_supervisor_killed_before_exec_takes_the_child_along() {
    need!(has_strace(), "needs-strace: holds the child in the window");
    in_child!(|again| again.limit(Duration::from_secs(1200)));
    killed_in_a_window("execve");
}

fn has_strace() -> bool {
    std::process::Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "true"])
        .status()
        .is_ok_and(|s| s.success())
}

static PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn tell_who_runs(_: libc::c_int) {
    // SAFETY: asks the kernel, not a copy that a library keeps.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) } as u32;
    // SAFETY: reads the four bytes of `pid`.
    unsafe { libc::write(PIPE.load(Ordering::Relaxed), (&raw const pid).cast(), 4) };
}

#[test]
fn a_storm_of_signals_on_the_parent_runs_no_handler_in_a_child() {
    in_child!(|again| again.limit(Duration::from_secs(600)));
    let _guard = NoLeftovers::alone();
    let mut ends = [0; 2];
    // SAFETY: writes two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: just made.
    let mut read = fs::File::from(unsafe { OwnedFd::from_raw_fd(ends[0]) });
    PIPE.store(ends[1], Ordering::Relaxed);
    let handler = tell_who_runs as *const () as libc::sighandler_t;
    for signal in [libc::SIGUSR1, libc::SIGHUP, libc::SIGWINCH] {
        // SAFETY: the handler makes two system calls.
        assert_ne!(unsafe { libc::signal(signal, handler) }, libc::SIG_ERR);
    }
    let spawner = Spawner::new().unwrap();
    let (own, over) = (std::process::id(), AtomicBool::new(false));
    thread::scope(|scope| {
        let told = scope.spawn(move || {
            let (mut pid, mut count) = ([0; 4], 0_u64);
            // Ends at the end of the pipe.
            while read.read_exact(&mut pid).is_ok() {
                assert_eq!(u32::from_ne_bytes(pid), own, "a handler ran in a child");
                count += 1;
            }
            count
        });
        // To the whole process, so to whichever thread has just made a child.
        scope.spawn(|| {
            let this = os::pidfd(own).unwrap();
            while !over.load(Ordering::Relaxed) {
                for signal in [libc::SIGUSR1, libc::SIGHUP, libc::SIGWINCH] {
                    os::signal(&this, signal).unwrap();
                }
                thread::yield_now();
            }
        });
        for round in 0..rounds(1000, 10_000) {
            let cmd = Command::new("true");
            let child = if round % 2 == 0 { spawner.spawn(&cmd) } else { spawner.spawn_on_this_thread(&cmd) };
            assert!(child.expect("a child").wait().unwrap().success());
        }
        over.store(true, Ordering::Relaxed);
        for signal in [libc::SIGUSR1, libc::SIGHUP, libc::SIGWINCH] {
            os::ignore(signal).unwrap();
        }
        // SAFETY: no handler writes to it any more once the storm is over; one that does gets an error.
        unsafe { libc::close(ends[1]) };
        assert!(told.join().unwrap() > 100, "there was a storm");
    });
}

/// Resident memory in KiB.
fn rss() -> i64 {
    let text = proc::status(std::process::id(), "VmRSS").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn thousands_of_spawns_leave_no_descriptor_zombie_or_memory() {
    in_child!(|again| again.limit(Duration::from_secs(600)));
    let _guard = NoLeftovers::alone();
    let spawner = Spawner::new().unwrap();
    let run = |count: usize| {
        for round in 0..count {
            let mut cmd = Command::new("true");
            cmd.stdin(Stdio::piped()).stdout(Stdio::piped());
            let child = if round % 2 == 0 { spawner.spawn(&cmd) } else { spawner.spawn_on_this_thread(&cmd) };
            assert!(child.expect("a child").wait().unwrap().success());
            let mut missing = Command::new("/no/such/program");
            spawner.spawn(missing.stdin(Stdio::piped())).expect_err("there is none");
        }
    };
    run(100);
    let before = (proc::open_fds(), proc::threads(std::process::id()));
    let memory = rss();
    run(rounds(1000, 10_000));
    assert_eq!((proc::open_fds(), proc::threads(std::process::id())), before);
    assert_eq!(proc::children(std::process::id()), [0; 0]);
    assert!(rss() < memory + 2048, "{memory} KiB have become {}", rss());
}
