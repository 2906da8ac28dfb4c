//! Whom a reconciliation leaves alone: what the policy spares, whoever asks, and the children of a supervisor that lives.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use pidward::{
    CgroupPlace, Listing, Registry, Spawner, StopOwned, Verdict, Why,
    registry::{Action, Leftover, Policy},
};
use pidward_core::{Id128, marker::Run};
use pidward_tests::{
    announce::Board,
    cgroup::Place,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os, proc,
    records::{SHORT, Supervised, has_line, records},
};

const PLACE: &str = "PIDWARD_TEST_PLACE";
const LEAVES: &str = "PIDWARD_TEST_LEAVES";
const BOARD: &str = "PIDWARD_TEST_BOARD";

/// Not a test of its own: a supervisor with leaves, of two children that are deaf.
#[test]
fn supervisor_of_two() {
    let Some(registry) = std::env::var_os(PLACE) else { return };
    let leaves = CgroupPlace::At(std::env::var_os(LEAVES).expect("set").into());
    let builder = Spawner::builder().guard(false).registry(Registry::open(registry).expect("a registry"));
    let spawner = builder.cgroup(leaves).build().expect("a spawner");
    let children = ["a", "b"].map(|name| {
        let mut cmd = pidward::Command::new(fixture!("termdeaf"));
        cmd.arg("--ready-file").arg(std::env::var_os(BOARD).expect("set"));
        spawner.spawn(cmd.service(&name.parse().expect("a name"))).expect("a child")
    });
    let board = Board::at(std::env::var_os(BOARD).expect("set").into());
    proc::eventually("both are ready", || board.lines().len() == 2);
    drop(children);
    os::sleep_for_ever();
}

/// Such a supervisor, killed: its registry.
fn killed(guard: &NoLeftovers, dir: &TempDir, leaves: &Path) -> std::path::PathBuf {
    let place = dir.at("r");
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(std::env::current_exe().expect("its path"));
    cmd.args(["--exact", "supervisor_of_two", "--nocapture"]).env(PLACE, &place).env(LEAVES, leaves);
    let mut supervisor = cmd.env(BOARD, board.path()).spawn().expect("a supervisor");
    let whole = || records(&place).iter().filter(|(_, text)| has_line(text, "state=running")).count() == 2;
    proc::eventually("both are there", || whole() && board.lines().len() == 2);
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    place
}

fn living(place: &Path) -> usize {
    let listing = Listing::read(place).expect("a directory");
    listing.children.iter().filter(|child| child.verify() == Verdict::Same).count()
}

#[test]
fn whom_the_policy_spares_is_spared_in_its_leaf_too() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let leaves = Place::new().expect("as above");
    let place = killed(&guard, &dir, leaves.path());
    // Somebody who stops one child by its name, from another process, ends nobody else.
    let listing = Listing::read(&place).expect("a directory");
    let a = listing.children.iter().find(|child| child.name().as_str() == "a").expect("a record");
    assert!(matches!(a.stop(Duration::ZERO), StopOwned::Stopped(_)));
    assert_eq!(living(&place), 1);
    for policy in [Policy::Report, Policy::Adopt] {
        let registry = Registry::open(&place).expect("its owner has ended");
        let report = registry.reconcile(SHORT, |_| policy).expect("a directory");
        assert!(
            !report.children.iter().any(|child| matches!(child.action, Action::Stopped(_))),
            "{report:?}"
        );
        assert_eq!(living(&place), 1, "{policy:?}");
        // Nor does the start of the next supervisor, which has leaves in the same place.
        let builder = Spawner::builder().guard(false).registry(registry).cgroup(leaves.at());
        drop((builder.build().expect("a spawner"), report));
        assert_eq!(living(&place), 1, "{policy:?}");
    }
    // Nor where whoever has no record is to be ended: this one has.
    let registry = Registry::open(&place).expect("its owner has ended");
    let only_strays = |left: Leftover<'_>| match left {
        Leftover::Child(..) => Policy::Report,
        _ => Policy::Stop,
    };
    drop(registry.reconcile(SHORT, only_strays).expect("a directory"));
    assert_eq!(living(&place), 1);
    assert!(!registry.reconcile(SHORT, |_| Policy::Stop).expect("a directory").has_survivors());
    proc::eventually("nobody is left", || guard.left().is_empty());
    drop(registry);
    proc::eventually("nor a group", || leaves.below().is_empty());
    assert!(!place.exists());
}

#[test]
fn a_copy_of_a_registry_is_no_leave_to_touch_the_children_of_its_owner() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(fixture!("recorded"));
    let mut owner =
        cmd.arg(dir.at("r")).arg(board.path()).args(["wait", "daemon"]).spawn().expect("a supervisor");
    // The tree is ready before all of it is there.
    board.wait_for("ready");
    board.wait_for("daemon");
    let all = guard.left();
    for (name, files) in [
        ("all", &["lock", "installation", "record"][..]),
        ("records", &["record"]),
        ("token", &["installation"]),
    ] {
        let copy = dir.at(name);
        fs::create_dir(&copy).expect("ours");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).expect("ours");
        for path in fs::read_dir(dir.at("r")).expect("there").map(|entry| entry.expect("an entry").path()) {
            let file = path.file_name().and_then(|name| name.to_str()).expect("text");
            if files.iter().any(|end| file.ends_with(end)) {
                fs::copy(&path, copy.join(file)).expect("a copy");
            }
        }
        let registry = Registry::open(&copy).expect("nobody has this one");
        let report = registry.reconcile(SHORT, |_| Policy::Stop).expect("a directory");
        let is_kept = |child: &pidward::registry::Reconciled| {
            matches!(child.action, Action::Kept) && child.verdict == Verdict::NotOurs(Why::OtherTree)
        };
        assert!(report.children.iter().all(is_kept) && report.strays_stopped == 0, "{name}: {report:?}");
        assert_eq!(report.children.len(), usize::from(name != "token"), "{name}");
        assert_eq!(guard.left(), all, "{name}");
    }
    // Without the file that says who has the lock it is locked all the same.
    fs::remove_file(dir.at("r").join("lock")).expect("ours");
    assert!(Registry::open(dir.at("r")).is_err());
    owner.kill().expect("it lives");
    owner.wait().expect("ours");
    // Nor does anybody know whether the owner has ended: whoever lives is kept.
    let registry = Registry::open(dir.at("r")).expect("nobody has it");
    drop(registry.reconcile(SHORT, |_| Policy::Stop).expect("a directory"));
    guard.end_all();
}

