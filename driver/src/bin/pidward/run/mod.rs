//! `pidward run`: one program, its process group, and the signals and the terminal that belong to it.
//!
//! One loop on the main thread waits for signals (all are blocked and read from a descriptor, from before the program
//! starts: also as pid 1, where a signal without a taker is thrown away), for the program's end, and for times.

use std::{ffi::OsString, fs, io::ErrorKind, os::fd::OwnedFd, path::Path, process::ExitStatus};

use clap::ArgMatches;
use pidward::{CgroupPlace, Command, Registry, SpawnError, SpawnErrorKind, Spawner, Stdio};
use pidward_core::signal::{self, SignalFd};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

mod job;
mod options;
mod orphans;
mod outer;
mod ready;
mod record;
mod restart;
mod supervise;
mod terminal;
mod users;

use crate::{environ, fault::Fault, registries};
use options::Options;
use outer::Part;
use supervise::Around;
use terminal::Terminal;

/// The exit code where a stop leaves somebody behind.
const SURVIVED: u8 = 4;

/// Runs the program to its end and gives the exit code.
pub(crate) fn main(matches: &ArgMatches) -> Result<u8, Fault> {
    environ::start_log(matches).map_err(Fault::run)?;
    let options = Options::read(matches).map_err(Fault::run)?;
    // Before anything of our own is opened.
    let passed = descriptors(&options.pass_fds)?;
    // Before there is a second thread: they inherit it.
    block()?;
    let signals = SignalFd::all().map_err(|e| Fault::run(format!("signals cannot be read: {e}")))?;
    let (outer, passed) = match outer::part(
        matches.get_one::<OsString>(outer::OPTION).map(OsString::as_os_str),
        passed,
        &signals,
    )? {
        Part::Outer(code) => return Ok(code),
        Part::Inner(outer, passed) => (outer, passed),
    };
    let (registry, optional) = record::open(&options)?;
    orphans::adopt();
    let spawner = spawner(&options, registry, optional)?;
    // The C library lets go of the two signals it keeps for itself (32 and 33) where it starts a thread.
    block()?;
    let around = Around { signals, outer, terminal: Terminal::find() };
    let code = restart::supervise(&spawner, passed, around, &options)?;
    if code == SURVIVED {
        // Another stop would come to the same.
        std::mem::forget(spawner);
        return Ok(code);
    }
    // What supervisors further down have left behind.
    let report = spawner.shutdown(options.grace);
    let survived = supervise::tell_survivors(&report) | !orphans::stop(options.grace);
    Ok(if survived { SURVIVED } else { code })
}

fn spawner(options: &Options, registry: Option<Registry>, optional: bool) -> Result<Spawner, Fault> {
    let mut spawner = Spawner::builder()
        .grace(options.grace)
        .guard(options.guard)
        .cgroup(options.cgroup.clone())
        .registry_optional(optional);
    if let Some(registry) = registry {
        spawner = spawner.registry(registry);
    }
    spawner.build().map_err(|e| match (&options.cgroup, e.kind()) {
        (CgroupPlace::At(path), ErrorKind::InvalidInput) => {
            let expected = format!("a cgroup v2 group to make leaves in: {e}");
            Fault::run(environ::invalid(path.as_os_str(), "--cgroup", &expected))
        }
        _ => Fault::run(format!("the spawner cannot start: {e}")),
    })
}

fn block() -> Result<(), Fault> {
    signal::block(u64::MAX).map_err(|e| Fault::run(format!("signals cannot be blocked: {e}")))
}

impl Options {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).kind(self.kind).service(&self.name).no_new_privs(self.no_new_privs);
        if self.stdin_null {
            command.stdin(Stdio::null());
        }
        if self.clear_env {
            command.env_clear();
        }
        // One directory has one owner: whoever is below has its own.
        command.env_remove(registries::VARIABLE);
        for (name, value) in &self.env {
            command.env(name, value);
        }
        if let Some(dir) = &self.chdir {
            command.current_dir(dir);
        }
        if let Some(bytes) = self.memory {
            command.memory_limit(bytes);
        }
        if let Some(count) = self.pids {
            command.process_limit(count);
        }
        if let Some(gid) = self.gid() {
            command.gid(gid);
        }
        if let Some(user) = &self.user {
            command.uid(user.uid);
            if let Some(groups) = &user.groups {
                command.groups(groups);
            }
        }
        command
    }
}

/// Copies of the descriptors that are to be passed on, each with its number, sorted, once.
fn descriptors(numbers: &[u32]) -> Result<Vec<(OwnedFd, u32)>, Fault> {
    let refused = |number: u32, why: String| {
        Fault::run(format!("invalid value '{number}' for --pass-fd: expected an open descriptor: {why}"))
    };
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    // All of them first, and without opening anything: what is opened takes the lowest free number.
    for &number in &sorted {
        if let Err(e) = fs::symlink_metadata(format!("/proc/self/fd/{number}"))
            && Path::new("/proc/self/fd").exists()
        {
            return Err(refused(number, e.to_string()));
        }
    }
    let copy = |number| Ok((own_descriptor(number).map_err(|e| refused(number, e.to_string()))?, number));
    sorted.into_iter().map(copy).collect()
}

/// A copy of a descriptor that somebody opened for us, known by number only. Since Linux 5.6.
fn own_descriptor(number: u32) -> rustix::io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| rustix::io::Errno::BADF)?;
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    pidfd_getfd(own, number, PidfdGetfdFlags::empty())
}

/// The codes of env(1): 127 where there is no program, 126 where it cannot be run, 125 for everything before that.
fn not_started(error: &SpawnError) -> Fault {
    let at_exec = error.step() == Some("exec");
    let code = match error.kind() {
        SpawnErrorKind::ProgramMissing => 127,
        SpawnErrorKind::NotExecutable | SpawnErrorKind::InterpreterMissing | SpawnErrorKind::BadFormat => 126,
        SpawnErrorKind::Ended => 125,
        _ if at_exec => 126,
        _ => 125,
    };
    let rights = match error.step() {
        Some("set user id" | "set group id" | "set supplementary groups")
            if error.kind() == SpawnErrorKind::Permission =>
        {
            "; only root may change user and group"
        }
        _ => "",
    };
    Fault::with(code, format!("{error}{rights}"))
}

/// The exit code that a shell shows.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125)
}
