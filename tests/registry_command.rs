//! `pidward ls`: what is written down, and who of it lives; and bad input to it and to its siblings.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use pidward_tests::{
    command::{child_of, signal},
    fixture,
    leftovers::NoLeftovers,
    registry::{Home, objects},
    rounds::rounds,
};

#[test]
fn ls_shows_each_record_as_a_row_and_as_an_object() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    assert_eq!(home.ask(&["ls"]).0, 0);
    let first = home.run(&["--name", "a nåme\u{202e}", "--kind", "mcp"], &["sleep", "1000"]);
    let second = home.run(&["--name", "other", "--cgroup", "off"], &["sleep", "1000"]);
    let pids = [child_of(first.id()), child_of(second.id())];
    home.until_written(&pids);
    let (code, out, err) = home.ask(&["ls", "--registry", &home.root()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["NAME", "KIND", "PID", "VERDICT", "AGE", "STATE", "PORTS", "CGROUP"]
    );
    assert!(
        lines.len() == 3 && lines[1].starts_with("a nåme\\u{202e}  mcp") && lines[2].starts_with("other "),
        "{out}"
    );
    let place = |line: &str, word: &str| line.find(word).map(|at| line[..at].chars().count());
    assert_eq!(place(lines[0], "KIND"), place(lines[2], "task"), "{out}");
    assert_eq!(place(lines[0], "STATE"), place(lines[2], "running"), "{out}");

    let (code, out, err) = home.ask(&["ls", "--json", "--registry", &home.root()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let all = objects(&out);
    for (value, (pid, name, kind)) in
        all.iter().zip([(pids[0], "a nåme\u{202e}", "mcp"), (pids[1], "other", "task")])
    {
        let mut keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "age", "cgroup", "identity", "kind", "name", "pid", "ports", "reason", "registry", "state",
                "v", "verdict"
            ]
        );
        assert_eq!(
            (&value["name"], &value["kind"], &value["pid"]),
            (&name.into(), &kind.into(), &pid.into())
        );
        assert_eq!(
            (&value["verdict"], &value["reason"], &value["state"]),
            (&"same".into(), &"".into(), &"running".into())
        );
        assert_eq!(value["ports"], serde_json::json!([]));
        assert!(value["age"].as_u64().is_some_and(|age| age < 600), "{value}");
        let registry = value["registry"].as_str().expect("a path");
        assert!(Path::new(registry).join("lock").exists(), "{value}");
        let (number, line) = (pid.to_string(), value["identity"].as_str().expect("a line"));
        assert_eq!(home.ask(&["verify", &number, "--identity", line]).0, 0);
        let named = ["verify", &number, "--name", name, "--kind", kind];
        assert_eq!(home.ask(&named).0, 0);
        assert_eq!(home.ask(&[&named[..], &["--registry", registry]].concat()).0, 0);
        let other = pids.iter().find(|other| **other != pid).expect("two").to_string();
        let wrong = ["verify", &other, "--name", name, "--kind", kind, "--registry", registry];
        assert_ne!(home.ask(&wrong).0, 0);
    }
    assert!(all.len() == 2 && all[1]["cgroup"].is_null(), "{out}");
    for run in [first, second] {
        signal(run.id(), libc::SIGTERM);
        run.wait();
    }
    assert_eq!(home.ask(&["ls", "--registry", &home.root()]), (0, String::new(), String::new()));
    let missing = home.path("missing");
    let (code, out, err) = home.ask(&["ls", "--registry", &missing]);
    assert!(code == 125 && out.is_empty() && err.lines().count() == 1 && err.contains(&missing), "{err}");
}

#[test]
fn a_reader_that_has_gone_ends_ls_quietly() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let (run, _) = home.deaf(fixture!("termdeaf"), "kept", &[]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = home.command(&["ls", "--registry", &home.root()]).stdout(writer).output().expect("pidward");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    assert_eq!(home.ask(&["stop", "kept", "--force", "--registry", &home.root()]).0, 0);
    run.wait();
}

