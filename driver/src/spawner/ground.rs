//! What a spawner and each of its children need to know processes by.

use std::{
    io,
    ops::Deref,
    process,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use pidward_core::{
    Id128, Pid,
    identity::{Host, Identity, Process, Verdict, Why},
    marker::{Cookie, Markers, Names, Run, Scan, Tree},
    procfs::{self, Environ, ProcDir, ProcError, State},
};

use crate::{
    leaves::Leaf,
    markers::MarkerNames,
    names::{ChildKind, ServiceName},
    registry::Written,
    say::say,
};

/// During exec a process shows nothing of its own for a moment: this many looks, this far apart, wait for it.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// Where processes are looked at, and under which names markers are looked for.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    host: OnceLock<Host>,
    since: OnceLock<u64>,
    names: MarkerNames,
    own: Option<Own>,
    /// That descendants cannot be looked for was said.
    told: AtomicBool,
}

/// What every child of a spawner carries.
#[derive(Debug)]
struct Own {
    run: Run,
    /// Name and value of its entry.
    entry: (String, String),
}

impl Ground {
    /// Of a new run of a spawner; of a new installation where there is none.
    pub(crate) fn of_spawner(names: MarkerNames, installation: Option<Id128>) -> io::Result<Ground> {
        let random = || Id128::random().map_err(|e| io::Error::from_raw_os_error(e.raw()));
        let run = Run { id: random()?, installation: installation.map_or_else(random, Ok)? };
        let entry = (format!("{}{}", names.core().tree, run.id), run.installation.to_string());
        Ok(Ground { names, own: Some(Own { run, entry }), ..Ground::default() })
    }

    /// Name and value of the run entry.
    pub(super) fn entry(&self) -> (&str, &str) {
        self.own.as_ref().map_or(("", ""), |own| (&own.entry.0, &own.entry.1))
    }

    /// Says that descendants cannot be looked for, the first time. Nothing can be said of them then, and a stop is not proven.
    pub(crate) fn tell_blind(&self, error: ProcError) {
        if !self.told.swap(true, Ordering::AcqRel) {
            say!(
                warn,
                "descendants that have left their group cannot be looked for, and may live on: {error:?}"
            );
        }
    }

    /// A fresh nonce for a spawn.
    pub(crate) fn nonce(&self) -> io::Result<Id128> {
        Run::nonce(self.installation()).map_err(|e| io::Error::from_raw_os_error(e.raw()))
    }

    pub(crate) fn installation(&self) -> Id128 {
        self.own.as_ref().map_or(Id128::from_bytes([0; 16]), |own| own.run.installation)
    }

    /// By which a child of this installation is known.
    pub(super) fn cookie(&self) -> Cookie {
        self.own.as_ref().map_or(Cookie::Any, |own| Cookie::Installation(own.run.installation))
    }

    /// By which a descendant of this very run is known.
    pub(crate) fn run_cookie(&self) -> Cookie {
        self.own.as_ref().map_or(Cookie::Any, |own| Cookie::Run(own.run.id))
    }

    /// What descendants of this run carry.
    pub(super) fn own_run(&self) -> Option<Run> {
        self.own.as_ref().map(|own| own.run)
    }

    /// The id of this run.
    pub(super) fn run(&self) -> Id128 {
        self.own.as_ref().map_or(Id128::from_bytes([0; 16]), |own| own.run.id)
    }

    /// The clock tick at which this process was made: no descendant is older.
    pub(crate) fn since(&self) -> u64 {
        let own = || Pid::new(process::id()).and_then(|own| procfs::stat(own).ok());
        *self.since.get_or_init(|| own().map_or(0, |stat| stat.start_ticks))
    }

