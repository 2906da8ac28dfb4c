//! The harness itself: bodies in processes of their own, refused calls, programs that hang, terminals, skips.

use std::{
    fs,
    os::{fd::AsRawFd, unix::process::ExitStatusExt},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use pidward_tests::{
    child,
    files::TempDir,
    fixture,
    hung::{At, HungProgram, Interrupt},
    in_child,
    leftovers::NoLeftovers,
    need, os,
    proc::{self, LIMIT, eventually, until},
    pty::Pty,
    seccomp::Filter,
    skip,
};

#[test]
fn a_child_that_fails_hangs_or_is_missing_fails_here() {
    let missing = child::Again::of("no_such_test").run();
    assert!(missing.fault().is_some_and(|f| f.contains("no test of that name")));
    let name = "the_body_of_another_test";
    let failed = child::Again::of(name).env("PIDWARD_TEST_DO", "fail").run();
    assert!(failed.fault().is_some_and(|f| f.contains("on purpose")), "{failed:?}");
    let hung = child::Again::of(name).env("PIDWARD_TEST_DO", "hang").limit(Duration::from_millis(500)).run();
    assert!(hung.timed_out && hung.left.len() == 2, "{hung:?}");
    let strays = child::Again::of(name).env("PIDWARD_TEST_DO", "stray").run();
    assert!(strays.status.success() && strays.left.len() == 1 && strays.fault().is_some(), "{strays:?}");
}

/// The other half of the test above; by itself it does nothing.
#[test]
fn the_body_of_another_test() {
    let sleep = || Command::new("sleep").arg("1000").spawn().expect("sleep");
    match std::env::var("PIDWARD_TEST_DO").as_deref() {
        Ok("fail") => panic!("on purpose"),
        Ok("hang") => drop(sleep().wait()),
        Ok("stray") => drop(sleep()),
        _ => assert!(!child::is_any()),
    }
}

#[test]
fn a_child_in_a_namespace_is_its_first_process() {
    need!(skip::has_namespaces(), "needs-namespaces: a pid namespace");
    in_child!(|again| again.in_pid_namespace());
    assert_eq!(std::process::id(), 1);
    assert_eq!(proc::pids(), [1]);
}

#[test]
fn a_child_inherits_what_its_starter_ignored() {
    in_child!(|again| again.ignoring(&[libc::SIGTERM, 40]));
    let set = proc::status(std::process::id(), "SigIgn").unwrap();
    let set = u64::from_str_radix(&set, 16).unwrap();
    assert_eq!(set & (1 << 14 | 1 << 39), 1 << 14 | 1 << 39);
}

#[test]
fn standard_streams_are_closed_and_put_back() {
    in_child!();
    let before = proc::fds(std::process::id());
    let inside = os::with_std_closed(|| fs::File::open("/dev/null").unwrap().as_raw_fd());
    assert_eq!(inside, 0);
    assert_eq!(proc::fds(std::process::id()), before);
}

#[test]
fn filter_answers_what_was_chosen_and_nothing_else() {
    in_child!();
    let old = fs::read_dir("/proc/self/task").unwrap().count();
    assert!(old >= 1);
    let shared = libc::CLONE_VM as u64;
    Filter::new()
        .errno(libc::SYS_clone3, libc::ENOSYS)
        .errno_if(libc::SYS_getpriority, 1, 0xFFFF_FFFF, 1234, libc::EPERM)
        .errno_if(libc::SYS_clone, 0, shared, shared, libc::EINVAL)
        .install();
    let call = |nr, a: i64, b: i64| {
        // SAFETY: numbers only, to calls that fail or only ask.
        let ret = unsafe { libc::syscall(nr, a, b, 0, 0, 0) };
        os::check(ret).map_err(|e| e.raw_os_error())
    };
    assert_eq!(call(libc::SYS_clone3, 0, 0), Err(Some(libc::ENOSYS)));
    assert_eq!(call(libc::SYS_getpriority, 0, 1234), Err(Some(libc::EPERM)));
    assert!(call(libc::SYS_getpriority, 0, 0).is_ok(), "another argument passes");
    assert_eq!(call(libc::SYS_clone, 0x100, 0), Err(Some(libc::EINVAL)));
    // std starts a thread with shared memory, and there is no way left to make one.
    assert!(thread::Builder::new().spawn(|| ()).is_err());
    let new = proc::status(std::process::id(), "NoNewPrivs");
    assert_eq!(new.as_deref(), Some("1"));
}

#[test]
fn filter_can_trap_and_kill() {
    let outcome = child::Again::of("filter_body").env("PIDWARD_TEST_DO", "trap").run();
    assert!(outcome.status.signal() == Some(libc::SIGSYS), "{outcome:?}");
    let outcome = child::Again::of("filter_body").env("PIDWARD_TEST_DO", "kill").run();
    assert!(outcome.status.signal() == Some(libc::SIGSYS), "{outcome:?}");
}

/// The other half of the test above.
#[test]
fn filter_body() {
    let filter = Filter::new();
    match std::env::var("PIDWARD_TEST_DO").as_deref() {
        Ok("trap") => filter.trap(libc::SYS_personality).install(),
        Ok("kill") => filter.kill(libc::SYS_personality).install(),
        _ => return,
    }
    // SAFETY: the argument only asks.
    unsafe { libc::syscall(libc::SYS_personality, 0xFFFF_FFFF_u64) };
}

#[test]
fn filter_is_refused_in_the_runner() {
    let text = std::panic::catch_unwind(|| Filter::new().install()).expect_err("the runner keeps its calls");
    assert!(text.downcast_ref::<&str>().is_some_and(|t| t.contains("in_child")));
}

fn spawn_hung(program: &HungProgram) -> mpsc::Receiver<std::io::Result<std::process::ExitStatus>> {
    let (path, (sender, result)) = (program.path().to_path_buf(), mpsc::channel());
    thread::spawn(move || sender.send(Command::new(path).stdin(Stdio::null()).status()));
    result
}

#[test]
fn a_hung_program_hangs_until_it_is_served() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    for at in [At::Open, At::Read] {
        let mut program = HungProgram::start(fixture!("hungfs"), at, Interrupt::Ignored).unwrap();
        let result = spawn_hung(&program);
        let pid = program.wait_hung().expect("somebody hangs");
        assert_eq!(proc::ppid(pid), Some(std::process::id()));
        assert!(result.recv_timeout(Duration::from_millis(50)).is_err(), "it hangs");
        program.serve().unwrap();
        let status = result.recv_timeout(LIMIT).expect("it was let go").expect("and runs");
        assert_eq!(status.code(), Some(7));
    }
}

