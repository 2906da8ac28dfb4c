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
};

use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, OwnedFd, RawFd};

use super::{Closing, FdMap, Group, ParentCheck, Plan, Program, Slot, Step, attempt::Way, stack::Stack};
use crate::{
    Errno, Pid, Signal, image,
    sys::{self, SigSet},
};

/// What the child tells its parent: in shared memory, or the same numbers through a pipe.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The step that the child is at.
    pub(super) step: AtomicU32,
    /// The error that ended it there; 0 while it goes on.
    pub(super) errno: AtomicU32,
    /// [`ParentCheck`] in the low byte, [`Closing`] above.
    pub(super) notes: AtomicU32,
}

impl Report {
    /// Takes over what a child without shared memory has told.
    pub(super) fn set(&self, message: &[u8; 12]) {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *message;
        self.step.store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed);
        self.errno.store(u32::from_ne_bytes([e, f, g, h]), Ordering::Relaxed);
        self.notes.store(u32::from_ne_bytes([i, j, k, l]), Ordering::Relaxed);
    }
}

/// Everything the child needs. Borrowed from the sleeping parent.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) report: &'a Report,
    pub(super) slot: &'a Slot,
    /// Write end of the report's pipe, above all targets; -1 where memory is shared.
    pub(super) pipe: RawFd,
    /// Whom `getppid` has to name.
    pub(super) supervisor: i32,
    /// A pidfd of the supervisor, for a child that cannot see it; -1 if there is none.
    pub(super) supervisor_pidfd: RawFd,
    /// `cgroup.procs` of the leaf, if the child has to write itself into it; else -1.
    pub(super) leaf: RawFd,
    /// The mask to run the program with.
    pub(super) mask: SigSet,
    /// The open program file, above all targets; -1 where there are paths.
    pub(super) program: RawFd,
    /// The score for the out-of-memory killer as text; empty if it stays.
    pub(super) oom_score: &'a [u8],
}

