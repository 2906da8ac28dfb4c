//! A started child: ours to signal and to reap.
#![forbid(unsafe_code)]

use core::{
    hint,
    sync::atomic::{AtomicU8, Ordering},
};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::Mechanism;
use crate::{
    Errno, Pid, Signal,
    reap::{self, Change, Exit, ReapError, Target},
    signal::{GroupMeans, SignalError},
    sys,
};

/// Nobody has taken the status: the number is ours.
const UNREAPED: u8 = 0;
/// One thread reaps, or signals by number; it makes one system call that does not block.
const BUSY: u8 = 1;
/// The status was taken: the number may be anybody's.
const REAPED: u8 = 2;

/// A started child.
///
/// Everything it is asked goes through its pidfd. Where there is none, its number is used, and only while it
/// is not reaped: reaping and signalling exclude each other, from whatever threads they come.
///
/// Dropping it closes the pidfd and nothing else: the process goes on, and a status that was not taken stays a zombie.
#[derive(Debug)]
#[must_use = "a dropped child is a process that nobody reaps"]
pub struct Child {
    pid: Pid,
    pidfd: Option<OwnedFd>,
    pgid: Option<Pid>,
    mechanism: Mechanism,
    state: AtomicU8,
}

impl Child {
    pub(crate) const fn new(
        pid: Pid,
        pidfd: Option<OwnedFd>,
        pgid: Option<Pid>,
        mechanism: Mechanism,
    ) -> Child {
        Child { pid, pidfd, pgid, mechanism, state: AtomicU8::new(UNREAPED) }
    }

    /// Its pid in the caller's pid namespace.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Its pidfd. `None` where this kernel or a filter has none.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// The group it was started as the leader of, if it was.
    pub const fn pgid(&self) -> Option<Pid> {
        self.pgid
    }

    /// What happened in this spawn.
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Whether its status was taken, so that its number may be anybody's.
    pub fn is_reaped(&self) -> bool {
        self.state.load(Ordering::Acquire) == REAPED
    }

    /// Sends a signal to the child itself.
    ///
    /// # Errors
    /// - [`SignalError::Gone`]: it was reaped. (A zombie answers like a living process.)
    /// - [`SignalError::Errno`]: `EPERM` after it has become another user.
    pub fn signal(&self, signal: Signal) -> Result<(), SignalError> {
        match self.pidfd().map(|pidfd| sys::signal_pidfd(pidfd.as_raw_fd(), Some(signal), 0)) {
            None | Some(Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL)) => self
                .by_number(|pid| sys::kill(pid, signal))
                .map_err(|e| if e == SignalError::Unpinned { SignalError::Gone } else { e }),
            Some(sent) => Ok(sent?),
        }
    }

    /// Sends a signal to the group that the child was started as the leader of.
    ///
    /// # Errors
    /// - [`SignalError::Gone`]: no member is left. (Zombies are members until they are reaped.)
    /// - [`SignalError::NoGroup`]: it was not started as a leader.
    /// - [`SignalError::Unpinned`]: this kernel signals groups by number only, and the leader was reaped.
    pub fn signal_group(&self, signal: Signal, means: GroupMeans) -> Result<(), SignalError> {
        self.reach_group(Some(signal), means)
    }

    /// Whether the group has a member, by sending nothing.
    ///
    /// # Errors
    /// As [`signal_group`](Child::signal_group).
    pub fn ask_group(&self, means: GroupMeans) -> Result<(), SignalError> {
        self.reach_group(None, means)
    }

    fn reach_group(&self, signal: Option<Signal>, means: GroupMeans) -> Result<(), SignalError> {
        let pgid = self.pgid.ok_or(SignalError::NoGroup)?;
        let leader = self.pidfd().filter(|_| means == GroupMeans::Pidfd);
        match leader.map(|leader| sys::signal_pidfd(leader.as_raw_fd(), signal, sys::TO_GROUP)) {
            // Not permitted is a filter's word too; then the number says whether it is more.
            Some(Err(Errno::EPERM)) if self.is_reaped() => Err(Errno::EPERM.into()),
            None | Some(Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL)) => {
                self.by_number(|_| sys::kill_group(pgid, signal))
            }
            Some(sent) => Ok(sent?),
        }
    }

    /// Takes the status if the child has ended: to one caller, once. `None` while it runs or is stopped. Never blocks.
    ///
    /// # Errors
    /// [`ReapError`]; [`ReapError::Taken`] for every caller after the one.
    pub fn try_reap(&self) -> Result<Option<Exit>, ReapError> {
        if !self.lock() {
            return Err(ReapError::Taken);
        }
        let answer = self.ask(reap::try_reap);
        let over = matches!(answer, Ok(Some(_)) | Err(ReapError::Lost));
        self.state.store(if over { REAPED } else { UNREAPED }, Ordering::Release);
        answer
    }

    /// How the child ended, if it has, without taking the status: the number stays ours. Never blocks.
    ///
    /// # Errors
    /// [`ReapError`].
    pub fn peek(&self) -> Result<Option<Exit>, ReapError> {
        if self.is_reaped() { Err(ReapError::Taken) } else { self.ask(reap::peek) }
    }

    /// The next stop or continuation of the child, each reported once. Never blocks.
    ///
    /// # Errors
    /// [`ReapError`].
    pub fn next_stop(&self) -> Result<Option<Change>, ReapError> {
        if self.is_reaped() { Err(ReapError::Taken) } else { self.ask(reap::next_stop) }
    }

    /// Asks through the pidfd; where that is refused by number, which is ours while the child is unreaped.
    fn ask<T>(&self, what: fn(Target<'_>) -> Result<T, ReapError>) -> Result<T, ReapError> {
        match self.pidfd().map(|pidfd| what(Target::Pidfd(pidfd))) {
            None | Some(Err(ReapError::Errno(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL))) => {
                what(Target::Pid(self.pid))
            }
            Some(answer) => answer,
        }
    }

    /// Uses the number while nobody here can reap, if nobody else has: a `waitpid(-1)` of the host may have.
    fn by_number(&self, send: impl FnOnce(Pid) -> Result<(), Errno>) -> Result<(), SignalError> {
        if !self.lock() {
            return Err(SignalError::Unpinned);
        }
        let ours = self.ask(reap::is_child) == Ok(true);
        let sent = if ours { send(self.pid).map_err(SignalError::from) } else { Err(SignalError::Unpinned) };
        self.state.store(UNREAPED, Ordering::Release);
        sent
    }

    /// `false` once the child is reaped.
    fn lock(&self) -> bool {
        // Ends as soon as another thread has made its one system call.
        loop {
            match self.state.compare_exchange(UNREAPED, BUSY, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(REAPED) => return false,
                Err(_) => hint::spin_loop(),
            }
        }
    }
}
