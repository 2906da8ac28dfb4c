//! One spawn for each option of a plan: a refusal is an error of the spawn that asks for it.

use std::{ffi::CString, os::fd::AsFd};

use pidward_core::{
    Errno,
    cgroup::{Cgroup, Limits},
    identity::Host,
    spawn::{Child, FdMap, Group, Keep, Plan, Program, Rlimit, SpawnError},
};

use crate::life::{Life, Say, end_of, put_away, refusal, until, word};

fn told(say: Say<'_>, part: &str, child: Result<Child, SpawnError>) {
    match child {
        Ok(child) => {
            put_away(&child);
            say(part, "ok");
        }
        Err(error) => say(part, &refusal(error)),
    }
}

type Choice = (&'static str, fn(&mut Plan<'_>));

/// Those that need nothing.
const OPTIONS: [Choice; 11] = [
    ("cwd", |plan| plan.cwd = Some(c"/")),
    ("umask", |plan| plan.umask = Some(0o22)),
    ("niceness", |plan| plan.nice = Some(0)),
    ("limits", |plan| plan.rlimits = &[Rlimit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 }]),
    ("oom score", |plan| plan.oom_score_adj = Some(500)),
    ("no new privileges", |plan| plan.no_new_privs = true),
    ("session", |plan| plan.group = Group::Session),
    ("kept signals", |plan| plan.keep = Keep { mask: Some(1), ignored: true }),
    ("user", |plan| plan.credentials.uid = Some(0)),
    ("group", |plan| plan.credentials.gid = Some(0)),
    ("groups", |plan| plan.credentials.groups = Some(&[])),
];

pub(crate) fn all(life: &mut Life, say: Say<'_>) {
    if !life.is_fertile() {
        return;
    }
    for (part, with) in OPTIONS {
        // One that stays: whoever is not heard of is not waited for.
        let child = life.stay(with);
        told(say, part, child);
    }
    let files = life.files;
    // The second stands where a target goes.
    let fds = [
        FdMap::new(files.null.as_fd(), 0),
        FdMap::new(files.seven.as_fd(), 20),
        FdMap::new(files.null.as_fd(), 21),
    ];
    let fds = Box::leak(Box::new(fds));
    let child = life.seven(|plan| plan.fds = fds);
    told(say, "descriptors", child);
    let child = life.seven(|plan| plan.program = Program::Open(files.seven.as_fd()));
    told(say, "open program", child);
    if let Some((_, other)) = &files.terminal {
        let child = life.seven(|plan| (plan.group, plan.terminal) = (Group::Session, Some(other.as_fd())));
        told(say, "terminal", child);
    }
    leaf(life, say);
}

/// A leaf from its making to its removal.
fn leaf(life: &mut Life, say: Say<'_>) {
    let Some(dir) = life.leaves.take() else { return };
    let name = CString::new(format!("life-{}", life.own)).expect("no NUL");
    let above = match Cgroup::of(dir.into()) {
        Ok(above) => above,
        Err(e) => return say("tree of leaves", &format!("{e:?}")),
    };
    say("tree of leaves", "ok");
    let leaf = above.make(&name);
    say("leaf", &word(&leaf));
    let Ok(leaf) = leaf else { return };
    let limits = Limits { pids: Some(100), ..Limits::default() };
    say("limits of a leaf", &word(&leaf.limit([&above, &above], &limits)));
    let leaf: &'static Cgroup = Box::leak(Box::new(leaf));
    match life.stay(|plan| plan.cgroup = Some(leaf.as_fd())) {
        Err(error) => say("child in a leaf", &refusal(error)),
        Ok(child) => {
            say("child in a leaf", &format!("{:?}", child.mechanism().placement));
            say("populated", &format!("{:?}", leaf.is_populated()));
            let killed = Host::look().proc().map_err(|e| format!("{e:?}")).map(|proc| leaf.kill(proc));
            say("kill of a leaf", &format!("{killed:?}"));
            if !matches!(killed, Ok(Ok(()))) {
                put_away(&child);
            }
            let _ = end_of(&child);
        }
    }
    let mut removed = Ok(());
    // Busy for a moment after the last one's end.
    until(|| {
        removed = above.remove(&name);
        removed != Err(Errno::EBUSY)
    });
    say("removal of a leaf", &word(&removed));
}
