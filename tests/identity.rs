//! Verdicts on real processes: by what was written down, with inode and without, and by a number and a name.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::linux::fs::MetadataExt,
    process::Stdio,
};

use pidward::{ChildKind, Command, Identity, ServiceName, Spawner, StopOwned, Verdict, Why};
use pidward_core::{
    Id128, Pid,
    identity::{self, Field},
};
use pidward_tests::{announce::Board, files::TempDir, fixture, leftovers::NoLeftovers, need, os, proc, skip};

const SHORT: std::time::Duration = std::time::Duration::from_millis(200);

fn name(text: &str) -> ServiceName {
    text.parse().expect("a name")
}

/// What is known about a process, written down by the tests' own means.
#[derive(Clone, Copy)]
struct Known(identity::Identity);

impl Known {
    fn of(pid: u32, nonce: Option<Id128>) -> Known {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id").replace('-', "");
        let ns = fs::metadata("/proc/self/ns/pid").expect("a pid namespace");
        let pidfd = fs::File::from(os::pidfd(pid).expect("a pidfd"));
        Known(identity::Identity {
            boot: Id128::parse(boot.trim().as_bytes()).expect("32 digits"),
            pid_ns: ns.st_ino(),
            pid: Pid::new(pid).expect("a pid"),
            start_ticks: proc::start_time(pid).expect("its stat line"),
            inode: skip::has_first_choices().then(|| pidfd.metadata().expect("its inode").st_ino()),
            pgid: None,
            nonce,
        })
    }

    /// As a kernel without such inodes would have it.
    fn without_inode(self) -> Known {
        Known(identity::Identity { inode: None, ..self.0 })
    }

    fn verdict(self) -> Verdict {
        let line: Identity = self.0.to_string().parse().expect("what was made is taken");
        line.verify()
    }

    /// The verdicts with the inode and without.
    fn both(self) -> (Verdict, Verdict) {
        (self.verdict(), self.without_inode().verdict())
    }
}

/// The nonce it shows, be it its own or, before exec, that of its parent.
fn nonce_of(pid: u32) -> Id128 {
    let shown =
        || proc::environ(pid).iter().find_map(|entry| Id128::parse(entry.strip_prefix(b"PIDWARD_NONCE=")?));
    proc::eventually("its nonce", || shown().is_some());
    shown().expect("a nonce")
}

fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>, service: &str) -> Command {
    let mut cmd = Command::new(program);
    cmd.env(guard.token().0, guard.token().1)
        .service(&name(service))
        .stdout(pidward::Stdio::piped())
        .stdin(pidward::Stdio::piped());
    cmd
}

#[test]
fn a_child_is_the_same_until_it_has_ended() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let mut child = spawner.spawn(&command(&guard, "cat", "a")).expect("a child");
    let pid = child.id();
    let known = Known::of(pid, Some(nonce_of(pid)));
    let ours: Identity = child.identity().expect("an identity");
    let theirs = identity::Identity { pgid: Pid::new(pid), ..known.0 };
    assert_eq!(ours.to_string(), theirs.to_string(), "the two ways to write it down agree");
    assert_eq!((ours.verify(), ours.pid()), (Verdict::Same, pid));
    assert_eq!(known.both(), (Verdict::Same, Verdict::Same));
    assert_eq!(spawner.verify_identity(&ours), Verdict::Same);
    assert_eq!(pidward::verify(pid, ChildKind::Task, &name("a")), Verdict::Same);
    assert!(spawner.owns(pid, ChildKind::Task, &name("a")));
    assert!(
        !spawner.owns(pid, ChildKind::Task, &name("b")) && !spawner.owns(pid, ChildKind::Agent, &name("a"))
    );
    drop(child.stdin.take());
    child.wait().expect("its end");
    assert_eq!(known.both(), (Verdict::Gone, Verdict::Gone));
    assert_eq!(pidward::verify(pid, ChildKind::Task, &name("a")), Verdict::Gone);
    assert!(matches!(spawner.stop_owned(pid, ChildKind::Task, &name("a"), SHORT), StopOwned::NotRunning));
}

#[test]
fn a_zombie_has_ended() {
    let guard = NoLeftovers::new();
    let mut child =
        guard.command("cat").stdin(Stdio::piped()).env("PIDWARD_NONCE", "0".repeat(32)).spawn().expect("cat");
    let known = Known::of(child.id(), Some(Id128::from_bytes([0; 16])));
    proc::eventually("exec", || proc::cmdline(child.id()).starts_with("cat"));
    assert_eq!(known.both(), (Verdict::Same, Verdict::Same));
    drop(child.stdin.take());
    proc::eventually("a zombie", || proc::state(child.id()) == Some('Z'));
    assert_eq!(known.both(), (Verdict::Gone, Verdict::Gone));
    assert_eq!(pidward::verify(child.id(), ChildKind::Task, &name("a")), Verdict::Gone);
    child.wait().expect("a status that nobody took");
}

