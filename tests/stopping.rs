//! A stop is over when nobody of the child's group is left: politely first, in time, and told as it was.

use std::{
    fs,
    io::Read,
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant, SystemTime},
};

use pidward::{Child, ChildState, Command, Rung, Signal, Spawner, Stdio};
use pidward_tests::{
    announce::Board, files::TempDir, fixture, in_child, leftovers::NoLeftovers, need, proc, rounds::rounds,
    seccomp::Filter, skip,
};

/// In place of the C library's for this whole program: a wall clock that jumps by a day at every look.
///
/// Every stop here keeps its times all the same.
///
/// # Safety
/// As clock_gettime(2) asks: there is room for one timespec.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    static LOOKS: AtomicI64 = AtomicI64::new(0);
    // SAFETY: the caller gives room for one timespec, as clock_gettime(2) asks.
    let ret = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    // SAFETY: as above; nothing else looks at it meanwhile.
    if let (0, libc::CLOCK_REALTIME, Some(time)) = (ret, clock, unsafe { time.as_mut() }) {
        let day = 24 * 60 * 60;
        time.tv_sec += if LOOKS.fetch_add(1, Ordering::Relaxed) % 2 == 0 { day } else { -day };
    }
    ret as libc::c_int
}

#[test]
fn wall_clock_of_these_tests_jumps() {
    let jumps = |_| {
        let (one, two) = (SystemTime::now(), SystemTime::now());
        one.duration_since(two).unwrap_or_else(|e| e.duration()) > Duration::from_secs(60 * 60)
    };
    // Another test may take the look between, so that two are of one day.
    assert!((0..1000).any(jumps));
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let (name, value) = guard.token();
    let mut cmd = Command::new(program);
    cmd.env(name, value);
    cmd
}

/// Starts it and waits for a line that says `ready`.
fn ready(spawner: &Spawner, cmd: &mut Command) -> Child {
    let mut child = spawner.spawn(cmd.stdout(Stdio::piped())).expect("a child");
    let out = child.stdout.as_mut().expect("piped");
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"ready\n") {
        assert_eq!(out.read(&mut byte).expect("its output"), 1, "it ended before it was ready");
        text.extend(byte);
    }
    child
}

/// A program that is deaf to SIGTERM, ready.
fn deaf(spawner: &Spawner, guard: &NoLeftovers, board: &Board) -> Child {
    let mut cmd = command(guard, fixture!("termdeaf"));
    cmd.arg("--ready-file").arg(board.path());
    let child = spawner.spawn(&cmd).expect("a child");
    board.wait_for(&format!("ready {}", child.id()));
    child
}

#[test]
fn polite_child_is_ended_by_term_at_once() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let mut child =
        ready(&spawner, &mut guard.shell("trap 'exit 42' TERM; echo ready; while :; do read x; done"));
    let began = Instant::now();
    let report = child.stop(LONG);
    assert!(report.is_complete() && began.elapsed() < LONG / 2, "{report:?}");
    assert_eq!((report.rung(), report.status().and_then(|s| s.code())), (Some(Rung::Term), Some(42)));
    assert_eq!(child.wait().unwrap().code(), Some(42), "the status is kept");
    let again = child.stop(LONG);
    assert_eq!((again.is_complete(), again.status().and_then(|s| s.code())), (true, Some(42)), "{again:?}");
}

#[test]
fn deaf_child_gets_its_whole_grace_and_then_kill() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let spawner = Spawner::new().unwrap();
    let mut child = deaf(&spawner, &guard, &Board::at(dir.at("board")));
    let began = Instant::now();
    let report = child.stop(SHORT);
    let took = began.elapsed();
    assert!(report.is_complete() && took >= SHORT && took < SHORT + LONG / 4, "{took:?} {report:?}");
    assert_eq!(report.status().and_then(|s| s.signal()), Some(libc::SIGKILL));
    assert!(report.rung() >= Some(Rung::Kill), "{report:?}");
    assert!(report.children[0].took >= SHORT, "{report:?}");
}

#[test]
fn no_grace_is_kill_after_one_look() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let spawner = Spawner::new().unwrap();
    let mut child = deaf(&spawner, &guard, &Board::at(dir.at("board")));
    let began = Instant::now();
    let report = child.stop(Duration::ZERO);
    assert!(report.is_complete() && began.elapsed() < Duration::from_secs(2), "{report:?}");
    assert_eq!(report.status().and_then(|s| s.signal()), Some(libc::SIGKILL));
}

