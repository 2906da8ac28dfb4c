//! `pidward stop`: the end of who is written down, from another process than its supervisor.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    time::{Duration, Instant},
};

use pidward_core::{
    Id128, Pid,
    record::{Born, Record, State},
};
use pidward_tests::{
    command::{child_of, signal},
    fixture,
    hung::{At, HungProgram, Interrupt},
    in_child,
    leftovers::NoLeftovers,
    need, proc,
    registry::{Home, objects, said},
    skip,
};

/// The bytes of a record that a run has written, changed.
fn forge(home: &Home<'_>, from: &str, to: &str, name: &str, change: impl FnOnce(&mut Record)) {
    let files = fs::read_dir(home.at(from)).expect("a directory");
    let mut paths = files.filter_map(|entry| Some(entry.ok()?.path()));
    let path = paths.find(|path| path.extension().is_some_and(|e| e == "record")).expect("a record");
    let mut record = Record::parse(&fs::read(path).expect("its text")).expect("a record");
    record.nonce = Id128::random().expect("random bytes");
    record.name = name.try_into().expect("a short name");
    change(&mut record);
    let dir = home.at(to);
    fs::create_dir_all(&dir)
        .and_then(|()| fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)))
        .expect("a directory");
    fs::write(dir.join(format!("{}.record", record.nonce)), record.to_string()).expect("a file");
}

fn born(pid: u32) -> Born {
    let (pid, ticks) = (Pid::new(pid).expect("a pid"), proc::start_time(pid).expect("it lives"));
    Born { pid, start_ticks: ticks, inode: None, pgid: None }
}

#[test]
fn a_stop_from_another_process_ends_the_run_and_its_record() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = home.path("registry");
    let run = home.run(&["--name", "kept", "--registry", &registry], &["sleep", "1000"]);
    home.until_written(&[child_of(run.id())]);
    let stop = |words: &[&str]| home.ask(&[&["stop", "--registry", &registry][..], words].concat());
    let (code, out, err) = stop(&["kept", "--kind", "mcp"]);
    assert!(code == 1 && out.is_empty() && err.contains("'kept'") && err.lines().count() == 1, "{err}");
    // By the variable, too.
    let mut command = home.command(&["stop", "kept"]);
    assert_eq!(
        said(command.env("PIDWARD_REGISTRY", &registry).output().expect("pidward")),
        (0, String::new(), String::new())
    );
    assert_eq!(run.end(), (128 + libc::SIGTERM, String::new(), String::new()));
    assert!(!home.at("registry").exists(), "the owner removes what is empty");
    assert_eq!(stop(&["kept"]).0, 125);
}

#[test]
fn stops_of_several_go_on_at_once_and_force_knows_no_grace() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let names = ["a", "b", "c", "d", "e", "f"];
    let start = || names.map(|name| home.deaf(fixture!("termdeaf"), name, &["--no-guard"]).0);
    let root = home.root();
    let words = |options: &[&'static str]| {
        [&["stop", "--json", "--registry", &root][..], &names, options]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let grace = Duration::from_secs(2);
    for (options, least) in [(&["--grace", "2s"][..], grace), (&["--force"], Duration::ZERO)] {
        let runs = start();
        let began = Instant::now();
        let (code, out, err) = said(home.command(&words(options)).output().expect("pidward"));
        let took = began.elapsed();
        assert_eq!((code, err.as_str()), (0, ""));
        let all = objects(&out);
        assert!(
            all.len() == names.len()
                && all
                    .iter()
                    .all(|one| one["outcome"] == "stopped"
                        && (one["rung"] == "kill" || one["rung"] == "sweep")),
            "{out}"
        );
        assert!(took >= least && took < least + 3 * grace, "{took:?}");
        for run in runs {
            assert_eq!(run.end().0, 128 + libc::SIGKILL);
        }
    }
}

#[test]
fn a_stop_after_a_crash_takes_the_deaf_and_clears_the_directory() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = home.path("registry");
    let (run, pid) = home.deaf(fixture!("termdeaf"), "deaf", &["--no-guard", "--registry", &registry]);
    run.crash();
    assert!(!proc::has_ended(pid), "it is deaf to its death signal");
    let (code, out, err) = home.ask(&["stop", "deaf", "--grace", "300ms", "--json", "--registry", &registry]);
    assert_eq!((code, err.as_str()), (0, ""));
    let one = &objects(&out)[0];
    assert_eq!(
        (&one["outcome"], &one["rung"], &one["pid"]),
        (&"stopped".into(), &"kill".into(), &pid.into())
    );
    assert!(proc::has_ended(pid) && !home.at("registry").exists());
}

