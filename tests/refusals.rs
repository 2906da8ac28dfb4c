//! Every system call of the core, refused in turn with ENOSYS, EPERM and EINVAL: what `core/docs/syscalls.md` says of it is what happens,
//! and nothing hangs or leaves anybody behind.

use std::{fs, time::Duration};

use pidward_tests::{
    corelife::{Stage, Told},
    fixture, in_child,
    leftovers::NoLeftovers,
    need, skip,
    tidy::{self, Page},
};

const ANSWERS: [(&str, i32); 3] =
    [("ENOSYS", libc::ENOSYS), ("EPERM", libc::EPERM), ("EINVAL", libc::EINVAL)];

fn life(stage: &Stage, how: &[&str]) -> Result<Told, String> {
    let (child, story) = stage.start(fixture!("corelife"), how);
    stage.finish(child, &story)
}

/// What a cell says, without the parts that cannot be tried here.
fn possible(cell: &str, usual: &Told) -> String {
    let part =
        |word: &&str| word.split_once(": ").is_none_or(|(part, _)| usual.has(part) || part == "signal");
    let parts: Vec<&str> = cell.split("; ").filter(part).collect();
    if parts.is_empty() { "same".to_string() } else { parts.join("; ") }
}

/// What may never be, whatever a cell says.
fn is_plain(told: &Told) -> bool {
    let sure =
        |part: &str| told.of(part).is_none_or(|verdict| verdict == "Same" || verdict.starts_with("Unknown("));
    told.of("spawn") == Some("ok")
        && told.of("wait") == Some("exited 7")
        && told.of("stop") == Some("signal 15")
        && ["verify", "verify by nonce", "verify by name"].into_iter().all(sure)
}

#[test]
fn a_refused_call_does_what_its_cell_says() {
    need!(skip::has_pid_namespace(), "needs-namespaces: whoever is left ends with it");
    need!(skip::has_first_choices(), "needs-kernel-6.15: cells say what differs from it");
    need!(Stage::new().is_some(), "needs-isa: machine code");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(900)));
    let _guard = NoLeftovers::alone();
    let stage = Stage::new().expect("as above");
    let text = fs::read_to_string(tidy::root().join("core/docs/syscalls.md")).expect("the page");
    let page = Page::parse(&text);
    assert!(page.cells.len() > 40, "{:?}", page.cells.keys());
    let usual = life(&stage, &["all"]).expect("a life");
    assert!(is_plain(&usual) && usual.of("write to a closed pipe") == Some("ok"), "{usual:#?}");
    let mut faults = Vec::new();
    for (call, cells) in &page.cells {
        let mut found = Vec::new();
        for ((name, errno), cell) in ANSWERS.into_iter().zip(cells) {
            match life(&stage, &["refuse", call, &errno.to_string()]) {
                Ok(told) => {
                    let beside = told.beside(&usual).replace(name, "E");
                    if beside != possible(cell, &usual) {
                        faults.push(format!("{call}, {name}: the page says: {cell}"));
                    }
                    if page.fatal.contains_key(call) == is_plain(&told) {
                        faults.push(format!("{call}, {name}: fatal, or not, against the page: {told:?}"));
                    }
                    found.push(beside);
                }
                Err(fault) => found.push(fault),
            }
        }
        if found.iter().zip(cells).any(|(found, cell)| *found != possible(cell, &usual)) {
            faults.push(format!("| `{call}` | {} |", found.join(" | ")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Calls that stand in for each other, or together keep a promise.
const PAIRS: [(&[&str], &str); 3] = [
    (&["clone", "clone3"], "refused at `clone`: E"),
    // A handler that the clone has left would run in the supervisor's memory.
    (&["clone3", "rt_sigaction"], "refused at `reset signals`: E"),
    // A new child ends by a trap.
    (&["exit", "exit_group"], "ok"),
];

#[test]
fn a_refused_pair_is_an_error_or_a_child_and_an_end() {
    need!(skip::has_pid_namespace(), "needs-namespaces: whoever is left ends with it");
    need!(skip::has_first_choices(), "needs-kernel-6.15: clone3 is the way");
    need!(Stage::new().is_some(), "needs-isa: machine code");
    in_child!(|again| again.in_pid_namespace());
    let _guard = NoLeftovers::alone();
    let stage = Stage::new().expect("as above");
    for (calls, wanted) in PAIRS {
        for (name, errno) in ANSWERS {
            let errno = errno.to_string();
            let refused = calls.iter().flat_map(|call| [*call, errno.as_str()]);
            let how: Vec<&str> = ["refuse"].into_iter().chain(refused).collect();
            let told = life(&stage, &how).expect("an end");
            assert_eq!(told.of("spawn"), Some(wanted.replace('E', name).as_str()), "{calls:?}: {told:?}");
            assert_eq!(told.of("end"), Some("reached"), "{calls:?}: {told:?}");
        }
    }
}
