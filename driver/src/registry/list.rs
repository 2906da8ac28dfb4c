//! What is written down in a directory, read without its lock: what there is to see, to verify and to stop from another process.

use std::{
    ffi::{OsStr, OsString},
    net::SocketAddr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use pidward_core::{
    Id128,
    identity::{self, Verdict, Why},
    marker,
    record::{Record, State},
};
use rustix::time::{ClockId, clock_gettime};

use super::{
    RECORD, RegistryError, is_locked, is_passing,
    place::{Odd, Place},
    tree,
    written::file_name,
};
use crate::{
    identity::{Identity, StopOwned},
    names::{ChildKind, ServiceName},
    spawner::Ground,
};

/// Clock ticks of `/proc` in a second: `USER_HZ`, fixed by the kernel's interface (`include/asm-generic/param.h`).
const TICKS: u64 = 100;

/// How far a child has come, by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordState {
    /// It was going to be made: it may be there or not.
    Intent,
    /// It was made.
    Running,
    /// Its stop has begun.
    Stopping,
    /// It has ended; its status is kept, or somebody of its tree lived on.
    Ended,
}

impl RecordState {
    /// The word for it: `intent`, `running`, `stopping`, `ended`.
    pub const fn as_str(self) -> &'static str {
        match self {
            RecordState::Intent => State::Intent.word(),
            RecordState::Running => State::Running.word(),
            RecordState::Stopping => State::Stopping.word(),
            RecordState::Ended => State::Ended.word(),
        }
    }
}

/// One record: an allegation until it is [verified](Listed::verify).
#[derive(Clone, Debug)]
pub struct Listed(Box<Record>);

impl Listed {
    pub(super) fn new(record: Box<Record>) -> Listed {
        Listed(record)
    }

    pub(super) fn record(&self) -> &Record {
        &self.0
    }

    /// The kind of the child.
    pub fn kind(&self) -> ChildKind {
        match self.0.kind {
            marker::ChildKind::Agent => ChildKind::Agent,
            marker::ChildKind::Mcp => ChildKind::Mcp,
            marker::ChildKind::Api => ChildKind::Api,
            marker::ChildKind::Task => ChildKind::Task,
        }
    }

    /// The name of the child.
    pub fn name(&self) -> ServiceName {
        ServiceName::of_record(&self.0.name)
    }

    /// How far it has come.
    pub fn state(&self) -> RecordState {
        match self.0.state {
            State::Intent => RecordState::Intent,
            State::Running => RecordState::Running,
            State::Stopping => RecordState::Stopping,
            State::Ended => RecordState::Ended,
        }
    }

    /// Who it is; `None` while it is only intended.
    pub fn identity(&self) -> Option<Identity> {
        self.0.identity().map(Identity)
    }

    /// Its cgroup leaf.
    pub fn cgroup(&self) -> Option<PathBuf> {
        self.0.leaf.as_ref().map(|leaf| OsStr::from_bytes(leaf).into())
    }

    /// Whether it outlives its supervisor.
    pub fn survives(&self) -> bool {
        self.0.cookie.is_none()
    }

    /// How long ago it was made, by the clock that goes on while the machine sleeps. `None` while it is only intended, and of another boot.
    pub fn age(&self) -> Option<Duration> {
        let made = self.0.born?.start_ticks;
        let (boot, _) = identity::Host::look().here().ok()?;
        let now = clock_gettime(ClockId::Boottime);
        let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
        let made = Duration::from_millis(made.saturating_mul(1000 / TICKS));
        (boot == self.0.boot).then(|| now.saturating_sub(made))
    }

    /// Whether the child lives. Of one that is only intended nothing is known: [`Why::NotYetExec`].
    pub fn verify(&self) -> Verdict {
        self.identity().map_or(Verdict::Unknown(Why::NotYetExec), |identity| identity.verify())
    }

    /// Stops the child and whoever is left of its tree, wherever its supervisor is: SIGTERM (with SIGCONT), SIGKILL after `grace`. Whoever
    /// is signalled was verified. The record is left to the owner of the directory.
    pub fn stop(&self, grace: Duration) -> StopOwned {
        tree::stop(&Ground::default(), &self.0, grace)
    }

    pub(super) fn nonce(&self) -> Id128 {
        self.0.nonce
    }
}

/// The TCP addresses that each of these children, and whoever carries its nonce, listens on now: in their order. One look at all processes
/// serves all of them.
pub fn ports<'a>(children: impl IntoIterator<Item = &'a Listed, IntoIter: Clone>) -> Vec<Vec<SocketAddr>> {
    tree::ports(&Ground::default(), children.into_iter().map(Listed::record))
}

