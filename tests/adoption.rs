//! A host's own children, orphans that come to it, and ours: each status goes to its owner, once.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Lines, Write},
    os::fd::OwnedFd,
    process, thread,
    time::{Duration, Instant},
};

use pidward::{Child, ChildStdout, Command, NodeId, Reaped, Reaper, Spawner, Stdio};
use pidward_tests::{
    cgroup::Place,
    fixture,
    hung::{At, HungProgram, Interrupt},
    in_child,
    leftovers::NoLeftovers,
    need, os, proc,
    rounds::rounds,
    seccomp::Filter,
    skip,
};

fn zombies() -> Vec<u32> {
    let own = process::id();
    proc::children(own).into_iter().filter(|pid| proc::state(*pid) == Some('Z')).collect()
}

#[test]
fn each_end_is_given_once_under_its_number_and_only_if_it_is_registered() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let reaper = Reaper::new();
    let mut children = Vec::new();
    for code in 0..20_u64 {
        let mut cmd = guard.shell("read line; exit $0");
        let child = spawner.spawn(cmd.arg(code.to_string()).stdin(Stdio::piped())).expect("a child");
        reaper.register(&child, NodeId(100 + code));
        children.push(child);
    }
    assert!(reaper.deregister(NodeId(107)) && !reaper.deregister(NodeId(107)));
    assert_eq!(reaper.reap_all(), []);
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    let mut ends = BTreeMap::new();
    proc::eventually("all ends", || {
        for (node, end) in reaper.reap_all() {
            assert_eq!(ends.insert(node, end), None, "{node}: once");
        }
        ends.len() == 19
    });
    for (node, end) in ends {
        let Reaped::Status(status) = end else { panic!("{node}: {end:?}") };
        assert_eq!(status.code().map(|code| u64::try_from(code).expect("a code")), Some(node.0 - 100));
    }
    // The handles know as well, and the one that was not registered.
    assert_eq!(children[7].wait().expect("a status").code(), Some(7));
    assert_eq!(reaper.reap_all(), []);
}

#[test]
fn a_host_that_waits_for_everybody_costs_a_status_at_most_and_no_time() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let reaper = Reaper::new();
    let count = 50;
    for node in 0..count {
        let child = spawner.spawn(&guard.shell("exit 9")).expect("a child");
        reaper.register(&child, NodeId(node));
        // SAFETY: a null status is not written.
        unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
    }
    let mut ends = Vec::new();
    proc::eventually("all ends", || {
        ends.extend(reaper.reap_all());
        ends.len() == 50
    });
    for (node, end) in ends {
        match end {
            Reaped::Status(status) => assert_eq!(status.code(), Some(9), "{node}"),
            _ => assert!(!skip::has_first_choices(), "{node}: the kernel remembers"),
        }
    }
    // Nothing spins on what cannot be had.
    let cpu = || {
        // SAFETY: all zeros are such a struct.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: writes one struct.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        [usage.ru_utime, usage.ru_stime]
            .map(|t| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000))
            .iter()
            .sum::<Duration>()
    };
    let before = cpu();
    thread::sleep(Duration::from_secs(2));
    let used = cpu() - before;
    assert!(used < Duration::from_millis(50), "{used:?} in two seconds");
}

#[test]
fn the_hosts_own_children_keep_their_statuses_beside_a_subreaper() {
    in_child!(|again| again.limit(Duration::from_secs(600)));
    let guard = NoLeftovers::new();
    let spawner = Spawner::builder().subreaper(true).build().expect("a spawner");
    for round in 0..rounds(500, 10_000) {
        let mut own = guard.command("/bin/sh");
        let mut own = own.args(["-c", "exit 41"]).spawn().expect("the host's own");
        if round % 10 == 0 {
            // With an orphan.
            let mut child = spawner.spawn(&guard.shell("sleep 0.01 & exit 3")).expect("a child");
            assert_eq!(child.wait().expect("its end").code(), Some(3));
        }
        if round % 2 == 0 {
            proc::eventually("a zombie", || proc::state(own.id()) == Some('Z'));
        }
        assert_eq!(own.wait().expect("nobody else took it").code(), Some(41), "round {round}");
    }
}

#[test]
fn orphans_are_reaped_where_they_prove_to_be_ours() {
    in_child!();
    let guard = NoLeftovers::new();
    let spawner = Spawner::builder().subreaper(true).build().expect("a spawner");
    // The parents end at once; one orphan carries the run in a session of its own, one has nothing but the group of a child that lives.
    let mut away = spawner.spawn(&guard.shell("setsid sh -c 'sleep 2; exit 1' & exit 0")).expect("a child");
    let script = "(env -i /bin/sh -c 'exec /bin/sleep 2' & exit 0); exec sleep 1000";
    let mut living = spawner.spawn(&guard.shell(script)).expect("a child");
    away.wait().expect("its end");
    let adopted =
        || proc::children(process::id()).into_iter().filter(|pid| *pid != living.id()).collect::<Vec<_>>();
    proc::eventually("both orphans are here", || adopted().len() == 2);
    // And one of the host's own that nobody waits for yet: its zombie stays.
    let mut own = guard.command("/bin/sh").args(["-c", "exit 5"]).spawn().expect("the host's own");
    let began = Instant::now();
    proc::eventually("they have ended and are gone", || adopted() == [own.id()]);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(zombies(), [own.id()]);
    assert_eq!(own.wait().expect("its own status").code(), Some(5));
    assert!(living.stop(Duration::from_secs(5)).is_complete());
}

