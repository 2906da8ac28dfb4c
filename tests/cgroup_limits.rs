//! Limits on a child's whole tree: they bite, or there is an error and no child.

use std::{fs, path::PathBuf, process};

use pidward::{Command, SpawnErrorKind};
use pidward_tests::{
    cgroup::{Place, groups},
    in_child,
    leftovers::NoLeftovers,
    need, proc, skip,
};

#[test]
fn a_limit_that_no_controller_enforces_is_an_error_and_no_child() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let _guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let controllers = fs::read_to_string(place.path().join("cgroup.controllers")).expect("a list");
    need!(!controllers.contains("pids"), "needs-no-controllers: a tree whose controllers are elsewhere");
    let spawner = place.spawner();
    let error = spawner.spawn(Command::new("true").process_limit(5)).expect_err("no controller");
    assert_eq!(error.kind(), SpawnErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("controller"), "{error}");
    assert_eq!(proc::children(process::id()), [0; 0]);
    let run = place.below().pop().expect("the run's group");
    assert_eq!(groups(&run), [] as [PathBuf; 0], "the leaf went with it");
}

#[test]
fn limits_bite() {
    let controllers = skip::cgroup2().and_then(|dir| fs::read_to_string(dir.join("cgroup.controllers")).ok());
    let has = |name: &str| {
        controllers.as_ref().is_some_and(|list| list.split_ascii_whitespace().any(|c| c == name))
    };
    need!(has("memory") && has("pids"), "needs-controllers: a cgroup v2 tree that limits memory and pids");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let root = place.path().parent().expect("a root");
    fs::write(root.join("cgroup.subtree_control"), "+memory +pids").expect("root may");
    let spawner = place.spawner();
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", "sleep 0 & wait $!"]).env(guard.token().0, guard.token().1).process_limit(1);
    let mut child = spawner.spawn(&cmd).expect("a shell");
    let leaf = child.cgroup().expect("a leaf");
    assert!(!child.wait().expect("its end").success());
    assert!(leaf.forks_refused().is_some_and(|count| count > 0), "{:?}", leaf.forks_refused());
    let mut cmd = Command::new("python3");
    cmd.args(["-c", "x = bytearray(256 << 20)"]).env(guard.token().0, guard.token().1).memory_limit(32 << 20);
    let mut child = spawner.spawn(&cmd).expect("python");
    let leaf = child.cgroup().expect("a leaf");
    assert!(!child.wait().expect("its end").success());
    assert!(leaf.oom_kills().is_some_and(|count| count > 0), "{:?}", leaf.oom_kills());
}
