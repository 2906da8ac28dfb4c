//! Cgroup leaves: whoever descends from a child is in its leaf, whatever it does to itself; and what cannot have one works without.

use std::{
    fs,
    path::PathBuf,
    process,
    time::{Duration, Instant},
};

use pidward::{CgroupPlace, Child, Command, Rung, SpawnErrorKind, Spawner};
use pidward_tests::{
    announce::Board,
    cgroup::{Place, bare, groups},
    command,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os, proc,
    rounds::{median, rounds},
    seccomp::Filter,
};

const SHORT: Duration = Duration::from_millis(300);

fn tree(spawner: &Spawner, guard: &NoLeftovers, board: &Board, kinds: &[&str]) -> Child {
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).args(kinds).env(guard.token().0, guard.token().1);
    let child = spawner.spawn(&cmd).expect("a tree");
    for word in kinds.iter().chain(&["ready"]) {
        board.wait_for(word);
    }
    child
}

#[test]
fn a_stop_takes_those_along_that_nothing_else_shows() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut child = tree(&spawner, &guard, &board, &["bare", "deaf", "stopped", "daemon"]);
    let bare = bare(&board);
    let leaf = child.cgroup().expect("a leaf");
    assert!(leaf.is_armed() && leaf.is_populated());
    assert_eq!(proc::children(child.id()).len() + 1, 5, "zombies of the middle ones included");
    let report = child.stop(SHORT);
    assert!(report.is_complete() && report.rung() >= Some(Rung::Kill), "{report:?}");
    assert!(report.children[0].proven, "the kernel says so: {report:?}");
    assert!(proc::has_ended(bare) && !leaf.is_populated());
    drop((leaf, child));
    drop(spawner);
    assert_eq!(place.below(), [] as [PathBuf; 0], "nothing stays");
}

#[test]
fn who_is_asked_politely_gets_the_signal_once_wherever_it_is() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    let dir = TempDir::new();
    // In the group, out of the group with its environ, in the group of that one, and without an environ.
    let script = "trap 'echo $0 >>$1' TERM; echo ready-$0 >>$1; while :; do sleep 0.05; done";
    let log = dir.at("log");
    let mut cmd = Command::new("/bin/sh");
    let all = "sh -c \"$0\" member $1 & setsid sh -c 'sh -c \"$0\" mate $1 & exec sh -c \"$0\" away $1' \"$0\" $1 & \
               env -i /usr/bin/setsid /bin/sh -c \"$0\" bare $1 & exec sh -c \"$0\" leader $1";
    cmd.args(["-c", all, script]).arg(&log).env(guard.token().0, guard.token().1);
    let mut child = spawner.spawn(&cmd).expect("a shell");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    proc::eventually("all five", || read().matches("ready-").count() == 5);
    let report = child.stop(SHORT * 3);
    assert!(report.is_complete() && report.rung() >= Some(Rung::Kill), "{report:?}");
    let text = read();
    for name in ["member", "away", "mate", "bare", "leader"] {
        assert_eq!(text.lines().filter(|line| *line == name).count(), 1, "{name}: {text}");
    }
}

#[test]
fn an_early_grandchild_is_born_in_the_leaf() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    for _ in 0..rounds(10, 60) {
        let mut cmd = Command::new("/bin/sh");
        cmd.args(["-c", "env -i setsid sleep 1000 & exit 0"]).env(guard.token().0, guard.token().1);
        let mut child = spawner.spawn(&cmd).expect("a shell");
        let leaf = child.cgroup().expect("a leaf");
        assert!(child.wait().expect("its end").success());
        assert!(leaf.is_populated() && leaf.is_armed());
        leaf.kill().expect("ours");
        proc::eventually("it is empty", || !leaf.is_populated());
    }
}

