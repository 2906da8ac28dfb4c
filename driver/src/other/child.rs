//! A child that somebody owns.

use std::{
    fmt,
    io::{self, Read},
    process::{ExitStatus, Output},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use pidward_core::Signal;

use crate::{
    identity::Identity,
    report::StopReport,
    spawner::{Entry, Shared},
    stdio::{ChildStderr, ChildStdin, ChildStdout},
};

/// How long what a grandchild keeps open is read after the child's end.
const AFTER_END: Duration = Duration::from_secs(1);

/// What a child is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildState {
    /// Not ended.
    Running,
    /// It has ended; [`Child::wait`] returns at once.
    Ended,
}

/// A child process, owned: as `std::process::Child`.
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
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("pid", &self.id()).finish_non_exhaustive()
    }
}

impl Child {
    pub(crate) fn new(entry: Arc<Entry>, shared: Arc<Shared>) -> Child {
        let (stdin, stdout, stderr) = entry.take_pipes();
        Child { stdin, stdout, stderr, entry, shared }
    }

    /// Its pid. Only a number: after the end it may be somebody else's.
    pub fn id(&self) -> u32 {
        self.entry.pid
    }

    /// Who it is, to be written down: not on this system.
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub fn identity(&self) -> io::Result<Identity> {
        Err(unsupported("nobody who is written down could be known again on this system"))
    }

    /// Ends the child, not what it has started, as std does (SIGKILL, `TerminateProcess`); `Ok` if it has ended already. It is unreaped as
    /// long as this holds it, so its number is nobody else's.
    ///
    /// # Errors
    /// What the system answers.
    pub fn kill(&mut self) -> io::Result<()> {
        self.entry.kill()
    }

    /// Sends a signal to the child: not on this system. See [`kill`](Child::kill).
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub fn signal(&self, _signal: Signal) -> io::Result<()> {
        Err(unsupported("no signal but by `kill` on this system"))
    }

    /// Sends a signal to the child's process group: not on this system.
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub fn signal_group(&self, signal: Signal) -> io::Result<()> {
        self.signal(signal)
    }

    /// Waits for its end, after closing its standard input. Every call gives the same status.
    ///
    /// # Errors
    /// Somebody else took the status (a `waitpid(-1)` in this program).
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        // Without a deadline the wait ends with the child.
        self.entry.wait(None)?.ok_or_else(|| io::Error::other("the child has not ended"))
    }

    /// As [`wait`](Child::wait) with a limit; `None` when it has passed. Leaves standard input alone.
    ///
    /// # Errors
    /// As [`wait`](Child::wait).
    pub fn wait_timeout(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        self.entry.wait(Instant::now().checked_add(limit))
    }

    /// Its status if it has ended; never blocks.
    ///
    /// # Errors
    /// As [`wait`](Child::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.entry.look()
    }

    /// Whether it runs or has ended.
    ///
    /// # Errors
    /// As [`wait`](Child::wait).
    pub fn state(&self) -> io::Result<ChildState> {
        Ok(if self.entry.look()?.is_some() { ChildState::Ended } else { ChildState::Running })
    }

    /// Waits for its end and collects what it writes to piped outputs, both at once.
    ///
    /// A grandchild that keeps a pipe open does not hold this up for ever: one second after the child's end, what has come is
    /// returned.
    ///
    /// # Errors
    /// As [`wait`](Child::wait), or of a read.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        let pipes = (self.stdout.take().map(pieces), self.stderr.take().map(pieces));
        let status = self.wait()?;
        let until = Instant::now() + AFTER_END;
        let all = |pipe: Option<_>| pipe.map_or(Ok(Vec::new()), |pipe| collect(&pipe?, until));
        Ok(Output { status, stdout: all(pipes.0)?, stderr: all(pipes.1)? })
    }

    /// Stops the child: closes its standard input, waits for `grace`, then ends it as [`kill`](Child::kill) does. There is no SIGTERM on
    /// this system, and what the child has started is not looked for: the report never says [`proven`](crate::Stopped::proven). In a
    /// forked copy of the program nobody is ended: the child is reported as a survivor.
    pub fn stop(&mut self, grace: Duration) -> StopReport {
        drop(self.stdin.take());
        self.shared.stop(&[Arc::clone(&self.entry)], grace)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.entry.kill_on_drop {
            // In a forked copy it is refused, which is right.
            let _ = self.entry.kill();
        }
        self.shared.let_go(&self.entry);
    }
}

fn unsupported(words: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, words)
}

type Pieces = Receiver<io::Result<Vec<u8>>>;

/// What comes through a pipe, read by a thread of its own, which ends with the pipe.
fn pieces(mut pipe: impl Read + Send + 'static) -> io::Result<Pieces> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut piece = vec![0; 1 << 16];
        // Ends with the pipe, with an error, or when nobody listens any more.
        loop {
            let read = match pipe.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => Ok(piece[..length].to_vec()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            let failed = read.is_err();
            if sender.send(read).is_err() || failed {
                return;
            }
        }
    };
    thread::Builder::new().name("pidward-output".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// All of them, up to the end of the pipe or `until`.
fn collect(pieces: &Pieces, until: Instant) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match pieces.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(piece) => all.extend(piece?),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(all),
        }
    }
}
