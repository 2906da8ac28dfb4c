//! A fuzz target without an oracle finds crashes only, and a target that is not listed never runs.

use super::{Files, mask};

/// The parsers and rules that are never without a target.
const WANTED: [&str; 17] = [
    "stat",
    "status",
    "environ",
    "marker",
    "fdinfo",
    "identity_line",
    "signalable_pid",
    "plan_pack",
    "path_search",
    "duration",
    "service_name",
    "cgroup_line",
    "mountinfo",
    "cgroup_events",
    "net_tcp",
    "record",
    "message",
];

/// Each target of `fuzz/Cargo.toml` is there, asserts something and has a first corpus; each file is listed.
pub fn fuzz_targets(files: &Files) -> Vec<String> {
    targets_hold(files, &WANTED)
}

pub(super) fn targets_hold(files: &Files, wanted: &[&str]) -> Vec<String> {
    let listed = files.text("fuzz/Cargo.toml").map(targets).unwrap_or_default();
    let missing = wanted.iter().filter(|w| !listed.iter().any(|l| l == *w));
    let mut faults: Vec<String> = missing.map(|w| format!("fuzz/Cargo.toml has no target {w}")).collect();
    for name in &listed {
        let path = format!("fuzz/fuzz_targets/{name}.rs");
        match files.text(&path) {
            None => faults.push(format!("{path} is not there")),
            Some(text) if !mask(text).contains("assert") => faults.push(format!("{path} asserts nothing")),
            Some(_) => {}
        }
        let corpus = format!("fuzz/corpus/{name}/");
        if !files.all().any(|(path, _)| path.starts_with(&corpus)) {
            faults.push(format!("{corpus} is empty"));
        }
    }
    for (path, text) in files.rust("fuzz/fuzz_targets/").filter(|(_, text)| text.contains("fuzz_target!")) {
        let name = path.trim_start_matches("fuzz/fuzz_targets/").trim_end_matches(".rs");
        if !listed.iter().any(|l| l == name) && !text.is_empty() {
            faults.push(format!("{path} is not listed in fuzz/Cargo.toml"));
        }
    }
    faults
}

/// The names in the `[[bin]]` tables.
fn targets(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut list = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[[bin]]";
        }
        let name = line.strip_prefix("name").and_then(|r| r.trim_start().strip_prefix('='));
        list.extend(name.filter(|_| inside).map(|n| n.trim().trim_matches('"').to_string()));
    }
    list
}
