//! Each example runs to its end, and says what it is an example of.

use std::process::{Output, Stdio};

use pidward_tests::{command, in_child, leftovers::NoLeftovers};

/// Runs an example, and gives its output line by line.
#[track_caller]
fn run(name: &str, args: &[&str], code: i32) -> (Vec<String>, Output) {
    let guard = NoLeftovers::alone();
    let mut cmd = guard.command(command::example(name));
    let output = command::finish(cmd.args(args).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(guard.left().is_empty(), "{output:?}");
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    (lines, output)
}

#[test]
fn spawn_gives_the_status_of_its_child() {
    in_child!();
    let (_, output) = run("spawn", &["sh", "-c", "exit 7"], 7);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("pid ") && said.contains("\nexit status: 7, "), "{said}");
}

#[test]
fn stop_needs_no_more_than_sigterm() {
    in_child!();
    let (lines, _) = run("stop", &["sleep", "600"], 0);
    assert!(lines[0].contains("rung: Some(Term)") && lines[0].contains("survivors: []"), "{lines:?}");
}

#[test]
fn events_shows_a_line_and_the_exit() {
    in_child!();
    let (lines, _) = run("events", &["cat"], 0);
    assert!(lines[0].starts_with("1: {") && lines[0].contains("ping"), "{lines:?}");
    assert_eq!(lines[1..], ["1: Closed", "1: Some(ExitStatus(unix_wait_status(0)))"]);
}

#[test]
fn registry_finds_what_the_first_supervisor_has_left() {
    in_child!();
    let (lines, _) = run("registry", &[], 0);
    assert!(lines.contains(&"the first supervisor: signal: 6 (SIGABRT)".to_string()), "{lines:?}");
    let survivor = "survivor: Same: stopped, Some(Term) was needed";
    assert!(lines.contains(&survivor.to_string()), "{lines:?}");
    assert_eq!(lines.last().expect("a line"), "2 records, and nobody is left");
}

/// Three deep; the results come up, a cancel goes down, and the lowest does not outlive the one above it.
#[test]
fn agent_tree_works_is_cancelled_and_goes_down_with_its_middle() {
    in_child!();
    let (lines, _) = run("agent_tree", &[], 0);
    let of = |tree: &str| -> Vec<&str> {
        let lines = lines.iter().filter_map(|line| line.strip_prefix(tree)?.strip_prefix(": "));
        lines.map(|line| line.split_once(" is pid").map_or(line, |(depth, _)| depth)).collect()
    };
    let passed =
        |done: &str| format!(r#"result ["depth 1 passes on",["depth 2 passes on","depth 3 {done}"]]"#);
    let up = ["depth 1", "depth 2", "depth 3"];
    let end = "nobody is left of 3";
    for (tree, outcome) in [
        ("results", passed("has done: the task")),
        ("cancel", passed("was cancelled: enough")),
        ("crash", "failed: depth 2 has ended: signal: 9 (SIGKILL)".to_string()),
    ] {
        assert_eq!(of(tree), [&up[..], &[&outcome, end]].concat(), "{lines:?}");
    }
}

/// A server of a few lines, so that nothing has to be installed: prints before it speaks, asks something itself, gives its tools in two
/// pages, and stays when its input has ended.
const SERVER: &str = r#"
echo 'Loading model…'; printf '\033]0;title\007{"almost": "json\n'; echo progress >&2
read greeting
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"small"}}}'
read word; read question
case $word in *notifications/initialized*) ;; *) exit 9;; esac
echo '{"jsonrpc":"2.0","id":"a","method":"roots/list"}'; read refusal
case $refusal in *-32601*) ;; *) exit 8;; esac
echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"one"}],"nextCursor":"more"}}'
read question
echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"two"}]}}'
exec sleep 600"#;

#[test]
fn mcp_host_shows_tools_and_stray_lines_and_stops_whoever_stays() {
    in_child!();
    let (lines, _) = run("mcp_host", &["--", "sh", "-c", SERVER], 0);
    let mut wanted = vec![
        r"1: no message: Loading model\xe2\x80\xa6",
        r#"1: no message: \x1b]0;title\x07{\"almost\": \"json"#,
        "1: stderr: progress",
        "1: Ready",
        "1: server small, protocol 2025-06-18",
        "1: tools: one two",
        "1: Closed",
        "1: ended: signal: 15 (SIGTERM), cause Stopped, rung Some(Term)",
        "all have ended",
    ];
    // Which of two pipes is read first is chance.
    let mut lines = lines[1..].to_vec();
    assert_eq!(lines.last().map(String::as_str), Some("all have ended"), "{lines:?}");
    lines.sort();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
}

#[test]
fn mcp_host_says_of_a_server_that_fails_to_start_that_it_does() {
    in_child!();
    let (lines, _) = run("mcp_host", &["--", "sh", "-c", "echo no module >&2; exit 3"], 1);
    let failed = ["1: stderr: no module", "1: it ended before it was ready"];
    assert!(failed.iter().all(|line| lines.iter().any(|said| said == line)), "{lines:?}");
    let ended = "1: ended: exit status: 3, cause Itself, rung None";
    assert_eq!(lines[lines.len() - 2..], [ended, "all have ended"]);
}
