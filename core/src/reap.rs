//! Taking the status of one child, exactly once.
//!
//! Never `waitpid(-1)`: the host program's own children are not touched. A status that somebody else took is
//! asked of the kernel through the pidfd (`PIDFD_GET_INFO`, Linux ≥ 6.15) and else reported as lost, never guessed.
#![forbid(unsafe_code)]

use core::time::Duration;

use linux_raw_sys::general as raw;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, AsRawFd, BorrowedFd},
};

use crate::{
    Errno, Pid, Signal,
    procfs::ProcDir,
    sys::{self, ChildInfo, Rusage, WaitFor},
};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It called exit with this code.
    Exited(u8),
    /// A signal ended it.
    Signaled {
        /// Which.
        signal: Signal,
        /// Whether it left a core file.
        core_dumped: bool,
    },
}

impl Status {
    /// From a raw wait status as `waitpid(2)` gives it; `None` for a stop, a continue and nonsense.
    pub const fn from_raw(raw: i32) -> Option<Status> {
        match raw & 0x7f {
            0 => Some(Status::Exited((raw >> 8) as u8)),
            0x7f => None,
            signal => match Signal::new(signal) {
                Some(signal) => Some(Status::Signaled { signal, core_dumped: raw & 0x80 != 0 }),
                None => None,
            },
        }
    }

    /// The raw wait status.
    pub const fn raw(self) -> i32 {
        match self {
            Status::Exited(code) => (code as i32) << 8,
            Status::Signaled { signal, core_dumped } => signal.raw() | if core_dumped { 0x80 } else { 0 },
        }
    }
}

/// What a process and its reaped descendants used, see `getrusage(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Largest resident set, in bytes.
    pub max_rss: u64,
    /// Page faults without and with input.
    pub faults: (u64, u64),
    /// Blocks read and written.
    pub blocks: (u64, u64),
    /// Voluntary and involuntary context switches.
    pub switches: (u64, u64),
}

/// The end of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// How it ended.
    pub status: Status,
    /// What it used; `None` where somebody else took the status and with it the usage.
    pub usage: Option<Usage>,
}

/// The child to ask about.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// By pidfd.
    Pidfd(BorrowedFd<'a>),
    /// By number, where there are no pidfds: only a child of ours that is not reaped yet.
    Pid(Pid),
}

impl<'a> From<Target<'a>> for WaitFor<'a> {
    fn from(child: Target<'a>) -> WaitFor<'a> {
        match child {
            Target::Pidfd(fd) => WaitFor::Pidfd(fd),
            Target::Pid(pid) => WaitFor::Pid(pid),
        }
    }
}

/// Why there is no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReapError {
    /// It was reaped before, and whoever did it has the status.
    Taken,
    /// It has ended, somebody else took its status, and this kernel does not keep it.
    Lost,
    /// It is no child of ours and has not ended.
    NotOurs,
    /// What `waitid(2)` answered.
    Errno(Errno),
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It ended.
    Ended(Exit),
    /// A signal stopped it.
    Stopped(Signal),
    /// It was continued.
    Continued,
}

/// Reaps the child if it has ended; `None` while it runs or is stopped. Never blocks, but for the moment in which
/// somebody else is just reaping it (at most half a second).
///
/// # Errors
/// [`ReapError`].
pub fn try_reap(child: Target<'_>) -> Result<Option<Exit>, ReapError> {
    change(child, raw::WEXITED).map(end)
}

/// The next stop or continuation, each reported once; an end is reported too and not taken. Never blocks.
///
/// # Errors
/// [`ReapError`].
pub fn next_stop(child: Target<'_>) -> Result<Option<Change>, ReapError> {
    let end = || change(child, raw::WEXITED | raw::WNOWAIT);
    match end()? {
        // To who asks for stops alone a zombie is no child.
        None => change(child, raw::WSTOPPED | raw::WCONTINUED).or_else(|_| end()),
        ended => Ok(ended),
    }
}

