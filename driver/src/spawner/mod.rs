//! The spawner: starts children from a thread of its own, watches them, and reaps each once.
//!
//! Children are tied to the thread that makes them: when it ends, the kernel sends each its death signal. A
//! spawner's thread lives as long as its children may, so a child is never surprised by the end of the
//! thread that merely *asked*. There is no hidden global: two spawners in one process know nothing of each other.
//!
//! # What ends, and what then happens
//!
//! | what ends | what happens |
//! |---|---|
//! | [`Child`] dropped, running | the process goes on and is reaped when it ends; with `kill_on_drop` its tree gets SIGKILL, without waiting |
//! | [`Child`] dropped, ended | nothing is left of it |
//! | last [`Spawner`] handle, no child left | waiting askers get `ShutDown`; the threads are joined |
//! | last handle, owned [`Child`]s live | returns at once; the threads stay until the last of them has ended or was dropped |
//! | last handle, detached children live | the ladder runs, the drop waits at most grace + kill limit; with [`OnLastDrop::Leave`] the threads stay, and it returns at once |
//! | receiver of the merged channel ([`Events`](crate::Events)) | reaping goes on, frames are counted and dropped, the trees of its children are stopped in the background; or left, with [`OnLastDrop::Leave`] |
//! | one request's panic on a spawner thread | caught: that asker's error and a log line; the thread and its children live on |
//! | the process, without drops | threads end, so children get their death signal at once; the guard gives everybody else SIGTERM, and SIGKILL after the grace |
//! | a forked copy of the program uses or drops a handle | nothing is signalled or reaped; calls give `ForkedCopy` |
//!
//! A child that is dropped after the last handle, and runs, is then a detached one: it is stopped in the background, or left.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Output},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use pidward_core::{Id128, spawn::Step};

use crate::{
    carriers::stop_strays,
    child::Child,
    command::Command,
    error::SpawnError,
    markers::MarkerNames,
    names::{ChildKind, ServiceName},
    prepare::{DefaultStdio, ParentEnds, Prepared},
    report::StopReport,
    say::say,
    stop,
};

mod builder;
mod entry;
mod events;
mod ground;
mod guard;
pub(crate) mod live;
mod orphans;
mod owned;
mod queue;
mod shared;
mod stamp;
mod stopper;
mod thread_main;

#[cfg(feature = "json")]
pub(crate) use self::thread_main::{end_carriers, end_members};
pub(crate) use self::{
    entry::{Asks, Ended, Entry, POLL_INTERVAL},
    ground::{About, Ground},
    queue::lock,
    shared::Shared,
    thread_main::end_tree,
};
pub use builder::{OnLastDrop, SpawnerBuilder};

use builder::Config;
use queue::{Ask, Refused};
use thread_main::SpawnerThread;

/// The name of spawner threads.
const THREAD: &str = "pidward-spawner";

/// How long every spawner thread must have been at one request before an asker starts another thread.
const STALL: Duration = Duration::from_millis(20);

/// Starts children that cannot outlive this process. Clone it freely: all clones are the same spawner.
///
/// See the [module](self) for what the end of what does.
#[derive(Clone, Debug)]
pub struct Spawner {
    handle: Arc<Handle>,
}

