//! One wrapper for each system call that rustix lacks, and for each that the child's path makes.
//!
//! Between clone and exec a child shares its supervisor's memory and must not call anything that takes a
//! lock, allocates, reads thread-local storage or could unwind. rustix promises none of that once a host turns
//! on its `use-libc` feature, so the child calls these functions only. They are inlined and hold one
//! system call each.
//!
//! A wrapper passes on what the kernel answers; it never retries and never decides. Addresses go to the
//! kernel as they are: it checks each, answers `EFAULT` for a bad one, and unless the wrapper says
//! otherwise only reads.

use core::{ffi::CStr, mem::size_of, ptr, sync::atomic::AtomicI32, time::Duration};

use linux_raw_sys::{general as raw, ioctl, prctl};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub(crate) use crate::entries::{next_entry, next_number};
use crate::{Errno, Pid, Signal, arch};

/// A system call with its arguments, padded by zeros to six.
macro_rules! syscall {
    (@ $nr:ident, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr $(, $spare:expr)*) => {
        arch::syscall6(raw::$nr, [$a, $b, $c, $d, $e, $f])
    };
    ($nr:ident $(, $arg:expr)*) => {
        syscall!(@ $nr $(, $arg)*, 0, 0, 0, 0, 0, 0)
    };
}

#[inline(always)]
fn result(ret: isize) -> Result<usize, Errno> {
    match Errno::of_return(ret) {
        Some(e) => Err(e),
        None => Ok(ret as usize),
    }
}

#[inline(always)]
fn unit(ret: isize) -> Result<(), Errno> {
    result(ret).map(drop)
}

#[inline(always)]
fn descriptor(ret: isize) -> Result<RawFd, Errno> {
    result(ret).map(|fd| fd as RawFd)
}

#[inline(always)]
fn number(ret: isize) -> i32 {
    ret as i32
}

/// 0 is no signal.
#[inline(always)]
fn raw_or_none(signal: Option<Signal>) -> i32 {
    signal.map_or(0, Signal::raw)
}

/// A signed number as the kernel takes it in a register.
#[inline(always)]
fn int(n: i32) -> usize {
    n as isize as usize
}

/// Makes functions of one system call each, which takes numbers only and touches no memory: no argument of theirs can be
/// unsound. That a descriptor which is closed or replaced is the caller's to close is said where that is done.
macro_rules! of_numbers {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty = $answer:ident($nr:ident $(, $value:expr)*);)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        $vis fn $name($($arg: $type),*) -> $out {
            // SAFETY: numbers only.
            $answer(unsafe { syscall!($nr $(, $value)*) })
        }
    )*};
}

/// The bits of a signal mask: bit `n - 1` stands for signal `n` (`kernel_sigset_t`).
pub(crate) type SigSet = u64;

// ---- making, replacing and ending a process ----

/// `clone3(args, sizeof args)` onto the stack in `args`; the child runs `entry(arg)`.
///
/// Since Linux 5.3. <https://man7.org/linux/man-pages/man2/clone3.2.html>
///
/// # Errors
/// - `ENOSYS`, `EPERM`, `EINVAL`, `E2BIG`: not here (older kernel, or a filter).
/// - `EAGAIN`: a limit on processes.
///
/// # Safety
/// As [`arch::clone_onto`].
#[inline(always)]
pub(crate) unsafe fn clone3(
    args: &raw::clone_args,
    entry: unsafe extern "C" fn(usize) -> !,
    arg: usize,
) -> Result<usize, Errno> {
    let a = [ptr::from_ref(args) as usize, size_of::<raw::clone_args>(), 0, 0, 0];
    // SAFETY: `args` is a whole `clone_args`; the rest is the caller's promise.
    result(unsafe { arch::clone_onto(raw::__NR_clone3, a, entry, arg) })
}

/// `clone(flags, stack, pidfd)`: the older call. `pidfd` is written with `CLONE_PIDFD` only.
///
/// Always there; `CLONE_PIDFD` since Linux 5.2. <https://man7.org/linux/man-pages/man2/clone.2.html>
///
/// # Errors
/// - `EAGAIN`: a limit on processes.
/// - `EINVAL`: a flag is unknown here, or shared memory is refused (a time namespace, before Linux 6.2).
///
/// # Safety
/// As [`arch::clone_onto`]; `stack` is its top.
#[inline(always)]
pub(crate) unsafe fn clone(
    flags: u32,
    stack: usize,
    pidfd: &AtomicI32,
    entry: unsafe extern "C" fn(usize) -> !,
    arg: usize,
) -> Result<usize, Errno> {
    let a = [flags as usize, stack, pidfd.as_ptr() as usize, 0, 0];
    // SAFETY: `pidfd` is a place for one int; the rest is the caller's promise.
    result(unsafe { arch::clone_onto(raw::__NR_clone, a, entry, arg) })
}

