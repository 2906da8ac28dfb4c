//! Each system call of a process and of whoever it starts, seen before it is made, and let pass or refused.
//!
//! The process asks for it by [`Filter::note_all`](crate::seccomp::Filter::note_all). Since Linux 5.6:
//! <https://man7.org/linux/man-pages/man2/seccomp_unotify.2.html>

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::PathBuf,
    time::Duration,
};

use crate::{os, proc};

// Of uapi/linux/seccomp.h: _IOWR('!', 0, struct seccomp_notif), _IOWR('!', 1, struct seccomp_notif_resp).
const RECEIVE: libc::Ioctl = 0xC050_2100_u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xC018_2101_u32 as libc::Ioctl;
const _: () = assert!(size_of::<libc::seccomp_notif>() == 80 && size_of::<libc::seccomp_notif_resp>() == 24);

/// The listener of one process and its descendants.
#[derive(Debug)]
pub struct Notices(OwnedFd);

/// A call that waits.
#[derive(Debug, Clone, Copy)]
pub struct Notice {
    id: u64,
    /// Whose it is.
    pub pid: u32,
    /// Which.
    pub call: libc::c_long,
}

impl Notices {
    /// The listener that a process has, or is about to have, at this number.
    #[track_caller]
    pub fn of(pid: u32, number: RawFd) -> Notices {
        let pidfd = os::pidfd(pid).expect("a process");
        let link = PathBuf::from(format!("/proc/{pid}/fd/{number}"));
        proc::eventually("a listener", || {
            std::fs::read_link(&link).is_ok_and(|what| what.to_string_lossy().contains("seccomp notify"))
        });
        // SAFETY: takes numbers only.
        let made = os::check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) });
        let made = made.expect("a copy of the listener");
        // SAFETY: just made, and nobody else knows the number.
        Notices(unsafe { OwnedFd::from_raw_fd(made as RawFd) })
    }

    /// The next call; `None` when nobody is left who could make one.
    ///
    /// # Errors
    /// `TimedOut`: none came within the limit.
    pub fn next(&self, limit: Duration) -> io::Result<Option<Notice>> {
        loop {
            let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd.
            let found = unsafe { libc::poll(&raw mut poll, 1, limit.as_millis() as i32) };
            match os::check(found.into())? {
                0 => return Err(io::ErrorKind::TimedOut.into()),
                _ if poll.revents & libc::POLLIN == 0 => return Ok(None),
                _ => {}
            }
            // SAFETY: all zeros is a value, and the one that the kernel asks for.
            let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: writes one notification.
            match os::check(unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE, &raw mut notice) }.into()) {
                Ok(_) => {
                    let call = notice.data.nr.into();
                    return Ok(Some(Notice { id: notice.id, pid: notice.pid, call }));
                }
                // Whoever made it was ended meanwhile.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Lets the call pass, or answers in its place.
    ///
    /// # Errors
    /// As ioctl(2); not where whoever made it was ended meanwhile.
    pub fn answer(&self, notice: Notice, errno: Option<i32>) -> io::Result<()> {
        let pass = if errno.is_none() { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
        let error = errno.map_or(0, |errno| -errno);
        let mut answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error, flags: pass };
        // SAFETY: reads one answer.
        match os::check(unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw mut answer) }.into()) {
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
            _ => Ok(()),
        }
    }
}
