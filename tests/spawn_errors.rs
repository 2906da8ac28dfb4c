//! Each step of a spawn fails with a real cause, and whatever fails leaves nothing: no child, no descriptor,
//! nothing to reap.
//!
//! Each row runs in a process of its own, with shared memory and by plain fork. What has no real cause is answered
//! by a system call filter, and says so in its row.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use pidward_core::spawn::{Closing, Launcher, Plan, Slot, Step};
use pidward_tests::{
    child::Again,
    files::{self, TempDir},
    in_child,
    leftovers::NoLeftovers,
    os, proc,
    rounds::rounds,
    seccomp::Filter,
};

#[path = "spawn_errors/rows.rs"]
mod rows;

use rows::{Forked, Injected, NEVER, ROWS, Real, Shared, User, paths, table};

fn become_a_user() {
    let done = |ret: libc::c_int| assert_eq!(ret, 0, "{}", io::Error::last_os_error());
    // SAFETY: the list is empty.
    done(unsafe { libc::setgroups(0, std::ptr::null()) });
    // SAFETY: takes numbers only.
    done(unsafe { libc::setresgid(65534, 65534, 65534) });
    // SAFETY: takes numbers only.
    done(unsafe { libc::setresuid(65534, 65534, 65534) });
    // Its files in /proc are its own again.
    // SAFETY: takes numbers only.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) });
}

/// The lower end of each page of the stack that the launcher has mapped: the map that was not there before.
fn stack_pages(before: &str) -> Vec<u64> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let new = maps.lines().filter(|l| l.contains(" rw-p ") && !before.contains(*l)).filter_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        (to - from <= 1 << 17).then_some((from..to).step_by(4096))
    });
    new.flatten().collect()
}

/// Which low numbers are open. Asks without a descriptor of its own: there may be none.
fn open_fds() -> Vec<i32> {
    // SAFETY: asks only.
    (0..256).filter(|n| unsafe { libc::fcntl(*n, libc::F_GETFD) } >= 0).collect()
}

fn nothing_is_left(guard: &NoLeftovers) {
    // SAFETY: an all-zero siginfo is one.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes one siginfo.
    let ret =
        unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::__WALL) };
    assert_eq!((ret, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)), "a child is left");
    assert_eq!(guard.left(), [0; 0]);
}

fn run_row(row: usize, dir: &Path) {
    let guard = NoLeftovers::alone();
    let (step, errno, who, cause) = &ROWS[row];
    if *who == User && os::is_root() {
        become_a_user();
    }
    let mut plan = Plan::new(paths(&["/bin/true"]), table(&["true"]), table(&[]));
    plan.no_new_privs = *step == Step::NoNewPrivs;
    let before = fs::read_to_string("/proc/self/maps").unwrap();
    let mut launcher = Launcher::new().unwrap();
    match cause {
        Real(set) => set(&mut plan, dir),
        Injected(answer) => answer(Filter::new(), &stack_pages(&before)).install(),
    }
    // SAFETY: asks only.
    let gid = plan.credentials.gid.or(Some(unsafe { libc::getgid() }));
    for forked in [false, true] {
        if *who == if forked { Shared } else { Forked } {
            continue;
        }
        if forked {
            // A change, if to what it is already, makes it a plain fork.
            plan.credentials.gid = gid;
        }
        let open = open_fds();
        for _ in 0..rounds(25, 1000) {
            let error =
                launcher.spawn(&plan, &Slot::new()).map(|child| child.pid()).expect_err("has to fail");
            assert_eq!((error.step, error.errno.raw()), (*step, *errno), "{error}, forked: {forked}");
            assert_eq!(open, open_fds(), "a descriptor is left");
        }
        nothing_is_left(&guard);
    }
}

#[test]
fn each_step_fails_with_its_cause_and_leaves_nothing() {
    if let Ok(row) = std::env::var("PIDWARD_TEST_ROW") {
        let dir = std::env::var_os("PIDWARD_TEST_DIR").unwrap();
        return run_row(row.parse().unwrap(), Path::new(&dir));
    }
    let dir = TempDir::new();
    files::program(&dir.at("scriptless"), b"#!/no/such\n");
    files::program(&dir.at("text"), b"exit 0\n");
    files::program(&dir.at("busy"), b"#!/bin/sh\n");
    std::os::unix::fs::symlink("loop", dir.at("loop")).unwrap();
    fs::create_dir(dir.at("closed")).unwrap();
    fs::set_permissions(dir.at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    for (row, (step, errno, ..)) in ROWS.iter().enumerate() {
        let outcome = Again::of("each_step_fails_with_its_cause_and_leaves_nothing")
            .env("PIDWARD_TEST_ROW", &row.to_string())
            .env("PIDWARD_TEST_DIR", dir.at("").to_str().unwrap())
            .run();
        let name = io::Error::from_raw_os_error(*errno);
        assert!(outcome.fault().is_none(), "{step:?}, {name}: {}", outcome.fault().unwrap());
    }
}

#[test]
fn every_step_has_a_row() {
    for step in Step::ALL {
        let rows = ROWS.iter().filter(|(of, ..)| *of == *step).count();
        assert!((rows > 0) != NEVER.contains(step), "{step:?}: {rows} rows");
    }
}

/// The step without a row: where nothing that closes works, the program runs, and the record says what held.
#[test]
fn closing_the_others_never_fails_a_spawn() {
    in_child!();
    let _guard = NoLeftovers::alone();
    Filter::new()
        .errno(libc::SYS_close_range, libc::EPERM)
        .errno(libc::SYS_getdents64, libc::EPERM)
        .install();
    let plan = Plan::new(paths(&["/bin/true"]), table(&["true"]), table(&[]));
    let child = Launcher::new().unwrap().spawn(&plan, &Slot::new()).unwrap();
    assert_eq!(child.mechanism().closing, Closing::CloseOnExec);
    proc::eventually("it ends", || child.try_reap().unwrap().is_some());
}