#[test]
fn ended_child_does_not_wait_out_the_grace() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let mut child = spawner.spawn(&guard.shell("exit 3")).unwrap();
    proc::eventually("it has ended", || !proc::alive(child.id()));
    let began = Instant::now();
    let report = child.stop(LONG);
    assert!(report.is_complete() && began.elapsed() < Duration::from_secs(2), "{report:?}");
    assert_eq!(report.status().and_then(|s| s.code()), Some(3));
}

#[test]
fn member_that_the_leader_has_left_is_ended_too() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    // The one left behind is deaf, so that only SIGKILL to the group can end it.
    let script = "(trap '' TERM; echo ready; exec sleep 1000) & exit 0";
    let mut child = ready(&spawner, &mut guard.shell(script));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(guard.left().len(), 1);
    let began = Instant::now();
    let report = child.stop(SHORT);
    assert!(report.is_complete() && began.elapsed() >= SHORT, "{report:?}");
    assert!(report.rung() >= Some(Rung::Kill), "{report:?}");
    assert!(guard.left().is_empty());
}

#[test]
fn stopped_child_acts_on_term_because_it_is_continued() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let mut child =
        ready(&spawner, &mut guard.shell("trap 'exit 42' TERM; echo ready; kill -STOP $$; read x"));
    proc::eventually("it is stopped", || proc::state(child.id()) == Some('T'));
    assert_eq!(child.state().unwrap(), ChildState::Stopped(Signal::STOP));
    let report = child.stop(LONG);
    assert_eq!((report.rung(), report.status().and_then(|s| s.code())), (Some(Rung::Term), Some(42)));
}

#[test]
fn first_process_of_a_namespace_is_ended_by_kill() {
    need!(skip::has_namespaces(), "needs-namespaces: a pid namespace");
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    // pid 1 has no handler, so the kernel throws SIGTERM away; `unshare`, which waits for it, ignores it.
    let mut cmd = command(&guard, "unshare");
    cmd.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--", "/bin/sh", "-c"]);
    let mut child = ready(&spawner, cmd.arg("echo ready; while :; do sleep 1000; done"));
    let began = Instant::now();
    let report = child.stop(SHORT);
    assert!(report.is_complete(), "{report:?}");
    assert!(began.elapsed() < SHORT + Duration::from_secs(1), "{report:?}");
    assert!(guard.left().iter().all(|p| proc::ending(*p)));
}

#[test]
fn leader_that_somebody_else_reaped_is_no_obstacle() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().unwrap();
    let script = "(trap '' TERM; echo ready; exec sleep 1000) & sleep 1000";
    let mut child = ready(&spawner, &mut guard.shell(script));
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    pidward_tests::os::signal_pid(child.id(), libc::SIGKILL).unwrap();
    // Whoever comes first has the status; the other finds nobody.
    // SAFETY: a null status is not written.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    let report = child.stop(SHORT);
    assert!(report.is_complete(), "{report:?}");
    assert!(guard.left().iter().all(|p| proc::ending(*p)));
}

#[test]
fn port_is_free_when_the_stop_is_over() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let spawner = Spawner::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Binds without SO_REUSEADDR; deaf, so that only the end can free it.
    let script = "import signal,socket,sys\n\
        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
        s = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen()\n\
        print('ready', flush=True); signal.pause()";
    let file = dir.at("listen.py");
    fs::write(&file, script).unwrap();
    for round in 0..rounds(20, 200) {
        let mut cmd = command(&guard, "python3");
        cmd.arg(&file).arg(port.to_string()).stdin(Stdio::null());
        let mut child = ready(&spawner, &mut cmd);
        let report = child.stop(Duration::from_millis(10));
        assert!(report.is_complete(), "round {round}: {report:?}");
        assert!(proc::state(child.id()).is_none() || proc::ppid(child.id()) != Some(std::process::id()));
    }
}

