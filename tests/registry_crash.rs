//! The supervisor is killed at every system call between the intent and the record of who it is, and between the beginning of a stop and
//! the removal of the record; there is no guard. The next one finds everybody, stops them, and touches nobody else.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use pidward::{
    Registry,
    registry::{Action, Policy},
};
use pidward_tests::{
    announce::Board, files::TempDir, fixture, in_child, leftovers::NoLeftovers, need, os, proc,
    records::records, rounds::rounds, skip,
};

const GRACE: Duration = Duration::from_millis(100);
const KINDS: [&str; 3] = ["child", "daemon", "deaf"];

fn has_strace() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// One life of a supervisor that is killed at this call of its first thread, or lives until `word` is on its board; and what the next one
/// makes of it. The log of its calls.
fn run(what: &str, word: &str, inject: Option<usize>) -> String {
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let (place, log, board) = (dir.at("r"), dir.at("log"), Board::at(dir.at("board")));
    // A stranger that looks like one of ours, but for the installation.
    let heard = dir.at("heard");
    let mut stranger = guard.command(fixture!("trapall"));
    let ids = ["e".repeat(32), "f".repeat(32)];
    let entry = format!("PIDWARD_TREE_{}", ids[0]);
    stranger
        .env(entry, &ids[1])
        .env("PIDWARD_NONCE", &ids[1])
        .env("PIDWARD_SUBPROCESS", "1")
        .env("AGENT_NAME", "one");
    let mut stranger = stranger.arg(&heard).spawn().expect("a stranger");
    let ready = format!("ready {}\n", stranger.id());
    proc::eventually("the stranger", || fs::read_to_string(&heard).is_ok_and(|text| text == ready));

    let mut cmd = guard.command("strace");
    cmd.args(["-qq", "-o"]).arg(&log);
    if let Some(call) = inject {
        cmd.arg("-e").arg(format!("inject=all:signal=SIGKILL:when={call}"));
    }
    cmd.arg(fixture!("recorded")).arg(&place).arg(board.path()).arg(what).args(KINDS);
    let mut strace = cmd.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("strace");
    let stands = || board.lines().iter().any(|line| line.starts_with(word));
    proc::eventually("its end", || stands() || strace.try_wait().expect("ours").is_some());
    if stands() {
        // Gone meanwhile, if it was killed at its very last call.
        let _ = os::signal_pid(board.wait_for_pid("owner"), libc::SIGKILL);
    }
    proc::eventually("strace has ended", || strace.try_wait().expect("ours").is_some());

    let strangers = [stranger.id()];
    let found = guard.left() != strangers;
    let registry = Registry::open(&place).expect("its owner has ended");
    let report = registry.reconcile(GRACE, |_| Policy::Stop).expect("a directory that can be read");
    let done = |action: &Action| matches!(action, Action::Stopped(_) | Action::Cleared(_));
    assert!(
        !report.has_survivors()
            && report.odd.is_empty()
            && report.children.iter().all(|child| done(&child.action)),
        "{what}, call {inject:?}: {report:?}"
    );
    // By its record, not by what the sweep finds after that.
    assert!(
        !found || report.children.len() == 1 && report.strays_stopped == 0,
        "call {inject:?}: {report:?}"
    );
    proc::eventually(&format!("nobody is left, {what}, call {inject:?}"), || guard.left() == strangers);
    assert_eq!(records(&place), []);
    drop(registry);
    assert!(!Path::new(&place).exists(), "an empty registry is removed");
    assert_eq!(fs::read_to_string(&heard).expect("its log"), ready, "a stranger was signalled");
    stranger.kill().expect("it lives");
    stranger.wait().expect("ours");
    os::reap_orphans();
    fs::read_to_string(log).expect("its log")
}

fn at_each_call(what: &str, from: (&str, usize), to: (&str, usize), word: &str) {
    let log = run(what, word, None);
    let at = |(word, nth): (&str, usize)| {
        let found = log.lines().enumerate().filter(|(_, line)| line.contains(word)).nth(nth);
        found.map_or_else(|| panic!("{word:?} in {log}"), |(at, _)| at + 1)
    };
    let (first, last) = (at(from), at(to));
    println!("{what}: {} system calls", last - first);
    assert!(last > first + 5, "{log}");
    for call in (first..=last + 1).step_by(rounds((last - first).div_ceil(12), 1)) {
        run(what, word, Some(call));
    }
}

#[test]
fn between_intent_and_record() {
    need!(has_strace(), "needs-strace: kills at one system call");
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(1500)));
    at_each_call("wait", (".record.tmp", 0), ("\"supervisor ", 0), "supervisor ");
}

#[test]
fn between_stopping_and_removed() {
    need!(has_strace(), "needs-strace: kills at one system call");
    need!(skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(3000)));
    // The second record is that of who it is, the third says that the stop has begun.
    at_each_call("stop", (".record.tmp", 4), ("\"stopped ", 0), "stopped ");
}