#[test]
fn a_process_whose_first_thread_has_ended_has_not() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = command(&guard, fixture!("lostmain"), "a");
    let mut child = spawner.spawn(cmd.arg("--ready-file").arg(board.path())).expect("a child");
    let pid = board.wait_for_pid("ready");
    proc::eventually("its first thread has ended", || proc::state(pid) == Some('Z'));
    let known = Known::of(pid, Some(Id128::from_bytes([0; 16])));
    // Without the inode only its environ could tell, which went with the first thread.
    let unknown = Verdict::Unknown(Why::NoMarker);
    assert_eq!(known.both(), (if known.0.inode.is_some() { Verdict::Same } else { unknown }, unknown));
    assert_eq!(pidward::verify(pid, ChildKind::Task, &name("a")), unknown);
    // By its pidfd it is known all the same.
    assert!(spawner.owns(pid, ChildKind::Task, &name("a")) && pidward::is_running(pid));
    drop(child.stdin.take());
    child.wait().expect("its end");
    assert_eq!(known.both(), (Verdict::Gone, Verdict::Gone));
}

#[test]
fn what_a_process_shows_before_exec_is_its_parents() {
    let guard = NoLeftovers::new();
    // A supervisor that is marked itself, and that forks a child which does not call exec until it is told.
    let script = "import os, sys\n\
                  pid = os.fork()\n\
                  if pid == 0:\n    sys.stdin.read(1)\n    os.execve('/bin/cat', ['cat'], {'PIDWARD_NONCE': 'f' * 32})\n\
                  print(pid, flush=True)\n\
                  os.waitpid(pid, 0)\n";
    need!(std::process::Command::new("python3").arg("--version").output().is_ok(), "needs-python");
    let spawner = Spawner::new().expect("a spawner");
    let mut cmd = command(&guard, "python3", "outer");
    let mut outer = spawner.spawn(cmd.args(["-c", script])).expect("python");
    let mut line = String::new();
    BufReader::new(outer.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let pid: u32 = line.trim().parse().expect("a pid");
    assert_eq!(proc::environ(pid), proc::environ(outer.id()), "it shows its parent's");
    let known = Known::of(pid, Some(nonce_of(pid)));
    let unknown = Verdict::Unknown(Why::NotYetExec);
    assert_eq!(known.both(), (if known.0.inode.is_some() { Verdict::Same } else { unknown }, unknown));
    assert_eq!(pidward::verify(pid, ChildKind::Task, &name("outer")), unknown);
    assert!(!pidward::live_pid_is_subprocess(pid, "PIDWARD_TASK", "outer"));
    assert!(pidward::live_pid_is_subprocess(outer.id(), "PIDWARD_TASK", "outer"));
    let stop = spawner.stop_owned(pid, ChildKind::Task, &name("outer"), SHORT);
    assert!(matches!(stop, StopOwned::Unverifiable(v) if v == unknown), "{stop:?}");
    // And now it has called exec, and shows its own.
    outer.stdin.as_mut().expect("piped").write_all(b"x").expect("a reader");
    proc::eventually("exec", || proc::cmdline(pid).starts_with("cat"));
    let own = Known::of(pid, Some(Id128::from_bytes([0xff; 16])));
    assert_eq!(own.both(), (Verdict::Same, Verdict::Same));
    assert_eq!(known.without_inode().verdict(), Verdict::Recycled(Field::Nonce));
    drop(outer.stdin.take());
    outer.wait().expect("its end");
}

#[test]
fn a_helper_that_inherited_the_markers_is_not_the_child() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let script = "sleep 1000 & echo $!; read x; kill $!";
    let mut child = spawner.spawn(command(&guard, "/bin/sh", "a").args(["-c", script])).expect("a shell");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    let helper: u32 = line.trim().parse().expect("a pid");
    proc::eventually("exec", || proc::cmdline(helper).starts_with("sleep"));
    assert_eq!(nonce_of(helper), nonce_of(child.id()), "it inherited them all");
    let inherited = Verdict::Unknown(Why::Inherited);
    assert_eq!(pidward::verify(helper, ChildKind::Task, &name("a")), inherited);
    assert_eq!(spawner.verify(helper, ChildKind::Task, &name("a")), inherited);
    let stop = spawner.stop_owned(helper, ChildKind::Task, &name("a"), SHORT);
    assert!(matches!(stop, StopOwned::Unverifiable(v) if v == inherited), "{stop:?}");
    assert!(proc::alive(helper));
    // What was written down about the child is not what the helper is, though its environ says so.
    let known = Known::of(child.id(), Some(nonce_of(child.id()))).0;
    let taken = Known(identity::Identity { pid: Pid::new(helper).expect("a pid"), ..known });
    if known.inode.is_some() {
        assert_eq!(taken.verdict(), Verdict::Recycled(Field::Inode));
    }
    // With the same tick, it is its group that tells: it leads none.
    let ticks = proc::start_time(helper).expect("its stat line");
    let same_tick = identity::Identity { start_ticks: ticks, pgid: Pid::new(helper), ..taken.0 };
    assert_eq!(Known(same_tick).without_inode().verdict(), inherited);
    drop(child.stdin.take());
    child.wait().expect("its end");
    proc::eventually("the helper has ended", || guard.left().is_empty());
}

