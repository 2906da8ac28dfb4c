//! `pidward run` on a registry and `pidward reconcile`: one owner, nothing of a crash is left, and nothing odd keeps a run from starting.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use pidward_tests::{
    announce::Board,
    child,
    command::{child_of, inner_of, signal},
    fixture, in_child,
    leftovers::NoLeftovers,
    need, proc,
    registry::{Home, objects, said},
    skip,
};
/// A deaf child with a deaf grandchild in a session of its own, both there: the registry's owner is killed. Their pids.
#[track_caller]
fn crashed(home: &Home<'_>, guard: &NoLeftovers, options: &[&str]) -> [u32; 2] {
    let board = Board::at(home.at("board"));
    let (program, place) = (fixture!("termdeaf").to_str().expect("a path"), home.path("board"));
    let script = "setsid \"$0\" --ready-file \"$1\" & exec \"$0\" --ready-file \"$1\"";
    let run = home
        .run(&[&["--name", "deaf", "--no-guard"], options].concat(), &["sh", "-c", script, program, &place]);
    proc::eventually("both", || board.lines().len() == 2);
    let child = child_of(run.id());
    home.until_written(&[child]);
    let pids = board.lines().iter().map(|line| line[6..].parse().expect("a pid")).collect::<Vec<u32>>();
    let away = pids.into_iter().find(|pid| *pid != child).expect("two");
    assert_eq!(proc::sid(away), Some(away));
    run.crash();
    assert!(!proc::has_ended(child) && !proc::has_ended(away), "they are deaf");
    [child, away].iter().for_each(|pid| guard.watch(*pid));
    fs::remove_file(board.path()).expect("the board");
    [child, away]
}

/// Everything that can be seen of a directory.
fn snapshot(dir: &Path) -> Vec<(String, Vec<u8>, u64, i64, i64, i64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let meta = fs::symlink_metadata(&path).expect("its state");
        let bytes = fs::read(&path).expect("its text");
        all.push((
            path.display().to_string(),
            bytes,
            meta.ino(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime_nsec(),
        ));
    }
    let meta = fs::metadata(dir).expect("its state");
    all.push((String::new(), Vec::new(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.ctime_nsec()));
    all.sort();
    all
}

#[test]
fn a_reconciliation_ends_the_tree_of_a_supervisor_that_was_killed() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = home.path("registry");
    let pids = crashed(&home, &guard, &["--registry", &registry]);
    let before = snapshot(&home.at("registry"));
    let (code, out, err) = home.ask(&["reconcile", "--dry-run", "--registry", &registry]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, format!("would stop: task 'deaf' (process {})\n", pids[0]));
    assert_eq!(snapshot(&home.at("registry")), before, "nothing is touched");
    assert!(pids.iter().all(|pid| !proc::has_ended(*pid)), "nobody is signalled");
    let mut command = home.command(&["reconcile", "--json", "--registry", &registry]);
    let (code, out, err) = said(command.env("PIDWARD_GRACE", "300ms").output().expect("pidward"));
    assert_eq!((code, err.as_str()), (0, ""));
    let one = &objects(&out)[0];
    assert_eq!(
        (&one["action"], &one["rung"], &one["pid"]),
        (&"stopped".into(), &"kill".into(), &pids[0].into())
    );
    assert!(pids.iter().all(|pid| proc::has_ended(*pid)) && !home.at("registry").exists());
}

#[test]
fn a_reconciliation_goes_through_the_directories_of_all_runs() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let first = crashed(&home, &guard, &[]);
    let second = crashed(&home, &guard, &[]);
    // The child itself has ended: its descendant is found all the same.
    signal(first[0], libc::SIGKILL);
    proc::eventually("its end", || proc::has_ended(first[0]));
    let (run, living) = home.deaf(fixture!("termdeaf"), "living", &[]);
    let root = home.root();
    let (code, out, _) = home.ask(&["reconcile", "--dry-run", "--registry", &root]);
    assert!(
        code == 0 && out.matches("would stop: task 'deaf'").count() == 2 && out.contains("untouched: "),
        "{out}"
    );
    let mut command = home.command(&["reconcile", "--registry", &root]);
    let (code, out, err) = said(command.env("PIDWARD_GRACE", "300ms").output().expect("pidward"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.matches("stopped: task 'deaf'").count() == 2 && out.lines().count() == 3, "{out}");
    assert!(first.iter().chain(&second).all(|pid| proc::has_ended(*pid)));
    assert!(!proc::has_ended(living), "its owner lives");
    assert_eq!(fs::read_dir(home.at("pidward")).expect("the root").count(), 1);
    assert_eq!(home.ask(&["stop", "living", "--force", "--registry", &root]).0, 0);
    run.wait();
    assert_eq!(fs::read_dir(home.at("pidward")).expect("the root").count(), 0);
}

