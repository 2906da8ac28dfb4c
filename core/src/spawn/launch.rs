//! The parent's side of a spawn.
#![forbid(unsafe_code)]

use core::{cell::Cell, fmt::Write, sync::atomic::Ordering};

use heapless::String;
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd},
    fs::{self, Mode, OFlags},
    io, pipe,
};

use super::{
    Child, Closing, FdMap, Group, Mechanism, ParentCheck, Pidfd, Placement, Plan, Program, Refused, Slot,
    SpawnError, Step,
    attempt::{self, Way},
    child,
    job::{Job, Report},
    stack::{self, Stack},
};
use crate::{Errno, Pid, Signal, reap, sys};

/// What spawning needs on one thread: a stack for the child, made once, and what was learnt about the kernel.
///
/// One spawn at a time; a thread that spawns has one of these.
#[derive(Debug)]
pub struct Launcher {
    stack: Stack,
    supervisor: Pid,
    supervisor_pidfd: Option<OwnedFd>,
    shares_memory: bool,
    /// The way that got through last time, where memory may be shared and where not.
    last_sharing: Cell<Option<Way>>,
    last_forking: Cell<Option<Way>>,
}

impl Launcher {
    /// Maps the stack, and tries once with a child that only writes one word whether memory is really shared
    /// (emulators fork instead). After `unshare(CLONE_NEWPID)` there is no try: the first child is pid 1 of the new
    /// namespace, which ends with it. Spawns are plain forks then.
    ///
    /// # Errors
    /// At [`Step::Prepare`]: no memory for the stack.
    pub fn new() -> Result<Launcher, SpawnError> {
        let prepare = at(Step::Prepare);
        let mut stack = Stack::new(stack::SIZE).map_err(prepare)?;
        let supervisor = Pid::own().ok_or(SpawnError::new(Step::Prepare, Errno::ESRCH))?;
        let shares_memory = !begins_a_namespace()
            && child::probe(&mut stack).is_ok_and(|(probe, shared)| {
                reap::discard(probe, None);
                shared
            });
        if !shares_memory {
            log::info!("memory is not shared with a new child here: spawning by plain fork");
        }
        let supervisor_pidfd = pidfd_of(supervisor);
        let (last_sharing, last_forking) = (Cell::new(None), Cell::new(None));
        Ok(Launcher { stack, supervisor, supervisor_pidfd, shares_memory, last_sharing, last_forking })
    }

    /// Whether this is the process that made the launcher, not a forked copy of it.
    pub fn is_ours(&self) -> bool {
        Pid::own() == Some(self.supervisor)
    }

    /// Starts the child, or fails with nothing left behind. Blocks until the program runs; another thread may end
    /// the child through `slot` meanwhile.
    ///
    /// The calling thread becomes the one whose end sends the death signal; no signal is delivered to it
    /// during the call. A SIGCHLD that is ignored, or set to leave no zombies, would throw statuses away:
    /// it is set back first, with a word in the log.
    ///
    /// # Errors
    /// The step and the errno; among them at [`Step::Clone`] `EAGAIN` (a limit on processes: may pass) and
    /// `EMFILE` (no number for the pidfd), at [`Step::Exec`] `ENOENT`, `EACCES`, `ENOEXEC`, `E2BIG`, and
    /// `ETXTBSY` (somebody holds the program file open for writing: may pass). Nothing is retried here.
    /// At [`Step::Cgroup`], `EBUSY`: the leaf is frozen, and a child in it would not come to its exec.
    /// At [`Step::Plan`], `EPERM`: the launcher was made by another process, of which this is a copy.
    pub fn spawn(&mut self, plan: &Plan<'_>, slot: &Slot) -> Result<Child, SpawnError> {
        if !plan.is_sound() {
            return Err(SpawnError::new(Step::Plan, Errno::EINVAL));
        }
        if !self.is_ours() {
            return Err(SpawnError::new(Step::Plan, Errno::EPERM));
        }
        if plan.cgroup.is_some_and(is_frozen) {
            return Err(SpawnError::new(Step::Cgroup, Errno::EBUSY));
        }
        keep_statuses().map_err(at(Step::Prepare))?;
        let program = open_program(plan).map_err(at(Step::Prepare))?;
        let program_path = path_text(program.as_ref());
        let oom_score = score_text(plan);
        let report = Report::default();
        let mut job = Job {
            plan,
            report: &report,
            slot,
            pipe: -1,
            supervisor: self.supervisor.raw(),
            supervisor_pidfd: number(self.supervisor_pidfd.as_ref()),
            leaf: -1,
            program: number(program.as_ref()),
            program_path: program_path.as_bytes(),
            oom_score: oom_score.as_bytes(),
            clears_handlers: false,
        };
        let share = self.shares_memory && !plan.credentials.change_something();
        let mut refused = Errno::ENOSYS;
        let last = if share { self.last_sharing.get() } else { self.last_forking.get() };
        for way in attempt::ways(share, plan.cgroup.is_some(), last) {
            match self.attempt(way, &mut job) {
                Ok(child) => {
                    let last = if share { &self.last_sharing } else { &self.last_forking };
                    last.set(Some(way));
                    return Ok(child);
                }
                Err(e) if e.step == Step::Clone && way.is_refusal(e.errno) => refused = e.errno,
                Err(e) => return Err(e),
            }
        }
        Err(SpawnError::new(Step::Clone, refused))
    }