#[test]
fn shutdown_stops_all_within_one_grace() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let spawner = Spawner::new().unwrap();
    let board = Board::at(dir.at("board"));
    let mut owned = Vec::new();
    for n in 0..50 {
        let mut cmd = command(&guard, fixture!("termdeaf"));
        cmd.arg("--ready-file").arg(board.path());
        if n % 2 == 0 {
            owned.push(spawner.spawn_owned_supervised(cmd).unwrap());
        } else {
            let pid = spawner.spawn_supervised(cmd).unwrap();
            assert!(pid > 1);
        }
    }
    proc::eventually("all are ready", || board.lines().len() == 50);
    let grace = Duration::from_secs(1);
    let began = Instant::now();
    let report = spawner.shutdown(grace);
    let took = began.elapsed();
    assert!(report.is_complete() && report.children.len() == 50, "{report:?}");
    assert!(took >= grace && took < grace * 3, "{took:?}");
    assert!(report.children.iter().all(|c| c.status.and_then(|s| s.signal()) == Some(libc::SIGKILL)));
    for mut child in owned {
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}

/// The group flag of `pidfd_send_signal` as kernels below 6.9 answer it.
fn without_group_flag() {
    let flags = u64::from(u32::MAX);
    Filter::new().errno_if(libc::SYS_pidfd_send_signal, 3, flags, 4, libc::EINVAL).install();
}

#[test]
fn leader_stays_a_zombie_where_only_its_number_reaches_the_group() {
    in_child!();
    let guard = NoLeftovers::alone();
    without_group_flag();
    let spawner = Spawner::new().unwrap();
    let script = "(trap '' TERM; echo ready; exec sleep 1000) & exit 4";
    let mut child = ready(&spawner, &mut guard.shell(script));
    assert_eq!(child.wait().unwrap().code(), Some(4), "the status comes at once");
    assert_eq!(proc::state(child.id()), Some('Z'), "it keeps the number of the group");
    assert_eq!(guard.left().len(), 1);
    let report = child.stop(SHORT);
    assert!(report.is_complete(), "{report:?}");
    assert!(guard.left().is_empty());
    assert_eq!(proc::state(child.id()), None, "nothing is pinned any more");
    let mut alone = spawner.spawn(&guard.shell("exit 5")).unwrap();
    assert_eq!(alone.wait().unwrap().code(), Some(5));
    let pid = alone.id();
    drop(alone);
    assert_eq!(proc::state(pid), None, "dropping its owner lets it go");
}

#[test]
fn stops_of_several_at_once_do_not_hold_each_other_up() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let spawner = Spawner::new().unwrap();
    let mut slow = deaf(&spawner, &guard, &Board::at(dir.at("board")));
    let mut quick = ready(&spawner, &mut guard.shell("echo ready; exec sleep 1000"));
    std::thread::scope(|scope| {
        let long = scope.spawn(|| slow.stop(Duration::from_secs(2)));
        let began = Instant::now();
        assert_eq!(quick.stop(LONG).rung(), Some(Rung::Term));
        assert!(began.elapsed() < Duration::from_secs(1));
        let report = long.join().unwrap();
        assert!(report.is_complete() && report.children[0].took >= Duration::from_secs(2), "{report:?}");
    });
}

#[test]
fn the_end_of_its_input_is_how_a_child_is_asked_first() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    // Ends with its input, but for a grandchild that heeds SIGTERM; ends by SIGTERM only; has no input of ours.
    let rows: [(&str, Duration, Stdio, Rung); 4] = [
        ("cat; exit 5", LONG, Stdio::piped(), Rung::Ask),
        ("sleep 1000 & cat; exit 5", SHORT, Stdio::piped(), Rung::Term),
        ("while :; do sleep 1; done", SHORT, Stdio::piped(), Rung::Term),
        ("cat; sleep 1000", LONG, Stdio::null(), Rung::Term),
    ];
    for (script, ask, stdin, rung) in rows {
        let mut cmd = guard.shell(&format!("echo ready; {script}"));
        let mut child = ready(&spawner, cmd.stdin(stdin).ask_grace(ask));
        let began = Instant::now();
        let report = child.stop(LONG);
        assert!(report.is_complete() && report.rung() == Some(rung), "{script}: {report:?}");
        assert!(began.elapsed() < LONG, "{script}");
        if rung == Rung::Ask {
            assert_eq!(report.status().and_then(|status| status.code()), Some(5), "its own end");
        } else if ask == SHORT {
            assert!(began.elapsed() >= SHORT, "{script}: the grace of the ask came first");
        }
    }
}
