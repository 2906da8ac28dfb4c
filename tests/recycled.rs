//! Numbers that have become somebody else's: a leader's, a group's, a thread's, our own, within the same tick. The stranger takes down
//! every signal and must have none, whatever is asked of old handles and old records.

use std::{fs, io::Write, path::Path, sync::mpsc, time::Duration};

use pidward::{Child, ChildKind, Command, Identity, ServiceName, Spawner, Stdio, StopOwned, Verdict, Why};
use pidward_core::{
    Pid,
    identity::{self, Field, Host},
    reap::take_away,
};
use pidward_tests::{
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, proc,
    recycle::{Stranger, exec_as, free_pid, next_is, reap},
    rounds::rounds,
    seccomp::Filter,
    skip,
};

const SHORT: Duration = Duration::from_millis(20);
const KIND: ChildKind = ChildKind::Agent;

fn name() -> ServiceName {
    "greeter".parse().expect("a name")
}

/// A child that has ended and was reaped, and what is left of it: a handle and a record.
struct Old {
    child: Child,
    identity: Identity,
    ticks: u64,
    environ: Vec<String>,
}

impl Old {
    fn of(spawner: &Spawner) -> Old {
        let mut cmd = Command::new("/bin/cat");
        cmd.kind(KIND).service(&name()).stdin(Stdio::piped());
        let mut child = spawner.spawn(&cmd).expect("a child");
        let identity = child.identity().expect("an identity");
        let ticks = proc::start_time(child.id()).expect("its stat line");
        let text = |entry: Vec<u8>| String::from_utf8(entry).expect("UTF-8");
        let environ = proc::own_environ(child.id()).into_iter().map(text).collect();
        drop(child.stdin.take());
        child.wait().expect("its end");
        proc::eventually("its number is free", || proc::state(child.id()).is_none());
        Old { child, identity, ticks, environ }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The record of a kernel that has no inodes.
    fn without_inode(&self) -> Identity {
        let known = identity::Identity::parse(self.identity.to_string().as_bytes()).expect("a line");
        identity::Identity { inode: None, ..known }.to_string().parse().expect("a line")
    }

    /// Everything that a handle or a record could do to the number.
    fn try_to_reach(mut self, spawner: &Spawner) {
        let gone = |result: std::io::Result<()>| result.expect_err("nobody is there").raw_os_error();
        assert_eq!(gone(self.child.signal(pidward::Signal::TERM)), Some(libc::ESRCH));
        assert_eq!(gone(self.child.signal_group(pidward::Signal::TERM)), Some(libc::ESRCH));
        self.child.kill().expect("it has ended, as std has it");
        let report = self.child.stop(SHORT);
        assert!(report.is_complete() && report.rung().is_none(), "{report:?}");
        for identity in [self.identity, self.without_inode()] {
            let stop = identity.stop(SHORT);
            assert!(matches!(stop, StopOwned::NotOurs(_) | StopOwned::Unverifiable(_)), "{stop:?}");
        }
        let stop = spawner.stop_owned(self.pid(), KIND, &name(), SHORT);
        assert!(matches!(stop, StopOwned::NotOurs(_) | StopOwned::Unverifiable(_)), "{stop:?}");
        assert!(!spawner.owns(self.pid(), KIND, &name()));
    }
}

fn spawner() -> Spawner {
    Spawner::new().expect("a spawner")
}

/// What is said of the record without inode where the stranger has this environ.
fn by_ticks(old: &Old, same: Verdict) -> Verdict {
    let now = proc::start_time(old.pid()).expect("the stranger's stat line");
    if now == old.ticks { same } else { Verdict::Recycled(Field::StartTime) }
}

fn by_inode(same: Verdict) -> Verdict {
    if skip::has_first_choices() { Verdict::Recycled(Field::Inode) } else { same }
}

#[test]
fn a_stranger_that_has_the_number_of_a_leader_is_left_alone() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(600)));
    let guard = NoLeftovers::new();
    let (spawner, dir) = (spawner(), TempDir::new());
    let all = rounds(40, 1000);
    let mut same_tick = 0;
    for _ in 0..all {
        let old = Old::of(&spawner);
        let stranger = Stranger::take(old.pid(), fixture!("trapall"), dir.at("log"), &[guard.entry()])
            .expect("its number");
        same_tick += usize::from(proc::start_time(old.pid()) == Some(old.ticks));
        let unknown = Verdict::Unknown(Why::NoMarker);
        assert_eq!(old.identity.verify(), by_inode(by_ticks(&old, unknown)));
        assert_eq!(old.without_inode().verify(), by_ticks(&old, unknown));
        assert_eq!(spawner.verify(old.pid(), KIND, &name()), unknown);
        old.try_to_reach(&spawner);
        stranger.is_untouched();
        stranger.end();
    }
    println!("{same_tick} of {all} strangers had the start tick of the one before");
    assert!(same_tick > 0, "none of {all} shows that ticks prove nothing");
}