/// What [`fork`] hands to the child.
struct Start<'a, T> {
    main: fn(&T) -> !,
    arg: &'a T,
}

/// # Safety
/// - `start` is the address of a [`Start`] of this type that stays as it is.
unsafe extern "C" fn enter<T>(start: usize) -> ! {
    // SAFETY: the caller's promise.
    let start = unsafe { &*(start as *const Start<'_, T>) };
    (start.main)(start.arg)
}

/// `clone(CLONE_PIDFD, stack)` without an exit signal: a copy of this process, of its calling thread alone, runs `main(arg)` on another
/// stack. An ordinary `waitpid` does not see it, `__WALL` does. Without the flag where that is refused.
///
/// Always there; a pidfd since Linux 5.2. <https://man7.org/linux/man-pages/man2/clone.2.html>
///
/// # Errors
/// - `EAGAIN`: a limit on processes. `ENOMEM`: no memory for the copy. `ENOSYS`, `EPERM`: not here.
pub(crate) fn fork<T>(stack: usize, main: fn(&T) -> !, arg: &T) -> Result<(Pid, Option<OwnedFd>), Errno> {
    let (start, pidfd) = (Start { main, arg }, AtomicI32::new(-1));
    let at = ptr::from_ref(&start) as usize;
    // SAFETY: memory is not shared, so the child has its own copy of all that is borrowed, of the stack too.
    let with = |flags| unsafe { clone(flags, stack, &pidfd, enter::<T>, at) };
    match with(raw::CLONE_PIDFD) {
        Ok(pid) => {
            let pid = Pid::from_raw(pid as i32).ok_or(Errno::EINVAL)?;
            // SAFETY: the kernel has just made it.
            Ok((pid, Some(unsafe { own(pidfd.into_inner()) })))
        }
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EPERM) => {
            Ok((Pid::from_raw(with(0)? as i32).ok_or(Errno::EINVAL)?, None))
        }
        Err(e) => Err(e),
    }
}

/// `execve(path, argv, envp)`; returns on failure only.
///
/// Always there. <https://man7.org/linux/man-pages/man2/execve.2.html>
#[inline(always)]
pub(crate) fn execve(path: *const u8, argv: *const *const u8, envp: *const *const u8) -> Errno {
    // SAFETY: the kernel only reads. Where the call succeeds nothing of this program is left to be unsound.
    let ret = unsafe { syscall!(__NR_execve, path as usize, argv as usize, envp as usize) };
    Errno::of_return(ret).unwrap_or(Errno::EINVAL)
}

/// `execveat(fd, "", argv, envp, AT_EMPTY_PATH)`: runs the file that `fd` is; returns on failure only.
///
/// Since Linux 3.19. <https://man7.org/linux/man-pages/man2/execveat.2.html>
#[inline(always)]
pub(crate) fn execveat(fd: RawFd, argv: *const *const u8, envp: *const *const u8) -> Errno {
    let (path, flags) = (c"".as_ptr() as usize, raw::AT_EMPTY_PATH as usize);
    // SAFETY: as for `execve`.
    let ret = unsafe { syscall!(__NR_execveat, int(fd), path, argv as usize, envp as usize, flags) };
    Errno::of_return(ret).unwrap_or(Errno::EINVAL)
}

/// `exit_group(code)`. Where that is refused `exit(code)`, which is the same for the one thread of a new process; where that is
/// refused too, a trap: whoever waits for the end must not wait for ever.
///
/// Always there. <https://man7.org/linux/man-pages/man2/exit_group.2.html>
#[inline(always)]
pub(crate) fn exit_group(code: i32) -> ! {
    exit_process(code);
    exit_thread(code);
    arch::trap()
}

// ---- signals of the calling thread ----

/// `rt_sigprocmask(SIG_SETMASK, &set)`: the old mask.
///
/// Always there. <https://man7.org/linux/man-pages/man2/rt_sigprocmask.2.html>
#[inline(always)]
pub(crate) fn set_mask(set: SigSet) -> Result<SigSet, Errno> {
    let mut old: SigSet = 0;
    let (new, old_at) = (ptr::from_ref(&set) as usize, ptr::from_mut(&mut old) as usize);
    // SAFETY: reads one set and writes one, both of the size that is passed.
    let ret =
        unsafe { syscall!(__NR_rt_sigprocmask, raw::SIG_SETMASK as usize, new, old_at, size_of::<SigSet>()) };
    unit(ret).map(|()| old)
}

/// `rt_sigprocmask(SIG_SETMASK, NULL, &old)`: the mask.
///
/// Always there. <https://man7.org/linux/man-pages/man2/rt_sigprocmask.2.html>
pub(crate) fn mask() -> Result<SigSet, Errno> {
    let mut old: SigSet = 0;
    let at = ptr::from_mut(&mut old) as usize;
    // SAFETY: writes one set, of the size that is passed.
    let ret = unsafe { syscall!(__NR_rt_sigprocmask, raw::SIG_SETMASK as usize, 0, at, size_of::<SigSet>()) };
    unit(ret).map(|()| old)
}

/// `rt_sigpending(&set)`: blocked signals that wait for this thread or for the process.
///
/// Always there. <https://man7.org/linux/man-pages/man2/rt_sigpending.2.html>
pub(crate) fn pending() -> Result<SigSet, Errno> {
    let mut set: SigSet = 0;
    let at = ptr::from_mut(&mut set) as usize;
    // SAFETY: writes one set, of the size that is passed.
    unit(unsafe { syscall!(__NR_rt_sigpending, at, size_of::<SigSet>()) }).map(|()| set)
}

/// `rt_sigtimedwait(&set, NULL, &zero)`: takes one of these signals away, if it is pending.
///
/// Always there. <https://man7.org/linux/man-pages/man2/rt_sigtimedwait.2.html>
///
/// # Errors
/// - `EAGAIN`: none was.
pub(crate) fn take_pending(set: SigSet) -> Result<(), Errno> {
    let zero = raw::__kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    let (at, wait) = (ptr::from_ref(&set) as usize, ptr::from_ref(&zero) as usize);
    // SAFETY: reads one set, of the size that is passed, and one time.
    unit(unsafe { syscall!(__NR_rt_sigtimedwait, at, 0, wait, size_of::<SigSet>()) })
}

/// What a signal does, as `rt_sigaction(2)` takes it (`include/linux/signal_types.h`).
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    #[cfg(not(target_arch = "riscv64"))]
    restorer: usize,
    mask: SigSet,
}
const _: () = assert!(size_of::<Action>() == size_of::<raw::kernel_sigaction>());

