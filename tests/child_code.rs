//! The child's path between clone and exec holds no call into a library, whatever a host program turns on for the
//! whole build: its code is read back from the linked program.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use pidward_tests::{leftovers::NoLeftovers, skip};

/// Built by itself, optimised, with a C library below rustix.
fn build(guard: &NoLeftovers) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("child-code");
    let status = guard
        .command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustc", "--release", "--offline", "--quiet", "-p", "pidward-tests", "--bin", "spawnone"])
        .args(["--features", "unified", "--target-dir"])
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo");
    assert!(status.success(), "the program does not build");
    target.join("release/spawnone")
}

/// Each function's calls: instructions that leave it for another function, or for an address in a register or in memory.
fn calls(listing: &str) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let (mut name, mut before) = (String::new(), "");
    for line in listing.lines() {
        if let Some(head) = line.strip_suffix(">:").and_then(|l| Some(l.split_once('<')?.1)) {
            name = head.to_string();
            all.insert(name.clone(), Vec::new());
            continue;
        }
        let Some((_, code)) = line.split_once('\t') else { continue };
        // A `match` is a table of distances from itself: one is loaded and added right before the jump.
        let is_table = code.starts_with("jmp ") && before.starts_with("add ");
        before = code;
        if is_table && code.contains("*%") {
            continue;
        }
        let mut words = code.split_whitespace();
        let leaves = words.by_ref().find(|w| !w.is_empty()).is_some_and(|op| {
            op.starts_with("call")
                || op.starts_with('j')
                || op == "bl"
                || op == "b"
                || op == "br"
                || op == "blr"
        });
        let to = code.split_once('<').map(|(_, to)| to.trim_end_matches('>').to_string());
        let goal = match to {
            // Inside the same function.
            Some(to) if to.split('+').next() == Some(&name) => continue,
            Some(to) => to,
            None if code.contains('*') => format!("somewhere: {}", code.trim()),
            None => continue,
        };
        if leaves && let Some(list) = all.get_mut(&name) {
            list.push(goal);
        }
    }
    all
}

#[test]
fn the_childs_code_calls_no_library() {
    if !cfg!(target_arch = "x86_64") {
        skip!("needs-isa: a listing that is read here");
    }
    if Command::new("objdump").arg("--version").output().is_err() {
        skip!("needs-objdump: reads the code of a program");
    }
    let guard = NoLeftovers::new();
    let program = build(&guard);
    let output = guard
        .command("objdump")
        .args(["-d", "--no-show-raw-insn", "--demangle=rust"])
        .arg(&program)
        .output()
        .unwrap();
    let listing = String::from_utf8_lossy(&output.stdout);
    let all = calls(&listing);
    let start = "pidward_core::spawn::child::start";
    let begin = all.keys().find(|n| n.starts_with(start)).expect("the child's first function");
    let (mut open, mut seen) = (vec![begin.clone()], Vec::new());
    // Ends when no function is new.
    while let Some(name) = open.pop() {
        for goal in all.get(&name).unwrap_or_else(|| panic!("no code of {name}")) {
            let ours = [
                "pidward_core::spawn::",
                "pidward_core::sys::",
                "pidward_core::arch::",
                "pidward_core::image::",
            ];
            let is_ours = ours.iter().any(|m| goal.starts_with(m) || goal.starts_with(&format!("<{m}")));
            assert!(is_ours, "{name} leaves for {goal}");
            assert!(!goal.contains("@plt"), "{name} leaves for {goal}");
            if !seen.contains(goal) {
                seen.push(goal.clone());
                open.push(goal.clone());
            }
        }
    }
    let code = listing.split(&format!("<{begin}>:")).nth(1).expect("its code");
    let code = code.split("\n\n").next().unwrap();
    assert!(code.matches("syscall").count() >= 10, "that is not the child's path");
    // The scales move: the parent's side does call.
    assert!(all.values().flatten().any(|to| !to.starts_with("pidward_core")), "no call was seen at all");
}
