//! A child that somebody owns.

use std::{
    fmt, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
        unix::process::ExitStatusExt,
    },
    process::{ExitStatus, Output},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    drain::Drain,
    identity::{Identity, unreadable},
    leaves::CgroupGuard,
    prepare::ParentEnds,
    report::StopReport,
    spawner::{Ended, Entry, Shared, end_tree, lock},
    stdio::{ChildStderr, ChildStdin, ChildStdout},
    stop::{self, Stopping},
};
use pidward_core::{
    Errno, Pid, Signal,
    reap::{Change, ReapError, Usage},
    signal::SignalError,
    spawn::Mechanism,
};

/// What a child is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildState {
    /// Not stopped and not ended.
    Running,
    /// This signal has stopped it; it goes on after SIGCONT, which every stop sends with its SIGTERM.
    Stopped(Signal),
    /// It has ended; [`Child::wait`] returns at once.
    Ended,
}

/// A child process, owned: as `std::process::Child`, with a pidfd, and with a way to stop the whole tree.
///
/// Dropping it lets the process go on, as std does; the spawner reaps it when it ends. See
/// [`Command::kill_on_drop`](crate::Command::kill_on_drop).
pub struct Child {
    /// Write end of its standard input, if that was piped.
    pub stdin: Option<ChildStdin>,
    /// Read end of its standard output, if that was piped.
    pub stdout: Option<ChildStdout>,
    /// Read end of its standard error, if that was piped.
    pub stderr: Option<ChildStderr>,
    entry: Arc<Entry>,
    shared: Arc<Shared>,
    last_stop: Mutex<Option<Signal>>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("pid", &self.id()).finish_non_exhaustive()
    }
}

impl Child {
    pub(crate) fn new(entry: Arc<Entry>, shared: Arc<Shared>, ends: ParentEnds) -> Child {
        let ParentEnds { stdin, stdout, stderr, .. } = ends;
        Child { stdin, stdout, stderr, entry, shared, last_stop: Mutex::new(None) }
    }

    /// Its pid. Only a number: after the end it may be somebody else's.
    pub fn id(&self) -> u32 {
        self.entry.pid().get()
    }

    /// Its process group, if it was started as the leader of one.
    pub fn pgid(&self) -> Option<u32> {
        self.entry.child.pgid().map(Pid::get)
    }

    /// Who it is, to be written down: another process, or this program after a restart, can verify and stop it by that.
    ///
    /// # Errors
    /// It has ended and was reaped (`NotFound`), or there is no `/proc` of this pid namespace (`Unsupported`).
    pub fn identity(&self) -> io::Result<Identity> {
        self.check_ours()?;
        let host = self.entry.ground.host();
        host.identity(&self.entry.child, self.entry.about.nonce).map(Identity).map_err(unreadable)
    }

    /// Its cgroup leaf, if the spawner [makes](crate::SpawnerBuilder::cgroup) such.
    pub fn cgroup(&self) -> Option<CgroupGuard> {
        let leaf = Arc::clone(self.entry.about.leaf.as_ref()?);
        Some(CgroupGuard { leaf, ground: Arc::clone(&self.entry.ground), pid: self.entry.pid() })
    }

    /// By which mechanisms the kernel kept each promise of this spawn.
    pub fn mechanism(&self) -> Mechanism {
        self.entry.child.mechanism()
    }

    /// Sends SIGKILL to the child, not to its tree, as std does; `Ok` if it has ended already.
    ///
    /// # Errors
    /// What the kernel answers: `EPERM` after the child has become another user.
    pub fn kill(&mut self) -> io::Result<()> {
        self.check_ours()?;
        self.shared.look(&self.entry);
        match self.entry.signal(Signal::KILL) {
            Ok(()) | Err(SignalError::Gone) => Ok(()),
            Err(e) => Err(signal_error(e)),
        }
    }