/// `SIG_DFL`, no flags.
const DEFAULT: Action = Action {
    handler: 0,
    flags: 0,
    #[cfg(not(target_arch = "riscv64"))]
    restorer: 0,
    mask: 0,
};

/// What a signal does, as far as this crate asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Ignored,
    /// `SA_NOCLDWAIT`: children leave no zombie, and so no status.
    NoZombies,
    Other,
}

#[inline(always)]
fn action(signal: i32) -> Result<Action, Errno> {
    let mut old = DEFAULT;
    let at = ptr::from_mut(&mut old) as usize;
    // SAFETY: writes one action; the size is that of its mask.
    let ret = unsafe { syscall!(__NR_rt_sigaction, int(signal), 0, at, size_of::<SigSet>()) };
    unit(ret).map(|()| old)
}

#[inline(always)]
fn set_action(signal: i32, new: &Action) -> Result<(), Errno> {
    let at = ptr::from_ref(new) as usize;
    // SAFETY: reads one action; it is the default, or the one in force with other flags.
    unit(unsafe { syscall!(__NR_rt_sigaction, int(signal), at, 0, size_of::<SigSet>()) })
}

/// `rt_sigaction(signal, NULL, &old)`.
///
/// Always there. <https://man7.org/linux/man-pages/man2/rt_sigaction.2.html>
#[inline(always)]
pub(crate) fn disposition(signal: i32) -> Result<Disposition, Errno> {
    match action(signal) {
        Err(e) => Err(e),
        // SIG_IGN.
        Ok(Action { handler: 1, .. }) => Ok(Disposition::Ignored),
        Ok(Action { flags, .. }) if flags & raw::SA_NOCLDWAIT as usize != 0 => Ok(Disposition::NoZombies),
        Ok(_) => Ok(Disposition::Other),
    }
}

/// `rt_sigaction(signal, &default, NULL)`.
///
/// Always there. <https://man7.org/linux/man-pages/man2/rt_sigaction.2.html>
#[inline(always)]
pub(crate) fn set_default(signal: i32) -> Result<(), Errno> {
    set_action(signal, &DEFAULT)
}

/// The same action for SIGCHLD without `SA_NOCLDWAIT`.
///
/// Always there. <https://man7.org/linux/man-pages/man2/rt_sigaction.2.html>
pub(crate) fn leave_zombies() -> Result<(), Errno> {
    let now = action(Signal::CHLD.raw())?;
    set_action(Signal::CHLD.raw(), &Action { flags: now.flags & !(raw::SA_NOCLDWAIT as usize), ..now })
}

// ---- what a child is ----