#[test]
fn an_impostor_of_the_same_tick_is_told_by_inode_or_nonce() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(600)));
    let guard = NoLeftovers::new();
    let (spawner, dir) = (spawner(), TempDir::new());
    for _ in 0..rounds(20, 1000) {
        let old = Old::of(&spawner);
        // All of the child's entries, but of another spawn and another installation.
        let forged = |entry: &String| {
            let tree = entry.starts_with("PIDWARD_TREE_");
            let (name, _) = entry.split_once('=').expect("a variable");
            if tree || name == "PIDWARD_NONCE" { format!("{name}={}", "e".repeat(32)) } else { entry.clone() }
        };
        let mut environ: Vec<String> = old.environ.iter().map(forged).collect();
        environ.push(guard.entry());
        let stranger =
            Stranger::take(old.pid(), fixture!("trapall"), dir.at("log"), &environ).expect("its number");
        assert_eq!(old.identity.verify(), by_inode(by_ticks(&old, Verdict::Recycled(Field::Nonce))));
        assert_eq!(old.without_inode().verify(), by_ticks(&old, Verdict::Recycled(Field::Nonce)));
        assert_eq!(spawner.verify(old.pid(), KIND, &name()), Verdict::NotOurs(Why::OtherTree));
        old.try_to_reach(&spawner);
        stranger.is_untouched();
        stranger.end();
    }
}

#[test]
fn an_impostor_with_a_copy_of_the_whole_environ_is_told_by_the_inode() {
    need!(skip::has_namespaces(), "needs-namespaces");
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(600)));
    let (spawner, dir) = (spawner(), TempDir::new());
    for _ in 0..rounds(20, 1000) {
        let mut old = Old::of(&spawner);
        let stranger =
            Stranger::take(old.pid(), fixture!("trapall"), dir.at("log"), &old.environ).expect("its number");
        assert_eq!(old.identity.verify(), Verdict::Recycled(Field::Inode));
        let stop = old.identity.stop(SHORT);
        assert!(matches!(stop, StopOwned::NotOurs(Verdict::Recycled(Field::Inode))), "{stop:?}");
        let report = old.child.stop(SHORT);
        assert!(report.is_complete() && report.rung().is_none(), "{report:?}");
        drop(old);
        stranger.is_untouched();
        stranger.end();
    }
}

/// The number leads a stranger's group, with one more stranger in it.
fn groups(all: usize) {
    let guard = NoLeftovers::new();
    let (spawner, dir) = (spawner(), TempDir::new());
    for _ in 0..all {
        let old = Old::of(&spawner);
        let leader = Stranger::take(old.pid(), fixture!("trapall"), dir.at("leader"), &[guard.entry()])
            .expect("its number");
        let log = dir.at("member");
        let _ = fs::remove_file(&log);
        let mut member = guard.command(fixture!("trapall"));
        let group = i32::try_from(old.pid()).expect("a pid");
        std::os::unix::process::CommandExt::process_group(&mut member, group);
        let mut member = member.arg(&log).spawn().expect("a member");
        let ready = format!("ready {}\n", member.id());
        proc::eventually("the member", || fs::read_to_string(&log).is_ok_and(|text| text == ready));
        assert_eq!(proc::pgid(member.id()), Some(old.pid()));
        old.try_to_reach(&spawner);
        leader.is_untouched();
        assert_eq!(fs::read_to_string(&log).expect("its log"), ready);
        leader.end();
        assert!(proc::alive(member.id()));
        member.kill().expect("the member");
        member.wait().expect("its status");
    }
}

#[test]
fn a_strangers_group_that_has_the_number_is_left_alone() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(600)));
    groups(rounds(30, 1000));
}

