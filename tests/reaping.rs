//! Each child's status comes to whoever asks for it, once and right, whatever else waits in this process.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    os::unix::process::ExitStatusExt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use pidward::{Child, ChildState, Command, Signal, SpawnErrorKind, Spawner, Stdio};
use pidward_core::{
    Pid,
    reap::{Change, Target, next_stop},
};
use pidward_tests::{in_child, leftovers::NoLeftovers, os, proc, rounds::rounds, seccomp::Filter};

/// Those of these children of ours that nobody has reaped.
fn zombies(pids: &[u32]) -> Vec<u32> {
    let own = Some(std::process::id());
    let is_zombie = |pid: &&u32| proc::state(**pid) == Some('Z') && proc::ppid(**pid) == own;
    pids.iter().filter(is_zombie).copied().collect()
}

/// Whether the kernel keeps the status of a process for those who hold its pidfd: since Linux 6.15.
fn kernel_remembers() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release of the kernel");
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

/// Children that end with codes 0, 1, 2, … as soon as the other end of `gate` is closed.
fn held(spawner: &Spawner, guard: &NoLeftovers, gate: &impl AsFd, count: u8) -> Vec<Child> {
    let start = |code: u8| {
        let mut cmd = guard.shell("read line; exit $0");
        let stdin = gate.as_fd().try_clone_to_owned().expect("a copy of the gate");
        cmd.arg(code.to_string()).stdin(stdin);
        spawner.spawn(&cmd).expect("a child that waits at the gate")
    };
    (0..count).map(start).collect()
}

#[test]
fn manyends_at_one_moment_lose_no_status() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let (first_gate, first) = io::pipe().unwrap();
    let (second_gate, second) = io::pipe().unwrap();
    let mut children = held(&spawner, &guard, &first_gate, 200);
    children.extend(held(&spawner, &guard, &second_gate, 20));
    let pids: Vec<u32> = children.iter().map(Child::id).collect();
    drop(first);
    let mut second = Some(second);
    for (at, child) in children.iter_mut().enumerate() {
        if at == 100 {
            // A second wave, while the first is being collected.
            drop(second.take());
        }
        let code = i32::try_from(at % 200).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(child.try_wait().unwrap().and_then(|s| s.code()), Some(code));
    }
    drop(children);
    assert!(proc::until(Duration::from_secs(1), || zombies(&pids).is_empty()), "{:?}", zombies(&pids));
}

#[test]
fn manyends_that_nobody_waits_for_are_all_reaped() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let (gate, open) = io::pipe().unwrap();
    let children = held(&spawner, &guard, &gate, 200);
    let pids: Vec<u32> = children.iter().map(Child::id).collect();
    drop(open);
    // The handles are alive and nobody calls them.
    proc::eventually("all have ended", || !pids.iter().any(|p| proc::alive(*p)));
    assert!(proc::until(Duration::from_secs(1), || zombies(&pids).is_empty()), "{:?}", zombies(&pids));
    for (code, mut child) in (0..).zip(children) {
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

/// Also when a round fails, so that nobody waits for the host for ever.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn host_that_waits_for_everybody_takes_no_status_away() {
    in_child!(|again| again.limit(Duration::from_secs(600)));
    let guard = NoLeftovers::alone();
    let over = AtomicBool::new(false);
    let taken = thread::scope(|scope| {
        let host = scope.spawn(|| {
            let mut taken = 0_usize;
            while !over.load(Ordering::Relaxed) {
                // SAFETY: a null status is not written.
                if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {
                    taken += 1;
                } else {
                    thread::yield_now();
                }
            }
            taken
        });
        let ends = SetOnDrop(&over);
        let spawner = Spawner::new().unwrap();
        for round in 0..rounds(500, 10_000) {
            let mut child = spawner.spawn(&guard.shell("exit 23")).unwrap();
            match child.wait() {
                Ok(status) => assert_eq!(status.code(), Some(23), "round {round}"),
                Err(e) => assert!(!kernel_remembers(), "round {round}: {e}"),
            }
            assert!(child.kill().is_ok(), "an ended child needs no kill");
        }
        drop(ends);
        host.join().unwrap()
    });
    assert!(taken > 0, "the host never came first: nothing was tried");
}