of_numbers! {
    /// `setpgid(0, pgid)`; 0 is a group of its own.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/setpgid.2.html>
    pub(crate) fn setpgid(pgid: i32) -> Result<(), Errno> = unit(__NR_setpgid, 0, int(pgid));

    /// `setsid()`.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/setsid.2.html>
    pub(crate) fn setsid() -> Result<(), Errno> = unit(__NR_setsid);

    /// `getpid()`.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/getpid.2.html>
    pub(crate) fn getpid() -> i32 = number(__NR_getpid);

    /// `getpgid(0)`: the caller's group.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/getpgid.2.html>
    pub(crate) fn getpgrp() -> i32 = number(__NR_getpgid, 0);

    /// `getppid()`; 0 when the parent is in another pid namespace.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/getppid.2.html>
    pub(crate) fn getppid() -> i32 = number(__NR_getppid);

    /// `ioctl(tty, TIOCSCTTY, 0)`: makes the terminal the controlling one of the new session.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/TIOCSCTTY.2const.html>
    pub(crate) fn set_controlling(tty: RawFd) -> Result<(), Errno> = unit(__NR_ioctl, int(tty), ioctl::TIOCSCTTY as usize, 0);

    /// `setpriority(PRIO_PROCESS, 0, nice)`.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/setpriority.2.html>
    pub(crate) fn set_nice(nice: i32) -> Result<(), Errno> = unit(__NR_setpriority, raw::PRIO_PROCESS as usize, 0, int(nice));

    /// `setresgid(gid, gid, gid)` of the calling thread.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/setresgid.2.html>
    pub(crate) fn set_gid(gid: u32) -> Result<(), Errno> = unit(__NR_setresgid, gid as usize, gid as usize, gid as usize);

    /// `setresuid(uid, uid, uid)` of the calling thread.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/setresuid.2.html>
    pub(crate) fn set_uid(uid: u32) -> Result<(), Errno> = unit(__NR_setresuid, uid as usize, uid as usize, uid as usize);

    /// `prctl(PR_SET_PDEATHSIG, signal)`: sent when the creating *thread* ends.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html>
    pub(crate) fn set_death_signal(signal: Signal) -> Result<(), Errno> = unit(__NR_prctl, prctl::PR_SET_PDEATHSIG as usize, int(signal.raw()));

    /// `prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)`.
    ///
    /// Since Linux 3.5. <https://man7.org/linux/man-pages/man2/PR_SET_NO_NEW_PRIVS.2const.html>
    pub(crate) fn set_no_new_privs() -> Result<(), Errno> = unit(__NR_prctl, prctl::PR_SET_NO_NEW_PRIVS as usize, 1);

    /// `umask(mask)`.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/umask.2.html>
    pub(crate) fn umask(mask: u32) -> Result<(), Errno> = unit(__NR_umask, mask as usize);
}

/// `ioctl(tty, TIOCSPGRP, &pgid)`: makes the group the foreground of the terminal.
///
/// Always there. <https://man7.org/linux/man-pages/man2/TIOCSPGRP.2const.html>
#[inline(always)]
pub(crate) fn set_foreground(tty: RawFd, pgid: i32) -> Result<(), Errno> {
    let at = ptr::from_ref(&pgid) as usize;
    // SAFETY: reads one int.
    unit(unsafe { syscall!(__NR_ioctl, int(tty), ioctl::TIOCSPGRP as usize, at) })
}

/// `prlimit(0, resource, &new, NULL)`.
///
/// Since Linux 2.6.36. <https://man7.org/linux/man-pages/man2/prlimit.2.html>
#[inline(always)]
pub(crate) fn set_rlimit(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let new = raw::rlimit64 { rlim_cur: soft, rlim_max: hard };
    let at = ptr::from_ref(&new) as usize;
    // SAFETY: reads one `rlimit64`.
    unit(unsafe { syscall!(__NR_prlimit64, 0, resource as usize, at, 0) })
}

/// `setgroups(n, groups)` of the calling thread.
///
/// Always there. <https://man7.org/linux/man-pages/man2/setgroups.2.html>
#[inline(always)]
pub(crate) fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: reads the slice.
    unit(unsafe { syscall!(__NR_setgroups, groups.len(), groups.as_ptr() as usize) })
}

/// `chdir(path)`.
///
/// Always there. <https://man7.org/linux/man-pages/man2/chdir.2.html>
#[inline(always)]
pub(crate) fn chdir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: reads a string that ends.
    unit(unsafe { syscall!(__NR_chdir, path.as_ptr() as usize) })
}

// ---- descriptors, by number ----