#[test]
fn kernel_threads_and_threads_are_nobodys_children() {
    let kernel = proc::pids()
        .into_iter()
        .find(|pid| proc::ppid(*pid) == Some(2) || *pid == 2 && proc::cmdline(2).is_empty());
    if let Some(pid) = kernel {
        let verdict = pidward::verify(pid, ChildKind::Task, &name("a"));
        assert_eq!(verdict, Verdict::NotOurs(Why::KernelThread));
        let known = Known::of(pid, Some(Id128::from_bytes([0; 16])));
        assert_eq!(known.without_inode().verdict(), Verdict::NotOurs(Why::KernelThread));
    }
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut child = guard.command(fixture!("lostmain"));
    let mut child =
        child.arg("--ready-file").arg(board.path()).stdin(Stdio::piped()).spawn().expect("a fixture");
    let pid = board.wait_for_pid("ready");
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let tid: u32 = tids.into_iter().find(|tid: &u32| *tid != pid).expect("a second thread");
    // Whatever was written down, the number is a thread's now.
    let known = Known::of(pid, Some(Id128::from_bytes([0; 16]))).0;
    let known = Known(identity::Identity { pid: Pid::new(tid).expect("a pid"), ..known });
    let thread = Verdict::NotOurs(Why::ThreadId);
    assert_eq!(known.both(), (thread, thread));
    assert_eq!(pidward::verify(tid, ChildKind::Task, &name("a")), thread);
    assert!(!pidward::is_running(tid));
    drop(child.stdin.take());
    child.wait().expect("its end");
}

#[test]
fn a_line_of_another_boot_or_namespace_is_void() {
    let guard = NoLeftovers::new();
    let mut child = guard.command("cat").stdin(Stdio::piped()).spawn().expect("cat");
    let known = Known::of(child.id(), None).0;
    let boot = Known(identity::Identity { boot: Id128::from_bytes([1; 16]), ..known });
    assert_eq!(boot.both(), (Verdict::NotOurs(Why::OtherBoot), Verdict::NotOurs(Why::OtherBoot)));
    let ns = Known(identity::Identity { pid_ns: known.pid_ns + 1, ..known });
    let other = Verdict::Unknown(Why::OtherPidNamespace);
    assert_eq!(ns.both(), (other, other));
    assert_eq!(Known(known).without_inode().verdict(), Verdict::Unknown(Why::NoMarker), "no nonce, no proof");
    for known in [boot, ns] {
        let identity: Identity = known.0.to_string().parse().expect("a line");
        assert!(matches!(identity.stop(SHORT), StopOwned::NotOurs(_) | StopOwned::Unverifiable(_)));
    }
    assert!(proc::alive(child.id()));
    drop(child.stdin.take());
    child.wait().expect("its end");
}

#[test]
fn who_carries_the_markers_of_a_child_that_has_ended_is_not_that_child() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let mut cmd = command(&guard, "/bin/sh", "web");
    cmd.args(["-c", "setsid sleep 1000 >/dev/null 2>&1 & exit 0"]);
    let mut child = spawner.spawn(&cmd).expect("a child");
    child.wait().expect("its end");
    let helper = || guard.left().into_iter().find(|pid| proc::cmdline(*pid) == "sleep 1000");
    proc::eventually("a helper", || helper().is_some());
    let helper = helper().expect("as above");
    let web = name("web");
    assert_eq!(spawner.verify(helper, ChildKind::Task, &web), Verdict::Unknown(Why::Inherited));
    assert!(!spawner.owns(helper, ChildKind::Task, &web));
    let stop = spawner.stop_owned(helper, ChildKind::Task, &web, SHORT);
    assert!(matches!(stop, StopOwned::Unverifiable(_)) && !proc::has_ended(helper), "{stop:?}");
    assert!(child.stop(SHORT).is_complete());
}