    /// Sends a signal to the child, not to its tree.
    ///
    /// # Errors
    /// `ESRCH`: it has ended. `EPERM`: it has become another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self.check_ours()?;
        self.shared.look(&self.entry);
        self.entry.signal(signal).map_err(signal_error)
    }

    /// Sends a signal to the child's process group, or to the child alone where it leads none.
    ///
    /// # Errors
    /// `ESRCH`: no member is left. `EPERM`: all of them are other users'.
    pub fn signal_group(&self, signal: Signal) -> io::Result<()> {
        self.check_ours()?;
        self.entry.signal_tree(signal).map_err(signal_error)
    }

    /// Waits for its end, after closing its standard input. Every call gives the same status.
    ///
    /// # Errors
    /// Somebody else took the status (a `waitpid(-1)` in this program), and the kernel does not remember it (Linux < 6.15).
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.check_ours()?;
        match self.shared.wait(&self.entry, None) {
            Some(ended) => status(ended),
            // Not reached: without a deadline the wait ends with the child.
            None => Err(lost()),
        }
    }

    /// As [`wait`](Child::wait) with a limit; `None` when it has passed. Leaves standard input alone.
    ///
    /// # Errors
    /// As [`wait`](Child::wait).
    pub fn wait_timeout(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        self.check_ours()?;
        self.shared.wait(&self.entry, Instant::now().checked_add(limit)).map(status).transpose()
    }

    /// Its status if it has ended; never blocks.
    ///
    /// # Errors
    /// As [`wait`](Child::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.check_ours()?;
        self.shared.look(&self.entry).map(status).transpose()
    }

    /// What it and its reaped descendants have used; `None` while it runs, and where somebody else took the status.
    pub fn usage(&self) -> Option<Usage> {
        self.check_ours().ok()?;
        self.shared.look(&self.entry).flatten().and_then(|exit| exit.usage)
    }

    /// Whether it runs, is stopped or has ended. A job that touches a terminal from the background is stopped, not ended.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn state(&self) -> io::Result<ChildState> {
        self.check_ours()?;
        let mut last = lock(&self.last_stop);
        // Each change is reported once; the last one counts. Ends when there is none left.
        loop {
            if self.shared.look(&self.entry).is_some() {
                return Ok(ChildState::Ended);
            }
            match self.entry.child.next_stop() {
                Ok(Some(Change::Stopped(signal))) => *last = Some(signal),
                Ok(Some(Change::Continued)) => *last = None,
                Ok(Some(Change::Ended(_))) | Err(ReapError::Taken) => {}
                Ok(None) => return Ok(last.map_or(ChildState::Running, ChildState::Stopped)),
                Err(ReapError::Errno(e)) => return Err(io::Error::from_raw_os_error(e.raw())),
                Err(_) => return Ok(ChildState::Ended),
            }
        }
    }

    /// Waits for its end and collects what it writes to piped outputs, both at once.
    ///
    /// A grandchild that keeps a pipe open does not hold this up for ever: one second after the child's end, what has come is
    /// returned.
    ///
    /// # Errors
    /// As [`wait`](Child::wait), or of a read.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        self.check_ours()?;
        let mut drain = Drain::new(self.stdout.take(), self.stderr.take());
        drain.until_end(&self.shared, &self.entry)?;
        let status = self.wait()?;
        let (stdout, stderr) = drain.finish();
        Ok(Output { status, stdout, stderr })
    }

    /// Stops the child, its group, and whoever has left the group and carries the nonce of its spawn: SIGTERM (with SIGCONT), SIGKILL
    /// after `grace`. Returns when nobody is left, or says who is. Standard input is closed first. In a forked copy of the program nobody is signalled: the child
    /// is reported as a survivor. See [`Command::ask_grace`](crate::Command::ask_grace) for a way to ask first.
    pub fn stop(&mut self, grace: Duration) -> StopReport {
        stop::run(&self.shared, std::slice::from_ref(&self.entry), self.stdin.take(), grace)
    }

    /// A stop for programs with a loop of their own; nothing is sent before its first [`step`](Stopping::step). It
    /// goes for what is left of the group, too, where the child itself has ended. Standard input is closed first.
    pub fn stopping(&mut self, grace: Duration) -> Stopping {
        let input = self.stdin.take();
        let ours = self.shared.is_ours();
        let entries = if ours { std::slice::from_ref(&self.entry) } else { Default::default() };
        Stopping::new(&self.shared, entries, input, grace)
    }

    pub(crate) fn parts(&self) -> (Arc<Entry>, Arc<Shared>) {
        (Arc::clone(&self.entry), Arc::clone(&self.shared))
    }

    fn check_ours(&self) -> io::Result<()> {
        let words = "the child belongs to the process that this one was forked from";
        if self.shared.is_ours() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::Unsupported, words)) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.shared.is_ours() {
            return;
        }
        let runs = self.shared.look(&self.entry).is_none();
        if runs && self.entry.kill_on_drop() {
            end_tree(&self.entry);
        }
        self.entry.detach();
        if runs && !self.entry.kill_on_drop() {
            self.shared.let_go(&self.entry);
        }
    }
}

/// The pidfd: readable once the child has ended. Where the kernel or a filter has none it is an eventfd that becomes
/// readable then, and nothing can be signalled through it.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.entry.as_fd()
    }
}

/// As [`as_fd`](AsFd::as_fd): the same number until the child is dropped.
impl AsRawFd for Child {
    fn as_raw_fd(&self) -> RawFd {
        self.entry.as_fd().as_raw_fd()
    }
}

fn status(ended: Ended) -> io::Result<ExitStatus> {
    ended.map(|exit| ExitStatus::from_raw(exit.status.raw())).ok_or_else(lost)
}

fn lost() -> io::Error {
    io::Error::other("the exit status was taken by somebody else, and this kernel does not remember it")
}

fn signal_error(error: SignalError) -> io::Error {
    match error {
        SignalError::Errno(e) => io::Error::from_raw_os_error(e.raw()),
        _ => io::Error::from_raw_os_error(Errno::ESRCH.raw()),
    }
}
