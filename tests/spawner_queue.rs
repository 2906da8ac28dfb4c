//! The way of a request: bounded, in time, held up by nobody; and whoever gets an error has no child.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pidward::{Command, SpawnError, SpawnErrorKind, Spawner, Stdio};
use pidward_tests::{
    announce::Board,
    files::TempDir,
    fixture,
    hung::{At, HungProgram, Interrupt},
    in_child,
    leftovers::NoLeftovers,
    need,
    proc::{self, eventually},
    rounds::rounds,
    seccomp::Filter,
    skip,
};

const MILLI: Duration = Duration::from_millis(1);

fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let (name, value) = guard.token();
    let mut cmd = Command::new(program);
    cmd.env(name, value).stdin(Stdio::null());
    cmd
}

fn sh(guard: &NoLeftovers, script: &str) -> Command {
    let mut cmd = command(guard, "/bin/sh");
    cmd.args(["-c", script]);
    cmd
}

#[track_caller]
fn is(error: &SpawnError, kind: SpawnErrorKind) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(text.contains("no child exists") && !text.contains('\n'), "{text}");
}

fn timed_error(spawner: &Spawner, cmd: &Command) -> (SpawnError, Duration) {
    let began = Instant::now();
    (spawner.spawn(cmd).unwrap_err(), began.elapsed())
}

/// Spawns so many programs through the spawner, each in 100 ms, and waits for their ends.
fn quick_spawns(spawner: &Spawner, guard: &NoLeftovers, count: usize) {
    for n in 0..count {
        let began = Instant::now();
        let mut child = spawner.spawn(&command(guard, "/bin/true")).unwrap();
        assert!(began.elapsed() < MILLI * 100, "spawn {n} took {:?}", began.elapsed());
        assert!(child.wait().unwrap().success());
    }
}

/// While one exec hangs: spawns, a stop and a reap keep their times, siblings live, and the hung one ends.
fn one_hangs_and_nobody_else(interrupt: Interrupt, at: At, plain_fork: bool) {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let mut program = HungProgram::start(fixture!("hungfs"), at, interrupt).unwrap();
    let spawner = Spawner::new().unwrap();
    let mut siblings: Vec<_> =
        (0..3).map(|_| spawner.spawn(&sh(&guard, "exec sleep 1000")).unwrap()).collect();
    let board = Board::at(dir.at("board"));
    let mut deaf = command(&guard, fixture!("termdeaf"));
    let mut deaf = spawner.spawn(deaf.arg("--ready-file").arg(board.path())).unwrap();
    board.wait_for("ready");
    let limit = Duration::from_secs(4);
    let mut hung = command(&guard, program.path());
    hung.deadline(limit);
    if plain_fork {
        // SAFETY: asks only.
        hung.uid(unsafe { libc::getuid() });
    }
    let pid = thread::scope(|scope| {
        let asker = scope.spawn(|| timed_error(&spawner, &hung));
        let pid = program.wait_hung().expect("somebody hangs");
        let stop = scope.spawn(|| deaf.stop(MILLI * 300));
        let dropped = spawner.spawn(&sh(&guard, "exit 0")).unwrap().id();
        quick_spawns(&spawner, &guard, 20);
        let report = stop.join().unwrap();
        let took = report.children[0].took;
        assert!(report.is_complete() && took >= MILLI * 300 && took < MILLI * 1300, "{took:?}");
        assert!(proc::until(MILLI * 1000, || proc::ppid(dropped) != Some(process::id())), "not reaped");
        assert!(!asker.is_finished(), "all this was while it hung");
        let (error, took) = asker.join().unwrap();
        is(&error, SpawnErrorKind::Deadline);
        assert!(took >= limit && took < limit + MILLI * 500, "{took:?}");
        pid
    });
    if interrupt == Interrupt::Ignored {
        eventually("it is beyond signals", || proc::state(pid) == Some('D'));
        quick_spawns(&spawner, &guard, 3);
        program.fail().unwrap();
    }
    eventually("the hung child is ended and reaped", || proc::ppid(pid) != Some(process::id()));
    for sibling in &mut siblings {
        assert!(sibling.wait_timeout(MILLI * 50).unwrap().is_none(), "a sibling died of it");
        assert!(sibling.stop(MILLI * 5000).is_complete());
    }
    quick_spawns(&spawner, &guard, 3);
}

#[test]
fn hung_exec_that_gives_way_holds_up_nobody() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    one_hangs_and_nobody_else(Interrupt::Answered, At::Open, false);
}

/// Its spawner does not sleep in the clone, but reads the child's pipe.
#[test]
fn hung_exec_of_a_plain_fork_holds_up_nobody() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    one_hangs_and_nobody_else(Interrupt::Answered, At::Open, true);
}

#[test]
fn hung_exec_beyond_signals_holds_up_nobody() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    one_hangs_and_nobody_else(Interrupt::Ignored, At::Read, false);
}

/// A spawner whose only thread hangs until the program is released.
fn hung_spawner(queue: Option<usize>) -> (HungProgram, Spawner, thread::JoinHandle<()>) {
    let mut program = HungProgram::start(fixture!("hungfs"), At::Open, Interrupt::Answered).unwrap();
    let builder = Spawner::builder().threads(1).deadline(None);
    let spawner = queue.map_or(builder.clone(), |most| builder.queue(most)).build().unwrap();
    let (asker, path) = (spawner.clone(), program.path().to_owned());
    let asker = thread::spawn(move || {
        match asker.spawn(Command::new(path).stdin(Stdio::null())) {
            Ok(mut child) => assert_eq!(child.wait().unwrap().code(), Some(7)),
            // It was shut down meanwhile.
            Err(error) => is(&error, SpawnErrorKind::ShutDown),
        }
    });
    program.wait_hung().expect("somebody hangs");
    (program, spawner, asker)
}