    /// Opened when it is first needed, and kept once it could be: what is missing now need not be for ever.
    pub(crate) fn host(&self) -> Place<'_> {
        if let Some(host) = self.host.get() {
            return Place::Kept(host);
        }
        let now = Host::look();
        if now.here().is_ok() { Place::Kept(self.host.get_or_init(|| now)) } else { Place::Now(now) }
    }

    pub(crate) fn names(&self) -> Names<'_> {
        self.names.core()
    }

    /// Whether the process that was written down lives. Waits a moment for one that is in exec.
    pub(crate) fn verify(&self, known: &Identity) -> Result<Process, Verdict> {
        patiently(|| self.host().verify(known, &self.names()))
    }

    /// Whether the number is a child of this kind and name.
    pub(crate) fn verify_named(
        &self,
        pid: Pid,
        kind: ChildKind,
        service: &ServiceName,
        cookie: Cookie,
    ) -> Result<(Process, Option<Id128>), Verdict> {
        let name = (kind.core(), service.as_str());
        patiently(|| self.host().verify_named(pid, &self.names(), name, cookie))
    }

    /// Whether a process descends from a spawner of this installation, whatever its kind and name. Waits a moment for one that is in exec.
    pub(super) fn descends(&self, process: &ProcDir) -> Verdict {
        match process.pid() {
            pid if pid.get() == process::id() => Verdict::NotOurs(Why::Us),
            Pid::INIT => Verdict::NotOurs(Why::OtherTree),
            _ => patiently(|| self.carries(process)).err().unwrap_or(Verdict::Same),
        }
    }

    /// The nonce that it shows, if it shows one.
    pub(super) fn nonce_of(&self, process: &ProcDir) -> Option<Id128> {
        let names = self.names();
        let mut scan = Scan::new(&names, Markers::new(&names, ChildKind::Task.core(), ""), self.cookie());
        process.environ(|piece| scan.feed(piece)).ok()?;
        scan.carried().nonce
    }

    /// By what it shows: the run entry, or the nonce that a child has too which does not carry the run.
    fn carries(&self, process: &ProcDir) -> Result<(), Verdict> {
        let names = self.names();
        let markers = Markers::new(&names, ChildKind::Task.core(), "");
        let mut scan = Scan::new(&names, markers, self.cookie());
        // In this order: once it has called exec, what is read later is its own.
        let stat = process.stat()?;
        let environ = process.environ(|piece| scan.feed(piece))?;
        let carried = scan.carried();
        let spawned = carried.nonce.is_some_and(|nonce| Run::spawned(self.installation(), nonce));
        match environ {
            // Before exec that is its parent's: then it descends from ours through that.
            Environ::Bytes(_) if carried.tree == Tree::Ours || spawned => Ok(()),
            // Our own: it may be a child that is being made.
            Environ::Bytes(_) if !stat.has_execed() && stat.ppid == process::id() => {
                Err(Verdict::Unknown(Why::NotYetExec))
            }
            Environ::Bytes(_) if carried.tree == Tree::Other => Err(Verdict::NotOurs(Why::OtherTree)),
            Environ::Ended => Err(Verdict::Gone),
            Environ::KernelThread => Err(Verdict::NotOurs(Why::KernelThread)),
            Environ::Empty if !stat.has_environ() && stat.state != State::ZOMBIE => {
                Err(Verdict::Unknown(Why::NotYetExec))
            }
            _ => Err(Verdict::Unknown(Why::NoMarker)),
        }
    }
}

/// Where processes are looked at.
pub(crate) enum Place<'a> {
    Kept(&'a Host),
    Now(Host),
}

impl Deref for Place<'_> {
    type Target = Host;

    fn deref(&self) -> &Host {
        match self {
            Place::Kept(host) => host,
            Place::Now(host) => host,
        }
    }
}

/// What a request says of the child that is to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) kill_on_drop: bool,
    /// No [`Child`](crate::Child) will hold it.
    pub(crate) detached: bool,
    /// How long a stop waits after it has closed the child's input.
    pub(crate) ask: Option<Duration>,
    /// It does not carry the run, and has no leaf.
    pub(crate) survives: bool,
    /// Of this one spawn.
    pub(crate) nonce: Option<Id128>,
    pub(crate) leaf: Option<Arc<Leaf>>,
    /// What is written down about it.
    pub(crate) written: Option<Arc<Written>>,
    pub(crate) name: Option<(ChildKind, ServiceName)>,
}

/// Asks again while the process has not called exec, or is in it.
fn patiently<T>(mut verify: impl FnMut() -> Result<T, Verdict>) -> Result<T, Verdict> {
    for _ in 1..LOOKS {
        match verify() {
            Err(Verdict::Unknown(Why::NotYetExec)) => thread::sleep(BETWEEN),
            other => return other,
        }
    }
    verify()
}
