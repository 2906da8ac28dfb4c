//! The guard: a small process beside a supervisor that ends the supervisor's tree when the supervisor has ended, however that was.
//!
//! The death signal reaches the direct child only, once, and is cleared by set-id programs. The guard knows the run entry that every
//! descendant inherits, and waits for the supervisor's end. Then everybody who carries the entry, and everybody in a group or session
//! that such a one leads, gets SIGTERM (with SIGCONT), and SIGKILL after the grace, until two scans in a row find nobody, or the limit
//! has passed.
//!
//! What it is: a fork of the supervisor that needs nothing of its `main`. It has a session of its own, blocks every signal, so that only
//! SIGKILL and SIGSTOP touch it, holds no descriptor but its own, stands in `/`, and gives back at once all memory that was the
//! supervisor's: it stays small, whatever the supervisor does later, and does not share its end when memory runs out. Its command line and
//! environ read as zeros; it is called `pidward-guard`. It has no exit signal, so an ordinary `waitpid(-1)` of the host does not see it.
//!
//! What it never does: allocate, log, call back into the host, or signal a number. Who has lost the entry (`env -i`, a program that
//! overwrites its environ) and left its leader's group is not found: only a cgroup leaf or a subreaper above reaches those.
//!
//! Once the memory is gone it makes system calls of `sys` only: the C library would look for its thread-local storage.
#![forbid(unsafe_code)]

use core::{ffi::CStr, time::Duration};

use heapless::String;
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    pipe,
};

use crate::{
    Errno, Id128, Pid, Signal,
    cgroup::Cgroup,
    identity::Host,
    marker::{Cookie, Names},
    procfs::{self, Proc},
    reap::{self, Change, ReapError},
    signal,
    spawn::{self, Mechanism, stack::Stack},
    sweep::{self, Proof, Scope},
    sys,
};

/// Room for a scan, also without optimisation.
const STACK: usize = 256 * 1024;

/// How often the removal of the run's group is tried, 10 ms apart.
const REMOVALS: u32 = 100;

/// What the guard is called, as `ps` shows it.
const NAME: &CStr = c"pidward-guard";

/// How often a parent is asked for where there is no pidfd of it.
const ASK: Duration = Duration::from_millis(100);
/// How long to wait where there is one.
const LONG: Duration = Duration::from_secs(3600);

/// What a guard is there for.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The name of run entries counts alone. At most 128 bytes.
    pub names: Names<'a>,
    /// The run whose carriers are ended.
    pub run: Id128,
    /// From SIGTERM to SIGKILL, counted from the supervisor's end.
    pub grace: Duration,
    /// From then on until the guard gives up.
    pub limit: Duration,
    /// The group of the run, by the name it has in the one above: everybody in it is ended, and it is removed.
    pub cgroup: Option<(&'a Cgroup, &'a CStr)>,
}

/// A guard of the calling process, as that process sees it.
///
/// Dropping it lets it go on; its status then stays a zombie when it ends.
#[derive(Debug)]
#[must_use = "a guard that is not watched is not replaced"]
pub struct Guard {
    child: spawn::Child,
    /// Closed by exec: a supervisor that becomes another program has ended. What is written to it says that all is well.
    alive: OwnedFd,
}

/// What the guard is born with; all of it in the structure itself.
#[derive(Clone)]
struct Brief {
    tree: String<128>,
    run: Id128,
    since: u64,
    /// Grace and limit.
    times: (Duration, Duration),
    /// The name of the run's group, empty where there is none, and what it is in.
    group: String<256>,
    above: RawFd,
    supervisor: Pid,
    /// Where its environ begins, which no two programs share by chance; 0 where that may not be known.
    env_start: u64,
    /// Read end of the pipe, and a pidfd of the supervisor or -1.
    alive: RawFd,
    pidfd: RawFd,
    /// Its stack, from the lowest address.
    stack: (usize, usize),
}