/// What stands in a directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing {
    /// The directory.
    pub path: PathBuf,
    /// The records, sorted by name and kind.
    pub children: Vec<Listed>,
    /// Files that are no records, each with the reason. Nothing is done on their word, and nothing to them.
    pub odd: Vec<(PathBuf, String)>,
    /// Whether a supervisor owns the directory now.
    pub is_owned: bool,
}

impl Listing {
    /// Reads a directory, which must belong to the caller. Its lock is not needed, nor anything changed.
    ///
    /// A child that lives throughout is there once, whatever is started and ends meanwhile.
    ///
    /// # Errors
    /// There is no such directory, or it may not be trusted.
    pub fn read(dir: impl AsRef<Path>) -> Result<Listing, RegistryError> {
        let place = Place::open(dir.as_ref(), false)?;
        let is_owned = is_locked(&place)?;
        let (mut children, mut odd) = (Vec::new(), Vec::new());
        for (name, read) in read(&place)? {
            match read {
                Ok(record) => children.push(Listed(record)),
                Err(why) => odd.push((place.path().join(name), why.to_string())),
            }
        }
        children.sort_by_key(|child| (child.name(), child.kind(), child.nonce()));
        Ok(Listing { path: place.path().to_owned(), children, odd, is_owned })
    }

    /// The directories of runs of the caller, below every [root](super::Registry::roots).
    pub fn directories() -> Vec<PathBuf> {
        let mut all = Vec::new();
        for root in super::place::roots() {
            let Ok(place) = Place::open(&root, false) else { continue };
            let runs = place.names().unwrap_or_default();
            let is_run = |name: &OsString| Id128::parse(name.as_bytes()).is_some();
            all.extend(runs.iter().filter(|name| is_run(name)).map(|name| root.join(name)));
        }
        all
    }

    /// Whether the number is the child of this kind and name that is written down; where none is with this number, what
    /// [`verify`](crate::verify) says, but that whoever carries the nonce of a child with another number has it from that one.
    pub fn verify(&self, pid: u32, kind: ChildKind, name: &ServiceName) -> Verdict {
        let named = || self.children.iter().filter(|child| child.kind() == kind && child.name() == *name);
        let with_pid = |child: &&Listed| child.identity().is_some_and(|identity| identity.pid() == pid);
        // A number that has come back to a child is that of the one that lives.
        let verdicts: Vec<_> = named().filter(with_pid).map(Listed::verify).collect();
        if let Some(verdict) = verdicts.iter().find(|verdict| **verdict == Verdict::Same).or(verdicts.first())
        {
            return *verdict;
        }
        let Some(number) = pidward_core::Pid::new(pid) else { return Verdict::Gone };
        let ground = Ground::default();
        match ground.verify_named(number, kind, name, marker::Cookie::Any) {
            Ok((_, Some(nonce)))
                if self.children.iter().any(|child| child.nonce() == nonce && child.identity().is_some()) =>
            {
                Verdict::Unknown(Why::Inherited)
            }
            _ => crate::identity::verify(pid, kind, name),
        }
    }
}

/// A file by its name: a record, or the reason why it is none.
type Read = (OsString, Result<Box<Record>, Odd>);

/// All files but our own, each as a record or with the reason why it is none.
pub(super) fn read(place: &Place) -> Result<Vec<Read>, RegistryError> {
    let names = place.names().map_err(|e| place.error(e))?;
    let is_own = |name: &OsString| name == super::LOCK || name == super::TOKEN || is_passing(name);
    let mut all = Vec::new();
    for name in names.into_iter().filter(|name| !is_own(name)) {
        match read_one(place, &name) {
            // Ended meanwhile.
            Ok(None) => {}
            Ok(Some(record)) => all.push((name, Ok(record))),
            Err(odd) => all.push((name, Err(odd))),
        }
    }
    Ok(all)
}

fn read_one(place: &Place, name: &OsStr) -> Result<Option<Box<Record>>, Odd> {
    if !name.as_bytes().ends_with(RECORD.as_bytes()) {
        return Err(Odd::Name);
    }
    let Some(text) = place.read(name)? else { return Ok(None) };
    let record = Record::parse(&text).map_err(Odd::Text)?;
    // A copy under another name is not the record of anything.
    if *name == *file_name(record.nonce) { Ok(Some(Box::new(record))) } else { Err(Odd::Name) }
}
