//! The few system calls the fixtures need and std lacks, each as a safe function.
//!
//! Signals go through a pidfd only, and never to the numbers 0 and 1, so that a wrong number ends nothing.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use crate::proc;

/// The result of a call that answers -1 for an error.
///
/// # Errors
/// What `errno` says, where the call failed.
pub fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret == -1 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}

fn fd(ret: libc::c_long) -> io::Result<OwnedFd> {
    let raw = check(ret)? as RawFd;
    // SAFETY: the call has just made it, and nobody else knows the number.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// A pidfd of a process. Since Linux 5.3.
///
/// # Errors
/// - `EINVAL`: 0, 1 and what is no pid.
/// - `ESRCH`: gone.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    match libc::pid_t::try_from(pid) {
        // SAFETY: takes numbers only.
        Ok(n) if n > 1 => fd(unsafe { libc::syscall(libc::SYS_pidfd_open, n, 0) }),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Signals a process through its pidfd; 0 only asks. Since Linux 5.1.
///
/// # Errors
/// `ESRCH`: reaped.
pub fn signal(pidfd: &OwnedFd, signal: i32) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: with a null `info` the kernel reads no memory of ours.
    let ret = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, none, 0) };
    check(ret).map(drop)
}

/// Signals the process that has this number now: for one that the caller has started and not yet reaped.
///
/// # Errors
/// As [`pidfd`] and [`signal`].
pub fn signal_pid(pid: u32, number: i32) -> io::Result<()> {
    signal(&pidfd(pid)?, number)
}

/// A file in memory that no exec inherits, for what a child writes: nobody has to read along.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub fn memory_file(name: &str) -> io::Result<std::fs::File> {
    let name = CString::new(name)?;
    // SAFETY: the name is a string with its end.
    fd(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) }.into()).map(std::fs::File::from)
}

/// Whether this process has the effective user root (of its user namespace).
pub fn is_root() -> bool {
    // SAFETY: asks only.
    unsafe { libc::geteuid() == 0 }
}

/// Sets a signal to be ignored, here and after exec.
///
/// # Errors
/// `EINVAL`: SIGKILL, SIGSTOP or no signal.
pub fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: to ignore runs no code of ours. It makes no allocation, so it may stand between fork and exec.
    let old = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if old == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for ever, whatever signal comes.
pub fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: waits only.
        unsafe { libc::pause() };
    }
}

/// Makes this process the reaper of the orphans below it, and says whether that worked.
pub fn become_subreaper() -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 }
}

/// Takes the zombies away that came to this process, as they do to pid 1 and to a subreaper: thousands of them make every look at `/proc`
/// slow. Only between rounds, when no child's status is waited for.
pub fn reap_orphans() {
    for pid in proc::children(std::process::id()) {
        let pid = libc::pid_t::try_from(pid).expect("a pid");
        // SAFETY: takes numbers, and a null status is not written.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    }
}

/// Runs `body` with the descriptors `0..=2` of this process closed, and puts them back. The whole process
/// sees it: only in a process of its own.
pub fn with_std_closed<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: makes descriptors above 9, which exec closes.
    let saved = [0, 1, 2].map(|n| unsafe { libc::fcntl(n, libc::F_DUPFD_CLOEXEC, 10) });
    for n in 0..3 {
        // SAFETY: the standard streams belong to the process and nothing else is running in it.
        unsafe { libc::close(n) };
    }
    let result = body();
    for (n, old) in (0..3).zip(saved) {
        // SAFETY: `n` is ours again, whoever has taken it meanwhile; 0 is put back as it was.
        unsafe { libc::dup2(old, n) };
        // SAFETY: made above, used by nobody else.
        unsafe { libc::close(old) };
    }
    result
}