impl Guard {
    /// Forks a guard of this process. The cost grows with the memory that this process has touched: about 10 ms for a gigabyte.
    ///
    /// # Errors
    /// - `EOPNOTSUPP`: there is no `/proc` of this pid namespace to look at, or children of this thread are made in another one.
    /// - `E2BIG`: the name of run entries is too long.
    /// - `EAGAIN`, `ENOMEM`, `EMFILE`: no process, memory or descriptor to be had.
    /// - `ENOSYS`, `EPERM`, `EINVAL`: a filter refuses a call that it could not do without.
    pub fn start(charge: &Charge<'_>) -> Result<Guard, Errno> {
        let supervisor = Pid::own().ok_or(Errno::ESRCH)?;
        let host = Host::look();
        let look = |proc: &Proc| {
            proc.pids(|_| false)?;
            let dir = proc.process(supervisor)?;
            Ok((dir.stat()?, dir))
        };
        let (own, dir) = host.proc().and_then(look).map_err(|_| Errno::EOPNOTSUPP)?;
        // One that could not wait, or not end anybody, would be none. A group it can end without signals.
        sys::readable([], Duration::ZERO)?;
        if charge.cgroup.is_none() {
            sys::signal_pidfd(dir.as_fd().as_raw_fd(), None, 0)?;
        }
        if spawn::begins_a_namespace() {
            return Err(Errno::EOPNOTSUPP);
        }
        let stack = Stack::new(STACK)?;
        let (read, alive) = pipe::pipe_with(pipe::PipeFlags::CLOEXEC)?;
        let pidfd = sys::pidfd_open(supervisor).ok();
        let name = charge.cgroup.map_or(Ok(""), |(_, name)| name.to_str()).map_err(|_| Errno::EINVAL)?;
        let brief = Brief {
            tree: String::try_from(charge.names.tree).map_err(|_| Errno::E2BIG)?,
            run: charge.run,
            since: own.start_ticks,
            times: (charge.grace, charge.limit),
            group: String::try_from(name).map_err(|_| Errno::E2BIG)?,
            above: charge.cgroup.map_or(-1, |(above, _)| above.as_fd().as_raw_fd()),
            supervisor,
            env_start: own.env_start,
            alive: read.as_raw_fd(),
            pidfd: pidfd.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            stack: (stack.bottom(), stack.top()),
        };
        // No handler of the host may run in the copy, and nothing but SIGKILL and SIGSTOP may touch it later.
        let old = sys::set_mask(sys::SigSet::MAX)?;
        let made = sys::fork(stack.top(), run, &brief);
        let _ = sys::set_mask(old);
        let (pid, pidfd) = made?;
        Ok(Guard { child: spawn::Child::new(pid, pidfd, None, Mechanism::FORK), alive })
    }

    /// Its number.
    pub const fn pid(&self) -> Pid {
        self.child.pid()
    }

    /// Readable once it has ended.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.child.pidfd()
    }

    /// Whether it stands: one that has ended is reaped, one that was stopped goes on.
    pub fn stands(&self) -> bool {
        match self.child.try_reap() {
            Ok(None) => {
                if let Ok(Some(Change::Stopped(_))) = self.child.next_stop() {
                    // It blocks the signal, and goes on by it all the same.
                    let _ = self.child.signal(Signal::CONT);
                }
                true
            }
            Ok(Some(_)) | Err(ReapError::Taken | ReapError::Lost) => false,
            Err(_) => true,
        }
    }

    /// The supervisor ends in peace: the guard is taken away, whatever state it is in.
    pub fn end(self) {
        if self.child.signal(Signal::KILL).is_ok() {
            return reap::discard(self.pid(), self.pidfd());
        }
        // We are another user by now, and it is not. It goes by itself, unless it was stopped.
        let _ = signal::without_pipe_signal(|| sys::write(self.alive.as_raw_fd(), b"."));
        let _ = sys::readable([self.pidfd().map_or(-1, |fd| fd.as_raw_fd())], Duration::from_secs(1));
        let _ = self.child.try_reap();
    }
}

// ---- from here to the end of the file: the guard ----

