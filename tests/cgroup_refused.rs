//! Groups that can be changed in part, or not by everybody: a leaf that would take no process is never made.

use std::{
    fs, io,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
};

use pidward::{CgroupPlace, Spawner};
use pidward_tests::{
    cgroup::{Place, groups},
    command,
    files::TempDir,
    fork, in_child,
    leftovers::NoLeftovers,
    need, os,
    place::{NOBODY, copy_for},
    proc,
};

/// The threads of a process that a spawner has started.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("ours").filter_map(Result::ok);
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("pidward-")).count()
}

#[test]
fn below_a_threaded_group_nothing_is_made() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let _guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let threaded = place.path().join("threaded");
    fs::create_dir(&threaded).expect("root may");
    fs::write(threaded.join("cgroup.type"), "threaded").expect("an empty group may become so");
    let refused = Spawner::builder().cgroup(CgroupPlace::At(threaded.clone())).build().expect_err("no leaf");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{refused}");
    assert!(refused.to_string().contains("threaded"), "{refused}");
    assert_eq!(groups(&threaded), [] as [PathBuf; 0], "nothing stays");
}

/// As where a directory was given away and its `cgroup.procs` was not: groups can be made, and nobody can be put into them.
#[test]
fn a_group_that_takes_no_process_of_ours_has_no_leaves() {
    need!(Place::new().is_some() && os::is_root(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    chown(place.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let dir = TempDir::new();
    let pidward = copy_for(NOBODY, &dir, Path::new(command::path()));
    let run = |place: &Path, how: &str| {
        let script = "echo $$ >\"$0\" && exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
        let mut cmd = Command::new("sh");
        cmd.args(["-c", script]).arg(place.join("cgroup.procs")).arg(&pidward);
        cmd.args(["run", "--cgroup", how, "--", "true"]).env(guard.token().0, guard.token().1);
        cmd.output().expect("a shell")
    };
    let auto = run(place.path(), "auto");
    assert!(auto.status.success(), "{auto:?}");
    let named = run(place.path(), place.path().to_str().expect("a path"));
    assert_eq!(named.status.code(), Some(125), "{named:?}");
    let text = String::from_utf8_lossy(&named.stderr);
    assert!(text.contains("may not be changed") && text.lines().count() == 1, "{text}");
    assert_eq!(place.below(), [] as [PathBuf; 0], "nothing was made");
}

#[test]
fn a_forked_copy_of_the_host_removes_no_group() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    let mut cmd = pidward::Command::new("true");
    let mut child = spawner.spawn(cmd.env(guard.token().0, guard.token().1)).expect("a child");
    assert!(child.wait().expect("its end").success());
    let leaf = child.cgroup().expect("a leaf");
    drop((spawner, child));
    // From here on the handle alone holds the leaf and the group of the run.
    proc::eventually("the spawner has ended", || threads() == 0);
    let run = place.below().pop().expect("the run's group");
    assert_eq!(groups(&run).len(), 1, "the leaf");
    // SAFETY: the copy drops one value and ends; no other thread is left that could hold a lock.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        drop(leaf);
        // SAFETY: ends the copy, running nothing of this program's.
        unsafe { libc::_exit(0) };
    }
    assert!(copy > 1, "a fork");
    assert_eq!(fork::reap(u32::try_from(copy).expect("a pid")), 0);
    assert_eq!(groups(&run).len(), 1, "the leaf is there still");
    drop(leaf);
    assert_eq!(place.below(), [] as [PathBuf; 0], "nothing stays");
}
