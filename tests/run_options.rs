//! `pidward run`: what the program gets, and what is refused in one line.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    os::unix::ffi::OsStrExt,
    process::{Command, Stdio},
};

use pidward_tests::{
    command::{self, code, finish, plain, run},
    files::TempDir,
    fixture,
    leftovers::NoLeftovers,
    need, os,
    report::Report,
};

#[track_caller]
fn report(command: &mut Command) -> Report {
    let output = finish(command);
    assert_eq!(code(&output), 0, "{output:?}");
    Report::parse(&output.stdout)
}

fn reporter() -> [&'static OsStr; 1] {
    [fixture!("report").as_os_str()]
}

#[test]
fn the_program_gets_its_four_markers_and_nothing_else() {
    let guard = NoLeftovers::new();
    let mut command = run(&guard, &["--name", "my name"], &reporter());
    command.env("PIDWARD_TASK", "somebody else").env("PIDWARD_SUBPROCESS", "1");
    command.env("PIDWARD_GRACE", "1s").env("PIDWARD_LOG", "off");
    let report = report(&mut command);
    let ours: Vec<String> = report
        .all("env")
        .iter()
        .map(|entry| String::from_utf8_lossy(entry).into_owned())
        .filter(|entry| entry.starts_with("PIDWARD_"))
        // What the tests themselves are told.
        .filter(|entry| {
            !["PIDWARD_TEST_", "PIDWARD_ROUNDS=", "PIDWARD_SKIP_LOG="]
                .iter()
                .any(|own| entry.starts_with(own))
        })
        .collect();
    let hex = |text: &str| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let has = |test: &dyn Fn(&str) -> bool| ours.iter().filter(|entry| test(entry)).count();
    assert_eq!(has(&|e| e == "PIDWARD_SUBPROCESS=1"), 1, "{ours:?}");
    assert_eq!(has(&|e| e == "PIDWARD_TASK=my name"), 1, "{ours:?}");
    assert_eq!(has(&|e| e.strip_prefix("PIDWARD_NONCE=").is_some_and(hex)), 1, "{ours:?}");
    let tree = |e: &str| {
        e.strip_prefix("PIDWARD_TREE_").and_then(|e| e.split_once('=')).is_some_and(|(n, v)| hex(n) && hex(v))
    };
    assert_eq!(has(&tree), 1, "{ours:?}");
    // The two that the command itself was given are the person's own, and are inherited.
    assert_eq!(ours.len(), 6, "{ours:?}");
    let inherited = report.all("env").len() - ours.len();
    assert!(inherited > 0, "the rest of the environment is inherited");
}

#[test]
fn kind_and_name_choose_the_marker() {
    let guard = NoLeftovers::new();
    let own = reporter()[0].to_str().expect("a path");
    let rows: [(&[&str], &str); 5] = [
        (&["--kind", "agent", "--name", "a"], "AGENT_NAME=a"),
        (&["--kind", "mcp", "--name", "m"], "MCP_SERVICE_ID=m"),
        (&["--kind", "api", "--name", "s"], "PIDWARD_API_SERVER=s"),
        (&["--kind", "task", "--name", "t"], "PIDWARD_TASK=t"),
        (&[], "PIDWARD_TASK=report"),
    ];
    for (options, entry) in rows {
        let report = report(&mut run(&guard, options, &[own]));
        assert!(report.all("env").contains(&entry.as_bytes()), "{entry}");
    }
    let dir = TempDir::new();
    let odd = dir.at(OsStr::from_bytes(b"a=b\xffc\n"));
    fs::copy(reporter()[0], &odd).expect("a copy");
    let report = report(&mut run(&guard, &[], &[odd]));
    assert!(report.all("env").contains(&&b"PIDWARD_TASK=a-b-c-"[..]));
}

#[test]
fn the_environment_is_as_it_was_told() {
    let guard = NoLeftovers::new();
    let value: OsString = OsStr::from_bytes(b"--env=ODD=\xff =x").to_owned();
    let mut command = plain(&guard);
    command
        .args(["run", "--clear-env", "--env", "A=1", "--env", "A=2"])
        .arg(value)
        .arg("--")
        .args(reporter());
    let report = report(&mut command);
    let mut env: Vec<_> = report.all("env").into_iter().filter(|e| !e.starts_with(b"PIDWARD_")).collect();
    env.sort_unstable();
    assert_eq!(env, [&b"A=2"[..], b"ODD=\xff =x"]);
}