#[test]
fn a_strangers_group_is_left_alone_by_kernels_that_know_groups_by_number_only() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(600)));
    let flags = u64::from(u32::MAX);
    Filter::new().errno_if(libc::SYS_pidfd_send_signal, 3, flags, 4, libc::EINVAL).install();
    let guard = NoLeftovers::new();
    let (spawner, dir) = (spawner(), TempDir::new());
    for _ in 0..rounds(20, 200) {
        let mut cmd = Command::new("/bin/cat");
        cmd.kind(KIND).service(&name()).stdin(Stdio::piped());
        let mut child = spawner.spawn(&cmd).expect("a child");
        let pid = child.id();
        drop(child.stdin.take());
        child.wait().expect("its end");
        // The zombie keeps the number, until the host program itself takes it away.
        assert_eq!(proc::state(pid), Some('Z'));
        assert!(Stranger::take(pid, fixture!("trapall"), dir.at("log"), &[]).is_err(), "the number is taken");
        reap(pid);
        let stranger =
            Stranger::take(pid, fixture!("trapall"), dir.at("log"), &[guard.entry()]).expect("its number");
        assert!(
            child.signal(pidward::Signal::TERM).is_err()
                && child.signal_group(pidward::Signal::TERM).is_err()
        );
        let report = child.stop(SHORT);
        assert!(report.is_complete(), "{report:?}");
        drop(child);
        stranger.is_untouched();
        stranger.end();
    }
}

#[test]
fn a_number_that_is_a_thread_of_ours_now_is_left_alone() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(600)));
    let spawner = spawner();
    let mut made = 0;
    for _ in 0..rounds(40, 1000) {
        let old = Old::of(&spawner);
        next_is(old.pid()).expect("root of the namespace");
        let (tell, told) = mpsc::channel();
        let (hold, held) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: asks only.
            tell.send(unsafe { libc::gettid() }).expect("a listener");
            // Ends when the other end is dropped.
            let _ = held.recv();
        });
        if told.recv().expect("its id") as u32 == old.pid() {
            made += 1;
            let thread_id = Verdict::NotOurs(Why::ThreadId);
            assert_eq!(old.identity.verify(), thread_id);
            assert_eq!(old.without_inode().verify(), thread_id);
            assert_eq!(spawner.verify(old.pid(), KIND, &name()), thread_id);
            assert!(!pidward::is_running(old.pid()));
            // SIGTERM to the thread's number would end this process.
            old.try_to_reach(&spawner);
        }
        drop(hold);
        thread.join().expect("the thread");
    }
    assert!(made * 2 > rounds(40, 1000), "only {made} threads got the number");
}

#[test]
fn a_number_that_is_our_own_now_is_left_alone() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(600)));
    let (spawner, dir) = (spawner(), TempDir::new());
    for _ in 0..rounds(40, 1000) {
        let old = Old::of(&spawner);
        for identity in [old.identity, old.without_inode()] {
            let out = dir.at("out");
            let mut file = fs::File::create(&out).expect("a file");
            file.write_all(b"").expect("an empty file");
            // A program that finds its own number in a record, as after a restart of a container.
            let line = identity.to_string();
            let script = format!("exec \"$0\" \"$1\" >{}", out.display());
            let program = fixture!("identify").as_os_str();
            let args = ["-c".as_ref(), script.as_ref(), program, line.as_ref()];
            let pid = exec_as(old.pid(), "/bin/sh".as_ref(), &args, &[]).expect("its number");
            assert_eq!(reap(pid), 0, "no signal ended it");
            let text = fs::read_to_string(&out).expect("what it said");
            assert_eq!(text, "NotOurs(Us)\nNotOurs(NotOurs(Us))\n");
        }
    }
}

#[test]
fn a_zombie_that_has_the_number_of_one_before_it_keeps_its_status() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let (host, number) = (Host::look(), free_pid());
    let zombie = || {
        exec_as(number, Path::new("/bin/true"), &[], &[guard.entry()]).expect("its number");
        proc::eventually("it has ended", || proc::state(number) == Some('Z'));
        let pid = Pid::new(number).expect("a pid");
        host.proc().expect("our own").process(pid).expect("its directory")
    };
    let old = zombie();
    assert_eq!(reap(number), 0);
    let next = zombie();
    assert!(!take_away(&old), "it was reaped");
    assert_eq!(proc::state(number), Some('Z'), "the other one was not");
    assert!(take_away(&next));
    assert_eq!(proc::state(number), None);
    assert!(!take_away(&next), "once");
}
