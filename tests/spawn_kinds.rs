//! Errors that tell causes apart, and the two that pass: those are waited out for a bounded time, and nothing else
//! is tried twice.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use pidward::{Command, SpawnError, SpawnErrorKind, Spawner, Stdio};
use pidward_tests::{
    files::{self, TempDir},
    in_child,
    leftovers::NoLeftovers,
    need, os, proc,
    rounds::rounds,
    seccomp::Filter,
};

fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut cmd = Command::new(program);
    let (name, value) = guard.token();
    cmd.env(name, value).stdin(Stdio::null());
    cmd
}

/// The error both ways to spawn give, and how long the slower took.
fn refused(spawner: &Spawner, cmd: &Command) -> (SpawnError, Duration) {
    let began = Instant::now();
    let first = spawner.spawn(cmd).expect_err("has to fail");
    let one = began.elapsed();
    let second = spawner.spawn_on_this_thread(cmd).expect_err("has to fail");
    assert_eq!((first.kind(), first.raw_os_error()), (second.kind(), second.raw_os_error()));
    (first, one.max(began.elapsed().saturating_sub(one)))
}

#[test]
fn causes_that_share_an_errno_are_told_apart_and_never_tried_twice() {
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let place = |name: &str, text: &[u8]| {
        files::program(&dir.at(name), text);
        dir.at(name)
    };
    let mut elf = fs::read("/bin/true").unwrap();
    let loader = elf.windows(4).position(|w| w == b"/lib").expect("a dynamic program");
    elf[loader + 1] = b'X';
    let plain = dir.at("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    let tell = |program: &Path| command(&guard, program);
    let mut no_dir = command(&guard, "true");
    no_dir.current_dir(dir.at("missing"));
    let mut long = command(&guard, "true");
    long.arg("x".repeat(1 << 20));
    use SpawnErrorKind::*;
    let rows = [
        (tell(&dir.at("missing")), ProgramMissing, libc::ENOENT),
        (command(&guard, "no-such-program-in-the-path"), ProgramMissing, libc::ENOENT),
        (tell(&dir.at("")), NotExecutable, libc::EACCES),
        (tell(&plain), NotExecutable, libc::EACCES),
        (tell(&place("script", b"#!/no/such/interpreter\n")), InterpreterMissing, libc::ENOENT),
        (tell(&place("loaderless", &elf)), InterpreterMissing, libc::ENOENT),
        (tell(&place("text", b"exit 0\n")), BadFormat, libc::ENOEXEC),
        (no_dir, WorkingDirectoryMissing, libc::ENOENT),
        (long, ArgumentTooLong, libc::E2BIG),
    ];
    let spawner = Spawner::new().unwrap();
    for (cmd, kind, errno) in &rows {
        let (error, took) = refused(&spawner, cmd);
        assert_eq!((error.kind(), error.raw_os_error()), (*kind, Some(*errno)), "{error}");
        assert!(took < Duration::from_millis(500), "tried again after {error}? {took:?}");
    }
    let nul = |cmd: &Command| {
        let error = refused(&spawner, cmd).0;
        assert_eq!((error.kind(), error.raw_os_error()), (Nul, None), "{error}");
    };
    nul(&command(&guard, "a\0b"));
    nul(command(&guard, "true").arg("x\0y"));
    nul(command(&guard, "true").env("NAME", "x\0y"));
    nul(command(&guard, "true").current_dir("/\0"));
    for name in ["", "a=b", "a\0b"] {
        let error = refused(&spawner, command(&guard, "true").env(name, "x")).0;
        assert_eq!(error.kind(), InvalidInput, "{error}");
    }
    assert_eq!(proc::children(std::process::id()), [0; 0]);
    Filter::new().errno(libc::SYS_execve, libc::EMFILE).install();
    let (error, took) = refused(&spawner, &command(&guard, "true"));
    assert_eq!((error.kind(), error.step()), (NoFds, Some("exec")));
    assert!(took < Duration::from_millis(500), "{took:?}");
}

/// Sets the limit in force; the hard one is not ours to raise.
fn processes(most: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one rlimit.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) }, 0);
    limit.rlim_cur = most.min(limit.rlim_max);
    // SAFETY: reads one rlimit.
    let ret = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) };
    assert_eq!(ret, 0, "{}", io::Error::last_os_error());
}

#[test]
fn a_limit_on_processes_is_waited_out_for_a_bounded_time() {
    need!(os::is_root(), "needs-root: a user without other processes");
    in_child!();
    let guard = NoLeftovers::alone();
    let (spawner, here) = (Spawner::new().unwrap(), Spawner::new().unwrap());
    assert!(here.spawn_on_this_thread(&command(&guard, "true")).unwrap().wait().unwrap().success());
    // Not a user that somebody else may be. The C library has all threads do it, those of the spawners too: one
    // that blocked its signal would hang it for ever.
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::setresuid(54_321, 54_321, 54_321) }, 0);
    processes(0);
    let cmd = command(&guard, "true");
    for on_this_thread in [false, true] {
        let began = Instant::now();
        let answer = if on_this_thread { here.spawn_on_this_thread(&cmd) } else { spawner.spawn(&cmd) };
        let (error, took) = (answer.expect_err("no process to be had"), began.elapsed());
        assert_eq!((error.kind(), error.step()), (SpawnErrorKind::ProcessLimit, Some("clone")), "{error}");
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        // Ten waits that grow by 20 ms, each up to a quarter shorter.
        assert!(took >= Duration::from_millis(820) && took < Duration::from_secs(10), "{took:?}");
    }
    thread::scope(|scope| {
        processes(1000);
        let later = scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            processes(1000);
        });
        processes(0);
        let began = Instant::now();
        let mut child = spawner.spawn(command(&guard, "cat").stdin(Stdio::piped())).expect("a slot is free");
        assert!(began.elapsed() >= Duration::from_millis(200));
        later.join().unwrap();
        assert_eq!(proc::children(std::process::id()), [child.id()], "one child");
        assert!(child.wait().unwrap().success());
    });
}

fn write_program(path: &Path, text: &[u8]) {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o755).open(path).unwrap();
    file.write_all(text).unwrap();
}

#[test]
fn a_program_file_open_for_writing_is_waited_for() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let path = dir.at("program");
    files::program(&path, b"#!/bin/sh\nexit 7\n");
    let spawner = Spawner::new().unwrap();
    let writer = File::options().append(true).open(&path).unwrap();
    let (error, took) = refused(&spawner, &command(&guard, &path));
    assert_eq!((error.kind(), error.raw_os_error()), (SpawnErrorKind::TextBusy, Some(libc::ETXTBSY)));
    // Ten waits that double from 1 ms, each up to a quarter shorter.
    assert!(took >= Duration::from_millis(760) && took < Duration::from_secs(10), "{took:?}");
    let mut child = thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(writer);
        });
        spawner.spawn(&command(&guard, &path)).expect("it is free in time")
    });
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_freshly_written_program_runs_though_other_threads_spawn() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let (spawner, other) = (Spawner::new().unwrap(), Spawner::new().unwrap());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert!(other.spawn(&command(&guard, "true")).unwrap().wait().unwrap().success());
            }
        });
        let path = dir.at("program");
        for round in 0..rounds(200, 2000) {
            write_program(&path, b"#!/bin/sh\nexit 7\n");
            let status = spawner.spawn(&command(&guard, &path)).map(|mut child| child.wait().unwrap().code());
            if !matches!(status, Ok(Some(7))) {
                over.store(true, Ordering::Relaxed);
                panic!("round {round}: {status:?}");
            }
            fs::remove_file(&path).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
}
