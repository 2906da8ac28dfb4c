//! The spawner, on systems where nothing ties a child to its supervisor: it starts children as std does, waits for them and reaps each
//! once. Children outlive this process when it ends without a word; the first spawner says so in the log.
//!
//! # What ends, and what then happens
//!
//! | what ends | what happens |
//! |---|---|
//! | [`Child`] dropped, running | the process goes on and is reaped when it ends; with `kill_on_drop` it is ended |
//! | last [`Spawner`] handle, detached children live | they are given the grace, then ended; with [`OnLastDrop::Leave`] they go on |
//! | the process, without drops | its children go on |
//! | a forked copy of the program uses or drops a handle | nobody is ended; a spawn gives `ForkedCopy` |

use std::{
    io,
    process::{self, ExitStatus, Output},
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pidward_core::{Id128, ladder::Rung};

#[path = "../spawner/builder.rs"]
mod builder;
mod entry;

use builder::Config;
pub use builder::{OnLastDrop, SpawnerBuilder};
pub(crate) use entry::Entry;
use entry::lock;

use crate::{
    child::Child,
    command::Command,
    error::{SpawnError, SpawnErrorKind},
    identity::{Identity, StopOwned, UNSUPPORTED, Verdict},
    markers::MarkerNames,
    names::{ChildKind, ServiceName},
    prepare::{self, DefaultStdio},
    report::{StopReport, Stopped, Survivor},
    say::say,
};

/// How often it is asked for the end of a detached child: within a second it is reaped.
const REAP_EVERY: Duration = Duration::from_millis(200);

/// How long an end may take that cannot be refused.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Starts children. Clone it freely: all clones are the same spawner.
///
/// See the [module](self) for what the end of what does, and for what is missing here.
#[derive(Clone, Debug)]
pub struct Spawner {
    handle: Arc<Handle>,
}

/// Dropped with the last handle.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    config: Config,
    names: MarkerNames,
    /// Those that have not ended, as far as anybody has looked.
    children: Mutex<Vec<Arc<Entry>>>,
    closed: AtomicBool,
    /// They were shut down: whoever is left was reported, and is not stopped again.
    shut_down: AtomicBool,
    /// A thread reaps.
    reaping: Mutex<bool>,
    owner: u32,
}

impl Shared {
    fn new(config: Config, names: MarkerNames) -> Arc<Shared> {
        Arc::new(Shared {
            config,
            names,
            children: Mutex::default(),
            closed: AtomicBool::new(false),
            shut_down: AtomicBool::new(false),
            reaping: Mutex::new(false),
            owner: process::id(),
        })
    }

    /// Whether this is the process that made the spawner, not a forked copy of it.
    fn is_ours(&self) -> bool {
        process::id() == self.owner
    }

    fn spawn(self: &Arc<Self>, cmd: &Command, default: DefaultStdio) -> Result<Arc<Entry>, SpawnError> {
        if !self.is_ours() {
            return Err(SpawnError::new(SpawnErrorKind::ForkedCopy, &cmd.program));
        }
        let child = prepare::spawn(cmd, default, &self.names.core())?;
        let entry = Arc::new(Entry::new(child, cmd));
        let mut children = lock(&self.children);
        children.retain(|entry| !entry.has_ended());
        children.push(Arc::clone(&entry));
        Ok(entry)
    }

    /// Nobody owns the child any more: it is reaped when it ends, and ended where nobody is left to stop it later.
    pub(crate) fn let_go(self: &Arc<Self>, entry: &Arc<Entry>) {
        entry.detach();
        // In a forked copy it is nobody's.
        if entry.has_ended() {
            return;
        }
        let ends = self.closed.load(Ordering::Acquire) && self.config.on_last_drop == OnLastDrop::Stop;
        let mut reaping = lock(&self.reaping);
        if *reaping && !ends {
            return;
        }
        let (shared, entry, first) = (Arc::clone(self), Arc::clone(entry), !*reaping);
        let main = move || {
            if ends {
                drop(shared.stop(&[entry], shared.config.grace));
            }
            if first {
                shared.reap();
            }
        };
        match thread::Builder::new().name("pidward-reaper".to_owned()).spawn(main) {
            Ok(_) => *reaping = true,
            Err(e) => say!(warn, "ended children are not reaped: no thread for it: {e}"),
        }
    }

