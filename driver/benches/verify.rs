//! What it costs to verify one recorded child, against the bare system calls that it takes, in the same run.
//!
//! `cargo bench` prints medians of ratios; with `-- --check` it ends with 1 when one is over its budget. Floor and candidate take turns
//! within each round.

use std::{ffi::CString, hint::black_box, process::ExitCode, time::Instant};

use pidward::{Command, Spawner};
use pidward_core::{
    identity::{Host, Identity},
    marker::{ChildKind, Cookie, Names},
};

mod ratio;

/// Verifications a round: one takes too little time to be measured alone.
const BATCH: u32 = 50;
const BUDGET: f64 = 1.5;

fn main() -> ExitCode {
    let spawner = Spawner::new().expect("a spawner");
    let mut command = Command::new("sleep");
    command.arg("600").service(&"bench".parse().expect("a name"));
    let mut child = spawner.spawn(&command).expect("a child");
    let line = child.identity().expect("an identity").to_string();
    let identity = Identity::parse(line.as_bytes()).expect("what was made is taken");
    let (pid, host) = (identity.pid, Host::look());
    let without_inode = Identity { inode: None, ..identity };
    let name = (ChildKind::Task, "bench");
    let mut over = 0;
    if identity.inode.is_some() {
        over += compare(
            "by inode",
            || by_inode(pid.raw()),
            || {
                black_box(host.verify(&identity, &Names::DEFAULT).expect("the same"));
            },
        );
    } else {
        println!("by inode: skipped, pidfds have none here");
    }
    over += compare(
        "by start time and nonce",
        || by_environ(pid.raw(), &[pid.raw()]),
        || {
            black_box(host.verify(&without_inode, &Names::DEFAULT).expect("the same"));
        },
    );
    let own = i32::try_from(std::process::id()).expect("a pid");
    over += compare(
        "by name",
        || by_environ(pid.raw(), &[pid.raw(), own]),
        || {
            black_box(host.verify_named(pid, &Names::DEFAULT, name, Cookie::Any).expect("the same"));
        },
    );
    let report = child.stop(std::time::Duration::ZERO);
    assert!(report.is_complete(), "{report:?}");
    ratio::end(over)
}

fn compare(what: &str, mut floor: impl FnMut(), mut verify: impl FnMut()) -> u32 {
    let timed = |call: &mut dyn FnMut()| {
        let began = Instant::now();
        (0..BATCH).for_each(|_| call());
        began.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH)
    };
    let rounds: Vec<(f64, f64)> =
        (0..ratio::rounds(100, 400)).map(|_| (timed(&mut floor), timed(&mut verify))).collect();
    let floors = ratio::median(rounds.iter().map(|round| round.0).collect());
    let times = ratio::median(rounds.iter().map(|round| round.1 / round.0).collect());
    println!("{what}: {times:.2} x floor; floor: {floors:.1} us");
    ratio::verdict(what, times, Some(BUDGET * ratio::slack()))
}

/// The floor of a verification by inode.
fn by_inode(pid: i32) {
    let fd = pidfd(pid);
    let mut fs = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: writes one struct.
    assert_eq!(unsafe { libc::fstatfs(fd, fs.as_mut_ptr()) }, 0);
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: writes one struct.
    assert_eq!(unsafe { libc::fstat(fd, stat.as_mut_ptr()) }, 0);
    end(fd);
}

/// The floor of a verification by environ: the directory and its files, and those of the others whose environ is read.
fn by_environ(pid: i32, all: &[i32]) {
    let fd = pidfd(pid);
    for pid in all {
        let name = CString::new(format!("/proc/{pid}")).expect("no NUL");
        let dir = open(libc::AT_FDCWD, &name);
        for file in [c"status", c"stat", c"environ"] {
            // Of a parent only the environ counts.
            if *pid == all[0] || file != c"stat" {
                let file = open(dir, file);
                let mut buffer = [0u8; 8192];
                // SAFETY: writes to the buffer, at most its length. Ends at the end of the file.
                while unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
                // SAFETY: opened above.
                unsafe { libc::close(file) };
            }
        }
        // SAFETY: opened above.
        unsafe { libc::close(dir) };
    }
    end(fd);
}

fn open(dir: i32, name: &std::ffi::CStr) -> i32 {
    // SAFETY: a string with its end.
    let fd = unsafe { libc::openat(dir, name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    assert!(fd >= 0, "{name:?}");
    fd
}

fn pidfd(pid: i32) -> i32 {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0).expect("a pidfd")
}

/// Looks whether it has ended, and closes it.
fn end(fd: i32) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct.
    assert_eq!(unsafe { libc::poll(&mut poll, 1, 0) }, 0);
    // SAFETY: opened by the caller.
    unsafe { libc::close(fd) };
}