/// How the child ended, if it has, without reaping it: its number stays taken. Never blocks.
///
/// # Errors
/// [`ReapError`].
pub fn peek(child: Target<'_>) -> Result<Option<Exit>, ReapError> {
    change(child, raw::WEXITED | raw::WNOWAIT).map(end)
}

fn end(change: Option<Change>) -> Option<Exit> {
    match change {
        Some(Change::Ended(exit)) => Some(exit),
        _ => None,
    }
}

/// Whether it is a child of the caller that nobody has reaped.
pub(crate) fn is_child(child: Target<'_>) -> Result<bool, ReapError> {
    match sys::waitid(child.into(), raw::WEXITED | raw::WNOHANG | raw::WNOWAIT | raw::__WALL) {
        Ok(_) => Ok(true),
        Err(Errno::ECHILD) => Ok(false),
        Err(e) => Err(ReapError::Errno(e)),
    }
}

/// Whether the whole process has ended, whoever it belongs to: its pidfd is readable from the last thread's end on. Nothing is reaped.
/// Linux 5.3.
///
/// # Errors
/// What `ppoll(2)` answers.
pub fn has_ended(pidfd: BorrowedFd<'_>) -> Result<bool, Errno> {
    // Ends when no signal came in between.
    loop {
        match sys::readable([pidfd.as_raw_fd()], Duration::ZERO) {
            Err(Errno::EINTR) => {}
            other => return other.map(|[ended]| ended),
        }
    }
}

/// Takes away the status of a child that has ended and that `dir` pins: of no other, whoever gets its number. `false`: it was taken before.
pub fn take_away(dir: &ProcDir) -> bool {
    let pidfd = sys::pidfd_open(dir.pid()).ok();
    // The descriptor is the zombie's, if that is there still.
    let is_there = dir.stat().is_ok_and(|stat| stat.is_ended());
    let target = pidfd.as_ref().map_or(Target::Pid(dir.pid()), |pidfd| Target::Pidfd(pidfd.as_fd()));
    is_there && matches!(try_reap(target), Ok(Some(_)))
}

/// Some child that has ended and is not reaped; its status is left where it is. Only for programs that own all their
/// children: to see one, everybody's are looked at. Never blocks.
///
/// # Errors
/// `ECHILD`: there is no child at all.
pub fn any_ended() -> Result<Option<Pid>, Errno> {
    let what = raw::WEXITED | raw::WNOHANG | raw::WNOWAIT | raw::__WALL;
    sys::waitid(WaitFor::Any, what).map(|(info, _)| Pid::from_raw(info.pid))
}

/// Waits for a child that is ending by itself and takes its status away; by number where that is refused by pidfd, and by the older call
/// where it is refused at all.
pub(crate) fn discard(pid: Pid, pidfd: Option<BorrowedFd<'_>>) {
    for who in pidfd.map(WaitFor::Pidfd).into_iter().chain([WaitFor::Pid(pid)]) {
        // Ends with the child.
        let answer = loop {
            match sys::waitid(who, raw::WEXITED | raw::__WALL) {
                Err(Errno::EINTR) => {}
                other => break other,
            }
        };
        // With no such child there is nothing to take.
        if matches!(answer, Ok(_) | Err(Errno::ECHILD)) {
            return;
        }
    }
    // Ends with the child, or where this is refused too.
    while sys::wait4(pid, raw::__WALL) == Err(Errno::EINTR) {}
}

/// [`try_reap`] by the older call, which can do nothing but that.
fn reap_by_number(pid: Pid) -> Result<Option<Change>, ReapError> {
    loop {
        return match sys::wait4(pid, raw::WNOHANG | raw::__WALL) {
            Err(Errno::EINTR) => continue,
            Err(Errno::ECHILD) => Err(ReapError::Lost),
            Err(e) => Err(ReapError::Errno(e)),
            Ok(None) => Ok(None),
            Ok(Some((status, usage))) => {
                let status = Status::from_raw(status).ok_or(ReapError::Errno(Errno::EINVAL))?;
                Ok(Some(Change::Ended(Exit { status, usage: Some(decode_usage(&usage)) })))
            }
        };
    }
}