#[test]
fn arguments_and_directory_may_hold_any_byte() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let place = dir.at(OsStr::from_bytes(b"with space and \xfe"));
    fs::create_dir(&place).expect("a directory");
    let mut command = plain(&guard);
    command.arg("run").arg("--chdir").arg(&place).arg("--").args(reporter());
    command.arg(OsStr::from_bytes(b"\xff\n")).args(["--name", "--", ""]);
    let report = report(&mut command);
    assert_eq!(report.bytes("cwd"), place.as_os_str().as_bytes());
    let args = report.all("arg");
    assert_eq!(args.get(1..), Some(&[&b"\xff\n"[..], b"--name", b"--", b""][..]));
}

#[test]
fn descriptors_are_three_and_those_passed() {
    let guard = NoLeftovers::new();
    let own = fixture!("report").to_str().expect("a path");
    let line = "exec 5</etc/passwd 7</etc/passwd; exec \"$0\" run --pass-fd 7 --stdin null -- \"$1\"";
    let mut shell = guard.command("sh");
    let report = report(shell.args(["-c", line]).arg(command::path()).arg(own));
    assert_eq!(report.fds(), [0, 1, 2, 7]);
    assert!(report.all("fd").contains(&&b"0 /dev/null"[..]));
    assert!(report.all("fd").contains(&&b"7 /etc/passwd"[..]));
}

#[test]
fn the_program_starts_clean() {
    let guard = NoLeftovers::new();
    let report = report(&mut run(&guard, &["--no-new-privs"], &reporter()));
    for set in ["SigBlk", "SigIgn", "SigPnd", "ShdPnd"] {
        assert_eq!(report.set(set), 0, "{set}");
    }
    assert_eq!(report.text("NoNewPrivs"), "1");
    assert_eq!(report.number("deathsig"), 15);
    assert_eq!(report.number("pid"), report.number("pgrp"));
}

#[test]
fn standard_input_is_inherited_or_nothing() {
    let guard = NoLeftovers::new();
    for (options, expected) in [(&[][..], &b"words"[..]), (&["--stdin", "null"][..], b"")] {
        let mut child = run(&guard, options, &["cat"]).stdin(Stdio::piped()).spawn().expect("pidward");
        // It may be read by nobody.
        let _ = child.stdin.take().expect("a pipe").write_all(b"words");
        assert_eq!(child.wait_with_output().expect("the end").stdout, expected);
    }
}

#[test]
fn a_user_by_name_brings_its_groups() {
    need!(os::is_root(), "needs-root: another user");
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    // A copy that any user may run.
    let place = std::env::temp_dir().join(format!("pidward-report-{}", std::process::id()));
    fs::copy(fixture!("report"), &place).expect("a copy");
    let program = place.to_str().expect("a path").to_owned();
    let by_name = report(&mut run(&guard, &["--user", "nobody", "--chdir", "/"], &[&program]));
    let by_number = report(&mut run(&guard, &["--user", "12", "--group", "34", "--chdir", "/"], &[&program]));
    fs::remove_file(&place).expect("the copy");
    drop(dir);
    let passwd = fs::read_to_string("/etc/passwd").expect("the users");
    let nobody = passwd.lines().find_map(|line| line.strip_prefix("nobody:")).expect("nobody");
    let ids: Vec<&str> = nobody.split(':').skip(1).take(2).collect();
    let (uid, gid) = (ids[0], ids[1]);
    assert_eq!(by_name.text("Uid"), [uid; 4].join("\t"));
    assert_eq!(by_name.text("Gid"), [gid; 4].join("\t"));
    assert!(by_name.text("Groups").split_whitespace().any(|g| g == gid));
    assert_eq!((by_number.text("Uid"), by_number.text("Gid")), ("12\t12\t12\t12", "34\t34\t34\t34"));
}