/// `openat(AT_FDCWD, path, flags, 0)`; the caller closes it.
///
/// Always there. <https://man7.org/linux/man-pages/man2/openat.2.html>
#[inline(always)]
pub(crate) fn open(path: &CStr, flags: u32) -> Result<RawFd, Errno> {
    // SAFETY: reads a string that ends.
    descriptor(unsafe {
        syscall!(__NR_openat, int(raw::AT_FDCWD), path.as_ptr() as usize, flags as usize, 0)
    })
}

/// `openat(dir, path, flags, 0)`: the same from an open directory on.
///
/// Always there. <https://man7.org/linux/man-pages/man2/openat.2.html>
pub(crate) fn open_at(dir: RawFd, path: &CStr, flags: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: reads a string that ends.
    let ret = unsafe { syscall!(__NR_openat, int(dir), path.as_ptr() as usize, flags as usize, 0) };
    // SAFETY: the kernel has just made it.
    descriptor(ret).map(|fd| unsafe { own(fd) })
}

/// `read(fd, buffer)`: how many bytes came.
///
/// Always there. <https://man7.org/linux/man-pages/man2/read.2.html>
pub(crate) fn read(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: writes at most the slice; any bytes are valid there.
    result(unsafe { syscall!(__NR_read, int(fd), buffer.as_mut_ptr() as usize, buffer.len()) })
}

/// `write(fd, bytes)`.
///
/// Always there. <https://man7.org/linux/man-pages/man2/write.2.html>
#[inline(always)]
pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: reads the slice.
    result(unsafe { syscall!(__NR_write, int(fd), bytes.as_ptr() as usize, bytes.len()) })
}

of_numbers! {
    /// `close(fd)`; whatever a kernel answers, the number is free.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/close.2.html>
    pub(crate) fn close(fd: RawFd) -> Result<(), Errno> = unit(__NR_close, int(fd));

    /// `fcntl(fd, F_DUPFD_CLOEXEC, least)`: a copy at the first free number from `least` on.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/fcntl.2.html>
    pub(crate) fn duplicate_above(fd: RawFd, least: RawFd) -> Result<RawFd, Errno> = descriptor(__NR_fcntl, int(fd), raw::F_DUPFD_CLOEXEC as usize, int(least));

    /// `fcntl(fd, F_SETFD, 0)`: the descriptor stays open across exec.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/fcntl.2.html>
    pub(crate) fn keep_across_exec(fd: RawFd) -> Result<(), Errno> = unit(__NR_fcntl, int(fd), raw::F_SETFD as usize, 0);

    /// `fcntl(fd, F_SETFD, FD_CLOEXEC)`: no program that is executed gets the descriptor.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/fcntl.2.html>
    pub(crate) fn close_on_exec(fd: RawFd) -> Result<(), Errno> = unit(__NR_fcntl, int(fd), raw::F_SETFD as usize, raw::FD_CLOEXEC as usize);

    /// `dup3(fd, at, 0)`: `at` becomes a copy that stays open across exec.
    ///
    /// Since Linux 2.6.27. <https://man7.org/linux/man-pages/man2/dup3.2.html>
    pub(crate) fn duplicate_at(fd: RawFd, at: RawFd) -> Result<(), Errno> = unit(__NR_dup3, int(fd), int(at), 0);

    /// `close_range(first, last, 0)`.
    ///
    /// Since Linux 5.9. <https://man7.org/linux/man-pages/man2/close_range.2.html>
    ///
    /// # Errors
    /// - `ENOSYS`, `EPERM`, `EINVAL`: not here.
    pub(crate) fn close_range(first: RawFd, last: RawFd) -> Result<(), Errno> = unit(__NR_close_range, int(first), int(last), 0);
}

of_numbers! {
    fn descriptor_flags(fd: RawFd) -> Result<usize, Errno> = result(__NR_fcntl, int(fd), raw::F_GETFD as usize);
    fn exit_process(code: i32) -> i32 = number(__NR_exit_group, int(code));
    fn exit_thread(code: i32) -> i32 = number(__NR_exit, int(code));
    fn kill_number(to: i32, signal: i32) -> Result<(), Errno> = unit(__NR_kill, int(to), int(signal));
    fn open_pidfd(pid: Pid) -> Result<RawFd, Errno> = descriptor(__NR_pidfd_open, int(pid.raw()), 0);
}

/// `fcntl(fd, F_GETFD)`: whether the descriptor is open and stays so across exec. Where that is refused it is taken as it is.
///
/// Always there. <https://man7.org/linux/man-pages/man2/fcntl.2.html>
#[inline(always)]
pub(crate) fn stays_across_exec(fd: RawFd) -> bool {
    match descriptor_flags(fd) {
        Ok(flags) => flags & raw::FD_CLOEXEC as usize == 0,
        Err(errno) => errno != Errno::EBADF,
    }
}

