//! A child of an earlier supervisor, taken over.

use std::{
    io,
    os::{fd::BorrowedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use pidward_core::{
    Signal,
    identity::Process,
    reap::{self, ReapError, Target},
    signal::SignalError,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    Listed,
    tree::{kin, stop},
    written::Written,
};
use crate::{
    carriers::Looks,
    identity::{Identity, StopOwned},
    names::{ChildKind, ServiceName},
    spawner::{Ground, POLL_INTERVAL, lock},
};

/// How long a process that has ended may wait for its parent to reap it, which may tell its status.
const REAPING: Duration = Duration::from_secs(2);

/// How an adopted child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ending {
    /// Its status. `None`: this kernel (below Linux 6.15) does not tell it to who is not the parent, or its parent has not taken it.
    pub status: Option<ExitStatus>,
}

/// A child that an earlier supervisor has started and this one watches. It is not a child of this process in the kernel's sense: no death
/// signal ties it to this process, and no guard ends it.
///
/// Its record stays until it has been seen to end, by [`wait`](Adopted::wait), [`try_wait`](Adopted::try_wait) or
/// [`stop`](Adopted::stop): the next supervisor can adopt it again. Dropping it changes nothing.
#[derive(Debug)]
pub struct Adopted {
    ground: Arc<Ground>,
    process: Process,
    record: Listed,
    written: Written,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// It has ended, since then at least.
    ended: Option<Instant>,
    ending: Option<Ending>,
}

impl Adopted {
    pub(super) fn new(ground: Arc<Ground>, process: Process, record: Listed, written: Written) -> Adopted {
        Adopted { ground, process, record, written, seen: Mutex::default() }
    }

    /// Its pid. Only a number: after the end it may be somebody else's.
    pub fn id(&self) -> u32 {
        self.process.pid().get()
    }

    /// Its kind.
    pub fn kind(&self) -> ChildKind {
        self.record.kind()
    }

    /// Its name.
    pub fn name(&self) -> ServiceName {
        self.record.name()
    }

    /// Who it is, as it was written down when it was started.
    pub fn identity(&self) -> Option<Identity> {
        self.record.identity()
    }

    /// Its pidfd: readable once it has ended. `None` where this kernel or a filter has none.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.process.pidfd()
    }

    /// Sends a signal to it.
    ///
    /// # Errors
    /// It has ended and was reaped (`NotFound`), or what the kernel answers.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self.process.signal(signal).map_err(|e| match e {
            SignalError::Errno(e) => io::Error::from_raw_os_error(e.raw()),
            _ => io::Error::new(io::ErrorKind::NotFound, "the process has ended"),
        })
    }

    /// How it ended, if it has. Blocks for half a second at most, while its parent takes its status.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn try_wait(&self) -> io::Result<Option<Ending>> {
        let mut seen = lock(&self.seen);
        if seen.ending.is_some()
            || !self.process.has_ended().map_err(|e| io::Error::from_raw_os_error(e.raw()))?
        {
            return Ok(seen.ending);
        }
        let since = *seen.ended.get_or_insert_with(Instant::now);
        let status = match self.process.pidfd().map(|pidfd| reap::try_reap(Target::Pidfd(pidfd))) {
            Some(Ok(Some(exit))) => Some(exit.status.raw()),
            // A zombie: whoever reaps it may tell.
            Some(Ok(None) | Err(ReapError::NotOurs)) if since.elapsed() < REAPING => return Ok(None),
            _ => None,
        };
        let ending = Ending { status: status.map(ExitStatus::from_raw) };
        seen.ending = Some(ending);
        self.written.ended(status);
        if Looks::new().left(kin(&self.ground, self.record.record()), None, &[]).0.is_empty() {
            self.written.remove();
        }
        Ok(seen.ending)
    }

    /// Blocks until it has ended.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn wait(&self) -> io::Result<Ending> {
        loop {
            if let Some(ending) = self.try_wait()? {
                return Ok(ending);
            }
            match self.process.pidfd() {
                // Readable from the end on: then only its reaping is waited for.
                Some(pidfd) if lock(&self.seen).ended.is_none() => {
                    let _ = poll(&mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)], None::<&Timespec>);
                }
                _ => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Stops it with its tree: SIGTERM (with SIGCONT), SIGKILL after `grace`.
    pub fn stop(&self, grace: Duration) -> StopOwned {
        self.written.stopping();
        let mut stopped = stop(&self.ground, self.record.record(), grace);
        if let StopOwned::Stopped(stopped) = &mut stopped {
            stopped.status = self.wait().ok().and_then(|ending| ending.status);
            self.written.remove();
        }
        stopped
    }
}