#[test]
fn full_queue_refuses_at_once() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    let guard = NoLeftovers::new();
    let (mut program, spawner, hung) = hung_spawner(Some(2));
    thread::scope(|scope| {
        // The third may have come before them, for as long as its patience.
        let ask = || loop {
            match spawner.spawn(&sh(&guard, "exit 3")) {
                Ok(mut child) => break child.wait().unwrap().code(),
                Err(error) => assert_eq!(error.kind(), SpawnErrorKind::QueueFull, "{error}"),
            }
        };
        let waiting = [scope.spawn(ask), scope.spawn(ask)];
        let mut third = command(&guard, "/bin/true");
        let (mut error, mut took) = (None, Duration::ZERO);
        eventually("the two wait", || {
            let began = Instant::now();
            error = spawner.spawn(third.deadline(MILLI * 200)).err();
            took = began.elapsed();
            error.as_ref().is_some_and(|e| e.kind() == SpawnErrorKind::QueueFull)
        });
        is(&error.unwrap(), SpawnErrorKind::QueueFull);
        assert!(took < MILLI * 100, "{took:?}");
        program.serve().unwrap();
        assert!(waiting.into_iter().all(|asker| asker.join().unwrap() == Some(3)));
    });
    hung.join().unwrap();
}

#[test]
fn queue_holds_1024_and_shutdown_tells_all_of_them() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    let guard = Arc::new(NoLeftovers::new());
    let (mut program, spawner, hung) = hung_spawner(None);
    let full = Arc::new(AtomicUsize::new(0));
    let ask = |_| {
        let (spawner, guard, full) = (spawner.clone(), Arc::clone(&guard), Arc::clone(&full));
        let main = move || {
            let error = spawner.spawn(&command(&guard, "/bin/true")).unwrap_err();
            if error.kind() == SpawnErrorKind::QueueFull {
                full.fetch_add(1, Ordering::Relaxed);
            } else {
                is(&error, SpawnErrorKind::ShutDown);
            }
        };
        thread::Builder::new().stack_size(256 * 1024).spawn(main).unwrap()
    };
    let askers: Vec<_> = (0..1030).map(ask).collect();
    eventually("six are too many", || full.load(Ordering::Relaxed) == 6);
    let began = Instant::now();
    assert!(spawner.clone().shutdown(MILLI * 100).is_complete());
    askers.into_iter().for_each(|asker| asker.join().unwrap());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(full.load(Ordering::Relaxed), 6);
    is(&spawner.spawn(&command(&guard, "/bin/true")).unwrap_err(), SpawnErrorKind::ShutDown);
    program.serve().unwrap();
    hung.join().unwrap();
}

#[test]
fn deadline_in_the_queue_is_kept() {
    need!(skip::has_fuse(), "needs-fuse: a file system that does not answer");
    let guard = NoLeftovers::new();
    let (mut program, spawner, hung) = hung_spawner(None);
    let began = Instant::now();
    let error = spawner.spawn(command(&guard, "/bin/true").deadline(MILLI * 300)).unwrap_err();
    let took = began.elapsed();
    is(&error, SpawnErrorKind::Deadline);
    assert!(took >= MILLI * 300 && took < MILLI * 800, "{took:?}");
    program.serve().unwrap();
    hung.join().unwrap();
    quick_spawns(&spawner, &guard, 3);
}

#[test]
fn asker_that_is_gone_leaves_nobody_and_holds_up_nobody() {
    in_child!();
    // What the kill leaves of the rest of a group is init's to reap.
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let (mut gone, mut came) = (0, 0);
    for round in 0..rounds(300, 3000) {
        // From before the clone to after the exec.
        let patience = Duration::from_micros(20 * (round as u64 % 100));
        let mut cmd = sh(&guard, "sleep 1000 & exec sleep 1000");
        match spawner.spawn(cmd.deadline(patience).kill_on_drop(true)) {
            Ok(_) => came += 1,
            Err(error) => {
                is(&error, SpawnErrorKind::Deadline);
                gone += 1;
            }
        }
    }
    assert!(gone > 0 && came > 0, "gone {gone}, came {came}: nothing was tried");
    quick_spawns(&spawner, &guard, 3);
    let left = || proc::children(process::id());
    assert!(proc::until(MILLI * 2000, || left().is_empty()), "{:?}", left());
}

#[test]
fn wait_between_tries_holds_up_nobody() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::builder().threads(1).build().unwrap();
    // Only what is not a thread and shares no memory, as a child that changes its user, meets the limit.
    Filter::new()
        .errno(libc::SYS_clone3, libc::ENOSYS)
        .errno_if(libc::SYS_clone, 0, libc::CLONE_VM as u64, 0, libc::EAGAIN)
        .install();
    // SAFETY: asks only.
    let own = unsafe { libc::geteuid() };
    let mut limited = command(&guard, "/bin/true");
    limited.uid(own);
    thread::scope(|scope| {
        let asker = scope.spawn(|| timed_error(&spawner, &limited));
        thread::sleep(MILLI * 100);
        quick_spawns(&spawner, &guard, 20);
        assert!(!asker.is_finished(), "all this was while it waited");
        let (error, took) = asker.join().unwrap();
        assert_eq!(error.kind(), SpawnErrorKind::ProcessLimit, "{error}");
        assert_eq!((error.step(), error.raw_os_error()), (Some("clone"), Some(libc::EAGAIN)));
        // Ten waits of 20 ms to 200 ms, each up to a quarter shorter.
        assert!(took >= MILLI * 800 && took < MILLI * 2500, "{took:?}");
    });
    assert!(proc::children(process::id()).is_empty());
}