/// `unlinkat(dir, name, AT_REMOVEDIR)`: removes an empty directory, or a cgroup where nobody lives.
///
/// Always there. <https://man7.org/linux/man-pages/man2/unlinkat.2.html>
pub(crate) fn remove_dir(dir: RawFd, name: &CStr) -> Result<(), Errno> {
    // SAFETY: reads a string that ends.
    unit(unsafe { syscall!(__NR_unlinkat, int(dir), name.as_ptr() as usize, raw::AT_REMOVEDIR as usize) })
}

/// `getdents64(fd, buffer)`: entries of a directory, as bytes written.
///
/// Always there. <https://man7.org/linux/man-pages/man2/getdents64.2.html>
#[inline(always)]
pub(crate) fn entries(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: writes at most the slice; any bytes are valid there.
    result(unsafe { syscall!(__NR_getdents64, int(fd), buffer.as_mut_ptr() as usize, buffer.len()) })
}

/// `ppoll(&{fd, POLLIN}, N, &limit, NULL)`: which of the descriptors are readable, or closed at the other end, within the limit. -1
/// never is.
///
/// Always there. <https://man7.org/linux/man-pages/man2/ppoll.2.html>
#[inline(always)]
pub(crate) fn readable<const N: usize>(fds: [RawFd; N], limit: Duration) -> Result<[bool; N], Errno> {
    let mut list = fds.map(|fd| raw::pollfd { fd, events: raw::POLLIN as i16, revents: 0 });
    let mut limit =
        raw::__kernel_timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let (at, wait) = (list.as_mut_ptr() as usize, ptr::from_mut(&mut limit) as usize);
    // SAFETY: reads and writes so many `pollfd` and one time.
    unit(unsafe { syscall!(__NR_ppoll, at, N, wait, 0) }).map(|()| list.map(|one| one.revents != 0))
}

/// `clock_gettime(CLOCK_MONOTONIC)`: the time since some moment, without what the machine slept.
///
/// Always there. <https://man7.org/linux/man-pages/man2/clock_gettime.2.html>
pub(crate) fn monotonic() -> Duration {
    let mut time = raw::__kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one time. It cannot fail for a clock that every kernel has.
    unsafe { syscall!(__NR_clock_gettime, raw::CLOCK_MONOTONIC as usize, ptr::from_mut(&mut time) as usize) };
    Duration::from_secs(time.tv_sec as u64).saturating_add(Duration::from_nanos(time.tv_nsec as u64))
}

// ---- the parent's side ----

/// Takes ownership of a descriptor that the kernel has just made for us.
///
/// # Safety
/// - `fd` is open, not negative, and owned by nobody else.
pub(crate) unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller's promise, passed on.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// `fcntl(fd, F_DUPFD_CLOEXEC, 3)`: a copy that belongs to the caller alone.
///
/// Always there. <https://man7.org/linux/man-pages/man2/fcntl.2.html>
///
/// # Errors
/// - `EBADF`: nobody has opened that number. `EMFILE`: no descriptor is left.
pub(crate) fn copy_of(fd: RawFd) -> Result<OwnedFd, Errno> {
    let copy = duplicate_above(fd, 3)?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { own(copy) })
}

/// A fresh stack for a child: `size` bytes above as many that fault, from two calls of `mmap`.
///
/// Always there. <https://man7.org/linux/man-pages/man2/mmap.2.html>
pub(crate) fn map_stack(size: usize) -> Result<usize, Errno> {
    let flags = (raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_STACK | raw::MAP_NORESERVE) as usize;
    let whole = size.saturating_mul(2);
    // SAFETY: a new map at an address of the kernel's choice touches no memory in use.
    let base = result(unsafe { syscall!(__NR_mmap, 0, whole, 0, flags, usize::MAX, 0) })?;
    let (access, upper) = ((raw::PROT_READ | raw::PROT_WRITE) as usize, base.saturating_add(size));
    let flags = flags | raw::MAP_FIXED as usize;
    // SAFETY: in place of the upper half of the map that was just made, and that nothing uses yet.
    let made = unit(unsafe { syscall!(__NR_mmap, upper, size, access, flags, usize::MAX, 0) });
    if made.is_err() {
        unmap_stack(base, size);
    }
    made.map(|()| base)
}

/// `madvise(start, end - start, MADV_DONTNEED)`: what stands in this private memory is gone, and it reads as zeros. Only for memory that
/// nothing of the caller's uses: a guard's, which was the supervisor's.
///
/// Always there. <https://man7.org/linux/man-pages/man2/madvise.2.html>
pub(crate) fn forget(start: usize, end: usize) -> Result<(), Errno> {
    // SAFETY: the caller's promise; the map itself stays.
    unit(unsafe { syscall!(__NR_madvise, start, end.saturating_sub(start), raw::MADV_DONTNEED as usize) })
}

