//! The kit for recycled numbers and strange processes: each is what it says.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use pidward_tests::{
    files::TempDir,
    fixture,
    fork::{self, Held, Image},
    in_child,
    leftovers::NoLeftovers,
    need, os,
    place::{self, Hide, NOBODY},
    proc,
    recycle::{self, Group, StrangeGroup, Stranger},
    skip,
    strange::{self, Strange, Zombie, environ},
};

fn code<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn stranger(pid: u32, dir: &TempDir) -> std::io::Result<Stranger> {
    Stranger::take(pid, fixture!("trapall"), dir.at("log"), &["A=b".to_string()])
}

#[test]
fn a_number_is_had_once_and_only_by_its_asker() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let pid = recycle::free_pid();
    assert_eq!(proc::state(pid), None);
    assert_eq!(recycle::paused_as(pid, Group::Same).unwrap(), pid);
    assert_eq!((proc::ppid(pid), proc::pgid(pid)), (Some(1), proc::pgid(1)));
    assert_eq!(proc::environ(pid), proc::environ(1), "the test's own image");
    proc::eventually("it waits without descriptors", || proc::fds(pid).is_empty());
    assert_eq!(code(recycle::paused_as(pid, Group::Same)), Some(libc::EEXIST));
    assert_eq!(recycle::end(pid), libc::SIGKILL);
    assert_eq!(recycle::paused_as(pid, Group::Own).unwrap(), pid);
    assert_eq!(proc::pgid(pid), Some(pid));
    os::signal_pid(pid, libc::SIGKILL).unwrap();
    proc::eventually("a zombie", || proc::state(pid) == Some('Z'));
    assert_eq!(code(recycle::paused_as(pid, Group::Same)), Some(libc::EEXIST), "a zombie keeps its number");
    recycle::reap(pid);
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error_and_no_child() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let pid = recycle::free_pid();
    let missing = recycle::exec_as(pid, Path::new("/nowhere/at/all"), &[], &[]);
    assert_eq!(code(missing), Some(libc::ENOENT));
    assert_eq!(code(recycle::paused_as(pid, Group::Of(4_000_000))), Some(libc::EPERM), "no such group");
    assert_eq!(proc::pids(), [1]);
    let code = recycle::exec_as(pid, fixture!("exitwith"), &["7".as_ref()], &[]).map(recycle::reap);
    assert_eq!(code.unwrap(), 7 << 8);
}

#[test]
fn an_impostor_can_have_the_start_tick_of_the_one_before() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let pid = recycle::free_pid();
    let (mut same, mut inodes) = (0, std::collections::BTreeSet::new());
    for _ in 0..50 {
        recycle::paused_as(pid, Group::Own).unwrap();
        inodes.insert(recycle::inode(pid));
        let (made, ticks) = recycle::same_tick(pid, |pid| recycle::paused_as(pid, Group::Own)).unwrap();
        assert_eq!(made, pid);
        inodes.insert(recycle::inode(pid));
        same += usize::from(ticks);
        recycle::end(pid);
    }
    assert!(same > 0, "in none of 50 rounds");
    assert!(!skip::has_first_choices() || inodes.len() == 100, "each has an inode of its own");
}

#[test]
fn a_stranger_says_what_has_reached_it() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let (dir, pid) = (TempDir::new(), recycle::free_pid());
    let calm = stranger(pid, &dir).unwrap();
    assert_eq!((calm.pid(), proc::pgid(pid)), (pid, Some(pid)));
    assert_eq!(environ(pid).unwrap(), b"A=b\0");
    (0..3).for_each(|_| calm.is_untouched());
    calm.end();
    assert_eq!(proc::state(pid), None);
    // Each is seen at once, without a wait of the test's.
    for signal in (1..=64).filter(|s| ![libc::SIGKILL, libc::SIGSTOP].contains(s)) {
        let stranger = stranger(pid, &dir).unwrap();
        os::signal_pid(pid, signal).unwrap();
        let fault = stranger.fault().expect("a fault");
        assert!(fault.contains(&format!("ready {pid}\\n{signal}\\n")), "{fault}");
        stranger.end();
    }
    for (signal, letter) in [(libc::SIGSTOP, "Some('T')"), (libc::SIGKILL, "Some('Z')")] {
        let stranger = stranger(pid, &dir).unwrap();
        os::signal_pid(pid, signal).unwrap();
        proc::eventually("it has come", || matches!(proc::state(pid), Some('T' | 'Z')));
        assert!(stranger.fault().is_some_and(|f| f.contains(letter)));
        stranger.end();
    }
}

#[test]
fn a_stranger_whose_number_has_gone_on_is_not_untouched() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let (dir, pid) = (TempDir::new(), recycle::free_pid());
    let first = stranger(pid, &dir).unwrap();
    recycle::end(pid);
    assert!(first.fault().is_some_and(|f| f.contains("in state None")));
    // Another trapall with the same log says the same things.
    let second = stranger(pid, &dir).unwrap();
    second.is_untouched();
    assert!(first.fault().is_some(), "it is another process");
    second.end();
}

#[test]
fn a_number_can_be_a_strangers_thread() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let (dir, tid) = (TempDir::new(), recycle::free_pid());
    for signal in [None, Some(libc::SIGTERM)] {
        let stranger = Stranger::with_thread(tid, fixture!("trapall"), dir.at("log"), &[]).unwrap();
        assert_ne!(stranger.pid(), tid);
        assert!(!proc::pids().contains(&tid), "no process");
        assert_eq!(proc::status(tid, "Tgid"), Some(stranger.pid().to_string()));
        assert_eq!(code(recycle::paused_as(tid, Group::Same)), Some(libc::EEXIST));
        stranger.is_untouched();
        if let Some(signal) = signal {
            // SAFETY: the thread of a child not yet reaped.
            let sent = unsafe { libc::syscall(libc::SYS_tgkill, stranger.pid(), tid, signal) };
            assert_eq!(sent, 0);
            assert!(stranger.fault().is_some_and(|f| f.contains("\\n15\\n")));
        }
        stranger.end();
    }
}

#[test]
fn a_number_can_be_a_strangers_group() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let (dir, trapall) = (TempDir::new(), fixture!("trapall"));
    // The old group: a leader that was reaped, and a member that keeps the number.
    let old = recycle::free_pid();
    recycle::paused_as(old, Group::Own).unwrap();
    let member = fork::paused(None, Group::Of(old)).unwrap();
    recycle::end(old);
    assert_eq!((proc::state(old), proc::pgid(member)), (None, Some(old)));
    assert_eq!(code(StrangeGroup::take(old, trapall, &dir.at(""), &[])), Some(libc::EEXIST));
    recycle::end(member);
    // Empty: now the number is free for a stranger's.
    let mut group = StrangeGroup::take(old, trapall, &dir.at(""), &[]).unwrap();
    group.is_untouched();
    group.end_leader();
    assert_eq!((group.id(), proc::state(old)), (old, None));
    group.is_untouched();
    os::signal_pid(group.member().pid(), libc::SIGHUP).unwrap();
    assert!(group.member().fault().is_some_and(|f| f.contains("\\n1\\n")));
    group.end();
    assert_eq!(proc::pids(), [1]);
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
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let Some(python) = strange::python_with_setproctitle(&dir) else {
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
    let program = place::copy_for_all(&dir, fixture!("strange"));
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
}

/// An environ that is empty, or by newer kernels none at all.
#[track_caller]
fn has_no_memory(pid: u32) {
    let read = environ(pid);
    assert!(read.as_ref().is_ok_and(Vec::is_empty) || code(read) == Some(libc::ESRCH));
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