    /// Ends when no detached child is left.
    fn reap(&self) {
        loop {
            let mut reaping = lock(&self.reaping);
            let mut children = lock(&self.children);
            children.retain(|entry| !entry.has_ended());
            if !children.iter().any(|entry| entry.is_detached()) {
                *reaping = false;
                return;
            }
            drop((children, reaping));
            thread::sleep(REAP_EVERY);
        }
    }

    /// Stops all of them at once: their input is closed by now; after the grace those that live are ended.
    pub(crate) fn stop(&self, entries: &[Arc<Entry>], grace: Duration) -> StopReport {
        let began = Instant::now();
        let ended_before: Vec<bool> =
            entries.iter().map(|entry| matches!(entry.look(), Ok(Some(_)))).collect();
        let mut killed = Vec::new();
        for entry in entries {
            let until = began.checked_add(grace.saturating_add(entry.ask));
            let ended = entry.check_ours().is_err() || !matches!(entry.wait(until), Ok(None));
            killed.push(
                !ended && entry.kill().inspect_err(|e| say!(warn, "process {}: {e}", entry.pid)).is_ok(),
            );
        }
        let until = Instant::now() + KILL_LIMIT;
        let of = |((entry, ended_before), killed): ((&Arc<Entry>, bool), bool)| {
            let status = if killed { entry.wait(Some(until)) } else { entry.look() };
            let lives = entry.check_ours().is_err() || matches!(status, Ok(None));
            let rung = if killed { Rung::Kill } else { Rung::Ask };
            Stopped {
                pid: entry.pid,
                status: status.ok().flatten(),
                rung: (!ended_before && entry.check_ours().is_ok()).then_some(rung),
                took: began.elapsed(),
                survivors: lives.then_some(Survivor { pid: entry.pid, state: '?' }).into_iter().collect(),
                proven: false,
            }
        };
        let children = entries.iter().zip(ended_before).zip(killed).map(of).collect();
        StopReport { children, ..StopReport::default() }
    }
}

impl Spawner {
    /// A spawner with the defaults of [`Spawner::builder`].
    ///
    /// # Errors
    /// As [`SpawnerBuilder::build`].
    pub fn new() -> io::Result<Spawner> {
        Spawner::builder().build()
    }

    /// To set up a spawner. On this system threads, queue, deadline and spin have no effect, there is no guard, and a subreaper is refused.
    pub fn builder() -> SpawnerBuilder {
        SpawnerBuilder::default()
    }