/// The guard's whole life.
fn run(brief: &Brief) -> ! {
    // Where it stands is the supervisor's stack.
    let brief = brief.clone();
    let Some((host, above)) = settle(&brief) else { sys::exit_group(1) };
    wait(&brief, &host);
    let (names, scope, proof) = brief.whom();
    let mut name = brief.group.clone();
    let name = name.push('\0').ok().and_then(|()| CStr::from_bytes_with_nul(name.as_bytes()).ok());
    let above = above.zip(name);
    let group = above.as_ref().and_then(|(above, name)| above.open(name).ok());
    // Nobody is left to hear of survivors; the next start of the supervisor finds them.
    let _ = sweep::end_all(&host, &names, scope, proof, group.as_ref(), brief.times, |_, _| true);
    if let Some((above, name)) = above {
        // Busy for some milliseconds after the last one's end.
        for _ in 0..REMOVALS {
            if above.remove(name) != Err(Errno::EBUSY) {
                break;
            }
            let _ = sys::readable([], Duration::from_millis(10));
        }
    }
    sys::exit_group(0)
}

impl Brief {
    fn whom(&self) -> (Names<'_>, Scope, Proof<'_>) {
        let names = Names { tree: &self.tree, ..Names::DEFAULT };
        (names, Scope::Since(self.since), Proof::Cookie(Cookie::Run(self.run)))
    }
}

/// Lets go of everything that was the supervisor's. `None`: it would hold its files, or could not see whom to end.
fn settle(brief: &Brief) -> Option<(Host, Option<Cgroup>)> {
    // A fault would run the host's handler, mask or not.
    (1..=Signal::LAST).for_each(|signal| _ = sys::set_default(signal));
    // Refused ones leave a guard that is easier to hit, and still a guard.
    let _ = (sys::setsid(), sys::chdir(c"/"), sys::set_name(NAME), spawn::oom_score(b"-1000"));
    let above = (brief.above >= 0).then(|| Cgroup::again(brief.above)).flatten();
    let kept = [brief.alive, brief.pidfd, above.as_ref().map_or(-1, |above| above.as_fd().as_raw_fd())];
    if !spawn::close_all_but(kept) {
        return None;
    }
    let host = Host::look();
    let (names, scope, proof) = brief.whom();
    sweep::each(&host, &names, scope, proof, |_| {}).ok()?;
    let (low, high) = brief.stack;
    procfs::lines(host.proc().ok()?.as_fd(), c"self/maps", |line| {
        if let Some((start, end)) = private_memory(line) {
            // Neighbours of the stack may be one map with it.
            for (from, to) in [(start, end.min(low)), (start.max(high), end)] {
                // What is locked or of another kind stays.
                let _ = if from < to { sys::forget(from, to) } else { Ok(()) };
            }
        }
    })
    .ok()?;
    Some((host, above))
}

/// The addresses of a map that can be written to, is shared with nobody and backed by no file; proc_pid_maps(5).
fn private_memory(line: &[u8]) -> Option<(usize, usize)> {
    let mut words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (mode, inode) = (words.next()?, words.nth(2)?);
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    if mode == "rw-p" && inode == "0" { number(start).zip(number(end)) } else { None }
}

/// Until the supervisor has ended, or has become another program.
fn wait(brief: &Brief, host: &Host) {
    let mut alive = brief.alive;
    let limit = if brief.pidfd < 0 { ASK } else { LONG };
    loop {
        let seen = sys::readable([brief.pidfd, alive], limit).unwrap_or_default();
        let orphaned = brief.pidfd < 0 && sys::getppid() != brief.supervisor.raw();
        if seen == [true, true] || seen == [true, false] || orphaned {
            return;
        }
        if seen == [false, true] {
            if sys::read(alive, &mut [0]) == Ok(1) {
                sys::exit_group(0);
            }
            // Exec closes the other end, and so may a program that closes all it has.
            let stat = host.proc().and_then(|proc| proc.process(brief.supervisor)?.stat());
            if stat.is_ok_and(|now| now.env_start != brief.env_start && brief.env_start != 0) {
                return;
            }
            alive = -1;
        }
    }
}