#[test]
fn another_run_of_the_same_installation_is_not_swept_with_a_dead_one() {
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let start = |place: &Path, board: &str, kinds: &[&str]| {
        Supervised::start(&guard, fixture!("recorded"), place, dir.at(board), "wait", kinds)
    };
    start(&dir.at("r"), "first", &["deaf", "daemon"]).kill();
    let dead = guard.left();
    // Somebody has moved house with the token, and lives there.
    fs::create_dir(dir.at("new")).expect("ours");
    fs::set_permissions(dir.at("new"), fs::Permissions::from_mode(0o700)).expect("ours");
    fs::copy(dir.at("r").join("installation"), dir.at("new").join("installation")).expect("a copy");
    let living = start(&dir.at("new"), "second", &["child", "daemon"]);
    let rest: Vec<u32> = guard.left().into_iter().filter(|pid| !dead.contains(pid)).collect();
    // And a record of the dead run is lost, so that the sweep is all there is.
    records(&dir.at("r")).iter().for_each(|(path, _)| fs::remove_file(path).expect("ours"));
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    let report = registry.reconcile(SHORT, |_| Policy::Stop).expect("a directory");
    assert!(report.strays_stopped > 0 && !report.has_survivors(), "{report:?}");
    proc::eventually("the dead run is over, and nobody else", || guard.left() == rest);
    drop(living.kill());
    guard.end_all();
}

/// The installation is one, and the dead run's entry is inherited: a supervisor that was started by somebody of a run that has died.
#[test]
fn whoever_descends_from_a_living_run_too_is_spared() {
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let board = Board::at(dir.at("board"));
    // The supervisor of old has ended, and the new one on its directory was started from below it.
    let first =
        Supervised::start(&guard, fixture!("recorded"), &dir.at("r"), dir.at("old"), "wait", &["daemon"]);
    let entry = |pid: u32| {
        let entries = proc::environ(pid).into_iter().map(|e| String::from_utf8(e).expect("text"));
        entries.rev().find(|e| e.starts_with("PIDWARD_TREE_")).expect("a run")
    };
    let old = entry(first.board.wait_for_pid("daemon"));
    first.kill();
    records(&dir.at("r")).iter().for_each(|(path, _)| fs::remove_file(path).expect("ours"));
    let registry = Registry::open(dir.at("r")).expect("its owner has ended");
    let spawner = Spawner::builder().guard(false).registry(registry.clone()).build().expect("a spawner");
    let (name, value) = old.split_once('=').expect("an entry");
    // As a supervisor further down does it: the nonce is of a spawn that nobody here knows.
    let installation = Id128::parse(registry.installation().as_bytes()).expect("an id");
    let nonce = Run::nonce(installation).expect("random bytes");
    let mut tree = guard.shell(&format!("PIDWARD_NONCE={nonce} exec \"$0\" \"$@\""));
    tree.arg(fixture!("tree")).arg(board.path()).arg("daemon").env(name, value);
    let mut child = spawner.spawn(&tree).expect("a tree");
    let ours = board.wait_for_pid("daemon");
    let report = registry.reconcile(SHORT, |_| Policy::Stop).expect("a directory");
    assert!(report.strays_stopped == 1 && report.strays.is_empty(), "{report:?}");
    assert!(proc::alive(ours) && proc::alive(child.id()));
    drop(registry);
    assert!(spawner.shutdown(SHORT).is_complete() && child.wait().is_ok());
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn what_stands_where_a_file_is_written_does_no_harm() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let place = dir.at("r");
    fs::create_dir(&place).expect("ours");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).expect("ours");
    for name in [".installation.tmp", ".lock.tmp", "lock"] {
        let fifo = std::process::Command::new("mkfifo").arg(place.join(name)).status();
        assert!(fifo.expect("mkfifo").success());
    }
    std::os::unix::fs::symlink("/nowhere", place.join("installation")).expect("ours");
    let registry = Registry::open(&place).expect("they are replaced");
    let spawner = Spawner::builder().guard(false).registry(registry).build().expect("a spawner");
    assert!(spawner.spawn(&guard.shell("exit 0")).expect("a child").wait().expect("its end").success());
}

#[test]
fn an_empty_directory_is_removed_by_whoever_reconciles() {
    let dir = TempDir::new();
    fs::create_dir(dir.at("r")).expect("ours");
    fs::set_permissions(dir.at("r"), fs::Permissions::from_mode(0o700)).expect("ours");
    let registry = Registry::open_existing(dir.at("r")).expect("it was one");
    assert_eq!(registry.reconcile(SHORT, |_| Policy::Stop).expect("a directory").children.len(), 0);
    drop(registry);
    assert!(!dir.at("r").exists());
}
