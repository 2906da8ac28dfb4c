//! The kit for recycled numbers: each is what it says.

use std::path::Path;

use pidward_tests::{
    files::TempDir,
    fixture,
    fork::{self, Held, Image},
    in_child, need, os, proc,
    recycle::{self, Group, StrangeGroup, Stranger},
    skip,
    strange::environ,
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
fn a_number_can_be_held_before_its_exec() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let pid = recycle::free_pid();
    let image = Image::new(fixture!("exitwith"), &["9".as_ref()], &[]);
    let held = Held::start(Some(pid), Group::Own, &image).unwrap();
    assert_eq!((held.pid(), environ(pid).unwrap()), (pid, environ(1).unwrap()));
    assert_eq!(code(Held::start(Some(pid), Group::Own, &image)), Some(libc::EEXIST));
    assert_eq!(code(Held::start(None, Group::Of(4_000_000), &image)), Some(libc::EPERM));
    assert_eq!(recycle::reap(held.let_go()), 9 << 8);
    assert_eq!(proc::pids(), [1]);
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
    // Another trapall with the same log says the same things.
    let second = stranger(pid, &dir).unwrap();
    assert_eq!(first.fault().as_deref(), Some("somebody else by now"));
    second.end();
    assert!(first.fault().is_some_and(|f| f.contains("in state None")));
}

#[test]
fn a_number_can_be_a_strangers_thread() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let (dir, tid) = (TempDir::new(), recycle::free_pid());
    // More than once: the number is free again each time.
    for signal in [None; 40].into_iter().chain([Some(libc::SIGTERM)]) {
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