/// Makes orphans that end at once, and that the next look of a spawner takes away.
struct Maker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Maker {
    fn new(spawner: &Spawner, guard: &NoLeftovers) -> Maker {
        let mut cmd = guard.shell("while read line; do (sh -c 'echo $$' & exit 0); done");
        let mut child = spawner.spawn(cmd.stdin(Stdio::piped()).stdout(Stdio::piped())).expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Maker { child, lines }
    }

    /// Returns after a look that began after the call did: the second orphan is of that one.
    fn wait_for_a_look(&mut self) {
        for _ in 0..2 {
            self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
            let orphan = self.lines.next().expect("a line").expect("text").parse().expect("a pid");
            proc::eventually("the orphan was taken away", || proc::state(orphan).is_none());
        }
    }
}

/// The group flag of `pidfd_send_signal` as kernels below 6.9 answer it: nothing but the zombie of its leader keeps the number of a group
/// from being given away.
fn without_group_flag() {
    let flags = u64::from(u32::MAX);
    Filter::new().errno_if(libc::SYS_pidfd_send_signal, 3, flags, 4, libc::EINVAL).install();
}

#[test]
fn the_zombie_of_a_leader_that_keeps_its_groups_number_is_no_orphan() {
    in_child!();
    let guard = NoLeftovers::alone();
    without_group_flag();
    let spawner = Spawner::builder().subreaper(true).build().expect("a spawner");
    let mut cmd = guard.shell("(trap '' TERM; exec sleep 1000) & read line; exit 4");
    let mut leader = spawner.spawn(cmd.stdin(Stdio::piped())).expect("a child");
    let mut maker = Maker::new(&spawner, &guard);
    // It is seen while it lives, and when it has ended.
    maker.wait_for_a_look();
    drop(leader.stdin.take());
    assert_eq!(leader.wait().expect("its end").code(), Some(4));
    maker.wait_for_a_look();
    assert_eq!(proc::state(leader.id()), Some('Z'), "it keeps the number");
    for child in [&mut leader, &mut maker.child] {
        assert!(child.stop(Duration::ZERO).is_complete());
    }
}

/// The whole host is stopped while a child ends and for longer than a look is away: it looks for orphans before it learns of the end.
#[test]
fn a_child_whose_end_is_not_yet_seen_is_no_orphan() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::builder().subreaper(true).build().expect("a spawner");
    let mut cmd = guard.shell("read line; exit 4");
    let mut child = spawner.spawn(cmd.stdin(Stdio::piped())).expect("a child");
    let mut maker = Maker::new(&spawner, &guard);
    maker.wait_for_a_look();
    let script = "[ $PPID -gt 1 ] || exit 9; trap 'kill -CONT $PPID' EXIT; kill -STOP $PPID
        until grep -q '^State:.T' /proc/$PPID/status; do sleep 0.01; done; echo
        until grep -q '^State:.Z' /proc/$0/status; do sleep 0.01; done; sleep 1.5";
    let gate = OwnedFd::from(child.stdin.take().expect("piped"));
    let mut stopper = guard.command("/bin/sh");
    stopper.args(["-c", script, &child.id().to_string()]).stdout(gate);
    assert!(stopper.status().expect("a shell").success());
    // Nobody else asks before the look that was due.
    maker.wait_for_a_look();
    assert_eq!(child.wait().expect("its end").code(), Some(4));
    assert!(child.usage().is_some(), "its status was its owner's to take");
    assert!(maker.child.stop(Duration::ZERO).is_complete());
}

/// A child that hangs in its exec is in its leaf, and on nobody's list.
#[test]
fn who_was_seen_before_its_spawn_was_over_is_no_orphan() {
    need!(skip::has_fuse(), "needs-fuse");
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let mut program =
        HungProgram::start(fixture!("hungfs"), At::Open, Interrupt::Answered).expect("a file system");
    without_group_flag();
    let spawner = Spawner::builder().subreaper(true).cgroup(place.at()).build().expect("a spawner");
    let mut maker = Maker::new(&spawner, &guard);
    let mut cmd = Command::new(program.path());
    cmd.env(guard.token().0, guard.token().1);
    let mut child = thread::scope(|scope| {
        let spawn = scope.spawn(|| spawner.spawn(&cmd));
        program.wait_hung().expect("somebody hangs");
        maker.wait_for_a_look();
        program.serve().expect("it hangs");
        spawn.join().expect("no panic").expect("a child")
    });
    assert_eq!(child.wait().expect("its end").code(), Some(7));
    maker.wait_for_a_look();
    assert_eq!(proc::state(child.id()), Some('Z'), "it keeps the number");
    for child in [&mut child, &mut maker.child] {
        assert!(child.stop(Duration::ZERO).is_complete());
    }
}

#[test]
fn as_pid_1_of_a_namespace_and_above_one_the_ladder_works() {
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let spawner = Spawner::builder().subreaper(true).build().expect("a spawner");
    let script = "trap : TERM; setsid sleep 1000 & while :; do sleep 1; done";
    let mut child = spawner.spawn(&guard.shell(&format!("{script} & {script}"))).expect("a tree");
    proc::eventually("the tree", || guard.left().len() >= 6);
    let report = child.stop(Duration::from_millis(200));
    assert!(report.is_complete(), "{report:?}");
    // A child that is pid 1 of its own: deaf to SIGTERM by the kernel's rule for such, and its namespace ends with it.
    let mut cmd = Command::new("unshare");
    cmd.args(["--pid", "--fork", "--kill-child", "sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"]);
    let mut child = spawner.spawn(cmd.env(guard.token().0, guard.token().1)).expect("a namespace");
    proc::eventually("its tree", || guard.left().len() >= 4);
    let report = child.stop(Duration::from_millis(200));
    assert!(report.is_complete(), "{report:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
    assert!(os::is_root() || process::id() == 1);
}
