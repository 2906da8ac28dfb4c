//! The registry: what is written down when, and who owns it.

use std::{fs, os::unix::process::ExitStatusExt, path::PathBuf, process::Child, time::Duration};

use pidward::{
    ChildKind, Command, Listing, Registry, ServiceName, SpawnErrorKind, Spawner, Verdict,
    registry::{Action, Policy, RecordState, RegistryErrorKind},
};
use pidward_tests::{
    announce::Board,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    os, proc,
    records::{SHORT, Supervised, has_line, reconcile, records, spawner},
    rounds::rounds,
};

const LONG: Duration = Duration::from_secs(30);

fn name(text: &str) -> ServiceName {
    text.parse().expect("a name")
}

#[test]
fn a_record_is_there_while_its_child_is_and_says_who_it_is() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let spawner = spawner(&registry);
    let mut cmd = guard.shell("read line; exit 7");
    cmd.kind(ChildKind::Mcp).service(&name("files")).stdin(pidward::Stdio::piped());
    let mut child = spawner.spawn(&cmd).expect("a child");
    let [(path, text)] = &records(registry.path())[..] else { panic!("one record") };
    let pid = child.id();
    for line in
        ["v=1", "state=running", "kind=mcp", "name=files", &format!("pid={pid}"), &format!("pgid={pid}")]
    {
        assert!(has_line(text, line), "{line}: {text}");
    }
    let environ = proc::own_environ(pid);
    let nonce = environ.iter().find_map(|entry| entry.strip_prefix(b"PIDWARD_NONCE=")).expect("a nonce");
    let nonce = std::str::from_utf8(nonce).expect("digits");
    assert!(
        has_line(text, &format!("nonce={nonce}")) && path.ends_with(format!("{nonce}.record")),
        "{path:?}"
    );
    let (tree, installation) = spawner.tree_entry();
    let run = tree.strip_prefix("PIDWARD_TREE_").expect("its prefix");
    assert!(
        has_line(text, &format!("cookie={run}={installation}")) && installation == registry.installation()
    );
    assert!(text.lines().last().is_some_and(|line| line.starts_with("sum=")), "{text}");
    let listing = Listing::read(registry.path()).expect("a directory");
    assert!(listing.is_owned && listing.odd.is_empty());
    let [listed] = &listing.children[..] else { panic!("one child: {listing:?}") };
    assert_eq!(
        (listed.kind(), listed.name(), listed.state()),
        (ChildKind::Mcp, name("files"), RecordState::Running)
    );
    assert_eq!((listed.identity(), listed.verify()), (child.identity().ok(), Verdict::Same));
    assert!(listed.age().is_some_and(|age| age < LONG) && !listed.survives());
    assert_eq!(listing.verify(pid, ChildKind::Mcp, &name("files")), Verdict::Same);
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("its end").code(), Some(7));
    proc::eventually("its record is gone", || records(registry.path()).is_empty());
    let path = registry.path().to_owned();
    drop((child, spawner, registry));
    proc::eventually("an empty directory goes with its owner", || !path.exists());
}

#[test]
fn the_status_of_a_supervised_child_is_kept_until_it_is_asked_for_or_replaced() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let spawner = spawner(&registry);
    let start = |script: &str| {
        let mut cmd = guard.shell(script);
        cmd.service(&name("job"));
        spawner.spawn_supervised(cmd).expect("a child")
    };
    let ended = |status: i32| {
        let line = format!("status={status}");
        proc::eventually(
            "its status is kept",
            || matches!(&records(registry.path())[..], [(_, text)] if has_line(text, "state=ended") && has_line(text, &line)),
        );
    };
    start("exit 3");
    ended(3 << 8);
    // Replaced: by the next of that name.
    start("exit 4");
    ended(4 << 8);
    assert_eq!(spawner.take_status(ChildKind::Agent, &name("job")), None, "kinds are not each other");
    let status = spawner.take_status(ChildKind::Task, &name("job")).flatten();
    assert_eq!(status.and_then(|status| status.code()), Some(4));
    assert_eq!(records(registry.path()), []);
    assert_eq!(spawner.take_status(ChildKind::Task, &name("job")), None, "once");
    start("kill -9 $$");
    ended(9);
    // For whoever comes after a crash it is in the report.
    drop((spawner, registry));
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let report = reconcile(&registry, Policy::Stop);
    let [child] = &report.children[..] else { panic!("{report:?}") };
    let Action::Cleared(Some(status)) = child.action else { panic!("{report:?}") };
    assert_eq!((status.signal(), child.verdict), (Some(9), Verdict::Gone));
    assert_eq!(records(registry.path()), []);
}

#[test]
fn without_a_record_there_is_no_child() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let strict = spawner(&registry);
    let optional = Spawner::builder().guard(false).registry(registry.clone()).registry_optional(true);
    let optional = optional.build().expect("a spawner");
    // A directory without a name takes no files.
    fs::remove_dir_all(registry.path()).expect("ours");
    let cmd = guard.shell("exec sleep 1000");
    let error = strict.spawn(&cmd).expect_err("no record");
    assert_eq!((error.kind(), error.raw_os_error()), (SpawnErrorKind::Registry, Some(libc::ENOENT)));
    let line = error.to_string();
    assert!(line.contains("record") && line.contains("ENOENT") && !line.contains('\n'), "{line}");
    assert_eq!(guard.left(), [] as [u32; 0]);
    let mut child = optional.spawn(&cmd).expect("a child that nobody finds after a crash");
    child.kill().expect("ours");
    child.wait().expect("its end");
}

