//! Numbers that are no process, or not one to be signalled: refused or found out before any call, and no signal is ever sent to one.

use std::{process, time::Duration};

use pidward::{ChildKind, ServiceName, Spawner, StopOwned, Verdict, Why};
use pidward_tests::{in_child, need, proc, seccomp::Filter, skip};

const SHORT: Duration = Duration::from_millis(50);

fn name() -> ServiceName {
    "anybody".parse().expect("a name")
}

/// Whatever sends a signal ends this process.
fn no_signals() {
    Filter::new()
        .kill(libc::SYS_kill)
        .kill(libc::SYS_tkill)
        .kill(libc::SYS_tgkill)
        // Signal 0 is none.
        .allow_if(libc::SYS_pidfd_send_signal, 1, u64::from(u32::MAX), 0)
        .kill(libc::SYS_pidfd_send_signal)
        .install();
}

fn own_thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("a thread");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
}

#[test]
fn no_number_makes_a_signal_of_an_allegation_about_a_stranger() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    // The end of a guard is a signal.
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    no_signals();
    let (tell, told) = std::sync::mpsc::channel();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(own_thread_id()).expect("a listener");
        // Ends when the other end is dropped.
        let _ = held.recv();
    });
    let tid = told.recv().expect("a thread id");
    let [own, parent] = [process::id(), std::os::unix::process::parent_id()];
    let pid_max: u32 = std::fs::read_to_string("/proc/sys/kernel/pid_max")
        .expect("a limit")
        .trim()
        .parse()
        .expect("a number");
    let group = proc::pgid(own).expect("a group");
    for kind in [ChildKind::Agent, ChildKind::Mcp, ChildKind::Api, ChildKind::Task] {
        let verdict = |pid| spawner.verify(pid, kind, &name());
        // 0 is the caller's group, -1 everybody, others a group: no pids.
        for pid in [0, u32::MAX, 1 << 31, (1 << 31) + 1, u32::MAX - 1, u32::MAX - own + 1] {
            assert_eq!(verdict(pid), Verdict::Gone, "{pid}");
            assert!(matches!(spawner.stop_owned(pid, kind, &name(), SHORT), StopOwned::NotRunning), "{pid}");
        }
        for pid in [pid_max, pid_max + 1, i32::MAX as u32] {
            assert_eq!(verdict(pid), Verdict::Gone, "{pid}");
            assert!(matches!(spawner.stop_owned(pid, kind, &name(), SHORT), StopOwned::NotRunning), "{pid}");
        }
        // This process is pid 1 of its namespace, and leads or shares its group.
        for pid in [own, 1, tid, group].into_iter().filter(|pid| *pid > 0) {
            let expected = if pid == tid { Why::ThreadId } else { Why::Us };
            assert_eq!(verdict(pid), Verdict::NotOurs(expected), "{pid}");
            let stop = spawner.stop_owned(pid, kind, &name(), SHORT);
            assert!(matches!(stop, StopOwned::NotOurs(v) if v == verdict(pid)), "{pid}: {stop:?}");
        }
        if parent > 0 {
            assert!(!spawner.owns(parent, kind, &name()));
        }
    }
    assert!(!pidward::is_running(0) && !pidward::is_running(u32::MAX) && !pidward::is_running(tid));
    assert!(!pidward::is_running(own), "nobody else");
    drop(hold);
    thread.join().expect("the thread");
}

#[test]
fn pid_1_and_the_parent_are_nobodys_children() {
    in_child!();
    // The end of a guard is a signal.
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    no_signals();
    let init = spawner.verify(1, ChildKind::Task, &name());
    assert_eq!(init, Verdict::NotOurs(Why::OtherTree));
    assert!(
        matches!(spawner.stop_owned(1, ChildKind::Task, &name(), SHORT), StopOwned::NotOurs(v) if v == init)
    );
    let parent = std::os::unix::process::parent_id();
    assert!(pidward::is_running(parent));
    let stop = spawner.stop_owned(parent, ChildKind::Task, &name(), SHORT);
    assert!(matches!(stop, StopOwned::Unverifiable(Verdict::Unknown(Why::NoMarker))), "{stop:?}");
    assert_eq!(pidward::signalable_pid(0), None);
    assert_eq!(pidward::signalable_pid(1), Some(1), "one process; whose it is is another question");
    assert_eq!(pidward::signalable_pid(u32::MAX), None);
}

#[test]
fn a_question_about_life_takes_no_status_and_knows_a_zombie() {
    let mut child = process::Command::new("/bin/sh").args(["-c", "exit 7"]).spawn().expect("a shell");
    let pid = child.id();
    proc::eventually("a zombie", || proc::state(pid) == Some('Z'));
    assert!(!pidward::is_running(pid) && pidward::is_zombie(pid));
    assert_eq!(child.wait().expect("its status, which nobody took").code(), Some(7));
    assert!(!pidward::is_running(pid) && !pidward::is_zombie(pid));
}

#[test]
fn somebody_elses_process_is_alive_though_it_may_not_be_signalled() {
    need!(pidward_tests::os::is_root(), "needs-root: to become another user");
    in_child!();
    // SAFETY: takes a number; this process is the test's own.
    assert_eq!(unsafe { libc::setuid(65534) }, 0);
    let parent = std::os::unix::process::parent_id();
    assert!(pidward::is_running(parent), "EPERM is alive");
    let spawner = Spawner::new().expect("a spawner");
    let verdict = spawner.verify(parent, ChildKind::Task, &name());
    assert!(matches!(verdict, Verdict::Unknown(Why::Errno(e)) if e.name() == Some("EACCES")), "{verdict:?}");
    let stop = spawner.stop_owned(parent, ChildKind::Task, &name(), SHORT);
    assert!(matches!(stop, StopOwned::Unverifiable(v) if v == verdict), "{stop:?}");
}