/// Dropped with the last handle.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Spawner {
    /// A spawner with the defaults of [`Spawner::builder`].
    ///
    /// # Errors
    /// As [`SpawnerBuilder::build`].
    pub fn new() -> io::Result<Spawner> {
        Spawner::builder().build()
    }

    /// To set up a spawner.
    pub fn builder() -> SpawnerBuilder {
        SpawnerBuilder::default()
    }

    /// Starts a child that nobody owns: the spawner keeps its pidfd, reaps it, and stops it when the last handle is dropped.
    ///
    /// The number is for showing to people. By the time it is used it may be somebody else's.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists.
    #[allow(clippy::needless_pass_by_value, reason = "a command is spent by a supervised spawn")]
    pub fn spawn_supervised(&self, cmd: Command) -> Result<u32, SpawnError> {
        let (entry, _) = self.request(&cmd, DefaultStdio::Inherit, false)?;
        Ok(entry.pid().get())
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
        let (entry, ends) = self.request(cmd, DefaultStdio::Inherit, true)?;
        Ok(Child::new(entry, Arc::clone(&self.handle.shared), ends))
    }

    /// As [`spawn`](Spawner::spawn), for a receiver of its events, which gets our ends of its channel and of its standard error.
    pub(crate) fn spawn_for_events(&self, cmd: &Command) -> Result<(Child, ParentEnds), SpawnError> {
        let (entry, mut ends) = self.request(cmd, DefaultStdio::Received, true)?;
        let stderr = ends.stderr.take_if(|_| cmd.channel.stderr);
        let (channel, ready) = (ends.channel.take(), ends.ready.take());
        let ours = ParentEnds { channel, ready, stderr, ..ParentEnds::default() };
        Ok((Child::new(entry, Arc::clone(&self.handle.shared), ends), ours))
    }

    /// Starts a child on the calling thread, which saves the way to the spawner thread and back.
    ///
    /// The caller promises that this thread lives as long as the child may: when it ends, the child gets its
    /// death signal, though the process lives on.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists.
    pub fn spawn_on_this_thread(&self, cmd: &Command) -> Result<Child, SpawnError> {
        spawn_here(&self.handle.shared, cmd, DefaultStdio::Inherit)
    }

    /// Stops every child of this spawner with its tree, all at once: SIGTERM, SIGKILL after `grace`; then whoever else descends from
    /// the spawner. Returns when nobody is left, or says who is. In a forked copy of the program nobody is signalled: all are reported as survivors.
    pub fn shutdown(self, grace: Duration) -> StopReport {
        let shared = &self.handle.shared;
        if !shared.is_ours() {
            return stop::run(shared, &shared.children(), None, grace);
        }
        shared.close();
        shared.shut_down.store(true, Ordering::Release);
        let began = Instant::now();
        let mut report = stop::run(shared, &shared.children(), None, grace);
        let known: Vec<_> = report.survivors().collect();
        let home = shared.home.as_deref();
        report.strays = stop_strays(&shared.ground, home, grace.saturating_sub(began.elapsed()), &known);
        // With them the trees of children that had ended before.
        shared.look_at_lingering();
        report
    }

    /// How the last child of this kind and name ended that ended without an owner, if its status was kept: once, and only with a
    /// [registry](SpawnerBuilder::registry). `Some(None)`: it has ended, and somebody else took its status.
    pub fn take_status(&self, kind: ChildKind, name: &ServiceName) -> Option<Option<ExitStatus>> {
        let registry = self.handle.shared.config.registry.as_ref()?;
        registry.take_status(&(kind, name.clone())).map(|status| status.map(ExitStatus::from_raw))
    }

    /// The process that guards this spawner's children, if there is one now: it is replaced when it has ended.
    pub fn guard_pid(&self) -> Option<u32> {
        self.handle.shared.guard.pid()
    }

    /// The environ entry that every descendant of this spawner inherits: `PIDWARD_TREE_<run id>` and the
    /// [installation](SpawnerBuilder::installation) id.
    pub fn tree_entry(&self) -> (&str, &str) {
        self.handle.shared.ground.entry()
    }

    /// The names of the variables that its children carry.
    #[cfg(feature = "json")]
    pub(crate) fn names(&self) -> pidward_core::marker::Names<'_> {
        self.handle.shared.ground.names()
    }

    fn start(config: Config, names: MarkerNames, installation: Option<Id128>) -> io::Result<Spawner> {
        let shared = Arc::new(Shared::new(config, names, installation)?);
        let first = SpawnerThread::new(Arc::clone(&shared), false).map_err(|e| match e.step {
            Step::Prepare => io::Error::from_raw_os_error(e.errno.raw()),
            _ => io::Error::other(e),
        })?;
        // Dropped on an error below, it closes what was opened.
        let spawner = Spawner { handle: Arc::new(Handle { shared: Arc::clone(&shared) }) };
        shared.start_thread(THREAD, move || first.run())?;
        let events = Arc::clone(&shared);
        if shared.config.subreaper {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        }
        // While this process may still be small, and before there is anybody to be guarded.
        if shared.config.guard {
            shared.guard.keep(&shared);
        }
        shared
            .start_thread("pidward-events", move || events::run(&events))
            .inspect_err(|_| shared.guard.end())?;
        Ok(spawner)
    }

    /// `owned`: a [`Child`] will hold it.
    fn request(
        &self,
        cmd: &Command,
        stdio: DefaultStdio,
        owned: bool,
    ) -> Result<(Arc<Entry>, ParentEnds), SpawnError> {
        let shared = &self.handle.shared;
        if !shared.is_ours() {
            return Err(SpawnError::forked_copy().of_program(cmd.get_program()));
        }
        let (mut prepared, ends) = Prepared::new(cmd, stdio, &shared.ground.names())?;
        // Before it is made: it may end before this returns.
        prepared.about.detached = !owned;
        shared.stamp(&mut prepared)?;
        let patience = cmd.deadline.or(shared.config.deadline);
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let ask = Ask::new(prepared);
        match shared.queue.push(Arc::clone(&ask)) {
            Ok(()) => self.await_reply(&ask, deadline).map(|entry| (entry, ends)),
            Err(Refused::Full) => Err(SpawnError::queue_full()),
            Err(Refused::Closed) => Err(SpawnError::shut_down()),
        }
        .map_err(|e| e.of_program(cmd.get_program()))
    }

    fn await_reply(&self, ask: &Arc<Ask>, deadline: Option<Instant>) -> Result<Arc<Entry>, SpawnError> {
        let shared = &self.handle.shared;
        let spin = Instant::now() + shared.config.spin;
        // Ends with the answer or at the deadline; the spawner thread answers every request it takes.
        loop {
            if let Some(reply) = ask.answered() {
                return reply;
            }
            let now = Instant::now();
            if now < spin {
                std::hint::spin_loop();
                continue;
            }
            if deadline.is_some_and(|deadline| deadline <= now) && ask.abandon() {
                shared.queue.remove(ask);
                return Err(SpawnError::deadline());
            }
            if ask.is_waiting_in_queue() && shared.is_stalled(STALL) {
                self.add_thread();
            }
            let left = deadline.map_or(STALL, |deadline| deadline.saturating_duration_since(now));
            thread::park_timeout(if ask.is_waiting_in_queue() { left.min(STALL) } else { left });
        }
    }

    /// One more spawner thread, because all others hang in exec. Those that wait go on waiting if there can be none.
    fn add_thread(&self) {
        let shared = &self.handle.shared;
        let Some(_leave) = shared.may_grow(STALL) else { return };
        let started = match SpawnerThread::new(Arc::clone(shared), true) {
            Ok(extra) => shared.start_thread(THREAD, move || extra.run()),
            Err(e) => Err(io::Error::from_raw_os_error(e.errno.raw())),
        };
        if let Err(e) = started {
            say!(warn, "every spawner thread hangs, and there can be no other: {e}");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let shared = &self.shared;
        if !shared.is_ours() {
            return;
        }
        shared.close();
        let reported = shared.shut_down.load(Ordering::Acquire);
        if shared.config.on_last_drop == OnLastDrop::Stop && !reported {
            let mut detached = shared.children();
            detached.retain(|entry| !entry.is_owned());
            if !detached.is_empty() {
                drop(stop::run(shared, &detached, None, shared.config.grace));
            }
        }
        if !shared.has_children() {
            shared.join();
        }
    }
}