#[test]
fn a_directory_has_one_owner_who_is_named_and_whom_a_reconciliation_does_not_touch() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = home.path("registry");
    let (run, pid) = home.deaf(fixture!("termdeaf"), "kept", &["--registry", &registry]);
    let owner = inner_of(run.id());
    let before = snapshot(&home.at("registry"));
    let marker = home.path("marker");
    let (code, out, err) = home.run(&["--registry", &registry], &["touch", &marker]).end();
    assert_eq!((code, out.as_str(), err.lines().count()), (125, "", 1), "{err}");
    assert!(err.contains("already running") && err.contains(&format!("process {owner} ")), "{err}");
    assert!(!home.at("marker").exists(), "nothing was started");
    for dry in [&[][..], &["--dry-run"]] {
        let (code, out, err) = home.ask(&[&["reconcile", "--registry", &registry], dry].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.starts_with("untouched: ") && out.contains(&format!("process {owner} ")), "{out}");
    }
    assert_eq!(snapshot(&home.at("registry")), before);
    assert!(!proc::has_ended(pid));
    let (code, _, err) =
        home.run(&["--registry", &registry, "--registry-optional"], &["touch", &marker]).end();
    assert!(code == 0 && home.at("marker").exists() && err.lines().count() == 1, "{err}");
    signal(run.id(), libc::SIGTERM);
    signal(run.id(), libc::SIGTERM);
    assert_eq!(run.end().0, 128 + libc::SIGKILL);
    assert!(!home.at("registry").exists());
}

#[test]
fn a_run_stops_what_a_killed_one_has_left_before_its_program_starts() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = home.path("registry");
    let pids = crashed(&home, &guard, &["--registry", &registry]);
    let states =
        "for pid; do sed -n 's/^State:[[:space:]]*//p' /proc/$pid/status 2>/dev/null; done; echo end";
    let [first, second] = pids.map(|pid| pid.to_string());
    let options = ["--registry", &registry, "--grace", "300ms"];
    let (code, out, err) = home.run(&options, &["sh", "-c", states, "sh", &first, &second]).end();
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.ends_with("end\n") && out.lines().all(|line| line == "end" || line.starts_with('Z')),
        "{out}"
    );
    assert!(pids.iter().all(|pid| proc::has_ended(*pid)) && !home.at("registry").exists());
}

#[test]
fn nothing_is_left_of_a_run_that_ends() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = home.path("registry");
    let deaf = fixture!("termdeaf").to_str().expect("a path");
    for options in [&["--registry", &registry][..], &[]] {
        for (more, program, expected) in [
            (&[][..], &["true"][..], 0),
            (&[], &["sh", "-c", "kill -9 $$"], 137),
            (&[], &["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & exit 7"], 7),
            (&["--timeout", "200ms", "--grace", "100ms"], &[deaf], 124),
            (&[], &["/no/such/program"], 127),
            (&[], &["/"], 126),
        ] {
            let (code, _, err) = home.run(&[options, more].concat(), program).end();
            assert_eq!(code, expected, "{program:?}: {err}");
            assert!(!home.at("registry").exists(), "{program:?}");
            let root = fs::read_dir(home.at("pidward"));
            assert_eq!(root.map_or(0, Iterator::count), 0, "{program:?}");
        }
    }
}

/// 125 and one line; with `--registry-optional` one line, and the program runs.
#[track_caller]
fn refused(home: &Home<'_>, registry: &str, words: &str) {
    let (code, out, err) = home.run(&["--registry", registry], &["echo", "ran"]).end();
    assert_eq!((code, out.as_str(), err.lines().count()), (125, "", 1), "{registry}: {err}");
    assert!(err.starts_with("pidward: registry ") && err.contains(registry) && err.contains(words), "{err}");
    let (code, out, err) = home.run(&["--registry", registry, "--registry-optional"], &["echo", "ran"]).end();
    assert_eq!((code, out.as_str(), err.lines().count()), (0, "ran\n", 1), "{registry}: {err}");
    assert!(err.starts_with("pidward: warn: ") && err.contains(words), "{err}");
}

#[test]
fn a_registry_that_cannot_be_used_is_one_line_or_a_warning() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let open = home.at("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).expect("its mode");
    refused(&home, &home.path("open"), "others can write");
    fs::write(home.at("file"), "text").expect("a file");
    refused(&home, &home.path("file"), "Not a directory");
    refused(&home, &home.path("missing/registry"), "No such file");
    fs::create_dir(home.at("real")).and_then(|()| symlink(home.at("real"), home.at("link"))).expect("a link");
    refused(&home, &home.path("link"), "irectory");
    let (code, _, err) = home.run(&["--registry", ""], &["true"]).end();
    assert!(code == 125 && err.contains("--registry: expected a directory"), "{err}");
    for (command, name) in [("ls", "open"), ("reconcile", "file"), ("stop", "missing/registry")] {
        let words = [command, "--registry", &home.path(name), "a"];
        let (code, out, err) = home.ask(&words[..if command == "stop" { 4 } else { 3 }]);
        assert_eq!((code, out.as_str(), err.lines().count()), (125, "", 1), "{command}: {err}");
    }
}

