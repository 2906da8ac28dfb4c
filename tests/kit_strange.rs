//! The kit for strange processes and places: each is what it says.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use pidward_tests::{
    files::TempDir,
    fixture,
    fork::{self, Group, Held, Image},
    in_child,
    leftovers::NoLeftovers,
    need, os,
    place::{self, Hide, NOBODY},
    proc, skip,
    strange::{self, Strange, Zombie, environ},
};

fn code<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn an_overwritten_environ_shows_what_was_written() {
    let guard = NoLeftovers::new();
    let start = |how: &str| {
        let child = Strange::start(guard.command(fixture!("strange")).arg(how).env("LAST", "x".repeat(100)));
        guard.watch(child.pid());
        let bytes = environ(child.pid()).unwrap();
        assert!(bytes.len() > 100);
        assert!(child.end().success());
        bytes
    };
    assert!(start("zeros").iter().all(|byte| *byte == 0));
    let title = start("title");
    assert!(title.starts_with(b"redis-server *:6379 \0") && title[20..].iter().all(|byte| *byte == 0));
    let half = start("half");
    let (first, rest) = half.split_at(half.len() / 2);
    assert!(first.chunks(20).all(|chunk| b"redis-server *:6379 ".starts_with(chunk)), "{half:?}");
    assert!(!rest.windows(6).any(|w| w == b"redis-") && rest.iter().any(|byte| *byte != 0));
}

#[test]
fn a_python_that_sets_its_title_has_lost_its_environ() {
    let guard = NoLeftovers::new();
    let Some(python) = strange::python_with_setproctitle(env!("CARGO_TARGET_TMPDIR").as_ref()) else {
        skip!("needs-setproctitle");
    };
    let mut command = guard.command(python);
    let child = Strange::start(command.args(["-c", strange::TITLE_SCRIPT]));
    guard.watch(child.pid());
    assert!(proc::cmdline(child.pid()).starts_with("agent: busy busy"));
    let bytes = environ(child.pid()).unwrap();
    assert!(!bytes.windows(8).any(|w| w == b"PIDWARD_"), "{}", String::from_utf8_lossy(&bytes));
    assert!(child.end().success());
}

#[test]
fn who_may_not_be_looked_at_answers_eacces() {
    need!(os::is_root(), "needs-root: to become another user");
    in_child!();
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let program = place::copy_for(NOBODY, &dir, fixture!("strange"));
    let roots = Strange::start(guard.command(&program).arg("zeros"));
    assert!(environ(roots.pid()).is_ok());
    let others = Strange::start(guard.command(&program).args(["user", "65533"]));
    assert_eq!(proc::status(others.pid(), "Uid").as_deref(), Some("65533\t65533\t65533\t65533"));
    place::become_user(NOBODY);
    assert!(environ(std::process::id()).is_ok());
    let own = Strange::start(guard.command(&program).arg("zeros"));
    assert!(environ(own.pid()).is_ok());
    let undumpable = Strange::start(guard.command(&program).arg("undumpable"));
    for (who, child) in [("root's", &roots), ("another user's", &others), ("undumpable", &undumpable)] {
        assert_eq!(code(environ(child.pid())), Some(libc::EACCES), "{who}");
        assert!(proc::alive(child.pid()), "its stat line is for everybody");
    }
    for child in [roots, others, own, undumpable] {
        assert!(child.end().success());
    }
    let place = dir.at("");
    drop(dir);
    assert!(!place.exists(), "another user can take the copy away");
}

/// An environ that is empty, or by newer kernels none at all. It belongs to root by now, whoever the process's user is.
#[track_caller]
fn has_no_memory(pid: u32) {
    let read = environ(pid);
    let none = if os::is_root() { libc::ESRCH } else { libc::EACCES };
    assert!(read.as_ref().is_ok_and(Vec::is_empty) || code(read) == Some(none));
}

#[test]
fn a_process_without_its_first_thread_shows_a_z_and_lives() {
    let guard = NoLeftovers::new();
    let child = Strange::start(guard.command(fixture!("lostmain")).args(["--ready-fd", "1"]));
    let pid = child.pid();
    assert_eq!((proc::state(pid), proc::threads(pid)), (Some('Z'), 2));
    has_no_memory(pid);
    let zombie = child.into_zombie();
    assert_eq!((proc::state(pid), proc::threads(pid)), (Some('Z'), 1));
    assert!(zombie.end().success());
}