#[test]
fn a_killed_supervisor_leaves_neither_the_bare_nor_the_groups() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!(|again| again.limit(Duration::from_secs(900)));
    let mut took = Vec::new();
    for round in 0..rounds(4, 200) {
        let guard = NoLeftovers::alone();
        let place = Place::new().expect("as above");
        let dir = TempDir::new();
        let board = Board::at(dir.at("board"));
        let mut cmd = guard.command(command::path());
        cmd.args(["run", "--grace", "300ms", "--cgroup"]).arg(place.path()).arg("--");
        cmd.arg(fixture!("tree")).arg(board.path()).args(["bare", "deaf", "daemon", "stopped", "storm:200"]);
        let mut run = cmd.spawn().expect("pidward");
        board.wait_for("ready");
        board.wait_for("storm");
        let bare = bare(&board);
        // The outer process, whose end the inner one sees; or that one, and nobody is left but its guard.
        let killed = if round % 2 == 0 { run.id() } else { command::inner_of(run.id()) };
        command::signal(killed, libc::SIGKILL);
        run.wait().expect("ours");
        let began = Instant::now();
        proc::eventually("nobody is left", || guard.left().is_empty() && proc::has_ended(bare));
        took.push(began.elapsed());
        proc::eventually("no group is left", || place.below().is_empty());
        os::reap_orphans();
    }
    let median = median(took);
    assert!(median < SHORT + Duration::from_secs(2), "{median:?}");
}

#[test]
fn what_only_looks_like_a_cgroup_is_refused_and_all_else_works() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    fs::write(dir.at("cgroup.procs"), "").expect("a file");
    let refused = Spawner::builder().cgroup(CgroupPlace::At(dir.at(""))).build().expect_err("a directory");
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput, "{refused}");
    // Not because something is missing in what was made there: nothing is tried in what is no cgroup.
    assert!(refused.to_string().contains("no cgroup v2 file system"), "{refused}");
    let output = command::finish(&mut command::run(&guard, &["--cgroup", "/proc"], &["true"]));
    assert_eq!(command::code(&output), 125);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.starts_with("pidward: invalid value '/proc' for --cgroup") && text.lines().count() == 1,
        "{text}"
    );
    // Not to be changed: no leaf, and a child all the same.
    Filter::new().errno(libc::SYS_mkdirat, libc::EROFS).install();
    let spawner = Spawner::builder().cgroup(CgroupPlace::Auto).build().expect("a spawner");
    let mut cmd = Command::new("true");
    let mut child = spawner.spawn(cmd.env(guard.token().0, guard.token().1)).expect("a child");
    assert!(child.cgroup().is_none() && child.wait().expect("its end").success());
    let error = spawner.spawn(cmd.process_limit(5)).expect_err("no leaf, no limit");
    assert_eq!(error.kind(), SpawnErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("leaf"), "{error}");
}

#[test]
fn a_deaf_one_that_only_the_leaf_shows_is_waited_for_and_gets_sigkill() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let script = "env -i /usr/bin/setsid /bin/sh -c 'trap \"\" TERM; echo bare $$ >>$0; exec /bin/sleep 1000' \"$0\" & \
                  exec sleep 1000";
    let mut child = spawner.spawn(guard.shell(script).arg(board.path())).expect("a shell");
    let bare = board.wait_for_pid("bare");
    guard.watch(bare);
    proc::eventually("exec", || proc::cmdline(bare) == "/bin/sleep 1000");
    let report = child.stop(SHORT);
    assert!(report.is_complete() && report.rung() >= Some(Rung::Kill), "{report:?}");
    assert!(proc::has_ended(bare), "{report:?}");
}

#[test]
fn a_leaf_that_is_busy_when_the_handle_goes_is_removed_when_it_is_not() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    // A grandchild that ends with the input.
    let mut cmd = guard.shell("exec 3<&0; cat <&3 & exit 0");
    let mut child = spawner.spawn(cmd.stdin(pidward::Stdio::piped())).expect("a shell");
    let input = child.stdin.take().expect("piped");
    assert!(child.wait().expect("its end").success());
    let run = place.below().pop().expect("the run's group");
    let leaf = groups(&run).pop().expect("the leaf");
    drop(child);
    assert!(leaf.exists() && guard.left().len() == 1, "somebody is in it: {:?}", guard.left());
    let began = Instant::now();
    drop(input);
    proc::eventually("the leaf is gone", || !leaf.exists());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(run.exists(), "the spawner is there still");
    drop(spawner);
    assert_eq!(place.below(), [] as [PathBuf; 0], "nothing stays");
}

