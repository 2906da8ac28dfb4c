//! `run` is two processes: the outer one, which whoever started us knows and may kill, and the inner one, which does everything.
//!
//! The inner one is the parent of the program and a subreaper. So whoever descends from the program, and loses its own parent and all
//! that it could be known by, comes to the inner one and is stopped with the rest, also when the outer one is killed.
//!
//! Both are in one process group: keys of the terminal reach the inner one directly. The outer one passes on the signals that somebody
//! sends it, stops when the inner one has stopped, and ends with its code. It starts nothing but the inner one: the same program with one
//! option more.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, process::parent_id},
    },
    process, ptr,
};

use pidward_core::{
    Pid, Signal,
    image::{Packer, Table},
    reap::{Change, Exit},
    signal::SignalFd,
    spawn::{self, FdMap, Group, Keep, Launcher, Plan, Program, Slot},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{PidfdFlags, getppid, pidfd_open},
};

use super::job;
use crate::{args, fault::Fault};

/// The option that makes an inner one; its value is the pid of the outer one.
pub(super) const OPTION: &str = "outer";

/// Descriptors and the numbers that they get.
pub(super) type Passed = Vec<(OwnedFd, u32)>;

/// What this process is to be.
pub(super) enum Part {
    /// The inner one: with a pidfd of the outer one, if it has one, and what is to be passed on.
    Inner(Option<OwnedFd>, Passed),
    /// The outer one, which has ended with this code.
    Outer(u8),
}

/// Becomes the outer one, and returns when that is over; or finds that this is the inner one.
///
/// Pid 1 has nobody above it, and takes all others along by itself: it is both. So is a program that cannot start itself once more.
pub(super) fn part(outer: Option<&OsStr>, passed: Passed, signals: &SignalFd) -> Result<Part, Fault> {
    if let Some(outer) = outer {
        let is_parents = || outer == OsStr::new(&parent_id().to_string());
        let parent = if is_parents() { getppid() } else { None };
        let pidfd = parent.map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // Asked again: the descriptor is the parent's only if that was there all the time.
        return match pidfd.filter(|_| is_parents()) {
            Some(pidfd) => {
                // Started by a descriptor it is called by that number, before Linux 6.14.
                let _ = rustix::thread::set_name(c"pidward");
                Ok(Part::Inner(pidfd, passed))
            }
            None => {
                Err(Fault::run(format!("--{OPTION} is for pidward itself, and whoever said it has ended")))
            }
        };
    }
    if process::id() == 1 {
        return Ok(Part::Inner(None, passed));
    }
    match start(&passed) {
        Ok(inner) => {
            // The end of a pipe is to be seen when the program has closed its own.
            drop(passed);
            wait(&inner, signals).map(Part::Outer)
        }
        Err(e) => {
            log::debug!("pidward cannot start itself once more, and is one process: {e}");
            Ok(Part::Inner(None, passed))
        }
    }
}

/// Starts the inner one: same group, same terminal, the signals blocked from its first instruction on.
fn start(passed: &[(OwnedFd, u32)]) -> Result<spawn::Child, String> {
    let words: Vec<OsString> = env::args_os().collect();
    // The first is what we are called, whatever that is.
    let run = words.iter().skip(1).position(|word| word == args::RUN).ok_or("no command")?;
    let (head, tail) = words.split_at(run + 2);
    let own = [format!("--{OPTION}").into(), process::id().to_string().into()];
    let argv: Vec<OsString> = head.iter().chain(&own).chain(tail).cloned().collect();
    let environ: Vec<OsString> = env::vars_os()
        .map(|(name, value)| {
            let mut entry = name;
            entry.push("=");
            entry.push(value);
            entry
        })
        .collect();
    let maps: Vec<FdMap<'_>> = passed.iter().map(|(fd, number)| FdMap::new(fd.as_fd(), *number)).collect();
    let exe = std::fs::File::open("/proc/self/exe").map_err(|e| e.to_string())?;
    let (mut argv_room, mut environ_room) = (Room::of(&argv), Room::of(&environ));
    let (argv, environ) = (argv_room.pack(&argv)?, environ_room.pack(&environ)?);
    let mut plan = Plan::new(Program::Open(exe.as_fd()), argv, environ);
    plan.group = Group::Inherit;
    plan.death_signal = None;
    plan.fds = &maps;
    plan.keep = Keep { mask: Some(u64::MAX), ignored: true };
    let started = Launcher::new().and_then(|mut launcher| launcher.spawn(&plan, &Slot::new()));
    started.map_err(|e| e.to_string())
}

/// Buffers for a table of strings.
struct Room {
    bytes: Vec<u8>,
    pointers: Vec<*const u8>,
}

impl Room {
    fn of(strings: &[OsString]) -> Room {
        let bytes = strings.iter().map(|string| string.len() + 1).sum();
        Room { bytes: vec![0; bytes], pointers: vec![ptr::null(); strings.len() + 1] }
    }

    fn pack(&mut self, strings: &[OsString]) -> Result<Table<'_>, String> {
        let mut packer = Packer::new(&mut self.bytes, &mut self.pointers);
        for string in strings {
            packer.push(string.as_bytes()).map_err(|e| format!("{e:?}"))?;
        }
        Ok(packer.finish())
    }
}

/// Until the inner one has ended: its code.
fn wait(inner: &spawn::Child, signals: &SignalFd) -> Result<u8, Fault> {
    let mut asked = None;
    let code =
        |exit: Exit| super::code_of(std::os::unix::process::ExitStatusExt::from_raw(exit.status.raw()));
    loop {
        while let Some(received) =
            signals.next().map_err(|e| Fault::run(format!("signals cannot be read: {e}")))?
        {
            let from = Pid::new(received.pid);
            let is_key = received.code > 0;
            match received.signal {
                Signal::CHLD => {}
                // To the whole group, from the inner one or from the terminal: it has it too. A hang-up comes to the leader of a session alone.
                _ if from == Some(inner.pid()) => {}
                signal if is_key && signal != Signal::HUP => {}
                signal => pass(inner, distinct(signal, &mut asked)),
            }
        }
        match inner.next_stop() {
            Ok(Some(Change::Ended(exit))) => {
                let _ = inner.try_reap();
                return Ok(code(exit));
            }
            Ok(Some(Change::Stopped(_))) => {
                // Whoever waits for us is to see that. Continued, we continue it.
                job::stop_us(false);
                pass(inner, Signal::CONT);
                continue;
            }
            Ok(Some(Change::Continued)) => continue,
            Ok(None) => {}
            // A filter may let nobody look at a status, and still let it be taken. Stops are not seen then.
            Err(_) => match inner.try_reap() {
                Ok(Some(exit)) => return Ok(code(exit)),
                Ok(None) => {}
                Err(e) => {
                    return Err(Fault::run(format!("the status of the inner pidward is not known: {e:?}")));
                }
            },
        }
        // An interruption is a wake-up like any other.
        let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], None);
    }
}

/// SIGTERM and SIGINT take turns: two of one kind that the inner one has not taken are one, and the second is what ends all grace.
fn distinct(signal: Signal, asked: &mut Option<Signal>) -> Signal {
    let sent = match signal {
        Signal::TERM if *asked == Some(signal) => Signal::INT,
        Signal::INT if *asked == Some(signal) => Signal::TERM,
        Signal::TERM | Signal::INT => signal,
        other => return other,
    };
    *asked = Some(sent);
    sent
}

fn pass(inner: &spawn::Child, signal: Signal) {
    if let Err(e) = inner.signal(signal) {
        log::debug!("{signal} to the inner pidward: {e:?}");
    }
}