/// `prctl(PR_SET_NAME, name)`: what the calling thread is called, 15 bytes at most.
///
/// Always there. <https://man7.org/linux/man-pages/man2/PR_SET_NAME.2const.html>
pub(crate) fn set_name(name: &CStr) -> Result<(), Errno> {
    // SAFETY: reads a string that ends.
    unit(unsafe { syscall!(__NR_prctl, prctl::PR_SET_NAME as usize, name.as_ptr() as usize) })
}

/// Gives back what [`map_stack`] made.
///
/// Always there. <https://man7.org/linux/man-pages/man2/munmap.2.html>
pub(crate) fn unmap_stack(base: usize, size: usize) {
    // SAFETY: called once, by the owner of the map, when no child is left on it.
    unsafe { syscall!(__NR_munmap, base, size.saturating_mul(2)) };
}

of_numbers! {
    /// `pidfd_send_signal(pidfd, signal, NULL, flags)`; no signal only asks.
    ///
    /// Since Linux 5.1; [`TO_GROUP`] since 6.9. <https://man7.org/linux/man-pages/man2/pidfd_send_signal.2.html>
    ///
    /// # Errors
    /// - `ESRCH`: reaped; with [`TO_GROUP`]: no member is left. Zombies answer.
    /// - `EINVAL`: the flag is unknown here. `ENOSYS`, `EPERM`: not here.
    pub(crate) fn signal_pidfd(pidfd: RawFd, signal: Option<Signal>, flags: u32) -> Result<(), Errno> = unit(__NR_pidfd_send_signal, int(pidfd), int(raw_or_none(signal)), 0, flags as usize);

    /// `kill(pid, signal)`. Only for a child of ours that is not reaped: nothing else pins the number.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/kill.2.html>
    pub(crate) fn kill(pid: Pid, signal: Signal) -> Result<(), Errno> = unit(__NR_kill, int(pid.raw()), int(signal.raw()));

    /// `kill(pid, 0)`: only asks whether a process or thread has the number.
    ///
    /// Always there. <https://man7.org/linux/man-pages/man2/kill.2.html>
    ///
    /// # Errors
    /// - `ESRCH`: nobody has it. Any other error says that somebody may.
    pub(crate) fn probe(pid: Pid) -> Result<(), Errno> = unit(__NR_kill, int(pid.raw()), 0);
}

/// `PIDFD_SIGNAL_PROCESS_GROUP` (`include/uapi/linux/pidfd.h`): to the group that the process leads or led.
pub(crate) const TO_GROUP: u32 = 1 << 2;

/// `kill(-pgid, signal)`; no signal only asks. Only for a group whose leader is our unreaped child.
///
/// Always there. <https://man7.org/linux/man-pages/man2/kill.2.html>
///
/// # Errors
/// - `ESRCH`: no member is left; also for 1, whose negative is everybody and is never sent.
pub(crate) fn kill_group(pgid: Pid, signal: Option<Signal>) -> Result<(), Errno> {
    if pgid == Pid::INIT {
        return Err(Errno::ESRCH);
    }
    kill_number(pgid.raw().wrapping_neg(), raw_or_none(signal))
}

/// Whom [`waitid`] waits for.
#[derive(Clone, Copy)]
pub(crate) enum WaitFor<'a> {
    Any,
    Pid(Pid),
    Pidfd(BorrowedFd<'a>),
}

/// The part of `siginfo_t` that `waitid(2)` fills in (`include/uapi/asm-generic/siginfo.h`, 64-bit).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ChildInfo {
    signo: i32,
    errno: i32,
    pub(crate) code: i32,
    pad: i32,
    pub(crate) pid: i32,
    uid: u32,
    pub(crate) status: i32,
    rest: [i32; 25],
}
const _: () = assert!(size_of::<ChildInfo>() == size_of::<raw::siginfo>());

/// `struct rusage` (`include/uapi/linux/resource.h`) as the numbers it is made of, in order.
pub(crate) type Rusage = [i64; 18];
const _: () = assert!(size_of::<Rusage>() == size_of::<raw::rusage>());