#[test]
fn bad_input_is_one_line_that_names_the_argument() {
    let guard = NoLeftovers::new();
    let rows: [(&[&str], i32, &[&str]); 25] = [
        (&["run"], 125, &["program", "--"]),
        (&["run", "--"], 125, &["program"]),
        (&["run", "true"], 125, &["'true'", "'--'"]),
        (&["run", "--grace", "5", "--", "true"], 125, &["'5'", "--grace", "250ms"]),
        (&["run", "--grace", "-1s", "--", "true"], 125, &["-1"]),
        (&["run", "--grace", "99999999999999999999h", "--", "true"], 125, &["--grace", "fit"]),
        (&["run", "--grace"], 125, &["--grace", "expected"]),
        (&["run", "--timeout", "x\ny", "--", "true"], 125, &["--timeout", "x\\ny"]),
        (&["run", "--kind", "Task", "--", "true"], 125, &["'Task'", "--kind", "agent, mcp, api or task"]),
        (&["run", "--name", "a/b", "--", "true"], 125, &["'a/b'", "--name", "128 bytes"]),
        (&["run", "--name", "a", "--name", "b", "--", "true"], 125, &["--name", "twice"]),
        (&["run", "--stdin", "file", "--", "true"], 125, &["--stdin", "inherit or null"]),
        (&["run", "--pass-fd", "2", "--", "true"], 125, &["'2'", "--pass-fd", "3 or higher"]),
        (&["run", "--pass-fd", "999", "--", "true"], 125, &["'999'", "--pass-fd", "open descriptor"]),
        (&["run", "--user", "no-such-user", "--", "true"], 125, &["--user", "/etc/passwd"]),
        (&["run", "--user", "4294967295", "--", "true"], 125, &["--user", "user id"]),
        (&["run", "--group", "no-such-group", "--", "true"], 125, &["--group", "/etc/group"]),
        (&["run", "--env", "secret", "--", "true"], 125, &["--env", "NAME=VALUE"]),
        (&["run", "--chdir", "/no/such", "--", "true"], 125, &["/no/such", "working directory"]),
        (&["run", "--log", "loud", "--", "true"], 125, &["--log", "debug"]),
        (&["run", "--nmae", "x", "--", "true"], 125, &["--nmae", "--name"]),
        (&["run", "--outer", "999999999", "--", "true"], 125, &["--outer", "pidward itself"]),
        (&["doctor", "--jsno"], 2, &["--jsno", "--json"]),
        (&["docter"], 2, &["docter", "doctor"]),
        (&[], 2, &["run", "doctor"]),
    ];
    for (args, expected, words) in rows {
        let output = finish(plain(&guard).args(args));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(&output), expected, "{args:?}: {text}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(
            text.starts_with("pidward: ") && text.ends_with('\n') && text.lines().count() == 1,
            "{args:?}: {text}"
        );
        assert!(words.iter().all(|word| text.contains(word)), "{args:?}: {text}");
        assert!(!text.contains("secret"), "a value is not repeated: {text}");
    }
}

#[test]
fn a_variable_counts_where_the_flag_is_missing() {
    let guard = NoLeftovers::new();
    let rows: [(&str, &[&str], i32, &str); 4] = [
        ("PIDWARD_GRACE", &[], 125, "PIDWARD_GRACE"),
        ("PIDWARD_GRACE", &["--grace", "1s"], 0, ""),
        ("PIDWARD_LOG", &[], 125, "PIDWARD_LOG"),
        ("PIDWARD_LOG", &["--log", "off"], 0, ""),
    ];
    for (variable, options, expected, words) in rows {
        let output = finish(run(&guard, options, &["true"]).env(variable, "nonsense"));
        assert_eq!(code(&output), expected);
        assert!(String::from_utf8_lossy(&output.stderr).contains(words));
    }
}

#[test]
fn help_and_version_of_each_command() {
    let guard = NoLeftovers::new();
    for command in [&[][..], &["run"], &["doctor"]] {
        for flag in ["--help", "-h", "--version"] {
            let output = finish(plain(&guard).args(command).arg(flag));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(code(&output), 0, "{command:?} {flag}");
            assert!(output.stderr.is_empty());
            if flag == "--version" {
                assert!(text.starts_with("pidward ") && text.lines().count() == 1, "{text}");
            } else {
                assert!(text.contains("Usage: pidward") && text.contains("Exit codes:"), "{text}");
            }
        }
    }
}

#[test]
fn a_number_that_nobody_opened_is_not_passed_though_pidward_uses_it() {
    let guard = NoLeftovers::new();
    for number in 3..9_i32 {
        let mut cmd = run(&guard, &["--pass-fd", &number.to_string()], &["true"]);
        pidward_tests::launch::closing(&mut cmd, &[3, 4, 5, 6, 7, 8]);
        let output = finish(&mut cmd);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), 125, "{number}: {text}");
        assert!(text.starts_with("pidward: invalid value") && text.lines().count() == 1, "{text}");
    }
}
