//! Processes and places that make `/proc` mislead.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use pidward_core::{
    Pid,
    procfs::{Environ, Proc, ProcError, State, is_zombie, stat},
};
use pidward_tests::{
    announce::Board, files::TempDir, fixture, in_child, leftovers::NoLeftovers, need, os, proc, skip,
};

/// Set in a copy of this program that looks at an odd `/proc`.
const PLACE: &str = "PIDWARD_TEST_PLACE";

#[test]
fn a_dead_first_thread_with_live_threads_is_no_zombie() {
    first_thread_ends();
}

#[test]
fn a_dead_first_thread_is_no_zombie_to_another_user_than_root_either() {
    need!(os::is_root(), "needs-root: to become another user");
    in_child!();
    // SAFETY: takes a number; this process is the test's own.
    assert_eq!(unsafe { libc::setuid(65534) }, 0);
    first_thread_ends();
}

fn first_thread_ends() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut child = guard.command(fixture!("lostmain"));
    let mut child = child.arg("--ready-file").arg(board.path()).stdin(Stdio::piped()).spawn().unwrap();
    let pid = Pid::new(board.wait_for_pid("ready")).unwrap();
    let pinned = Proc::open().unwrap().process(pid).unwrap();
    let seen = pinned.stat().unwrap();
    assert_eq!((seen.state, seen.threads), (State::ZOMBIE, 2));
    assert!(!seen.is_ended() && !is_zombie(pid));
    // Its memory is there, but not by this way: that says nothing.
    assert_eq!(pinned.environ(|_| panic!("the first thread has no memory")), Ok(Environ::Empty));
    drop(child.stdin.take());
    proc::eventually("the whole process has ended", || is_zombie(pid));
    assert_eq!(pinned.stat().unwrap().threads, 1);
    assert_eq!(pinned.environ(|_| panic!("nor has a zombie")), Ok(Environ::Ended));
    child.wait().unwrap();
    assert_eq!(pinned.stat(), Err(ProcError::Gone));
}

/// Runs this test again below `unshare` and its options, after `script` has changed the place; the shell stays.
fn again(place: &str, unshare: &[&str], script: &str) {
    let test = "a_proc_that_is_not_ours_makes_nobody_gone";
    // Another user may be unable to reach the original.
    let dir = TempDir::new();
    let program = dir.at("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [program.parent().unwrap(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new("unshare")
        .args(unshare)
        .args(["sh", "-c", &format!("{script} \"$0\" \"$@\"; exit $?")])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(PLACE, place)
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains(&format!("seen {place}")), "{place}: {text}");
}

/// No pid, living or not, is judged by such a `/proc`.
fn nothing_is_known(why: ProcError) {
    assert_eq!(Proc::open().err(), Some(why));
    for pid in [1, 2, std::process::id(), 4_000_000] {
        let pid = Pid::new(pid).unwrap();
        assert_eq!(stat(pid), Err(why));
        assert!(!is_zombie(pid));
    }
    assert_eq!(Proc::open().and_then(|proc| proc.pids(|_| true)), Err(why));
}

#[test]
fn a_proc_that_is_not_ours_makes_nobody_gone() {
    match std::env::var(PLACE).as_deref() {
        Ok("empty") => nothing_is_known(ProcError::NoProc),
        Ok("foreign") => nothing_is_known(ProcError::OtherPidNamespace),
        Ok("hidden") => {
            let proc = Proc::open().unwrap();
            let own = Pid::new(std::process::id()).unwrap();
            assert_eq!(proc.process(own).unwrap().stat().unwrap().pid, own.get());
            assert_eq!(proc.process(Pid::INIT).err(), Some(ProcError::Hidden));
            assert_eq!(proc.process(Pid::new(4_000_000).unwrap()).err(), Some(ProcError::Gone));
        }
        _ => {
            need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
            return outside();
        }
    }
    println!("seen {}", std::env::var(PLACE).unwrap());
}

fn outside() {
    let apart = ["--pid", "--fork", "--kill-child", "--mount"];
    again("empty", &apart, "mount -t tmpfs none /proc &&");
    again("foreign", &apart, "");
    let hide = "mount -t proc -o hidepid=2 proc /proc && setpriv --reuid 65534 --regid 65534 --clear-groups";
    again("hidden", &apart, hide);
}
