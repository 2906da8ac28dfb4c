//! The list of `core/docs/syscalls.md`, taken as it is for a filter: the core lives its whole life under it, and needs each call of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use pidward_tests::{
    calls,
    corelife::{Stage, Told},
    fixture, in_child,
    leftovers::NoLeftovers,
    need,
    notices::Notices,
    proc, skip, story, tidy,
};

/// What the fixture calls beside the core, and why.
const BESIDE: &[(&str, &str)] = &[
    ("brk", "memory for words and lists, from the C library's allocator"),
    ("clock_nanosleep", "pauses between two looks at a child"),
    ("mremap", "longer lists, from the same"),
    ("pause", "what the children of the fixture do"),
    ("readlink", "where the standard output of a child goes"),
    ("sigaltstack", "the standard library takes its stack away at the end of main"),
];

/// A life in which these calls are refused, the list passes and nothing else does; and which calls were made, by how many processes.
fn life(stage: &Stage, list: &BTreeSet<&str>, refused: &[&str]) -> (Told, BTreeMap<String, usize>) {
    let (child, file) = stage.start(fixture!("corelife"), &["note"]);
    let mut number = None;
    proc::eventually("the number of the listener", || {
        let lines = story::lines(&file).expect("a file in memory");
        number = lines.iter().find_map(|line| line.strip_prefix("listener ")?.parse().ok());
        number.is_some()
    });
    let notices = Notices::of(child.id(), number.expect("as above"));
    let mut made: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    while let Some(notice) = notices.next(Duration::from_secs(60)).expect("a call") {
        let call = calls::name(notice.call);
        let passes = list.contains(call.as_str()) || BESIDE.iter().any(|(beside, _)| *beside == call);
        let answer = (!passes || refused.contains(&call.as_str())).then_some(libc::ENOSYS);
        made.entry(call).or_default().insert(notice.pid);
        notices.answer(notice, answer).expect("it waits, or has ended");
    }
    let told = stage.finish(child, &file).expect("an end");
    (told, made.into_iter().map(|(call, pids)| (call, pids.len())).collect())
}

#[test]
fn the_core_lives_under_exactly_its_list() {
    need!(skip::has_pid_namespace(), "needs-namespaces: whoever is left ends with it");
    need!(skip::has_first_choices(), "needs-kernel-6.15: each call of the list is there");
    need!(Stage::new().is_some(), "needs-isa: machine code");
    in_child!(|again| again.in_pid_namespace().limit(Duration::from_secs(300)));
    let _guard = NoLeftovers::alone();
    let stage = Stage::new().expect("as above");
    let text = fs::read_to_string(tidy::root().join("core/docs/syscalls.md")).expect("the page");
    let list: BTreeSet<&str> = tidy::Page::parse(&text).list.into_iter().collect();
    let usual = {
        let (child, file) = stage.start(fixture!("corelife"), &["all"]);
        stage.finish(child, &file).expect("a life")
    };
    let (told, mut made) = life(&stage, &list, &[]);
    // What is called only where something else is refused.
    for refused in [&["exit_group"][..], &["pidfd_send_signal"], &["waitid"], &["clone3"]] {
        made.extend(life(&stage, &list, refused).1);
    }
    println!("calls, and by how many processes: {made:?}");
    let listed =
        |call: &&String| list.contains(call.as_str()) || BESIDE.iter().any(|(beside, _)| beside == call);
    let outside: Vec<&String> = made.keys().filter(|call| !listed(call)).collect();
    assert!(outside.is_empty(), "core/docs/syscalls.md does not list {outside:?}");
    assert_eq!(told.beside(&usual), "same");
    assert!(told.parts().eq(usual.parts()), "{told:#?}");
    // Without a cgroup nothing is made or removed in one.
    let needs_leaves = ["mkdirat", "unlinkat"];
    let possible = |call: &&&str| stage.has_leaves() || !needs_leaves.contains(call);
    let unused: Vec<&&str> = list.iter().filter(possible).filter(|call| !made.contains_key(**call)).collect();
    assert!(unused.is_empty(), "core/docs/syscalls.md lists {unused:?}, which nothing makes");
}