#[test]
fn a_directory_on_a_file_system_that_is_read_only_cannot_be_used() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    child::assert_own_mounts();
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    fs::create_dir(home.at("still")).expect("a directory");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "ro,mode=700", "none"]).arg(home.at("still"));
    assert!(mount.status().expect("mount").success());
    refused(&home, &home.path("still"), "Read-only");
    // Nor one that does not know how to say so, where nobody has asked for it.
    let mut mount = Command::new("mount");
    let runtime = home.at("still");
    let mut command = home.command(&["run", "--", "true"]);
    assert!(mount.args(["-t", "tmpfs", "-o", "ro", "none", "/run"]).status().expect("mount").success());
    command.env("XDG_RUNTIME_DIR", &runtime).env("TMPDIR", &runtime);
    let (code, out, err) = said(command.output().expect("pidward"));
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    for place in [runtime.as_path(), Path::new("/run")] {
        assert!(Command::new("umount").arg(place).status().expect("umount").success());
    }
}

#[test]
fn a_record_that_cannot_be_written_is_a_refusal_where_the_registry_was_asked_for() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    child::assert_own_mounts();
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let mount = |name: &str, inodes: &str| {
        fs::create_dir(home.at(name)).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("mode=700,nr_inodes={inodes}"), "none"]).arg(home.at(name));
        assert!(mount.status().expect("mount").success());
    };
    // Room for itself, the lock and the token.
    mount("full", "3");
    let registry = home.path("full");
    let (code, out, err) = home.run(&["--registry", &registry], &["echo", "ran"]).end();
    assert_eq!((code, out.as_str(), err.lines().count()), (125, "", 1), "{err}");
    assert!(err.contains("record cannot be written") && err.contains("ENOSPC"), "{err}");
    let options = ["--registry", &registry, "--registry-optional"];
    let (code, out, err) = home.run(&options, &["echo", "ran"]).end();
    assert_eq!((code, out.as_str(), err.lines().count()), (0, "ran\n", 1), "{err}");
    // And two directories: nobody has asked for this one.
    mount("pidward", "4");
    let (code, out, err) = home.run(&[], &["echo", "ran"]).end();
    assert_eq!((code, out.as_str(), err.lines().count()), (0, "ran\n", 1), "{err}");
    for name in ["full", "pidward"] {
        assert!(Command::new("umount").arg(home.at(name)).status().expect("umount").success());
    }
}

#[test]
fn files_that_are_no_records_are_one_line_each_and_the_program_runs() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = home.path("registry");
    let dir = home.at("registry");
    fs::create_dir(&dir)
        .and_then(|()| fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)))
        .expect("a directory");
    let nonce = |digit: char| dir.join(format!("{}.record", digit.to_string().repeat(32)));
    fs::write(nonce('1'), "").expect("an empty one");
    fs::write(nonce('2'), [0; 300]).expect("one of NUL bytes");
    fs::write(nonce('3'), b"\xff\x1b[2Jv=1\npid=1\n").expect("garbage");
    symlink("/etc/passwd", nonce('4')).expect("a link");
    assert!(Command::new("mkfifo").arg(nonce('5')).status().expect("mkfifo").success());
    fs::create_dir(nonce('6')).expect("a directory");
    fs::write(nonce('7'), vec![b'a'; 10 << 20]).expect("a large one");
    fs::write(nonce('8'), "v=2\nname=x\n").expect("a newer one");
    fs::write(dir.join("odd\nname"), "x").expect("another");
    let (code, out, err) = home.run(&["--registry", &registry], &["echo", "ran"]).end();
    assert_eq!((code, out.as_str(), err.lines().count()), (0, "ran\n", 9), "{err}");
    assert!(err.lines().all(|line| line.starts_with("pidward: warn: \"")), "{err}");
    for (command, expected) in [("ls", 0), ("reconcile", 5)] {
        let (code, out, err) = home.ask(&[command, "--registry", &registry]);
        assert_eq!((code, out.as_str(), err.lines().count()), (expected, "", 9), "{command}: {err}");
        for digit in '1'..='8' {
            assert_eq!(err.matches(&digit.to_string().repeat(32)).count(), 1, "{err}");
        }
    }
    let (code, out, err) = home.ask(&["reconcile", "--dry-run", "--registry", &registry]);
    assert_eq!((code, out.as_str(), err.lines().count()), (5, "", 9), "{err}");
    assert!(nonce('7').exists() && nonce('4').symlink_metadata().is_ok(), "nothing is done to them");
    assert_eq!(home.ask(&["stop", "x", "--registry", &registry]).0, 1);
}