/// Clones, with all signals blocked meanwhile; returns when the child has called exec or ended, or at once
/// where memory is not shared.
pub(super) fn clone_child(
    way: Way,
    stack: &mut Stack,
    job: &mut Job<'_>,
) -> Result<(Pid, Option<OwnedFd>), Errno> {
    let old = match sys::set_mask(SigSet::MAX) {
        Ok(old) => old,
        Err(e) => return Err(e),
    };
    job.mask = if job.plan.keep.mask { old } else { 0 };
    let arg = ptr::from_ref(&*job) as usize;
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
    if cloned.is_ok() && !way.shares_memory() {
        job.slot.open();
    }
    // SAFETY: the slot gives a number only if the clone has made it, and only once.
    let pidfd = job.slot.take().map(|fd| unsafe { sys::own(fd) });
    match cloned.map(|pid| Pid::from_raw(pid as i32)) {
        Ok(Some(pid)) => Ok((pid, pidfd)),
        Ok(None) => Err(Errno::EINVAL),
        Err(e) => Err(e),
    }
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

/// The child's first instruction after the entry code.
///
/// # Safety
/// - `arg` is the address of a [`Job`] that stays as it is until this process has ended or called exec.
unsafe extern "C" fn start(arg: usize) -> ! {
    // SAFETY: the caller's promise.
    let job = unsafe { &*(arg as *const Job<'_>) };
    job.slot.open();
    let plan = job.plan;
    /// One step: named in the report before it is tried; a failure ends the child.
    macro_rules! step {
        ($step:ident, $call:expr) => {
            job.report.step.store(Step::$step as u32, Ordering::Release);
            if let Err(e) = $call {
                fail(job, e);
            }
        };
    }
    step!(Dispositions, dispositions(plan));
    step!(Group, group(plan));
    step!(Terminal, terminal(plan));
    step!(Cgroup, enter_leaf(job.leaf));
    step!(Rlimits, rlimits(plan));
    step!(Nice, nice(plan));
    step!(OomScore, oom_score(job.oom_score));
    step!(Groups, groups(plan));
    step!(Gid, gid(plan));
    step!(Uid, uid(plan));
    step!(Cwd, cwd(plan));
    step!(DeathSignal, death_signal(plan));
    step!(ParentCheck, parent_check(job));
    step!(NoNewPrivs, no_new_privs(plan));
    step!(Fds, place_fds(plan));
    step!(CloseOthers, close_others(job));
    step!(Mask, masks(plan, job.mask));
    job.report.step.store(Step::Exec as u32, Ordering::Release);
    tell(job);
    fail(job, exec(plan, job.program))
}

#[inline(always)]
fn fail(job: &Job<'_>, errno: Errno) -> ! {
    job.report.errno.store(errno.raw() as u32, Ordering::Release);
    tell(job);
    sys::exit_group(127)
}

#[inline(always)]
fn note(job: &Job<'_>, shift: u32, value: u32) {
    job.report.notes.fetch_or(value.wrapping_shl(shift), Ordering::Relaxed);
}

/// Sends the report where memory is not shared. An empty pipe has room for it twice; a parent that is gone
/// needs none.
#[inline(always)]
fn tell(job: &Job<'_>) {
    if job.pipe >= 0 {
        let [a, b, c, d] = job.report.step.load(Ordering::Relaxed).to_ne_bytes();
        let [e, f, g, h] = job.report.errno.load(Ordering::Relaxed).to_ne_bytes();
        let [i, j, k, l] = job.report.notes.load(Ordering::Relaxed).to_ne_bytes();
        let _ = sys::write(job.pipe, &[a, b, c, d, e, f, g, h, i, j, k, l]);
    }
}

/// Every signal to its default. `CLONE_CLEAR_SIGHAND` takes handlers away, but ignored signals survive it and
/// exec too, and a Rust supervisor always ignores SIGPIPE.
#[inline(always)]
pub(super) fn dispositions(plan: &Plan<'_>) -> Result<(), Errno> {
    let mut number = 1;
    while number <= LAST_SIGNAL {
        if !is_kept(plan, number)
            && let Err(e) = sys::set_default(number)
        {
            return Err(e);
        }
        number = number.wrapping_add(1);
    }
    Ok(())
}

/// SIGKILL and SIGSTOP, which nothing changes; and what is ignored, if the plan keeps that.
#[inline(always)]
fn is_kept(plan: &Plan<'_>, number: i32) -> bool {
    if number == Signal::KILL.raw() || number == Signal::STOP.raw() {
        return true;
    }
    plan.keep.ignored && matches!(sys::disposition(number), Ok(sys::Disposition::Ignored))
}

/// `_NSIG` of the architectures in `arch`.
const LAST_SIGNAL: i32 = 64;

#[inline(always)]
pub(super) fn group(plan: &Plan<'_>) -> Result<(), Errno> {
    match plan.group {
        Group::Inherit => Ok(()),
        Group::Own => sys::setpgid(0),
        Group::Join(pgid) => sys::setpgid(pgid.raw()),
        Group::Session => sys::setsid(),
    }
}

/// With everything blocked a background group may do this: SIGTTOU stays away.
#[inline(always)]
pub(super) fn terminal(plan: &Plan<'_>) -> Result<(), Errno> {
    match (plan.terminal, plan.group) {
        (None, _) => Ok(()),
        (Some(tty), Group::Session) => sys::set_controlling(tty.as_raw_fd()),
        (Some(tty), Group::Own) => sys::set_foreground(tty.as_raw_fd(), sys::getpid()),
        (Some(tty), Group::Join(pgid)) => sys::set_foreground(tty.as_raw_fd(), pgid.raw()),
        (Some(_), Group::Inherit) => Err(Errno::EINVAL),
    }
}

#[inline(always)]
fn enter_leaf(leaf: RawFd) -> Result<(), Errno> {
    if leaf < 0 {
        return Ok(());
    }
    // "0" is the writer itself.
    match sys::write(leaf, b"0") {
        Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}

#[inline(always)]
pub(super) fn rlimits(plan: &Plan<'_>) -> Result<(), Errno> {
    for limit in plan.rlimits {
        if let Err(e) = sys::set_rlimit(limit.resource, limit.soft, limit.hard) {
            return Err(e);
        }
    }
    Ok(())
}

#[inline(always)]
pub(super) fn nice(plan: &Plan<'_>) -> Result<(), Errno> {
    match plan.nice {
        Some(nice) => sys::set_nice(i32::from(nice)),
        None => Ok(()),
    }
}

/// `text` is the score in decimal, made by the parent; empty if there is none.
#[inline(always)]
pub(super) fn oom_score(text: &[u8]) -> Result<(), Errno> {
    if text.is_empty() {
        return Ok(());
    }
    let file = match sys::open(c"/proc/self/oom_score_adj", raw::O_WRONLY | raw::O_CLOEXEC) {
        Ok(file) => file,
        Err(e) => return Err(e),
    };
    let wrote = sys::write(file, text);
    sys::close(file);
    match wrote {
        Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}

#[inline(always)]
pub(super) fn groups(plan: &Plan<'_>) -> Result<(), Errno> {
    match plan.credentials.groups {
        Some(groups) => sys::set_groups(groups),
        None => Ok(()),
    }
}

#[inline(always)]
pub(super) fn gid(plan: &Plan<'_>) -> Result<(), Errno> {
    match plan.credentials.gid {
        Some(gid) => sys::set_gid(gid),
        None => Ok(()),
    }
}

#[inline(always)]
pub(super) fn uid(plan: &Plan<'_>) -> Result<(), Errno> {
    match plan.credentials.uid {
        Some(uid) => sys::set_uid(uid),
        None => Ok(()),
    }
}

#[inline(always)]
pub(super) fn cwd(plan: &Plan<'_>) -> Result<(), Errno> {
    match plan.cwd {
        Some(path) => sys::chdir(path),
        None => Ok(()),
    }
}

#[inline(always)]
pub(super) fn death_signal(plan: &Plan<'_>) -> Result<(), Errno> {
    match plan.death_signal {
        Some(signal) => sys::set_death_signal(signal),
        None => Ok(()),
    }
}

/// A parent that died before the signal was armed sends none, so the child looks for itself. Comparing with 1
/// would be wrong twice: below a subreaper, and below a supervisor that is pid 1.
#[inline(always)]
fn parent_check(job: &Job<'_>) -> Result<(), Errno> {
    if job.plan.death_signal.is_none() {
        return Ok(());
    }
    match sys::getppid() {
        0 if job.supervisor_pidfd < 0 => {
            note(job, 0, ParentCheck::Unchecked as u32);
            Ok(())
        }
        0 => match sys::is_readable(job.supervisor_pidfd) {
            Ok(false) => {
                note(job, 0, ParentCheck::Pidfd as u32);
                Ok(())
            }
            // Readable: it has ended.
            Ok(true) => Err(Errno::ESRCH),
            Err(e) => Err(e),
        },
        parent if parent == job.supervisor => {
            note(job, 0, ParentCheck::Ppid as u32);
            Ok(())
        }
        _ => Err(Errno::ESRCH),
    }
}

#[inline(always)]
pub(super) fn no_new_privs(plan: &Plan<'_>) -> Result<(), Errno> {
    if plan.no_new_privs { sys::set_no_new_privs() } else { Ok(()) }
}

/// Sources that stand where a target goes are first copied above all targets; then each goes to its place, so
/// that no order of the two can lose one.
#[inline(always)]
pub(super) fn place_fds(plan: &Plan<'_>) -> Result<(), Errno> {
    let above = above_targets(plan.fds);
    for map in plan.fds {
        let mut moved = map.source();
        if moved < above && moved != map.target() as RawFd {
            moved = match sys::duplicate_above(moved, above) {
                Ok(copy) => copy,
                Err(e) => return Err(e),
            };
        }
        map.moved.set(moved);
    }
    let mut standard: RawFd = 0;
    for map in plan.fds {
        let (from, to) = (map.moved.get(), map.target() as RawFd);
        if let Err(e) = inherit(&mut standard, to) {
            return Err(e);
        }
        standard = to.wrapping_add(1);
        let placed = if from == to { sys::keep_across_exec(to) } else { sys::duplicate_at(from, to) };
        if let Err(e) = placed {
            return Err(e);
        }
    }
    inherit(&mut standard, STANDARD)
}

/// 0, 1 and 2.
const STANDARD: RawFd = 3;

/// The first number above 2 and all targets.
#[inline(always)]
pub(super) fn above_targets(fds: &[FdMap<'_>]) -> RawFd {
    match fds.last() {
        Some(map) if map.target() as RawFd >= STANDARD => (map.target() as RawFd).wrapping_add(1),
        _ => STANDARD,
    }
}

/// Keeps the standard numbers from `next` to below `end`. One that is closed becomes `/dev/null`: the first file
/// a program opens must not be its standard output. All lower numbers are open by now, so the open gets it.
#[inline(always)]
fn inherit(next: &mut RawFd, end: RawFd) -> Result<(), Errno> {
    while *next < end && *next < STANDARD {
        if sys::keep_across_exec(*next).is_err()
            && let Err(e) = sys::open(c"/dev/null", raw::O_RDWR)
        {
            return Err(e);
        }
        *next = next.wrapping_add(1);
    }
    Ok(())
}

/// Closes every number that is not passed. (Marking them close-on-exec would do for the program, but a child
/// that hangs in exec must not hold its supervisor's pipes, sockets and locks.)
#[inline(always)]
fn close_others(job: &Job<'_>) -> Result<(), Errno> {
    let mut refused = false;
    let mut first = STANDARD as u32;
    for map in job.plan.fds {
        close_between(&mut first, map.target(), &mut refused);
    }
    let (low, high) = if job.pipe < job.program { (job.pipe, job.program) } else { (job.program, job.pipe) };
    if low >= 0 {
        close_between(&mut first, low as u32, &mut refused);
    }
    if high >= 0 {
        close_between(&mut first, high as u32, &mut refused);
    }
    if sys::close_range(first, u32::MAX).is_err() || refused {
        let closing = if scan(job) { Closing::Scan } else { Closing::CloseOnExec };
        note(job, 8, closing as u32);
    }
    Ok(())
}

/// Closes from `first` to below `kept`, which is passed.
#[inline(always)]
fn close_between(first: &mut u32, kept: u32, refused: &mut bool) {
    if kept > *first && sys::close_range(*first, kept.wrapping_sub(1)).is_err() {
        *refused = true;
    }
    if kept >= *first {
        *first = kept.wrapping_add(1);
    }
}

/// Closes what `/proc/self/fd` lists; `false` if it cannot be read.
fn scan(job: &Job<'_>) -> bool {
    let flags = raw::O_RDONLY | raw::O_DIRECTORY | raw::O_CLOEXEC;
    let Ok(dir) = sys::open(c"/proc/self/fd", flags) else { return false };
    let mut buffer = [0u8; 1024];
    // Ends at the end of the directory. Numbers only vanish meanwhile, and those behind are not read again.
    loop {
        let mut rest: &[u8] = match sys::entries(dir, &mut buffer) {
            Ok(0) => break,
            Ok(n) => match buffer.get(..n) {
                Some(read) => read,
                None => break,
            },
            Err(_) => {
                sys::close(dir);
                return false;
            }
        };
        // Each entry is at least its head long, so this ends with the buffer.
        while let Some((fd, tail)) = next_number(rest) {
            rest = tail;
            if fd >= STANDARD && fd != dir && fd != job.pipe && fd != job.program && !is_target(job.plan, fd)
            {
                sys::close(fd);
            }
        }
    }
    sys::close(dir);
    true
}

/// The first entry of a `linux_dirent64` list as a number (`.` and `..` are -1), and the rest.
#[inline(always)]
fn next_number(list: &[u8]) -> Option<(RawFd, &[u8])> {
    // d_ino and d_off are 8 bytes each, then d_reclen, then one byte of d_type and the name.
    let (Some(&low), Some(&high)) = (list.get(16), list.get(17)) else { return None };
    let length = u16::from_ne_bytes([low, high]) as usize;
    let (Some(name), Some(rest)) = (list.get(19..length), list.get(length..)) else { return None };
    let mut number: RawFd = 0;
    for &byte in name {
        match byte {
            0 => break,
            b'0'..=b'9' => number = number.wrapping_mul(10).wrapping_add((byte & 15) as RawFd),
            _ => return Some((-1, rest)),
        }
    }
    Some((number, rest))
}

#[inline(always)]
fn is_target(plan: &Plan<'_>, fd: RawFd) -> bool {
    for map in plan.fds {
        if map.target() as RawFd == fd {
            return true;
        }
    }
    false
}

#[inline(always)]
pub(super) fn masks(plan: &Plan<'_>, mask: SigSet) -> Result<(), Errno> {
    if let Some(bits) = plan.umask {
        sys::umask(bits);
    }
    match sys::set_mask(mask) {
        Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Returns on failure only. A file that may not be executed does not end the search, but is the answer if
/// nothing better comes.
#[inline(always)]
pub(super) fn exec(plan: &Plan<'_>, program: RawFd) -> Errno {
    let (argv, environ) = (plan.argv.as_ptr(), plan.environ.as_ptr());
    let paths = match plan.program {
        Program::Open(_) => return sys::execveat(program, argv, environ),
        Program::Paths(paths) => paths,
    };
    let mut answer = Errno::ENOENT;
    for &path in paths.pointers() {
        let errno = sys::execve(path, argv, environ);
        if !image::search_goes_on(errno) {
            return errno;
        }
        if answer != Errno::EACCES {
            answer = errno;
        }
    }
    answer
}
