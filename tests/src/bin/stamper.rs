//! An API server that stamps itself: writes what it is before and after to a file, and what came of the stamp.
//!
//! `stamper FILE WHAT…`: each start appends `start`, the lines of its state (`key=value`, in hex where it is text), `state-end`; then
//! the stamp, then `stamp RESULT`, then what is asked for:
//! - `child`: starts this program with `FILE plain` and waits for it: its lines follow;
//! - `plain`: no stamp, only the state;
//! - `live`: starts a child first, tries to stamp itself, stops the child, stamps itself;
//! - `refused`: exec is refused by a filter: tries to stamp itself, says `kept true` if its signal handlers and a file that has
//!   number 0 are still what they were, then starts a child;
//! - `asked`: says what this library makes of the stamp, of this process and of a forked child of it;
//! - `undumpable`: cannot be looked at;
//! - `claims`: sets the stamp that is right, where only the program itself sees it.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::Path,
};

use pidward::{Command, Spawner, stamp_api_server};
use pidward_tests::{os, proc};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn say(log: &mut File, line: &str) {
    log.write_all(format!("{line}\n").as_bytes()).expect("the file");
}

fn state(log: &mut File) {
    let own = std::process::id();
    say(log, &format!("start {own}"));
    let mut line = |key: &str, value: String| say(log, &format!("{key}={value}"));
    line("ppid", format!("{:?}", proc::ppid(own)));
    line("ticks", format!("{:?}", proc::start_time(own)));
    line("pgid", format!("{:?}", proc::pgid(own)));
    line("sid", format!("{:?}", proc::sid(own)));
    for name in ["SigBlk", "SigIgn", "Umask", "Uid", "Gid", "NoNewPrivs", "Seccomp"] {
        line(name, proc::status(own, name).unwrap_or_default());
    }
    // SAFETY: asks only.
    line("nice", unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }.to_string());
    line("cwd", hex(std::env::current_dir().expect("a directory").as_os_str().as_bytes()));
    let fds: Vec<String> = proc::fds(own)
        .into_iter()
        // SAFETY: asks only.
        .filter(|(fd, _)| unsafe { libc::fcntl(*fd, libc::F_GETFD) } & libc::FD_CLOEXEC == 0)
        .map(|(fd, path)| format!("{fd}:{}", path.display()))
        .collect();
    line("fds", fds.join(" "));
    for arg in std::env::args_os() {
        line("arg", hex(arg.as_bytes()));
    }
    // Empty entries too.
    let environ = std::fs::read("/proc/self/environ").unwrap_or_default();
    for entry in environ.split_inclusive(|byte| *byte == 0) {
        line("env", hex(entry.strip_suffix(&[0]).unwrap_or(entry)));
    }
    say(log, "state-end");
}

fn stamp(log: &mut File) {
    let text = match stamp_api_server() {
        Ok(stamp) => format!("{stamp:?}"),
        Err(error) => format!("error {:?} {:?} {error}", error.kind(), error.raw_os_error()),
    };
    say(log, &format!("stamp {text}"));
}

/// A try to stamp that is refused. Number 0 is a file of this program's own, which exec would close.
fn refused(log: &mut File) {
    // SAFETY: number 0 is used by nobody.
    unsafe { libc::close(0) };
    let own = File::open("/proc/self/stat").expect("a file");
    assert_eq!(own.as_raw_fd(), 0, "the lowest number");
    let handlers = proc::status(std::process::id(), "SigCgt").expect("std has one of its own");
    stamp(log);
    let now = proc::status(std::process::id(), "SigCgt");
    let link = std::fs::read_link("/proc/self/fd/0").expect("it is open");
    let kept = now.as_ref() == Some(&handlers) && handlers.contains(|c| c != '0') && link.ends_with("stat");
    say(log, &format!("kept {kept}"));
}

fn plain_child(file: &Path, log: &mut File) {
    let mut child = Command::new(std::env::current_exe().expect("its path"));
    let status = child.arg(file).arg("plain").status();
    say(log, &format!("child {status:?}"));
}

fn main() {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let file = args.first().expect("a file");
    let has = |word: &str| args.iter().skip(1).any(|arg| arg == word);
    let mut log = OpenOptions::new().create(true).append(true).open(file).expect("the file");
    state(&mut log);
    if has("plain") {
        return;
    }
    if has("verify") {
        let pid = args.last().and_then(|arg| arg.to_str()?.parse().ok()).expect("a pid");
        let verdict = pidward::verify(pid, pidward::ChildKind::Api, &pidward::api_server_service());
        return say(&mut log, &format!("stamp is {verdict:?}"));
    }
    if has("live") {
        let spawner = Spawner::new().expect("a spawner");
        let mut cmd = Command::new("sleep");
        let mut child = spawner.spawn(cmd.arg("1000")).expect("a child");
        stamp(&mut log);
        assert!(child.stop(std::time::Duration::from_secs(5)).is_complete());
    }
    if has("undumpable") {
        // SAFETY: takes numbers only.
        os::check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }.into()).expect("any process may");
    }
    if has("claims") {
        let own = std::process::id();
        let ticks = proc::start_time(own).expect("its stat line");
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var("PIDWARD_API_SERVER_STAMP", format!("{own}:{ticks}")) };
    }
    if has("refused") {
        refused(&mut log);
    } else {
        stamp(&mut log);
    }
    if has("asked") {
        let service = pidward::api_server_service();
        // The answer of a process about itself is another; a shell asks about its parent, and about its own copy of the entries.
        let ask = "\"$0\" \"$1\" verify $PPID; \"$0\" \"$1\" verify $$";
        let mut shell = std::process::Command::new("sh");
        let own = std::env::current_exe().expect("its path");
        let status = shell.args(["-c", ask]).arg(own).arg(file).status();
        say(&mut log, &format!("asked about {service}: {}", status.is_ok_and(|status| status.success())));
    }
    if has("child") || has("refused") {
        plain_child(file.as_ref(), &mut log);
    }
}
