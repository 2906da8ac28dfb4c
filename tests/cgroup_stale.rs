//! What dead supervisors have left of their cgroups, and what living ones have there.

use std::{fs, path::PathBuf, time::Duration};

use pidward::{CgroupPlace, Command, Spawner};
use pidward_core::{Id128, identity::Identity, marker::Run};
use pidward_tests::{
    announce::{self, Board},
    cgroup::{Place, bare, groups},
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os, proc,
};

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn what_a_dead_supervisor_left_is_removed_by_the_next_of_its_installation_only() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    // Two supervisors without guards that are killed: a run of ours, and one of somebody else's.
    let ids = ["0a".repeat(16), "0b".repeat(16)];
    let supervisors: Vec<u32> = ids.iter().map(|id| dead_supervisor(&guard, &place, id)).collect();
    assert_eq!(place.below().len(), 2);
    let bare = |supervisor: &u32| {
        let of = |dir: &PathBuf| dir.to_string_lossy().contains(&format!(" pid={supervisor} "));
        let run = place.below().into_iter().find(of).expect("its group");
        groups(&run).iter().flat_map(|leaf| fs::read_to_string(leaf.join("cgroup.procs"))).collect::<String>()
    };
    let [ours, theirs] = [&supervisors[0], &supervisors[1]].map(bare);
    assert!(!ours.is_empty() && !theirs.is_empty());
    let builder = Spawner::builder().cgroup(place.at()).installation(ids[0].clone());
    let next = builder.build().expect("a spawner");
    let pid = |text: &str| text.trim().parse::<u32>().expect("one pid");
    assert!(proc::has_ended(pid(&ours)), "the rest of our own dead run is ended");
    assert!(!proc::has_ended(pid(&theirs)), "a stranger's is not touched");
    assert_eq!(place.below().len(), 2, "that, and the new run's");
    drop(next);
    os::signal_pid(pid(&theirs), libc::SIGKILL).expect("it lives");
    proc::eventually("it has ended", || proc::has_ended(pid(&theirs)));
    drop(place.spawner());
    assert_eq!(place.below(), [] as [PathBuf; 0], "an empty one goes, whoever's it was");
}

/// A process of its own with this installation that is killed, and leaves one child that nothing but its leaf shows.
fn dead_supervisor(guard: &NoLeftovers, place: &Place, installation: &str) -> u32 {
    const PLACE: &str = "PIDWARD_TEST_PLACE";
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(std::env::current_exe().expect("its path"));
    cmd.args(["--exact", "supervisor_that_is_killed", "--nocapture"]).env(PLACE, place.path());
    cmd.env("PIDWARD_TEST_ID", installation).env("PIDWARD_TEST_BOARD", board.path());
    let mut supervisor = cmd.spawn().expect("a supervisor");
    let leader = board.wait_for_pid("ready");
    guard.watch(bare(&board));
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    proc::eventually("the leader has ended", || proc::has_ended(leader));
    supervisor.id()
}

/// The supervisor of the test above, in a process of its own: does nothing where it is not told to.
#[test]
fn supervisor_that_is_killed() {
    let Some(place) = std::env::var_os("PIDWARD_TEST_PLACE") else { return };
    let [id, board] =
        ["PIDWARD_TEST_ID", "PIDWARD_TEST_BOARD"].map(|name| std::env::var(name).expect("is set"));
    let builder = Spawner::builder().guard(false).cgroup(CgroupPlace::At(place.into())).installation(id);
    let spawner = builder.build().expect("a spawner");
    let mut cmd = Command::new(fixture!("tree"));
    let _child = spawner.spawn(cmd.args([&board, "bare"])).expect("a tree");
    os::sleep_for_ever();
}

/// A child of a supervisor that was killed becomes a supervisor itself, in the leaf that it is in.
#[test]
fn whoever_starts_in_a_leaf_of_a_dead_run_does_not_end_itself() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let place = Place::new().expect("as above");
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(std::env::current_exe().expect("its path"));
    cmd.args(["--exact", "one_above_the_other", "--nocapture"]).env("PIDWARD_TEST_ABOVE", "1");
    cmd.env("PIDWARD_TEST_LEAVES", place.path()).env("PIDWARD_TEST_BOARD", board.path());
    let mut supervisor = cmd.spawn().expect("a supervisor");
    board.wait_for("below");
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    announce::say(board.path(), "go 0");
    board.wait_for("went on");
    proc::eventually("its end", || guard.left().is_empty());
    os::reap_orphans();
}

/// Both supervisors of the test above: does nothing where it is not told to.
#[test]
fn one_above_the_other() {
    let Some(place) = std::env::var_os("PIDWARD_TEST_LEAVES") else { return };
    let board = Board::at(std::env::var_os("PIDWARD_TEST_BOARD").expect("is set").into());
    let builder = || {
        let builder = Spawner::builder().guard(false).installation("0c".repeat(16));
        builder.cgroup(CgroupPlace::At(place.clone().into()))
    };
    if std::env::var_os("PIDWARD_TEST_ABOVE").is_some() {
        let spawner = builder().build().expect("a spawner");
        let mut cmd = Command::new(std::env::current_exe().expect("its path"));
        cmd.args(["--exact", "one_above_the_other"]).env_remove("PIDWARD_TEST_ABOVE").death_signal(None);
        let _child = spawner.spawn(&cmd).expect("a child");
        os::sleep_for_ever();
    }
    announce::say(board.path(), "below 0");
    board.wait_for("go");
    drop(builder().build().expect("a spawner"));
    announce::say(board.path(), "went on 0");
}

/// Below Linux 6.9 nothing is known of a supervisor but its start, and if it is somebody's child it has a nonce of its own.
#[test]
fn the_group_of_a_supervisor_that_lives_is_left_alone_without_inodes_too() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let supervisor = Spawner::new().expect("a spawner");
    let mut cmd = Command::new("sleep");
    let child = supervisor.spawn(cmd.arg("1000").env(guard.token().0, guard.token().1)).expect("a child");
    let line = child.identity().expect("an identity").to_string();
    let installation = Id128::from_bytes([7; 16]);
    let alive = Identity {
        inode: None,
        nonce: Some(Run::nonce(installation).expect("randomness")),
        ..Identity::parse(line.as_bytes()).expect("an identity")
    };
    let dead = Identity { start_ticks: alive.start_ticks + 1, ..alive };
    for owner in [alive, dead] {
        fs::create_dir(place.path().join(owner.to_string())).expect("root may");
    }
    let next = Spawner::builder().cgroup(place.at()).installation(installation.to_string()).build();
    let next = next.expect("a spawner");
    assert!(place.path().join(alive.to_string()).exists(), "it may live");
    assert!(!place.path().join(dead.to_string()).exists(), "somebody else has its number");
    drop(next);
    assert!(supervisor.shutdown(SHORT).is_complete());
}