#[test]
fn groups_that_members_make_are_removed_with_the_leaf() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    let script = "g=$(ls -d \"$0\"/pidward-*/*/ | head -1); mkdir -p \"$g/a/b\" \"$g/c\"; echo $$ >\"$g/a/b/cgroup.procs\"; \
                  echo frozen; sleep 1000";
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", script]).arg(place.path()).env(guard.token().0, guard.token().1);
    cmd.stdout(pidward::Stdio::piped());
    let mut child = spawner.spawn(&cmd).expect("a shell");
    let mut line = [0; 7];
    std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut line).expect("it is there");
    // A frozen leaf is no shelter either.
    let run = place.below().pop().expect("the run's group");
    let leaf = groups(&run).pop().expect("the leaf");
    fs::write(leaf.join("cgroup.freeze"), "1").expect("root may");
    let report = child.stop(Duration::ZERO);
    assert!(report.is_complete(), "{report:?}");
    drop(child);
    drop(spawner);
    assert_eq!(place.below(), [] as [PathBuf; 0]);
}

/// As a kernel below 5.14 answers for the file that it does not have.
#[test]
fn without_cgroup_kill_members_are_ended_one_by_one() {
    need!(Place::new().is_some(), "needs-cgroup2");
    let has_strace = process::Command::new("strace").arg("-V").stdout(process::Stdio::null()).status();
    need!(has_strace.is_ok_and(|status| status.success()), "needs-strace: answers for the kernel");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let dir = TempDir::new();
    let (board, log) = (Board::at(dir.at("board")), dir.at("log"));
    let mut cmd = guard.command("strace");
    cmd.args(["-f", "-qq", "-P", "cgroup.kill", "-e", "inject=openat:error=ENOENT", "-o"]).arg(&log);
    cmd.arg(command::path())
        .args(["run", "--no-guard", "--grace", "0s", "--cgroup"])
        .arg(place.path())
        .arg("--");
    cmd.arg(fixture!("tree")).arg(board.path()).args(["bare", "deaf", "storm:50"]);
    let mut strace = cmd.spawn().expect("strace");
    board.wait_for("ready");
    board.wait_for("storm");
    let bare = bare(&board);
    let run = proc::children(strace.id()).into_iter().next().expect("pidward");
    os::signal_pid(run, libc::SIGTERM).expect("it lives");
    assert_eq!(strace.wait().expect("ours").code(), Some(128 + libc::SIGTERM), "the leader heeds it at once");
    assert!(proc::has_ended(bare) && guard.left().is_empty());
    assert!(fs::read_to_string(log).expect("its log").contains("INJECTED"));
    assert_eq!(place.below(), [] as [PathBuf; 0]);
}

#[test]
fn a_group_that_was_made_threaded_inside_a_leaf_is_no_shelter() {
    need!(Place::new().is_some(), "needs-cgroup2");
    in_child!();
    let guard = NoLeftovers::alone();
    let place = Place::new().expect("as above");
    let spawner = place.spawner();
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", "for n in $(seq 200); do sleep 1000 & done; echo ready; wait"]);
    let mut child = spawner.spawn(cmd.env(guard.token().0, guard.token().1).stdout(pidward::Stdio::piped()));
    let child = child.as_mut().expect("a shell");
    let mut line = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut line).expect("it is there");
    let run = place.below().pop().expect("the run's group");
    let below = groups(&run).pop().expect("the leaf").join("threads");
    fs::create_dir(&below).expect("root may");
    fs::write(below.join("cgroup.type"), "threaded").expect("an empty group may become so");
    fs::write(below.join("cgroup.threads"), child.id().to_string()).expect("a thread moves within its leaf");
    assert!(fs::write(below.join("cgroup.kill"), "1").is_err(), "not to be killed by itself");
    let leaf = child.cgroup().expect("a leaf");
    leaf.kill().expect("ours");
    proc::eventually("all have ended", || !leaf.is_populated() && guard.left().is_empty());
    child.wait().expect("its end");
}
