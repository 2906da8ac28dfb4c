//! How a spawner is set up.

use std::{error::Error, io, time::Duration};

use pidward_core::Id128;

use super::Spawner;
#[cfg(pidward_linux)]
use crate::leaves::CgroupPlace;
use crate::{markers::MarkerNames, registry::Registry};

/// What happens to detached children when the last handle of their spawner is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLastDrop {
    /// They are stopped by the ladder; the drop waits for that, at most grace + kill limit.
    #[default]
    Stop,
    /// They go on, and so does the thread they are tied to, until the last of them has ended.
    Leave,
}

#[derive(Clone, Debug)]
#[cfg_attr(not(pidward_linux), expect(dead_code, reason = "what only Linux can do"))]
pub(crate) struct Config {
    pub(crate) threads: usize,
    pub(crate) queue: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) spin: Duration,
    pub(crate) grace: Duration,
    pub(crate) guard: bool,
    pub(crate) subreaper: bool,
    #[cfg(pidward_linux)]
    pub(crate) cgroup: CgroupPlace,
    pub(crate) on_last_drop: OnLastDrop,
    pub(crate) registry: Option<Registry>,
    pub(crate) registry_optional: bool,
    /// How long an extra thread without children waits for work.
    pub(crate) idle: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            threads: 8,
            queue: 1024,
            deadline: Some(Duration::from_secs(30)),
            spin: Duration::ZERO,
            grace: Duration::from_secs(5),
            guard: true,
            subreaper: false,
            #[cfg(pidward_linux)]
            cgroup: CgroupPlace::Off,
            on_last_drop: OnLastDrop::Stop,
            registry: None,
            registry_optional: false,
            idle: Duration::from_secs(1),
        }
    }
}

/// Makes methods that set one thing.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($arg:ident: $type:ty) => $($place:ident).+ = $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $arg: $type) -> SpawnerBuilder {
            self.$($place).+ = $value;
            self
        }
    )*};
}

/// Sets up a [`Spawner`]; see [`Spawner::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before `build`"]
pub struct SpawnerBuilder {
    config: Config,
    names: MarkerNames,
    installation: Option<String>,
}

impl SpawnerBuilder {
    setters! {
        /// How many spawner threads there may be, at least 1. There is one, unless spawns hang in exec: each hung spawn holds a
        /// thread, and the next request then gets another. Default 8.
        threads(most: usize) => config.threads = most.max(1);

        /// How many requests may wait, at least 1. One more is refused. Default 1,024.
        queue(most: usize) => config.queue = most.max(1);

        /// How long a request may take in all, from the call to the running program; `None` waits for ever. A request can
        /// have its own ([`Command::deadline`](crate::Command::deadline)). Default 30 s.
        deadline(deadline: Option<Duration>) => config.deadline = deadline;

        /// How long an asker spins on its answer before it sleeps. About 60 µs saves one of the two wake-ups that a
        /// request costs, at the price of a busy core meanwhile. Default 0.
        spin(spin: Duration) => config.spin = spin;

        /// The grace that the drop of the last handle gives detached children after SIGTERM, and the guard gives everybody. Default 5 s.
        grace(grace: Duration) => config.grace = grace;

        /// Whether there is a guard: a small process beside this one that ends the whole tree when this one has ended, however that was,
        /// after the [grace](Self::grace). Default `true`.
        ///
        /// Without it a crash ends direct children only, by their death signal: whoever is deaf to that, and every grandchild, lives on. With
        /// it the spawner costs one more process (some 100 KiB) and one fork, which grows with the memory that this process has touched: start
        /// the spawner early. Where there can be none (no `/proc`, children made in another pid namespace) a warning says so, once.
        guard(on: bool) => config.guard = on;

        /// Whether this process becomes a subreaper (Linux 3.4, for good): who descends from it and loses its parent becomes its child. Those
        /// that proved to be this spawner's are reaped when they have ended, within about a second; no status of the host's own
        /// children is touched. Default `false`.
        subreaper(on: bool) => config.subreaper = on;

        /// Where children get cgroup v2 leaves of their own. Default: nowhere.
        ///
        /// Nobody leaves a leaf by itself, whatever becomes of group, session, parent and environ: a stop takes everybody in it, and the kernel
        /// says when nobody is left. It costs making and removing a directory for each child. Groups that dead supervisors have left in the
        /// same place are removed when the spawner starts; who is left in one is ended, if it is of the same
        /// [installation](Self::installation). A command with a [`cgroup`](crate::Command::cgroup) of its own gets no leaf.
        #[cfg(pidward_linux)]
        cgroup(place: CgroupPlace) => config.cgroup = place;

        /// Writes each child down before it is made, so that whoever comes after a crash finds it; see [`Registry`]. The spawner's children
        /// carry the installation of the registry, whatever [`installation`](Self::installation) says. Default: nothing is written down.
        ///
        /// A child that ends without an owner ([`spawn_supervised`](Spawner::spawn_supervised)) and has a name keeps its record, with its
        /// status, until [`take_status`](Spawner::take_status) or the next child of that kind and name. A child without a name is
        /// written down under the base name of its program.
        registry(registry: Registry) => config.registry = Some(registry);

        /// Whether a child whose record cannot be written is started all the same, with a warning in the log: after a crash nobody
        /// finds it. Default `false`: such a spawn fails with [`SpawnErrorKind::Registry`](crate::SpawnErrorKind::Registry), and no child exists.
        registry_optional(on: bool) => config.registry_optional = on;

        /// What the drop of the last handle does to detached children. Default: stop them.
        on_last_drop(what: OnLastDrop) => config.on_last_drop = what;

        /// The names of the variables that children carry. Default: the constants, as [`NONCE_ENV`](crate::NONCE_ENV).
        ///
        /// Two supervisors with different names do not see each other's markers: those of the other are ordinary variables, and inherited.
        markers(names: MarkerNames) => names = names;

        /// The installation id that children carry: 32 lower-case hex digits, random and kept by whoever wants to know its children again
        /// after a restart. Default: a new one, so that only this spawner knows them.
        installation(id: impl Into<String>) => installation = Some(id.into());
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// No thread, descriptor or memory to be had; a kernel below Linux 5.4 (`ErrorKind::Unsupported`);
    /// [`MarkerNamesError`](crate::MarkerNamesError), an installation that is no id, or a [cgroup](Self::cgroup) that is none or may not be
    /// changed (`ErrorKind::InvalidInput`).
    pub fn build(self) -> io::Result<Spawner> {
        let invalid =
            |error: Box<dyn Error + Send + Sync>| io::Error::new(io::ErrorKind::InvalidInput, error);
        self.names.check().map_err(|e| invalid(e.into()))?;
        let installation = self.installation.map(|id| Id128::parse(id.as_bytes()).ok_or(id)).transpose();
        let installation = installation.map_err(|id| {
            invalid(format!("the installation {id:?}: expected 32 lower-case hex digits").into())
        })?;
        Spawner::start(self.config, self.names, installation)
    }
}