/// `waitid(idtype, id, &info, options, &usage)`.
///
/// Always there; by pidfd since Linux 5.4. <https://man7.org/linux/man-pages/man2/waitid.2.html>
///
/// # Errors
/// - `ECHILD`: not our child, or its status was taken.
/// - `EINVAL`: no pidfds here. `EINTR`: a signal came.
#[inline(always)]
pub(crate) fn waitid(who: WaitFor<'_>, options: u32) -> Result<(ChildInfo, Rusage), Errno> {
    let (kind, id) = match who {
        WaitFor::Any => (raw::P_ALL, 0),
        WaitFor::Pid(pid) => (raw::P_PID, int(pid.raw())),
        WaitFor::Pidfd(fd) => (raw::P_PIDFD, int(fd.as_raw_fd())),
    };
    let mut info = ChildInfo::default();
    let mut usage: Rusage = [0; 18];
    let (info_at, usage_at) = (ptr::from_mut(&mut info) as usize, usage.as_mut_ptr() as usize);
    // SAFETY: writes one `siginfo_t` and one `rusage`.
    let ret = unsafe { syscall!(__NR_waitid, kind as usize, id, info_at, options as usize, usage_at) };
    unit(ret).map(|()| (info, usage))
}

/// `wait4(pid, &status, options, &usage)`: the raw status of a child that has ended, which is reaped by this. `None`: not ended, and
/// `WNOHANG` is among the options.
///
/// Always there. <https://man7.org/linux/man-pages/man2/wait4.2.html>
///
/// # Errors
/// - `ECHILD`: not our child, or its status was taken. `EINTR`: a signal came.
pub(crate) fn wait4(pid: Pid, options: u32) -> Result<Option<(i32, Rusage)>, Errno> {
    let (mut status, mut usage): (i32, Rusage) = (0, [0; 18]);
    let (status_at, usage_at) = (ptr::from_mut(&mut status) as usize, usage.as_mut_ptr() as usize);
    // SAFETY: writes one int and one `rusage`.
    let ret = unsafe { syscall!(__NR_wait4, int(pid.raw()), status_at, options as usize, usage_at) };
    result(ret).map(|reaped| (reaped != 0).then_some((status, usage)))
}

/// `pidfd_open(pid, 0)`.
///
/// Since Linux 5.3. <https://man7.org/linux/man-pages/man2/pidfd_open.2.html>
///
/// # Errors
/// - `ESRCH`: nobody has the number. `ENOENT`, `EINVAL`: it is a thread's.
/// - `ENOSYS`, `EPERM`: not here.
pub(crate) fn pidfd_open(pid: Pid) -> Result<OwnedFd, Errno> {
    let fd = open_pidfd(pid)?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { own(fd) })
}

/// `signalfd4(-1, &set, sizeof set, SFD_CLOEXEC | SFD_NONBLOCK)`: a descriptor that these signals are read from.
/// (The flags are those of `open`, `include/uapi/linux/signalfd.h`.)
///
/// Since Linux 2.6.27. <https://man7.org/linux/man-pages/man2/signalfd4.2.html>
///
/// # Errors
/// - `EMFILE`, `ENFILE`, `ENOMEM`: no descriptor to be had.
pub(crate) fn signalfd(set: SigSet) -> Result<OwnedFd, Errno> {
    let (at, flags) = (ptr::from_ref(&set) as usize, (raw::O_CLOEXEC | raw::O_NONBLOCK) as usize);
    // SAFETY: reads one set, of the size that is passed.
    let fd = result(unsafe { syscall!(__NR_signalfd4, usize::MAX, at, size_of::<SigSet>(), flags) })?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { own(fd as RawFd) })
}

/// `struct pidfd_info` in its first size (`include/uapi/linux/pidfd.h`).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// pid, tgid, ppid, then real, effective, saved and file-system ids.
    ids: [u32; 11],
    exit_code: i32,
}
const _: () = assert!(size_of::<PidfdInfo>() == 64);
/// `_IOWR(0xFF, 11, struct pidfd_info)` with that size.
const PIDFD_GET_INFO: usize = 0xC040_FF0B;
/// `PIDFD_INFO_EXIT`.
const INFO_EXIT: u64 = 1 << 3;

/// `ioctl(pidfd, PIDFD_GET_INFO, &info)`: the raw wait status of a process that has ended and been reaped by
/// anybody; `None` before that.
///
/// Since Linux 6.15. <https://man7.org/linux/man-pages/man2/PIDFD_GET_INFO.2const.html>
///
/// # Errors
/// - `ENOTTY`, `EINVAL`: not here. `ESRCH`: reaped, and this kernel does not remember.
pub(crate) fn pidfd_exit_status(pidfd: RawFd) -> Result<Option<i32>, Errno> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    let at = ptr::from_mut(&mut info) as usize;
    // SAFETY: reads and writes one structure, whose size is part of the request.
    unit(unsafe { syscall!(__NR_ioctl, int(pidfd), PIDFD_GET_INFO, at) })?;
    Ok((info.mask & INFO_EXIT != 0).then_some(info.exit_code))
}