#[test]
fn stop_of_a_child_is_not_its_end() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let mut child = spawner.spawn(&guard.shell("kill -STOP $$; exit 9")).unwrap();
    proc::eventually("it stops itself", || child.state().unwrap() == ChildState::Stopped(Signal::STOP));
    assert_eq!(proc::state(child.id()), Some('T'));
    assert!(child.try_wait().unwrap().is_none());
    assert!(child.wait_timeout(Duration::from_millis(300)).unwrap().is_none());
    assert_eq!(child.state().unwrap(), ChildState::Stopped(Signal::STOP), "asked again");
    child.signal(Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert_eq!(child.state().unwrap(), ChildState::Ended);
    assert_eq!(child.try_wait().unwrap().and_then(|s| s.code()), Some(9));
}

/// A child's code, the errno of a missing program, and that of a step that fails: nothing else comes out.
fn status_and_errors_are_whole(guard: &NoLeftovers) {
    let spawner = Spawner::new().unwrap();
    for _ in 0..rounds(50, 500) {
        match spawner.spawn(&guard.shell("exit 5")).unwrap().wait() {
            Ok(status) => assert_eq!(status.code(), Some(5)),
            Err(e) => assert!(!kernel_remembers(), "{e}"),
        }
    }
    let error = spawner.spawn(&Command::new("/nonexistent/program")).unwrap_err();
    assert_eq!((error.kind(), error.raw_os_error()), (SpawnErrorKind::ProgramMissing, Some(libc::ENOENT)));
    let error = spawner.spawn(guard.shell("exit 5").current_dir("/nonexistent")).unwrap_err();
    assert_eq!(error.kind(), SpawnErrorKind::WorkingDirectoryMissing);
    assert_eq!((error.step(), error.raw_os_error()), (Some("change directory"), Some(libc::ENOENT)));
    let output = guard.shell("echo text; exit 5").output();
    if kernel_remembers() {
        assert_eq!(output.unwrap().status.code(), Some(5));
    }
}

#[test]
fn sigchld_ignored_by_the_starter_loses_no_status() {
    in_child!(|again| again.ignoring(&[libc::SIGCHLD]));
    status_and_errors_are_whole(&NoLeftovers::alone());
}

#[test]
fn host_that_wants_no_zombies_loses_no_status() {
    in_child!();
    // SAFETY: all fields are numbers, a set of signals or a default action, for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_NOCLDWAIT;
    // SAFETY: reads one sigaction; the default action runs no code of ours.
    assert_eq!(unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) }, 0);
    status_and_errors_are_whole(&NoLeftovers::alone());
}

/// A child of the host that ends at once with 7 and sends no signal about it.
fn silent_clone() -> libc::pid_t {
    let none = std::ptr::null::<u8>();
    // SAFETY: no memory is shared, so the child has a copy of all; no stack is given and no flag asks for a pointer.
    match unsafe { libc::syscall(libc::SYS_clone, 0, none, none, none, none) } {
        // SAFETY: ends the child, running nothing of this program's.
        0 => unsafe { libc::_exit(7) },
        pid => libc::pid_t::try_from(pid).expect("a pid"),
    }
}

#[test]
fn silent_clone_of_the_host_stays_its_own() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let foreign = silent_clone();
    assert!(foreign > 1);
    for code in 0..20 {
        let mut child = spawner.spawn(&guard.shell(&format!("exit {code}"))).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
    let mut raw = 0;
    // SAFETY: writes one number.
    let waited = unsafe { libc::waitpid(foreign, &raw mut raw, libc::__WALL) };
    assert_eq!((waited, libc::WEXITSTATUS(raw)), (foreign, 7), "{}", io::Error::last_os_error());
}

#[test]
fn status_is_kept_for_every_asker() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let mut child = spawner.spawn(&guard.shell("exit 41")).unwrap();
    let raw = child.as_fd().as_raw_fd();
    assert_eq!(child.wait().unwrap().code(), Some(41));
    let mut child = thread::spawn(move || {
        assert_eq!(child.wait().unwrap().code(), Some(41));
        child
    })
    .join()
    .unwrap();
    assert_eq!(child.try_wait().unwrap().and_then(|s| s.code()), Some(41));
    assert_eq!(child.wait_timeout(Duration::ZERO).unwrap().and_then(|s| s.code()), Some(41));
    assert!(child.usage().is_some());
    assert_eq!(child.as_fd().as_raw_fd(), raw);
    assert!(child.kill().is_ok());
    assert_eq!(child.signal(Signal::TERM).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    let mut killed = spawner.spawn(&guard.shell("kill -KILL $$")).unwrap();
    assert_eq!(killed.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn grandchild_that_keeps_the_pipe_does_not_hold_up_the_output() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    for (stays, code) in [("sleep 30 & exit 6", 6), ("setsid sleep 30 & exit 8", 8)] {
        let mut cmd = guard.shell(&format!("echo so far; echo and this >&2; {stays}"));
        cmd.stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = Instant::now();
        let output = spawner.spawn(&cmd).unwrap().wait_with_output().unwrap();
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(code));
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"so far\n"[..], &b"and this\n"[..]));
        assert!(!guard.end_all().is_empty(), "the grandchild was there all the while");
    }
}