fn change(child: Target<'_>, what: u32) -> Result<Option<Change>, ReapError> {
    // Without blocking there is nothing to interrupt; the loop is for kernels that think otherwise.
    let answer = loop {
        match sys::waitid(child.into(), what | raw::WNOHANG | raw::__WALL) {
            Err(Errno::EINTR) => {}
            other => break other,
        }
    };
    match answer {
        Ok((info, _)) if info.pid == 0 => Ok(None),
        Ok((info, usage)) => decode(&info, &usage).map(Some),
        Err(Errno::ECHILD) => lost(child).map(Some),
        Err(e) => match child {
            Target::Pid(pid) if what == raw::WEXITED && e != Errno::EINTR => reap_by_number(pid),
            Target::Pid(_) | Target::Pidfd(_) => Err(ReapError::Errno(e)),
        },
    }
}

fn decode(info: &ChildInfo, usage: &Rusage) -> Result<Change, ReapError> {
    let odd = ReapError::Errno(Errno::EINVAL);
    let signal = || Signal::new(info.status & 0x7f).ok_or(odd);
    let ended = |status| Change::Ended(Exit { status, usage: Some(decode_usage(usage)) });
    match info.code as u32 {
        raw::CLD_EXITED => Ok(ended(Status::Exited(info.status as u8))),
        raw::CLD_KILLED => Ok(ended(Status::Signaled { signal: signal()?, core_dumped: false })),
        raw::CLD_DUMPED => Ok(ended(Status::Signaled { signal: signal()?, core_dumped: true })),
        raw::CLD_STOPPED | raw::CLD_TRAPPED => signal().map(Change::Stopped),
        raw::CLD_CONTINUED => Ok(Change::Continued),
        _ => Err(odd),
    }
}

fn decode_usage(usage: &Rusage) -> Usage {
    let [us, uu, ss, su, rss, _, _, _, minor, major, _, inb, outb, _, _, _, vol, invol] =
        usage.map(|n| n.max(0) as u64);
    let time =
        |seconds, micros: u64| Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
    Usage {
        user: time(us, uu),
        system: time(ss, su),
        // The kernel counts KiB.
        max_rss: rss.saturating_mul(1024),
        faults: (minor, major),
        blocks: (inb, outb),
        switches: (vol, invol),
    }
}

/// Not our child any more: asks the kernel what it remembers of the process.
///
/// Between the moment in which somebody else's wait takes the status and the one in which the kernel has put it down
/// for the holders of pidfds, there is neither; the pidfd says `HUP` when the second has come.
fn lost(child: Target<'_>) -> Result<Change, ReapError> {
    let Target::Pidfd(fd) = child else { return Err(ReapError::Lost) };
    // Who has not ended has not been taken either: it never was our child.
    if has_ended(fd) == Ok(true) {
        // Linux 6.9; before, the time passes.
        let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::empty())], Some(&TAKING));
    }
    match sys::pidfd_exit_status(fd.as_raw_fd()) {
        Ok(Some(raw)) => {
            let status = Status::from_raw(raw).ok_or(ReapError::Errno(Errno::EINVAL))?;
            Ok(Change::Ended(Exit { status, usage: None }))
        }
        Ok(None) | Err(_) if sys::signal_pidfd(fd.as_raw_fd(), None, 0) == Err(Errno::ESRCH) => {
            Err(ReapError::Lost)
        }
        Ok(None) | Err(_) => Err(ReapError::NotOurs),
    }
}

/// How long somebody else's wait may take from the status to the end of the process: it makes no stop on the way, but
/// may lose the processor.
const TAKING: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
