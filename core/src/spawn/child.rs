//! The child's path from clone to exec.
//!
//! The child runs in its supervisor's memory on a stack of its own, while the thread that made it sleeps
//! and all others run on. So, from [`start`] on:
//!
//! - every call goes to `sys` (one inlined system call each) or to this file, and nothing allocates, locks,
//!   formats, logs, unwinds or reads thread-local storage;
//! - no signal handler of the supervisor can run here: everything is blocked from before the clone until
//!   each signal is back at its default;
//! - nothing of the supervisor is written but the report, the slot's flag and the `moved` numbers of the plan,
//!   which the sleeping thread does not look at;
//! - `start` never returns: the child ends in a program or in `exit_group`.
//!
//! The order is that of [`Step`]. Two of its reasons are not obvious: a change of user clears the death signal, so that comes
//! after; and descriptors are placed last, because earlier steps still need some that are not passed.

#![allow(
    clippy::question_mark,
    reason = "no early return by operator: each way out of a step is written out"
)]

use core::{
    ptr,
    sync::atomic::{AtomicI32, AtomicU32, Ordering},
    time::Duration,
};

use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, OwnedFd, RawFd};

use super::{
    Closing, FdMap, Group, ParentCheck, Plan, Program, Refused, Slot, Step,
    attempt::Way,
    job::{Done, Job, or_return},
    stack::Stack,
};
use crate::{
    Errno, Pid, Signal, image,
    sys::{self, Disposition, SigSet},
};

/// Clones, with all signals blocked meanwhile; returns when the child has called exec or ended, or at once
/// where memory is not shared. The pidfd stays in the slot.
pub(super) fn clone_child(way: Way, stack: &mut Stack, job: &Job<'_>) -> Result<Pid, Errno> {
    let old = match sys::set_mask(SigSet::MAX) {
        Ok(old) => old,
        Err(e) => return Err(e),
    };
    let arg = ptr::from_ref(job) as usize;
    let place = job.slot.place();
    let cloned = if way.is_clone3() {
        let args = way.clone_args(stack, place, job.plan.cgroup);
        // SAFETY: the stack is ours alone while it is borrowed, and `job` with all it borrows stays: either this thread
        // sleeps until the child needs neither, or the child has a copy of both.
        unsafe { sys::clone3(&args, start, arg) }
    } else {
        // SAFETY: as above.
        unsafe { sys::clone(way.flags() as u32 | Signal::CHLD.raw() as u32, stack.top(), place, start, arg) }
    };
    // Cannot fail: the set is one that this call has returned.
    let _ = sys::set_mask(old);
    match cloned.map(|pid| Pid::from_raw(pid as i32)) {
        Ok(Some(pid)) => {
            // The child has said so by itself, where it shares the slot.
            job.slot.open();
            Ok(pid)
        }
        Ok(None) => Err(Errno::EINVAL),
        Err(e) => Err(e),
    }
}

/// Takes the pidfd out of the slot, if the clone has made one.
pub(super) fn pidfd_in(slot: &Slot) -> Option<OwnedFd> {
    // SAFETY: the slot gives a number only if the clone has made it, and only once.
    slot.take().map(|fd| unsafe { sys::own(fd) })
}

/// The probe: a child that writes one word into memory it may share, and ends.
pub(super) fn probe(stack: &mut Stack) -> Result<(Pid, bool), Errno> {
    let word = AtomicU32::new(0);
    let old = match sys::set_mask(SigSet::MAX) {
        Ok(old) => old,
        Err(e) => return Err(e),
    };
    let flags = raw::CLONE_VM | raw::CLONE_VFORK;
    let (arg, unused) = (ptr::from_ref(&word) as usize, AtomicI32::new(-1));
    // SAFETY: the stack is ours alone; this thread sleeps until the child has ended.
    let cloned = unsafe { sys::clone(flags, stack.top(), &unused, write_word, arg) };
    let _ = sys::set_mask(old);
    match cloned.map(|pid| Pid::from_raw(pid as i32)) {
        Ok(Some(pid)) => Ok((pid, word.load(Ordering::Acquire) == 1)),
        Ok(None) => Err(Errno::EINVAL),
        Err(e) => Err(e),
    }
}