#[test]
fn what_was_not_started_leaves_no_record() {
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let spawner = spawner(&registry);
    let error = spawner.spawn(&Command::new("/nowhere/at/all")).expect_err("no program");
    assert_eq!(error.kind(), SpawnErrorKind::ProgramMissing);
    spawner.spawn_on_this_thread(&Command::new("/nowhere/at/all")).expect_err("no program");
    proc::eventually("no record", || records(registry.path()).is_empty());
}

#[test]
fn a_record_goes_when_nobody_is_left_of_the_tree() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let spawner = spawner(&registry);
    let board = Board::at(dir.at("board"));
    let mut cmd = Command::new(fixture!("tree"));
    cmd.arg(board.path()).args(["child", "exit"]).env(guard.token().0, guard.token().1);
    let mut child = spawner.spawn(&cmd).expect("a tree");
    let rest = board.wait_for_pid("child");
    child.wait().expect("its end");
    let ended = |(_, text): &(PathBuf, String)| has_line(text, "state=ended") && has_line(text, "status=0");
    proc::eventually("it has ended", || records(registry.path()).iter().any(ended));
    assert!(proc::alive(rest), "and somebody of its group has not");
    os::signal_pid(rest, libc::SIGKILL).expect("it lives");
    proc::eventually("now its record goes", || records(registry.path()).is_empty());
}

#[test]
fn a_shutdown_leaves_no_record_and_no_directory() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let spawner = spawner(&registry);
    let mut trees: Vec<_> = (0..2)
        .map(|at| {
            let board = Board::at(dir.at(format!("board{at}")));
            let mut cmd = Command::new(fixture!("tree"));
            cmd.arg(board.path()).args(["child", "exit"]).env(guard.token().0, guard.token().1);
            let child = spawner.spawn(&cmd).expect("a tree");
            board.wait_for("child");
            child
        })
        .collect();
    let report = trees[0].wait().expect("its end");
    assert!(report.success());
    proc::eventually("it has ended", || {
        records(registry.path()).iter().any(|(_, text)| has_line(text, "state=ended"))
    });
    drop(registry);
    assert!(spawner.shutdown(SHORT).is_complete());
    assert_eq!(records(&dir.at("r")), []);
    drop(trees);
    proc::eventually("an empty directory goes", || !dir.at("r").exists());
}

#[test]
fn a_directory_has_one_owner_and_a_second_one_changes_nothing() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let place = dir.at("r");
    let first = Supervised::start(&guard, fixture!("recorded"), &place, dir.at("board"), "many:5", &[]);
    let look = || {
        let files = fs::read_dir(&place).expect("there").map(|entry| entry.expect("an entry").path());
        let mut files: Vec<_> = files.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect();
        files.sort();
        files
    };
    let before = look();
    let error = Registry::open(&place).expect_err("it has an owner");
    assert_eq!(error.kind(), RegistryErrorKind::AlreadyRunning(Some(first.supervisor.id())));
    let line = error.to_string();
    assert!(line.contains("already running") && line.contains(&first.supervisor.id().to_string()), "{line}");
    assert_eq!(before, look());
    let owner = String::from_utf8(fs::read(place.join("lock")).expect("there")).expect("text");
    assert!(has_line(&owner, &format!("pid {}", first.supervisor.id())), "{owner}");
    first.kill();
    let registry = Registry::open(&place).expect("its owner has ended");
    assert!(!reconcile(&registry, Policy::Stop).has_survivors());
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn of_two_supervisors_at_one_moment_one_is_the_owner() {
    in_child!(|again| again.limit(Duration::from_secs(600)));
    let guard = NoLeftovers::alone();
    for round in 0..rounds(10, 50) {
        let dir = TempDir::new();
        let place = dir.at("r");
        let boards = ["a", "b"].map(|word| Board::at(dir.at(word)));
        let mut both: Vec<Child> = boards
            .iter()
            .map(|board| {
                let mut cmd = guard.command(fixture!("recorded"));
                cmd.arg(&place).arg(board.path()).arg("many:10").spawn().expect("a supervisor")
            })
            .collect();
        let lines = |word: &str| -> Vec<String> {
            boards.iter().flat_map(Board::lines).filter(|line| line.starts_with(word)).collect()
        };
        proc::eventually("one is refused and the other has its children", || {
            lines("refused ").len() == 1 && lines("many ").len() == 1
        });
        let owner = lines("owner ").pop().expect("an owner");
        let pid = owner.strip_prefix("owner ").expect("as looked for");
        assert!(
            lines("refused ")[0].contains(&format!("process {pid} ")),
            "{round}: {:?}",
            lines("refused ")
        );
        let listing = Listing::read(&place).expect("a directory");
        assert_eq!((listing.children.len(), listing.odd.len()), (10, 0));
        assert!(listing.children.iter().all(|child| child.verify() == Verdict::Same));
        both.iter_mut().for_each(|supervisor| {
            let _ = supervisor.kill();
            supervisor.wait().expect("ours");
        });
        // Their death signal ends them.
        proc::eventually("nobody is left", || guard.left().is_empty());
        os::reap_orphans();
    }
}
