//! The command `pidward` and the library's examples, built once for all tests of a run, and what a run of it gave.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use crate::{leftovers::NoLeftovers, os, proc};

/// The path of the program. Cargo builds no other package's programs for a test, so the first call does.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build(&["--bin", "pidward"]).join("pidward"))
}

/// The path of an example of the library, built the same way.
pub fn example(name: &str) -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| build(&["--examples"]).join("examples")).join(name)
}

/// Where they are.
fn build(what: &[&str]) -> PathBuf {
    let own = std::env::current_exe().expect("the path of the test binary");
    let place = own.ancestors().nth(2).expect("target/<profile>/deps/<test>");
    let target = place.parent().expect("the target directory");
    let profile = match place.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "-q", "-p", "pidward", "--features", "cli", "--profile", profile])
        .args(what)
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    place.to_path_buf()
}

/// Where runs write themselves down: those that a test kills leave their records, and not among those of the machine.
pub fn records() -> PathBuf {
    let records = path().with_extension("records");
    // It may be there.
    let _ = std::fs::create_dir(&records);
    records
}

/// The command without the variables that would change what it does.
pub fn plain(guard: &NoLeftovers) -> Command {
    let mut command = guard.command(path());
    for name in ["PIDWARD_GRACE", "PIDWARD_LOG", "PIDWARD_REGISTRY", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("XDG_RUNTIME_DIR", records());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `pidward run` with these options and, after `--`, this program.
pub fn run<A: AsRef<OsStr>>(guard: &NoLeftovers, options: &[&str], program: &[A]) -> Command {
    let mut command = plain(guard);
    command.arg("run").args(options).arg("--").args(program);
    command
}

/// The exit code; panics with what the run said where a signal ended it.
#[track_caller]
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

/// Runs it to its end.
#[track_caller]
pub fn finish(command: &mut Command) -> Output {
    command.output().expect("pidward")
}

/// Waits for the one child of a process that runs another program than it does itself: before that there may be one which only tries
/// something, and then one before its exec. Of `pidward run` it is the program, whose parent is the [inner](inner_of) one.
#[track_caller]
pub fn child_of(pid: u32) -> u32 {
    let child = first_child(pid);
    if is_inner(child) { first_child(child) } else { child }
}

/// Waits for the inner one of the two processes that `pidward run` is.
#[track_caller]
pub fn inner_of(pid: u32) -> u32 {
    let inner = first_child(pid);
    assert!(is_inner(inner), "{}", proc::cmdline(inner));
    inner
}

fn is_inner(pid: u32) -> bool {
    proc::cmdline(pid).contains(" run --outer ")
}

#[track_caller]
fn first_child(pid: u32) -> u32 {
    let mut child = None;
    proc::eventually("a child", || {
        let own = proc::cmdline(pid);
        let other =
            |child: &u32| !matches!(proc::cmdline(*child).as_str(), line if line.is_empty() || line == own);
        child = proc::children(pid).into_iter().find(other);
        child.is_some()
    });
    child.unwrap_or_default()
}

/// Signals a process that the test has started and not reaped.
#[track_caller]
pub fn signal(pid: u32, number: i32) {
    os::signal_pid(pid, number).expect("a process to signal");
}
