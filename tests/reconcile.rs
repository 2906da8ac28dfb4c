//! What the next supervisor makes of what a killed one has left.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    time::{Duration, Instant},
};

use pidward::{
    ChildKind, Command, Listing, Registry, ServiceName, Spawner, StopOwned, Verdict,
    registry::{Action, Adopted, Leftover, Policy},
};
use pidward_tests::{
    announce::Board,
    cgroup::Place,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os, proc,
    records::{SHORT, Supervised, has_line, reconcile, records, spawner},
    skip,
};

fn name(text: &str) -> ServiceName {
    text.parse().expect("a name")
}

#[test]
fn what_a_killed_supervisor_leaves_is_stopped() {
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let kinds = ["child", "grandchild", "daemon", "stopped", "deaf", "mixed"];
    let tree = Supervised::start(&guard, fixture!("recorded"), &dir.at("r"), dir.at("board"), "wait", &kinds);
    tree.kill();
    assert!(!guard.left().is_empty(), "nobody guards them");
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    let mut asked = 0;
    let report = registry.reconcile(SHORT, |left| {
        asked += usize::from(matches!(left, Leftover::Child(..)));
        Policy::Stop
    });
    let report = report.expect("a directory that can be read");
    assert!(!report.has_survivors() && asked == 1, "{report:?}");
    assert!(matches!(&report.children[..], [one] if matches!(one.action, Action::Stopped(_))), "{report:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
    assert_eq!(records(registry.path()), []);
}

#[test]
fn whoever_survives_its_supervisor_is_adopted_and_again_after_the_next_crash() {
    in_child!();
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    Supervised::start(&guard, fixture!("recorded"), &dir.at("r"), dir.at("board"), "survive", &["child"])
        .kill();
    let adopt = || {
        let registry = Registry::open(dir.at("r")).expect("its owner has ended");
        let mut report = reconcile(&registry, Policy::Adopt);
        assert_eq!(report.strays, []);
        let Some(Action::Adopted(adopted)) = report.children.pop().map(|child| child.action) else {
            panic!("{report:?}")
        };
        (registry, adopted)
    };
    for _ in 0..2 {
        let (registry, adopted) = adopt();
        assert_eq!((adopted.name(), adopted.kind()), (name("one"), ChildKind::Agent));
        assert!(adopted.try_wait().expect("an answer").is_none());
        assert_eq!(adopted.identity().map(|identity| identity.verify()), Some(Verdict::Same));
        assert!(adopted.pidfd().is_some());
        // As a crash: no drop has any effect on it.
        drop((adopted, registry));
    }
    let (registry, adopted) = adopt();
    let stopped = adopted.stop(SHORT);
    let StopOwned::Stopped(stopped) = stopped else { panic!("{stopped:?}") };
    assert_eq!(stopped.status.and_then(|status| status.signal()), Some(libc::SIGTERM));
    assert_eq!(records(registry.path()), []);
    proc::eventually("nobody is left", || guard.left().is_empty());
}

/// A shell with this script, which says `up PID` on the board `$0`, survives its supervisor and is adopted.
fn adopted(guard: &NoLeftovers, dir: &TempDir, script: &str) -> (Registry, Adopted) {
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(std::env::current_exe().expect("its path"));
    cmd.args(["--exact", "supervisor_of_a_survivor", "--nocapture"]).env(PLACE, dir.at("r"));
    cmd.env(BOARD, board.path()).env(SCRIPT, script);
    let mut supervisor = cmd.spawn().expect("a supervisor");
    let pid = board.wait_for_pid("up");
    proc::eventually("its record is whole", || {
        records(&dir.at("r")).iter().any(|(_, text)| has_line(text, "state=running"))
    });
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    let mut report = reconcile(&registry, Policy::Adopt);
    let Some(Action::Adopted(adopted)) = report.children.pop().map(|child| child.action) else {
        panic!("{report:?}")
    };
    assert_eq!(adopted.id(), pid);
    (registry, adopted)
}

#[test]
fn an_adopted_child_gives_its_status_where_the_kernel_tells_it() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    // Both are started by a process that is not this one, and end when they are told.
    let script = "trap '' TERM; echo \"up $$\" >>\"$0\"; until [ -e \"$0.go\" ]; do sleep 0.02; done; exit 7";
    let (registry, adopted) = adopted(&guard, &dir, script);
    let reaper = std::thread::spawn(|| {
        // It has come to us, as to a subreaper: somebody else than the adopter reaps it.
        for _ in 0..3000 {
            os::reap_orphans();
            std::thread::sleep(Duration::from_millis(10));
            if proc::children(std::process::id()).is_empty() {
                return;
            }
        }
    });
    fs::write(dir.at("board.go"), "").expect("a word");
    let ending = adopted.wait().expect("its end");
    assert_eq!(ending.status.and_then(|status| status.code()), Some(7));
    assert_eq!(adopted.wait().expect("again"), ending);
    assert_eq!(records(registry.path()), []);
    reaper.join().expect("no panic");
}

#[test]
fn an_adopted_child_that_is_deaf_is_ended_by_the_ladder() {
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let script = "trap '' TERM; echo \"up $$\" >>\"$0\"; while :; do sleep 0.02; done";
    let (registry, adopted) = adopted(&guard, &dir, script);
    let stopped = adopted.stop(SHORT);
    let StopOwned::Stopped(stopped) = stopped else { panic!("{stopped:?}") };
    assert_eq!(stopped.rung, Some(pidward::Rung::Kill));
    assert_eq!(stopped.status.map(ExitStatusExt::into_raw), Some(libc::SIGKILL));
    assert_eq!(records(registry.path()), []);
}