#[test]
fn output_larger_than_both_pipes_does_not_lock_up() {
    let guard = NoLeftovers::new();
    let script = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; head -c 10 /dev/zero";
    let output = guard.shell(script).output().unwrap();
    assert!(output.status.success());
    assert_eq!((output.stdout.len(), output.stderr.len()), (1_000_010, 1_000_000));
}

#[test]
fn write_to_a_closed_stdin_is_an_error_and_no_death() {
    in_child!();
    let guard = NoLeftovers::alone();
    // As in a program without Rust's start-up code, which ignores it.
    // SAFETY: the default runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let spawner = Spawner::new().unwrap();
    let mut cmd = guard.shell("exec <&-; echo closed; exec sleep 1000");
    cmd.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawner.spawn(&cmd).unwrap();
    let mut word = [0; 7];
    child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    assert_eq!(&word, b"closed\n");
    for _ in 0..2 {
        let error = child.stdin.as_mut().unwrap().write_all(b"anything").unwrap_err();
        assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::BrokenPipe, Some(libc::EPIPE)));
    }
    let signals =
        |key| proc::status(std::process::id(), key).map(|set| u64::from_str_radix(&set, 16).unwrap());
    assert_eq!((signals("SigBlk"), signals("SigPnd")), (Some(0), Some(0)), "nothing of it is left");
    let stdin: OwnedFd = child.stdin.take().unwrap().into();
    drop(stdin);
    assert!(child.stop(Duration::from_secs(5)).is_complete());
}

#[test]
fn where_nobody_may_wait_an_end_is_seen_and_its_status_is_lost() {
    in_child!();
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    // The spawner's launcher has waited for its probe by now.
    let mut first = spawner.spawn(&guard.shell("exit 3")).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(3));
    let waitid = |filter: Filter| filter.errno(libc::SYS_waitid, libc::ENOSYS);
    waitid(Filter::new()).install();
    let mut child = spawner.spawn(&guard.shell("exit 3")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "by the older call");
    waitid(Filter::new()).errno(libc::SYS_wait4, libc::ENOSYS).install();
    let mut child = spawner.spawn(&guard.shell("exit 3")).unwrap();
    let began = Instant::now();
    child.wait().expect_err("no status is to be had");
    let mut deaf = spawner.spawn(&guard.shell("trap '' TERM; while :; do sleep 1; done")).unwrap();
    let report = deaf.stop(Duration::from_millis(100));
    assert!(report.is_complete() && report.status().is_none(), "{report:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // No guard's end may be waited for either.
    std::mem::forget(spawner);
}

/// Stops are asked for when there is no end, and to who asks for stops a zombie is no child. Here the kernel says of every end that there
/// is none yet: as when it comes between the two questions.
#[test]
fn who_ends_between_two_questions_is_not_taken_for_somebody_elses() {
    in_child!();
    let guard = NoLeftovers::alone();
    let mut child = guard.command("/bin/sh").args(["-c", "exit 7"]).spawn().expect("a shell");
    let (pid, pidfd) = (Pid::new(child.id()).expect("a pid"), os::pidfd(child.id()).expect("a pidfd"));
    proc::eventually("it has ended", || proc::state(child.id()) == Some('Z'));
    let ways = [Target::Pidfd(pidfd.as_fd()), Target::Pid(pid)];
    for way in ways {
        assert!(matches!(next_stop(way), Ok(Some(Change::Ended(_)))), "{way:?}");
    }
    let end = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG | libc::__WALL;
    Filter::new().errno_if(libc::SYS_waitid, 3, u64::MAX, u64::from(end as u32), 0).install();
    for way in ways {
        assert_eq!(next_stop(way), Ok(None), "{way:?}: whoever asks again is told");
    }
    assert_eq!(child.wait().expect("its status").code(), Some(7));
}