/// Children that live throughout, and others that come and go fifty times a second.
#[test]
fn a_list_beside_spawns_is_whole() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let registry = pidward::Registry::open(home.at("r")).expect("a registry");
    let spawner = pidward::Spawner::builder().guard(false).registry(registry).build().expect("a spawner");
    let stay: Vec<_> = (0..5)
        .map(|at| {
            let mut cmd = guard.shell("exec sleep 1000");
            cmd.service(&format!("stays-{at}").parse().expect("a name"));
            spawner.spawn(&cmd).expect("a child")
        })
        .collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let mut cmd = guard.shell("exec true");
                cmd.service(&"goes".parse().expect("a name"));
                spawner.spawn(&cmd).expect("a child").wait().expect("its end");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let place = home.path("r");
        for _ in 0..rounds(60, 500) {
            let (code, out, err) = home.ask(&["ls", "--json", "--registry", &place]);
            assert_eq!((code, err.as_str()), (0, ""));
            let mut names: Vec<_> = objects(&out).iter().map(|value| value["pid"].clone()).collect();
            let all = names.len();
            names.sort_by_key(ToString::to_string);
            names.dedup();
            assert_eq!(names.len(), all, "none twice: {out}");
            for child in &stay {
                assert!(names.contains(&child.id().into()), "{} is missing: {out}", child.id());
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let report = spawner.shutdown(Duration::from_secs(5));
    assert!(report.is_complete(), "{report:?}");
}

#[test]
fn bad_input_is_one_line_and_code_2() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    for (words, expected) in [
        (&["ls", "--jsn"][..], "'--json'?"),
        (&["ls", "more"], "'more'"),
        (&["ls", "--registry", ""], "--registry"),
        (&["ls", "--log", "loud"], "'loud' for --log"),
        (&["lst"], "'ls'?"),
        (&["stop"], "no 'NAME'"),
        (&["stop", "a/b"], "'a/b' for NAME"),
        (&["stop", "a", "--kind", "x"], "agent, mcp, api or task"),
        (&["stop", "a", "--grace", "5"], "'5' for --grace"),
        (&["stop", "a", "--grace", "5s", "--force"], "expected one of them"),
        (&["stop", "a", "--forse"], "'--force'?"),
        (&["reconcile", "--dryrun"], "'--dry-run'?"),
        (&["reconcile", "x"], "'x'"),
        (&["recncile"], "'reconcile'?"),
        (&["verify", "1", "--registry", "/"], "--name"),
        (&["verify", "1", "--identity", "x", "--registry", "/"], "'--registry'"),
        (&["nothing"], "run, ls, stop, reconcile, verify or doctor"),
    ] {
        let (code, out, err) = home.ask(words);
        assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{words:?}: {err}");
        assert!(err.starts_with("pidward: ") && err.contains(expected), "{words:?}: {err}");
    }
    for command in ["ls", "stop", "reconcile"] {
        let (code, out, _) = home.ask(&[command, "--help"]);
        assert!(code == 0 && out.contains("Exit codes") && out.contains("125  "), "{out}");
        assert!(home.ask(&[command, "--version"]).1.starts_with("pidward "));
    }
}

#[test]
fn whoever_is_below_a_run_has_a_registry_of_its_own() {
    let guard = NoLeftovers::new();
    let home = Home::new(&guard);
    let place = home.path("r");
    let script = "echo ${PIDWARD_REGISTRY-none}";
    for (options, said) in [(&[][..], "none\n"), (&["--env", "PIDWARD_REGISTRY=theirs"], "theirs\n")] {
        let mut cmd = home.command(&["run"]);
        cmd.args(options).args(["--", "sh", "-c", script]).env("PIDWARD_REGISTRY", &place);
        let output = cmd.output().expect("pidward");
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(0), said.as_bytes()),
            "{output:?}"
        );
    }
}