const PLACE: &str = "PIDWARD_TEST_PLACE";
const BOARD: &str = "PIDWARD_TEST_BOARD";
const SCRIPT: &str = "PIDWARD_TEST_SCRIPT";

/// Not a test of its own: the process that tests above start and kill.
#[test]
fn supervisor_of_a_survivor() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let registry = Registry::open(place).expect("a registry");
    let spawner = spawner(&registry);
    let mut cmd = Command::new("/bin/sh");
    cmd.arg("-c").arg(std::env::var_os(SCRIPT).expect("set")).arg(std::env::var_os(BOARD).expect("set"));
    cmd.survives_supervisor(true).service(&name("survivor"));
    let _child = spawner.spawn(&cmd).expect("a child");
    os::sleep_for_ever();
}

#[test]
fn nobody_is_stopped_whom_the_policy_leaves_alone() {
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let board =
        Supervised::start(&guard, fixture!("recorded"), &dir.at("r"), dir.at("board"), "wait", &["deaf"])
            .kill();
    let deaf = board.wait_for_pid("deaf");
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    let before = records(registry.path());
    for policy in [Policy::Report, Policy::Adopt] {
        let report = reconcile(&registry, policy);
        // The child itself has ended by its death signal: who is left of its tree cannot be adopted.
        assert!(
            matches!(&report.children[..], [one] if matches!(one.action, Action::Reported)),
            "{report:?}"
        );
        assert!(proc::alive(deaf) && records(registry.path()) == before && report.strays_stopped == 0);
    }
    assert!(!reconcile(&registry, Policy::Stop).has_survivors());
    assert!(proc::has_ended(deaf) && records(registry.path()).is_empty());
}

#[test]
fn the_leaf_of_a_dead_run_is_stopped_and_removed() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let place = Place::new().expect("as above");
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(std::env::current_exe().expect("its path"));
    cmd.args(["--exact", "supervisor_with_leaves", "--nocapture"]).env(PLACE, dir.at("r"));
    cmd.env(BOARD, board.path()).env(SCRIPT, place.path());
    let mut supervisor = cmd.spawn().expect("a supervisor");
    let bare = pidward_tests::cgroup::bare(&board);
    guard.watch(bare);
    board.wait_for("ready");
    let [(_, text)] = &records(&dir.at("r"))[..] else { panic!("one record") };
    let leaf = text.lines().find_map(|line| line.strip_prefix("leaf=")).expect("a leaf").to_owned();
    assert!(leaf.starts_with('/'), "{text}");
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    assert!(!reconcile(&registry, Policy::Stop).has_survivors());
    assert!(proc::has_ended(bare), "whom nothing but its leaf shows");
    assert_eq!((records(registry.path()), place.below()), (Vec::new(), Vec::new()));
}

/// Not a test of its own: the process that the test above starts and kills.
#[test]
fn supervisor_with_leaves() {
    let Some(registry) = std::env::var_os(PLACE) else { return };
    let Some(place) = std::env::var_os(SCRIPT).filter(|place| Path::new(place).is_dir()) else { return };
    let registry = Registry::open(registry).expect("a registry");
    let builder = Spawner::builder().guard(false).registry(registry);
    let spawner = builder.cgroup(pidward::CgroupPlace::At(place.into())).build().expect("a spawner");
    let mut tree = Command::new(fixture!("tree"));
    let _child = spawner.spawn(tree.arg(std::env::var_os(BOARD).expect("set")).arg("bare")).expect("a tree");
    os::sleep_for_ever();
}

#[test]
fn a_thousand_children_are_listed_and_reconciled_within_a_second() {
    in_child!(|again| again.limit(Duration::from_secs(300)));
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let tree =
        Supervised::start(&guard, fixture!("recorded"), &dir.at("r"), dir.at("board"), "many:1000", &[]);
    let began = Instant::now();
    let listing = Listing::read(dir.at("r")).expect("a directory");
    assert!(listing.children.iter().all(|child| child.verify() == Verdict::Same));
    println!("1,000 listed and verified in {:?}", began.elapsed());
    assert_eq!(listing.children.len(), 1000);
    tree.kill();
    proc::eventually("their death signal ends them", || guard.left().is_empty());
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    let began = Instant::now();
    let report = reconcile(&registry, Policy::Stop);
    println!("1,000 cleared in {:?}", began.elapsed());
    assert!(report.children.iter().all(|child| matches!(child.action, Action::Cleared(None))));
    assert_eq!((report.children.len(), records(registry.path()).len()), (1000, 0));
}

#[test]
fn a_thousand_that_live_are_stopped_together() {
    in_child!(|again| again.limit(Duration::from_secs(300)));
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    Supervised::start(&guard, fixture!("recorded"), &dir.at("r"), dir.at("board"), "lasting:1000", &[])
        .kill();
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    let began = Instant::now();
    let report = registry.reconcile(Duration::from_secs(60), |_| Policy::Stop).expect("a directory");
    let took = began.elapsed();
    println!("1,000 stopped in {took:?}");
    assert!(report.children.iter().all(|child| matches!(child.action, Action::Stopped(_))), "{report:?}");
    assert!(!report.has_survivors() && report.children.len() == 1000 && records(registry.path()).is_empty());
    // A look at all processes for each of them takes many times as long.
    assert!(took < Duration::from_secs(15), "{took:?}");
    proc::eventually("nobody is left", || guard.left().is_empty());
    os::reap_orphans();
}