#[test]
fn a_hung_program_lets_go_of_a_killed_caller() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    let mut program = HungProgram::start(fixture!("hungfs"), At::Open, Interrupt::Answered).unwrap();
    let result = spawn_hung(&program);
    let pid = program.wait_hung().expect("somebody hangs");
    os::signal_pid(pid, libc::SIGKILL).unwrap();
    // The child has ended before exec; std tells a status or an error, as it used vfork or not.
    result.recv_timeout(LIMIT).expect("the kill has let it go").map_or_else(drop, |s| assert!(!s.success()));
    program.fail().unwrap();
    let error = Command::new(program.path()).status().expect_err("now everybody gets an error");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
}

#[test]
fn a_deaf_server_keeps_a_killed_caller() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    let mut program = HungProgram::start(fixture!("hungfs"), At::Open, Interrupt::Ignored).unwrap();
    let result = spawn_hung(&program);
    let pid = program.wait_hung().expect("somebody hangs");
    os::signal_pid(pid, libc::SIGKILL).unwrap();
    eventually("it is beyond signals", || proc::state(pid) == Some('D'));
    assert!(!until(Duration::from_millis(50), || !proc::alive(pid)));
    drop(program);
    result
        .recv_timeout(LIMIT)
        .expect("the end of the mount has let it go")
        .map_or_else(drop, |s| assert!(!s.success()));
}

#[test]
fn a_shell_in_a_terminal_obeys_its_keys() {
    let guard = NoLeftovers::new();
    let mut pty = Pty::open().expect("a terminal");
    let mut shell = pty.spawn(guard.command("/bin/sh").env("PS1", "prompt> ")).unwrap();
    let pid = shell.id();
    assert!(pty.read_until(b"prompt> ", LIMIT).is_some(), "{}", pty.pending());
    assert_eq!(pty.foreground().unwrap(), pid);
    assert!(pty.modes().unwrap().are_cooked());
    pty.write(b"echo $((40 + 2)) done\n").unwrap();
    assert!(pty.read_until(b"42 done", LIMIT).is_some(), "{}", pty.pending());
    pty.resize(33, 101).unwrap();
    pty.write(b"stty size\n").unwrap();
    assert!(pty.read_until(b"33 101", LIMIT).is_some(), "{}", pty.pending());
    pty.write(b"cat; echo after\n").unwrap();
    eventually("cat has the terminal", || pty.foreground().is_ok_and(|g| g != pid && g != 0));
    pty.write(b"\x03").unwrap();
    assert!(pty.read_until(b"prompt> ", LIMIT).is_some(), "{}", pty.pending());
    eventually("the shell has it again", || pty.foreground().is_ok_and(|g| g == pid));
    pty.write(b"exit 5\n").unwrap();
    assert_eq!(pty.read_until(b"never printed", LIMIT), None);
    assert_eq!(shell.wait().unwrap().code(), Some(5));
}

#[test]
fn a_skip_leaves_its_line() {
    let dir = TempDir::new();
    let log = dir.at("log").display().to_string();
    let outcome = child::Again::of("skips_when_told")
        .env("PIDWARD_SKIP_LOG", &log)
        .env("PIDWARD_TEST_DO", "skip")
        .run();
    outcome.check();
    assert!(outcome.stderr.contains("SKIP skips_when_told: needs-isa\n"), "{outcome:?}");
    assert_eq!(fs::read_to_string(&log).unwrap(), "SKIP skips_when_told: needs-isa\n");
}

/// The other half of the test above.
#[test]
fn skips_when_told() {
    need!(std::env::var_os("PIDWARD_TEST_DO").is_none_or(|d| d != "skip"), "needs-isa: asked to");
    assert!(!child::is("skips_when_told"));
}