#[test]
fn who_is_not_proven_is_left_alone_and_the_worst_counts() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let (run, _) = home.deaf(fixture!("termdeaf"), "kept", &["--registry", &home.path("real")]);
    let mut stranger = guard.command("sleep").arg("1000").spawn().expect("sleep");
    let to = "forged";
    let known = |record: &mut Record, pid| record.born = Some(born(pid));
    forge(&home, "real", to, "unverifiable", |record| known(record, stranger.id()));
    forge(&home, "real", to, "recycled", |record| {
        known(record, stranger.id());
        record.born.as_mut().expect("born").start_ticks += 1;
    });
    forge(&home, "real", to, "first", |record| known(record, 1));
    forge(&home, "real", to, "boot", |record| {
        known(record, stranger.id());
        record.boot = Id128::from_bytes([7; 16]);
    });
    forge(&home, "real", to, "ended", |record| {
        record.born = Some(Born { pid: Pid::new(4_000_000).expect("a pid"), ..born(1) });
        (record.state, record.status) = (State::Ended, Some(0));
    });
    let stop =
        |names: &[&str]| home.ask(&[&["stop", "--registry", &home.path(to), "--force"][..], names].concat());
    for (names, expected, lines) in [
        (&["unverifiable"][..], 5, 1),
        (&["first"], 3, 1),
        (&["recycled"], 3, 1),
        (&["boot", "unverifiable", "nobody"], 5, 3),
        (&["first", "nobody"], 3, 2),
        (&["nobody"], 1, 1),
    ] {
        let (code, out, err) = stop(names);
        assert_eq!((code, out.as_str(), err.lines().count()), (expected, "", lines), "{names:?}: {err}");
    }
    forge(&home, "real", to, "ended", |record| {
        record.born = Some(Born { pid: Pid::new(4_000_000).expect("a pid"), ..born(1) });
    });
    assert_eq!(stop(&["ended"]), (0, String::new(), String::new()));
    assert!(stranger.try_wait().expect("ours").is_none(), "nobody was signalled");
    stranger.kill().expect("ours");
    stranger.wait().expect("its end");
    signal(run.id(), libc::SIGTERM);
    signal(run.id(), libc::SIGTERM);
    run.wait();
}

#[test]
fn a_record_with_the_number_of_the_stop_itself_is_left_alone() {
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let (run, _) = home.deaf(fixture!("termdeaf"), "kept", &["--registry", &home.path("real")]);
    let mut shell = guard.command("sh");
    shell.args(["-c", "read go; exec \"$@\"", "sh"]).arg(pidward_tests::command::path());
    shell.args(["stop", "us", "--json", "--force", "--registry", &home.path("forged")]);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    forge(&home, "real", "forged", "us", |record| record.born = Some(born(shell.id())));
    shell.stdin.take().expect("piped").write_all(b"go\n").expect("it reads");
    let mut out = String::new();
    shell.stdout.take().expect("piped").read_to_string(&mut out).expect("UTF-8");
    assert_eq!(shell.wait().expect("its end").code(), Some(3), "{out}");
    let one = &objects(&out)[0];
    assert_eq!((&one["outcome"], &one["reason"]), (&"not-ours".into(), &"us".into()));
    // Nor what it runs below.
    let script = "exec 2>&1; \"$0\" stop around --registry \"$1\"; echo $?";
    let path = pidward_tests::command::path().to_str().expect("a path");
    let around = home.path("around");
    let options = ["--name", "around", "--registry", &around];
    let (code, out, _) = home.run(&options, &["sh", "-c", script, path, &around]).end();
    assert!(code == 0 && out.contains("left alone") && out.ends_with("\n3\n"), "{out}");
    signal(run.id(), libc::SIGTERM);
    signal(run.id(), libc::SIGTERM);
    run.wait();
}

#[test]
fn whoever_survives_a_stop_is_named() {
    need!(skip::has_fuse(), "needs-fuse");
    need!(skip::has_pid_namespace(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let mut hung =
        HungProgram::start(fixture!("hungfs"), At::Read, Interrupt::Ignored).expect("a file system");
    let registry = home.path("registry");
    let path = hung.path().to_str().expect("a path").to_owned();
    let options = ["--name", "hung", "--no-guard", "--registry", &registry];
    let run = home.run(&options, &["cat", &path]);
    hung.wait_hung().expect("it reads");
    let pid = child_of(run.id());
    home.until_written(&[pid]);
    run.crash();
    let (code, out, err) =
        home.ask(&["stop", "hung", "nobody", "--force", "--json", "--registry", &registry]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains(&format!("pidward: process {pid} (state D) survived the stop\n")), "{err}");
    let one = &objects(&out)[0];
    assert!(one["outcome"] == "survived" && one["survivors"][0]["pid"] == pid, "{out}");
    let (code, out, err) = home.ask(&["reconcile", "--registry", &registry]);
    assert!(
        code == 4 && out.contains("survived: task 'hung'") && err.contains(&format!("process {pid} ")),
        "{out}{err}"
    );
    hung.serve().expect("the server");
    proc::eventually("its end", || proc::has_ended(pid));
    assert_eq!(home.ask(&["reconcile", "--registry", &registry]), (0, String::new(), String::new()));
    assert!(!home.at("registry").exists());
}