    /// One way, to its end.
    fn attempt(&mut self, way: Way, job: &mut Job<'_>) -> Result<Child, SpawnError> {
        let plan = job.plan;
        let pipe = if way.cloning.shares_memory() {
            None
        } else {
            Some(report_pipe(plan).map_err(at(Step::Prepare))?)
        };
        let leaf = match plan.cgroup {
            Some(leaf) if !way.into_cgroup => Some(open_procs(leaf).map_err(at(Step::Cgroup))?),
            _ => None,
        };
        job.pipe = number(pipe.as_ref().map(|(_, write)| write));
        job.leaf = number(leaf.as_ref());
        job.clears_handlers = way.clears_handlers();
        let cloned = child::clone_child(way, &mut self.stack, job);
        // From here on a child is owned: every path reaps it or gives it to the caller.
        let mut unread = None;
        if let (Some((read, write)), Ok(_)) = (pipe, cloned) {
            close(write);
            // Until the program runs, another thread may end the child through the slot.
            unread = read_report(&read, job.report).err();
        }
        let pidfd = child::pidfd_in(job.slot);
        let pid = cloned.map_err(at(Step::Clone))?;
        let errno = job.report.errno.load(Ordering::Acquire) as i32;
        let step = Step::from_raw(job.report.step.load(Ordering::Acquire)).unwrap_or(Step::Clone);
        if errno != 0 || step != Step::Exec || unread.is_some() {
            // One that was not heard may be running the program by now.
            let _ = sys::kill(pid, Signal::KILL);
            reap::discard(pid, pidfd.as_ref().map(AsFd::as_fd));
            let why = Errno::from_raw(errno).or(unread).unwrap_or(Errno::EINTR);
            return Err(SpawnError::new(step, why));
        }
        let (pidfd, source) = match pidfd {
            Some(pidfd) => (Some(pidfd), Pidfd::FromClone),
            None => match pidfd_of(pid) {
                Some(pidfd) => (Some(pidfd), Pidfd::Opened),
                None => (None, Pidfd::None),
            },
        };
        let notes = job.report.notes.load(Ordering::Acquire);
        let mechanism = Mechanism {
            cloning: way.cloning,
            pidfd: source,
            placement: match (plan.cgroup, way.into_cgroup) {
                (None, _) => Placement::NotAsked,
                (Some(_), true) => Placement::Born,
                (Some(_), false) => Placement::Wrote,
            },
            parent_check: ParentCheck::from_note(notes),
            closing: Closing::from_note(notes),
            refused: Refused::from_note(notes),
        };
        let leads = matches!(plan.group, Group::Own | Group::Session) && !mechanism.refused.group;
        Ok(Child::new(pid, pidfd, leads.then_some(pid), mechanism))
    }
}

pub(super) const fn at(step: Step) -> impl Fn(Errno) -> SpawnError + Copy {
    move |errno| SpawnError::new(step, errno)
}

pub(super) fn number(fd: Option<&OwnedFd>) -> RawFd {
    fd.map_or(-1, AsRawFd::as_raw_fd)
}

