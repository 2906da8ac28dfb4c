//! Whoever looks after what a dead supervisor has left may be in its tree: that tree is left alone.

use std::{fs, path::PathBuf};

use pidward::{
    Command, Registry, ServiceName, Spawner,
    registry::{Action, Policy},
};
use pidward_tests::{
    command,
    files::TempDir,
    in_child,
    leftovers::NoLeftovers,
    os, proc,
    records::{has_line, reconcile, records},
    skip,
};

#[test]
fn who_reconciles_from_below_a_child_leaves_that_childs_tree_alone() {
    in_child!();
    let guard = NoLeftovers::alone();
    // A child that outlives its supervisor and then looks after what that has left: as it is, below it where it has no environ, and below it when it has ended; and from
    // below a supervisor below that one, whose shell no record of ours knows.
    let nested = "trap '' TERM; \"$PIDWARD\" run --cgroup off -- \
                  sh -c '\"$0\" \"$@\"; echo after >>\"$PIDWARD_TEST_PLACE.after\"' \"$0\" \"$@\"";
    let rows = [
        (nested, "running"),
        ("exec \"$0\" \"$@\"", "running"),
        (
            "exec env -i PIDWARD_TEST_PLACE=\"$PIDWARD_TEST_PLACE\" sh -c '\"$0\" \"$@\"; exit' \"$0\" \"$@\"",
            "running",
        ),
        ("\"$0\" \"$@\" & exit 0", "ended"),
    ];
    for (at, (script, state)) in rows.into_iter().enumerate() {
        if at == 2 && !skip::has_first_choices() {
            // Nothing tells there that it is the same.
            continue;
        }
        let dir = TempDir::new();
        let place = dir.at("r");
        let mut cmd = guard.command(std::env::current_exe().expect("its path"));
        cmd.args(["--exact", "supervisor_of_one_that_reconciles", "--nocapture"]);
        cmd.env("PIDWARD", command::path()).env("XDG_RUNTIME_DIR", dir.at(""));
        let mut supervisor = cmd.env(PLACE, &place).env(SCRIPT, script).spawn().expect("a supervisor");
        let state = format!("state={state}");
        proc::eventually("its record", || records(&place).iter().any(|(_, text)| has_line(text, &state)));
        proc::eventually("whoever will ask is there", || dir.at("r.up").exists());
        supervisor.kill().expect("it lives");
        supervisor.wait().expect("ours");
        let said = || fs::read_to_string(dir.at("r.said")).unwrap_or_default();
        fs::write(dir.at("r.go"), "").expect("a word");
        proc::eventually(&format!("it went on: {script}"), || said().ends_with("went on\n"));
        assert_eq!(said(), "kept NotOurs(Us)\nwent on\n", "{script}");
        assert_eq!(records(&place).len(), 1);
        if at == 0 {
            proc::eventually("its shell goes on", || dir.at("r.after").exists());
        }
        proc::eventually("its end", || guard.left().is_empty());
        os::reap_orphans();
    }
}

/// Not a test of its own: the supervisor of the test above.
#[test]
fn supervisor_of_one_that_reconciles() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let builder = Spawner::builder().guard(false).registry(Registry::open(&place).expect("a registry"));
    let spawner = builder.build().expect("a spawner");
    let mut cmd = Command::new("/bin/sh");
    cmd.arg("-c").arg(std::env::var_os(SCRIPT).expect("set"));
    cmd.arg(std::env::current_exe().expect("its path"));
    cmd.args(["--exact", "reconciles_when_its_supervisor_has_ended"]).env(PLACE, place);
    let nested = std::env::var(SCRIPT).is_ok_and(|script| script.contains("$PIDWARD\""));
    cmd.survives_supervisor(!nested).service(&"one".parse::<ServiceName>().expect("a name"));
    let _child = spawner.spawn(&cmd).expect("a child");
    os::sleep_for_ever();
}

const PLACE: &str = "PIDWARD_TEST_PLACE";
const SCRIPT: &str = "PIDWARD_TEST_SCRIPT";

/// Not a test of its own: the child of the test above.
#[test]
fn reconciles_when_its_supervisor_has_ended() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    fs::write(place.with_extension("up"), "").expect("a file");
    proc::eventually("the word", || place.with_extension("go").exists());
    let registry = Registry::open(&place).expect("its owner has ended");
    let report = reconcile(&registry, Policy::Stop);
    let mut said = String::new();
    for child in &report.children {
        let word = if matches!(child.action, Action::Kept) { "kept" } else { "touched" };
        said.push_str(&format!("{word} {:?}\n", child.verdict));
    }
    fs::write(place.with_extension("said"), said + "went on\n").expect("a file");
}