/// As std's: without a [`Spawner`] at hand.
impl Command {
    /// Starts a child with a spawner of its own: two threads that live as long as the child.
    ///
    /// The child is tied to this process, not to the calling thread, and has no guard. For many children use one [`Spawner`].
    ///
    /// # Errors
    /// A [`SpawnError`] inside, or no thread for the spawner.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let spawner = Spawner::builder().on_last_drop(OnLastDrop::Leave).guard(false).build()?;
        Ok(spawner.spawn(self)?)
    }

    /// Starts a child and waits for its end, on the calling thread.
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.run_here(DefaultStdio::Inherit)?.wait()
    }

    /// Starts a child, waits for its end and collects its output, on the calling thread. Standard input is empty,
    /// the outputs are piped, unless set otherwise.
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    pub fn output(&mut self) -> io::Result<Output> {
        self.run_here(DefaultStdio::Piped)?.wait_with_output()
    }

    /// A child of the calling thread, which stays until it has ended.
    fn run_here(&mut self, stdio: DefaultStdio) -> io::Result<Child> {
        let shared = Shared::new(Config::default(), MarkerNames::default(), None)?;
        Ok(spawn_here(&Arc::new(shared), self, stdio)?)
    }
}

fn spawn_here(shared: &Arc<Shared>, cmd: &Command, stdio: DefaultStdio) -> Result<Child, SpawnError> {
    if !shared.is_ours() {
        return Err(SpawnError::forked_copy().of_program(cmd.get_program()));
    }
    let (mut prepared, ends) = Prepared::new(cmd, stdio, &shared.ground.names())?;
    shared.stamp(&mut prepared)?;
    let child = thread_main::spawn_here(&mut prepared)?;
    let entry = shared.adopt(child, cmd.get_program(), &Arc::default(), prepared.about)?;
    Ok(Child::new(entry, Arc::clone(shared), ends))
}