    fn start(config: Config, names: MarkerNames, _: Option<Id128>) -> io::Result<Spawner> {
        static SAID: Once = Once::new();
        if config.subreaper {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "there are no subreapers on this system"));
        }
        if config.guard {
            let words = "neither death signal nor guard on this system: children outlive this process";
            SAID.call_once(|| say!(warn, "{words}"));
        }
        Ok(Spawner { handle: Arc::new(Handle { shared: Shared::new(config, names) }) })
    }

    /// Starts a child that nobody owns: the spawner reaps it, and stops it when the last handle is dropped.
    ///
    /// The number is for showing to people. By the time it is used it may be somebody else's.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists.
    #[allow(clippy::needless_pass_by_value, reason = "a command is spent by a supervised spawn")]
    pub fn spawn_supervised(&self, cmd: Command) -> Result<u32, SpawnError> {
        self.spawn(&cmd).map(|child| child.id())
    }

    /// Starts a child and gives it to the caller.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists.
    #[allow(clippy::needless_pass_by_value, reason = "a command is spent by a supervised spawn")]
    pub fn spawn_owned_supervised(&self, cmd: Command) -> Result<Child, SpawnError> {
        self.spawn(&cmd)
    }

    /// As [`spawn_owned_supervised`](Spawner::spawn_owned_supervised), without giving the command away.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists.
    pub fn spawn(&self, cmd: &Command) -> Result<Child, SpawnError> {
        let shared = &self.handle.shared;
        let entry = shared.spawn(cmd, DefaultStdio::Inherit)?;
        Ok(Child::new(entry, Arc::clone(shared)))
    }

    /// As [`spawn`](Spawner::spawn): on this system no child is tied to a thread.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists.
    pub fn spawn_on_this_thread(&self, cmd: &Command) -> Result<Child, SpawnError> {
        self.spawn(cmd)
    }

    /// Stops every child of this spawner, all at once, as [`Child::stop`] does; what they have started is not looked for.
    pub fn shutdown(self, grace: Duration) -> StopReport {
        let shared = &self.handle.shared;
        shared.closed.store(true, Ordering::Release);
        shared.shut_down.store(true, Ordering::Release);
        let mut children = lock(&shared.children).clone();
        children.retain(|entry| !matches!(entry.look(), Ok(Some(_))));
        shared.stop(&children, grace)
    }

    /// Whether the number is, now, a child of this kind and name of this installation: on this system unknown.
    pub fn verify(&self, pid: u32, kind: ChildKind, service: &ServiceName) -> Verdict {
        crate::identity::verify(pid, kind, service)
    }

    /// Whether the number is a living child of this kind and name of this installation, for sure: never on this system.
    pub fn owns(&self, pid: u32, kind: ChildKind, service: &ServiceName) -> bool {
        self.verify(pid, kind, service) == Verdict::Same
    }

    /// Stops the process if it is that child: on this system that cannot be told, and nothing is sent. A child that is owned is stopped by
    /// [`Child::stop`].
    pub fn stop_owned(
        &self,
        _pid: u32,
        _kind: ChildKind,
        _service: &ServiceName,
        _grace: Duration,
    ) -> StopOwned {
        StopOwned::Unverifiable(UNSUPPORTED)
    }

    /// As [`Identity::verify`].
    pub fn verify_identity(&self, known: &Identity) -> Verdict {
        known.verify()
    }

    /// As [`Identity::stop`].
    pub fn stop_identity(&self, known: &Identity, grace: Duration) -> StopOwned {
        known.stop(grace)
    }

    /// How the last child of this kind and name ended that ended without an owner: kept with a registry only, so never on this system.
    pub fn take_status(&self, _kind: ChildKind, _name: &ServiceName) -> Option<Option<ExitStatus>> {
        None
    }

    /// The process that guards this spawner's children: none on this system.
    pub fn guard_pid(&self) -> Option<u32> {
        None
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let shared = &self.shared;
        if !shared.is_ours() {
            return;
        }
        shared.closed.store(true, Ordering::Release);
        if shared.config.on_last_drop == OnLastDrop::Stop && !shared.shut_down.load(Ordering::Acquire) {
            let mut detached = lock(&shared.children).clone();
            detached.retain(|entry| entry.is_detached() && !entry.has_ended());
            if !detached.is_empty() {
                drop(shared.stop(&detached, shared.config.grace));
            }
        }
    }
}

/// As std's: without a [`Spawner`] at hand.
impl Command {
    /// Starts a child with a spawner of its own.
    ///
    /// # Errors
    /// A [`SpawnError`] inside.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.run_here(DefaultStdio::Inherit)
    }

    /// Starts a child and waits for its end.
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.run_here(DefaultStdio::Inherit)?.wait()
    }

    /// Starts a child, waits for its end and collects its output. Standard input is empty, the outputs are piped, unless set otherwise.
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    pub fn output(&mut self) -> io::Result<Output> {
        self.run_here(DefaultStdio::Piped)?.wait_with_output()
    }

    fn run_here(&mut self, stdio: DefaultStdio) -> io::Result<Child> {
        let shared = Shared::new(Config::default(), MarkerNames::default());
        let entry = shared.spawn(self, stdio)?;
        Ok(Child::new(entry, shared))
    }
}