/// # Safety
/// - `arg` is the address of an [`AtomicU32`].
unsafe extern "C" fn write_word(arg: usize) -> ! {
    // SAFETY: the caller's promise.
    let word = unsafe { &*(arg as *const AtomicU32) };
    word.store(1, Ordering::Release);
    sys::exit_group(0)
}

/// Closes every number but these; -1 is none. `false`: it cannot.
pub(crate) fn close_all_but(mut kept: [RawFd; 3]) -> bool {
    kept.sort_unstable();
    let mut first = 0;
    let refused = kept.map(|fd| close_below(&mut first, fd)).contains(&true);
    !(refused | sys::close_range(first, RawFd::MAX).is_err()) || scan(|fd| kept.contains(&fd))
}

// ---- from here to the end of the file: the child ----

/// The child's first instruction after the entry code.
///
/// # Safety
/// - `arg` is the address of a [`Job`] that stays as it is until this process has ended or called exec.
unsafe extern "C" fn start(arg: usize) -> ! {
    // SAFETY: the caller's promise.
    let job = unsafe { &*(arg as *const Job<'_>) };
    let plan = job.plan;
    job.slot.open();
    /// One step: named in the report before it is tried; a failure ends the child.
    macro_rules! step {
        ($step:ident, $answer:expr) => {
            job.report.step.store(const { Step::$step.raw() }, Ordering::Release);
            if let Err(errno) = $answer {
                fail(job, errno);
            }
        };
    }
    // A handler that is left would run in the supervisor's memory.
    step!(Dispositions, go_on(job, job.clears_handlers, Refused::DISPOSITIONS, dispositions(plan)));
    step!(Group, go_on(job, matches!(plan.group, Group::Own), Refused::GROUP, group(plan)));
    step!(Terminal, terminal(plan));
    step!(Cgroup, enter_leaf(job.leaf));
    step!(Rlimits, rlimits(plan));
    step!(Nice, plan.nice.map_or(Ok(()), sys::set_nice));
    step!(OomScore, oom_score(job.oom_score));
    step!(Groups, plan.credentials.groups.map_or(Ok(()), sys::set_groups));
    step!(Gid, plan.credentials.gid.map_or(Ok(()), sys::set_gid));
    step!(Uid, plan.credentials.uid.map_or(Ok(()), sys::set_uid));
    step!(Cwd, plan.cwd.map_or(Ok(()), sys::chdir));
    let armed = plan.death_signal.map_or(Ok(()), sys::set_death_signal);
    step!(DeathSignal, go_on(job, true, Refused::DEATH_SIGNAL, armed));
    step!(ParentCheck, if plan.death_signal.is_some() { parent_check(job) } else { Ok(()) });
    step!(NoNewPrivs, if plan.no_new_privs { sys::set_no_new_privs() } else { Ok(()) });
    step!(Fds, place_fds(plan.fds));
    step!(CloseOthers, close_others(job));
    step!(Mask, masks(plan));
    job.report.step.store(const { Step::Exec.raw() }, Ordering::Release);
    match tell(job) {
        Ok(()) => fail(job, exec(plan, job.program, job.program_path)),
        // Who is not heard would be taken for dead, and run all the same.
        Err(errno) => fail(job, errno),
    }
}

/// Where a filter refuses the call, and the child `may` do without, the parent hears of it.
fn go_on(job: &Job<'_>, may: bool, what: u32, answer: Done) -> Done {
    match answer {
        Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL) if may => {
            job.report.note_refused(what);
            Ok(())
        }
        other => other,
    }
}

fn fail(job: &Job<'_>, errno: Errno) -> ! {
    job.report.errno.store(errno.raw() as u32, Ordering::Release);
    let _ = tell(job);
    sys::exit_group(127)
}

/// Sends the report where memory is not shared. An empty pipe has room for it twice.
fn tell(job: &Job<'_>) -> Done {
    if job.pipe < 0 { Ok(()) } else { sys::write(job.pipe, &job.report.message()).map(drop) }
}

/// Every signal to its default. `CLONE_CLEAR_SIGHAND` takes handlers away, but ignored signals survive it and
/// exec too, and a Rust supervisor always ignores SIGPIPE.
pub(super) fn dispositions(plan: &Plan<'_>) -> Done {
    for number in 1..=Signal::LAST {
        let fixed = number == Signal::KILL.raw() || number == Signal::STOP.raw();
        let kept = plan.keep.ignored && matches!(sys::disposition(number), Ok(Disposition::Ignored));
        if !fixed && !kept {
            or_return!(sys::set_default(number));
        }
    }
    Ok(())
}

fn group(plan: &Plan<'_>) -> Done {
    match plan.group {
        Group::Inherit => Ok(()),
        Group::Own => sys::setpgid(0),
        Group::Join(pgid) => sys::setpgid(pgid.raw()),
        Group::Session => sys::setsid(),
    }
}

/// With everything blocked a background group may do this: SIGTTOU stays away.
fn terminal(plan: &Plan<'_>) -> Done {
    match (plan.terminal, plan.group) {
        (None, _) => Ok(()),
        (Some(tty), Group::Session) => sys::set_controlling(tty.as_raw_fd()),
        (Some(tty), _) => sys::set_foreground(tty.as_raw_fd(), sys::getpgrp()),
    }
}

/// "0" is the writer itself.
fn enter_leaf(leaf: RawFd) -> Done {
    if leaf < 0 { Ok(()) } else { sys::write(leaf, b"0").map(drop) }
}

pub(super) fn rlimits(plan: &Plan<'_>) -> Done {
    for limit in plan.rlimits {
        or_return!(sys::set_rlimit(limit.resource, limit.soft, limit.hard));
    }
    Ok(())
}

/// `text` is the score in decimal, made by the parent; empty if there is none.
pub(crate) fn oom_score(text: &[u8]) -> Done {
    if text.is_empty() {
        return Ok(());
    }
    let file = or_return!(sys::open(c"/proc/self/oom_score_adj", raw::O_WRONLY | raw::O_CLOEXEC));
    let wrote = sys::write(file, text);
    let _ = sys::close(file);
    wrote.map(drop)
}

/// A parent that died before the signal was armed sends none, so the child looks for itself. Comparing with 1
/// would be wrong twice: below a subreaper, and below a supervisor that is pid 1. A parent that is in another namespace, or may not
/// be asked for (a filter), is looked at by its pidfd.
fn parent_check(job: &Job<'_>) -> Done {
    let parent = sys::getppid();
    let how = if parent == job.supervisor {
        ParentCheck::Ppid
    } else if parent > 0 {
        return Err(Errno::ESRCH);
    } else if job.supervisor_pidfd < 0 {
        ParentCheck::Unchecked
    } else if or_return!(sys::readable([job.supervisor_pidfd], Duration::ZERO)) == [true] {
        // Readable: it has ended.
        return Err(Errno::ESRCH);
    } else {
        ParentCheck::Pidfd
    };
    job.report.note_parent_check(how);
    Ok(())
}

/// Sources that stand where a target goes are first copied above all targets; then each goes to its place, so
/// that no order of the two can lose one.
pub(super) fn place_fds(fds: &[FdMap<'_>]) -> Done {
    let above = FdMap::above(fds);
    for map in fds {
        let source = map.source();
        let in_the_way = source < above && source != map.target();
        map.moved.set(if in_the_way { or_return!(sys::duplicate_above(source, above)) } else { source });
    }
    let mut standard = 0;
    for map in fds {
        let (from, to) = (map.moved.get(), map.target());
        or_return!(inherit(standard, to));
        standard = to.wrapping_add(1);
        or_return!(if from == to { sys::keep_across_exec(to) } else { sys::duplicate_at(from, to) });
    }
    inherit(standard, FdMap::STANDARD)
}

/// Keeps the standard numbers from `next` to below `end`. One that is closed becomes `/dev/null`: the first file
/// a program opens must not be its standard output. So does one that is close-on-exec: where the caller has closed
/// its own, it is whatever was opened next, a pidfd or a pipe of this library for one. All lower numbers
/// are open by now, so the open gets it.
fn inherit(next: RawFd, end: RawFd) -> Done {
    for fd in next..end.min(FdMap::STANDARD) {
        if !sys::stays_across_exec(fd) {
            let _ = sys::close(fd);
            or_return!(sys::open(c"/dev/null", raw::O_RDWR));
        }
    }
    Ok(())
}

/// Closes every number that is not passed. (Marking them close-on-exec would do for the program, but a child
/// that hangs in exec must not hold its supervisor's pipes, sockets and locks.)
fn close_others(job: &Job<'_>) -> Done {
    let (low, high) = if job.pipe < job.program { (job.pipe, job.program) } else { (job.program, job.pipe) };
    let mut first = FdMap::STANDARD;
    let mut refused = false;
    for map in job.plan.fds {
        refused |= close_below(&mut first, map.target());
    }
    refused |= close_below(&mut first, low) | close_below(&mut first, high);
    if refused | sys::close_range(first, RawFd::MAX).is_err() {
        let passed = |fd| fd < FdMap::STANDARD || FdMap::is_target(job.plan.fds, fd);
        let scanned = scan(|fd| fd == job.pipe || fd == job.program || passed(fd));
        job.report.note_closing(if scanned { Closing::Scan } else { Closing::CloseOnExec });
    }
    Ok(())
}

/// Closes from `first` to below `kept`, which is passed: whether that was refused.
fn close_below(first: &mut RawFd, kept: RawFd) -> bool {
    let refused = kept > *first && sys::close_range(*first, kept.wrapping_sub(1)).is_err();
    *first = kept.wrapping_add(1).max(*first);
    refused
}

/// Closes what `/proc/self/fd` lists; `false` if it cannot be read.
#[inline(always)]
fn scan(keep: impl Fn(RawFd) -> bool) -> bool {
    let flags = raw::O_RDONLY | raw::O_DIRECTORY | raw::O_CLOEXEC;
    let Ok(dir) = sys::open(c"/proc/self/fd", flags) else { return false };
    // Four entries or more. A longer one would be filled by a call of `memset`, which is the C library's.
    let mut buffer = [0; 128];
    // Ends at the end of the directory. Numbers only vanish meanwhile, and those behind are not read again.
    let whole = loop {
        let Ok(length) = sys::entries(dir, &mut buffer) else { break false };
        let Some(mut list) = buffer.get(..length).filter(|list| !list.is_empty()) else { break true };
        // Each entry is at least its head long, so this ends with the list.
        while let Some((fd, rest)) = sys::next_number(list) {
            list = rest;
            if fd >= 0 && fd != dir && !keep(fd) {
                let _ = sys::close(fd);
            }
        }
    };
    let _ = sys::close(dir);
    whole
}

pub(super) fn masks(plan: &Plan<'_>) -> Done {
    if let Some(bits) = plan.umask {
        or_return!(sys::umask(bits));
    }
    sys::set_mask(plan.keep.mask.unwrap_or(0)).map(drop)
}

/// Returns on failure only. A file that may not be executed does not end the search, but is the answer if
/// nothing better comes. An open file whose call is refused is tried once more by the name that `/proc` has for it;
/// where there is none, the refusal is the answer.
pub(super) fn exec(plan: &Plan<'_>, program: RawFd, program_path: &[u8]) -> Errno {
    let (argv, environ) = (plan.argv.as_ptr(), plan.environ.as_ptr());
    let Program::Paths(paths) = plan.program else {
        let refused = sys::execveat(program, argv, environ);
        let by_name = matches!(refused, Errno::ENOSYS | Errno::EPERM);
        let errno = if by_name { sys::execve(program_path.as_ptr(), argv, environ) } else { refused };
        return if matches!(errno, Errno::ENOENT | Errno::ENOTDIR) { refused } else { errno };
    };
    let mut answer = Errno::ENOENT;
    for &path in paths.pointers() {
        let errno = sys::execve(path, argv, environ);
        if !image::search_goes_on(errno) {
            return errno;
        }
        answer = if answer == Errno::EACCES { answer } else { errno };
    }
    answer
}
