//! `pidward verify`: verdicts, codes, and one line for whatever cannot be meant.

use std::process::Output;

use pidward::{Command, Spawner, Stdio};
use pidward_tests::{
    command::{child_of, finish, plain, run, signal},
    leftovers::NoLeftovers,
    proc,
};

fn verify(guard: &NoLeftovers, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = finish(plain(guard).arg("verify").args(args));
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("no signal"), text(stdout), text(stderr))
}

#[test]
fn a_running_program_is_known_by_its_name_and_kind() {
    let guard = NoLeftovers::new();
    let options = ["--name", "kept", "--kind", "mcp"];
    let mut supervisor = run(&guard, &options, &["sleep", "1000"]).spawn().expect("pidward");
    let child = child_of(supervisor.id());
    proc::eventually("exec", || proc::cmdline(child).starts_with("sleep"));
    let pid = child.to_string();
    let ask = |args: &[&str]| verify(&guard, &[&[pid.as_str()], args].concat());
    assert_eq!(ask(&options), (0, format!("{pid} same\n"), String::new()));
    let json = format!(
        "{{\"v\":1,\"pid\":{pid},\"name\":\"kept\",\"kind\":\"mcp\",\"verdict\":\"same\",\"reason\":\"\",\"why\":\"\"}}\n"
    );
    assert_eq!(ask(&["--json", "--name=kept", "--kind=mcp"]), (0, json, String::new()));
    for args in
        [&["--name", "kept"][..], &["--name", "kep", "--kind", "mcp"], &["--name", "kept", "--kind", "agent"]]
    {
        let (code, out, err) = ask(args);
        assert_eq!((code, err.as_str()), (5, ""), "{args:?}");
        assert!(out.starts_with(&format!("{pid} unknown: ")) && out.lines().count() == 1, "{out}");
    }
    signal(supervisor.id(), libc::SIGTERM);
    supervisor.wait().expect("its end");
    let (code, out, _) = ask(&options);
    assert_eq!((code, out.starts_with(&format!("{pid} gone: "))), (1, true), "{out}");
    let (code, out, _) = ask(&["--json", "--name", "kept"]);
    assert!(code == 1 && out.contains("\"verdict\":\"gone\""), "{out}");
}

#[test]
fn an_identity_is_known_whatever_the_process_shows() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let mut command = Command::new("cat");
    command.env(guard.token().0, guard.token().1).stdin(Stdio::piped());
    let mut child = spawner.spawn(&command).expect("a child");
    let (pid, line) = (child.id().to_string(), child.identity().expect("an identity").to_string());
    assert_eq!(verify(&guard, &[&pid, "--identity", &line]), (0, format!("{pid} same\n"), String::new()));
    let (code, out, _) = verify(&guard, &[&pid, "--json", "--identity", &line]);
    let json = format!("{{\"v\":1,\"pid\":{pid},\"verdict\":\"same\",\"reason\":\"\",\"why\":\"\"}}\n");
    assert_eq!((code, out), (0, json));
    drop(child.stdin.take());
    child.wait().expect("its end");
    let (code, out, _) = verify(&guard, &[&pid, "--identity", &line]);
    assert_eq!((code, out.contains(" gone: ")), (1, true), "{out}");
}

#[test]
fn an_identity_that_cannot_be_meant_is_one_clear_line() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let mut command = Command::new("cat");
    command.env(guard.token().0, guard.token().1).stdin(Stdio::piped());
    let mut child = spawner.spawn(&command).expect("a child");
    let (pid, line) = (child.id().to_string(), child.identity().expect("an identity").to_string());
    let (torn, changed) = (&line[..line.len() - 3], line.replacen("ticks=", "ticks=1", 1));
    let (long, newer) = (format!("{line}{}", "x".repeat(300)), line.replacen("v=1", "v=7", 1));
    for (bad, word) in [
        ("", "is cut"),
        ("hello", "pidward-identity v=1"),
        (torn, "is cut"),
        (&changed, "is cut, or was changed"),
        (&long, "longer"),
        (&newer, "later version"),
    ] {
        let (code, out, err) = verify(&guard, &[&pid, "--identity", bad]);
        assert_eq!((code, out.as_str()), (2, ""), "{bad:?}");
        assert!(err.starts_with("pidward: invalid value for --identity: ") && err.contains(word), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let (code, _, err) = verify(&guard, &["1", "--identity", &line]);
    assert!(code == 2 && err.contains(&pid), "{err}");
    // Of another boot: a line that is whole, and void.
    let known = pidward_core::identity::Identity::parse(line.as_bytes()).expect("what was made is taken");
    let boot = pidward_core::Id128::from_bytes([7; 16]);
    let other = pidward_core::identity::Identity { boot, ..known }.to_string();
    let (code, out, err) = verify(&guard, &[&pid, "--json", "--identity", &other]);
    assert!(
        code == 1 && out.contains("\"verdict\":\"not-ours\",\"reason\":\"other-boot\"") && err.is_empty(),
        "{out}"
    );
    assert!(child.stop(std::time::Duration::from_secs(5)).is_complete());
}

#[test]
fn bad_input_is_one_line_and_code_2() {
    let guard = NoLeftovers::new();
    let own = std::process::id().to_string();
    for (args, word) in [
        (&[][..], "PID"),
        (&["4711"], "--name NAME or --identity LINE"),
        (&["0", "--name", "a"], "from 1 to 2147483647"),
        (&["-1", "--name", "a"], "'-1' for PID"),
        (&["+1", "--name", "a"], "'+1' for PID"),
        (&["2147483648", "--name", "a"], "from 1 to 2147483647"),
        (&["4294967295", "--name", "a"], "from 1 to 2147483647"),
        (&["99999999999999999999", "--name", "a"], "from 1 to 2147483647"),
        (&["1e3", "--name", "a"], "'1e3' for PID"),
        (&["", "--name", "a"], "'' for PID"),
        (&["1", "2", "--name", "a"], "'2'"),
        (&["1", "--name", "a/b"], "'a/b' for --name"),
        (&["1", "--name", ""], "'' for --name"),
        (&["1", "--name", "a", "--kind", "task "], "agent, mcp, api or task"),
        (&["1", "--kind", "mcp"], "--name"),
        (&["1", "--name", "a", "--identity", "b"], "'--identity'"),
        (&["1", "--name", "a", "--name", "b"], "'--name'"),
        (&["1", "--name", "a", "--jsn"], "'--json'?"),
        (&["1", "--name", "a", "--log", "loud"], "'loud' for --log"),
    ] {
        let (code, out, err) = verify(&guard, args);
        assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{args:?}: {err}");
        assert!(err.starts_with("pidward: ") && err.contains(word), "{args:?}: {err}");
    }
    // Not bad input: a process that is nobody's child.
    let (code, out, _) = verify(&guard, &["1", "--name", "a"]);
    assert_eq!((code, out.starts_with("1 not-ours: ")), (1, true), "{out}");
    let (code, _, _) = verify(&guard, &[&own, "--name", "a"]);
    assert_eq!(code, 5, "this test carries no name");
    let (code, out, _) = verify(&guard, &["--help"]);
    assert!(code == 0 && out.contains("Exit codes:") && out.contains("5    unknown"), "{out}");
    let output = finish(plain(&guard).args(["verfy", "1"]));
    assert!(
        output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("'verify'?"),
        "{output:?}"
    );
}