#[test]
fn a_zombie_keeps_its_number_and_shows_no_environ() {
    let zombie = Zombie::from(Command::new(fixture!("exitwith")).arg("3").spawn().unwrap());
    let pid = zombie.pid();
    assert_eq!((proc::state(pid), proc::ppid(pid)), (Some('Z'), Some(std::process::id())));
    has_no_memory(pid);
    assert_eq!(zombie.end().code(), Some(3));
}

#[test]
fn a_child_before_its_exec_shows_its_parent() {
    let guard = NoLeftovers::new();
    let image = Image::new(Path::new("/bin/sleep"), &["1000".as_ref()], &[guard.entry()]);
    let held = Held::start(None, Group::Own, &image).unwrap();
    let (pid, own) = (held.pid(), std::process::id());
    guard.watch(pid);
    assert_eq!((proc::ppid(pid), proc::pgid(pid)), (Some(own), Some(pid)));
    assert_eq!(proc::cmdline(pid), proc::cmdline(own));
    let exe = |pid| fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert_eq!((environ(pid).unwrap(), exe(pid)), (environ(own).unwrap(), exe(own)));
    assert_eq!(held.let_go(), pid);
    proc::eventually("the new program", || proc::cmdline(pid) == "/bin/sleep 1000");
    assert_eq!(environ(pid).unwrap(), format!("{}\0", guard.entry()).as_bytes());
    fork::end(pid);
    // Whose test is over ends as well.
    let held = Held::start(None, Group::Same, &image).unwrap();
    let pid = held.pid();
    drop(held);
    assert_eq!(fork::reap(pid), 127 << 8);
}

/// Somebody of root's, before the test becomes another user.
fn roots() -> Strange {
    let mut command = Command::new(fixture!("strange"));
    Strange::start(command.arg("zeros").stderr(Stdio::inherit()))
}

#[test]
fn hidden_contents_are_there_and_refused() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let roots = roots();
    place::hide_processes(Hide::Contents);
    place::become_user(NOBODY);
    assert!(proc::pids().contains(&roots.pid()) && proc::alive(std::process::id()));
    for file in ["environ", "stat", "cmdline"] {
        let read = fs::read(format!("/proc/{}/{file}", roots.pid()));
        assert_eq!(code(read), Some(libc::EPERM), "{file}");
    }
    assert!(roots.end().success());
}

#[test]
fn hidden_processes_are_not_there() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_mount_namespace());
    let roots = roots();
    place::hide_processes(Hide::Processes);
    place::become_user(NOBODY);
    let (pids, own) = (proc::pids(), std::process::id());
    assert!(pids.contains(&own) && !pids.contains(&roots.pid()) && !pids.contains(&1), "{pids:?}");
    assert_eq!(code(fs::read(format!("/proc/{}/stat", roots.pid()))), Some(libc::ENOENT));
    assert!(roots.end().success());
}

#[test]
fn proc_can_be_empty_missing_or_out_of_reach() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_mount_namespace());
    let pids = proc::pids();
    assert!(pids.len() > 1 && pids.contains(&std::process::id()), "everybody's");
    place::empty_proc();
    assert_eq!(fs::read_dir("/proc").unwrap().count(), 0);
    place::without_proc();
    assert_eq!(code(fs::read("/proc/self/stat")), Some(libc::ENOENT));
    place::empty_root();
    assert_eq!(code(fs::metadata("/proc")), Some(libc::ENOENT));
}

#[test]
fn proc_can_be_of_the_namespace_above() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    assert_eq!((std::process::id(), proc::pids()), (1, vec![1]));
    place::proc_from_above();
    assert!(proc::pids().len() > 1);
    let own: u32 = fs::read_link("/proc/self").unwrap().to_str().unwrap().parse().unwrap();
    assert_ne!(own, 1, "another number there");
    assert_eq!(proc::status(own, "NSpid"), Some(format!("{own}\t1")));
}

#[test]
fn proc_can_be_of_a_namespace_below() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_mount_namespace());
    let below = place::proc_from_below();
    assert_eq!(proc::pids(), [1]);
    proc::eventually("exec", || proc::cmdline(1) == "cat");
    assert!(fs::read_link("/proc/self").is_err(), "we have no number there");
    assert!(below.end().success());
}

#[test]
fn the_mounts_of_everybody_are_left_alone() {
    in_child!();
    let refused = std::panic::catch_unwind(place::empty_proc).expect_err("no mounts of its own");
    assert!(refused.downcast_ref::<String>().is_some_and(|text| text.contains("in_mount_namespace")));
    assert!(proc::alive(std::process::id()));
}