/// Whether children of this thread are in another pid namespace than it is itself; as long as that has no pid 1
/// the second file cannot be opened. Since Linux 4.12, see `pid_namespaces(7)`.
pub(crate) fn begins_a_namespace() -> bool {
    let id = |path| fs::stat(path).ok().map(|file| (file.st_dev, file.st_ino));
    let own = id(c"/proc/thread-self/ns/pid");
    own.is_some() && own != id(c"/proc/thread-self/ns/pid_for_children")
}

/// `None` where pidfds are refused or missing.
fn pidfd_of(pid: Pid) -> Option<OwnedFd> {
    sys::pidfd_open(pid).ok()
}

/// Statuses are kept for whoever waits only if SIGCHLD is neither ignored nor set to leave no zombies; both are
/// often inherited. Where a filter hides which, a status may turn out to be lost, and says so.
fn keep_statuses() -> Result<(), Errno> {
    let now = match sys::disposition(Signal::CHLD.raw()) {
        Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL) => return Ok(()),
        now => now?,
    };
    match now {
        sys::Disposition::Other => Ok(()),
        sys::Disposition::Ignored => {
            log::warn!("SIGCHLD is ignored, which throws away exit statuses: set back to its default");
            sys::set_default(Signal::CHLD.raw())
        }
        sys::Disposition::NoZombies => {
            log::warn!("SIGCHLD has SA_NOCLDWAIT, which throws away exit statuses: flag taken off");
            sys::leave_zombies()
        }
    }
}

/// A copy of the open program above all targets, so that none of them takes its number.
pub(super) fn open_program(plan: &Plan<'_>) -> Result<Option<OwnedFd>, Errno> {
    match plan.program {
        Program::Paths(_) => Ok(None),
        Program::Open(fd) => above(fd, plan).map(Some),
    }
}

fn above(fd: BorrowedFd<'_>, plan: &Plan<'_>) -> Result<OwnedFd, Errno> {
    Ok(io::fcntl_dupfd_cloexec(fd, FdMap::above(plan.fds))?)
}

fn report_pipe(plan: &Plan<'_>) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = pipe::pipe_with(pipe::PipeFlags::CLOEXEC)?;
    let high = above(write.as_fd(), plan);
    close(write);
    Ok((read, high?))
}

fn open_procs(leaf: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    Ok(fs::openat(leaf, c"cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Whether the leaf says so. It can be frozen later too; then the request's deadline counts.
fn is_frozen(leaf: BorrowedFd<'_>) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(file) = fs::openat(leaf, c"cgroup.events", flags, Mode::empty()) else { return false };
    let mut text = [0u8; 128];
    let read = io::read(&file, &mut text).ok().and_then(|n| text.get(..n)).unwrap_or_default();
    read.split(|&b| b == b'\n').any(|line| line == b"frozen 1")
}

/// What the open program is called below `/proc`, with a NUL; only the NUL where there is none.
pub(super) fn path_text(program: Option<&OwnedFd>) -> String<28> {
    let mut text = String::new();
    // Always fits: 14 characters, a number of ten at most, and the NUL.
    let _ = match program {
        Some(fd) => write!(text, "/proc/self/fd/{}\0", fd.as_raw_fd()),
        None => text.write_str("\0"),
    };
    text
}

pub(super) fn score_text(plan: &Plan<'_>) -> String<8> {
    let mut text = String::new();
    if let Some(score) = plan.oom_score_adj {
        // Always fits: the plan is sound, so there are at most five characters.
        let _ = write!(text, "{score}");
    }
    text
}

/// Closes our copy of the end that the child writes to: as long as it is open the report has no end.
fn close(fd: OwnedFd) {
    let fd = fd.into_raw_fd();
    // No kernel answers so, and then the number is not free.
    if matches!(sys::close(fd), Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL)) {
        let _ = sys::close_range(fd, fd);
    }
}

/// Reads what the child tells until it has called exec or ended: a report before exec, and one more if it
/// failed. A child that is ended in between has told less.
fn read_report(pipe: &OwnedFd, report: &Report) -> Result<(), Errno> {
    let mut message = [0u8; 12];
    // Ends at the end of the pipe, or with an error that is no interruption.
    loop {
        match io::read(pipe, &mut message) {
            Ok(12) => report.set(&message),
            Ok(_) => return Ok(()),
            Err(io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
