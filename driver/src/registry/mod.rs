//! The registry: which children there are, written down so that whoever comes after a crash finds them.
//!
//! A directory with one owner at a time, who holds its lock; a token, the installation that its children carry; and a small text file
//! for each child, its *record*. The intent is on disk before the child is made, and who it is right after; the record goes when
//! nobody is left of the child's tree. So a supervisor that dies at any instruction leaves a record of every child it has.
//!
//! A record is an allegation. It is never acted on without the process being verified, and a record of an earlier boot, or that is
//! torn, of another user or of a later version, is not acted on at all. Nothing is flushed to the disk: after a power loss the boot is
//! another one, and every record is void.
//!
//! | file | what it is |
//! |---|---|
//! | `lock` | locked (flock(2)), as the directory itself is, by the owner while it lives, who says in it who it is: `pid N` on a line of its own |
//! | `installation` | the token: 32 hex digits |
//! | `<nonce>.record` | one child; [`pidward_core::record`] |
//! | `.<name>.tmp` | a file that is being written |
//!
//! Reading needs no lock ([`Listing`]). This guards against mistakes and crashes, not against another process of the same user.

use std::{
    collections::HashSet,
    ffi::OsStr,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use pidward_core::{
    Id128,
    identity::{Host, Verdict, Why},
    marker::Names,
    record::Record,
};
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

mod adopted;
mod error;
mod list;
mod outcome;
mod place;
mod reconcile;
mod strays;
mod tree;
mod written;

pub use adopted::{Adopted, Ending};
pub use error::{RegistryError, RegistryErrorKind};
pub use list::{Listed, Listing, RecordState, ports};
pub use outcome::{Action, Leftover, Policy, Reconciled, Reconciliation};
pub(crate) use written::{About, Written};

use place::Place;

use crate::{
    markers::MarkerNames,
    names::{ChildKind, ServiceName},
    say::say,
    spawner::lock,
};

const LOCK: &str = "lock";
const TOKEN: &str = "installation";
const RECORD: &str = ".record";

/// Kind and name of a child.
type Named = (ChildKind, ServiceName);

/// How often somebody who has just taken the lock is given the time to say who it is, 10 ms apart.
const LOOKS: u32 = 100;
const FEW_LOOKS: u32 = 20;

/// A registry that this process owns: [open](Registry::open) or [new](Registry::new), and then given to a
/// [spawner](crate::SpawnerBuilder::registry). Clones are the same one.
///
/// When the last clone is dropped the lock is released. Records stay; a directory without any is removed.
#[derive(Clone, Debug)]
pub struct Registry {
    inner: Arc<Inner>,
    names: MarkerNames,
}

#[derive(Debug)]
pub(crate) struct Inner {
    place: Place,
    /// The lock's file, locked as long as this is.
    lock: Mutex<OwnedFd>,
    installation: Id128,
    past: Mutex<Past>,
    /// A forked copy of it writes and removes nothing.
    owner: u32,
    /// Of the spawners that use it.
    runs: Mutex<Vec<Id128>>,
    /// Nonces of the records that are in use.
    used: Mutex<HashSet<Id128>>,
    /// Final statuses that nobody has asked for, with the nonces of their records.
    kept: Mutex<Vec<(Named, Id128, Option<i32>)>>,
}

impl Registry {
    /// The registry in this directory, which is made if it is missing; the one above it must be there. The directory must belong to the
    /// caller, and nobody else may be able to write to it.
    ///
    /// What an earlier owner has left there is for [`reconcile`](Registry::reconcile).
    ///
    /// # Errors
    /// [`RegistryErrorKind::AlreadyRunning`]: another supervisor owns it. Then nothing is changed there.
    pub fn open(dir: impl AsRef<Path>) -> Result<Registry, RegistryError> {
        Registry::lock(dir.as_ref(), true, None)
    }

    /// The registry in this directory, if there is one.
    ///
    /// # Errors
    /// As [`open`](Registry::open); `ENOENT`: there is none.
    pub fn open_existing(dir: impl AsRef<Path>) -> Result<Registry, RegistryError> {
        Registry::lock(dir.as_ref(), false, None)
    }

    /// A registry of its own for this run, in a new directory below the first of the [roots](Registry::roots) that can be used.
    ///
    /// # Errors
    /// That of the last root, where none can be used.
    #[allow(clippy::new_without_default, reason = "it touches the file system, and can fail")]
    pub fn new() -> Result<Registry, RegistryError> {
        let mut last = None;
        for root in place::roots() {
            let made = Place::open(&root, true).and_then(|_| {
                let installation = Id128::random().map_err(|e| RegistryError::io(&root, e))?;
                Registry::lock(&root.join(installation.to_string()), true, Some(installation))
            });
            match made {
                Ok(registry) => return Ok(registry),
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or_else(|| RegistryError::io(Path::new("/run"), Errno::NOENT)))
    }

    /// Where the directories of runs are: `$XDG_RUNTIME_DIR/pidward`, `/run/pidward`, and `pidward-<uid>` in the temporary directory.
    pub fn roots() -> Vec<PathBuf> {
        place::roots()
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.inner.place.path()
    }

    /// What its children carry: 32 hex digits, the same for every run on this directory.
    pub fn installation(&self) -> String {
        self.inner.installation.to_string()
    }

    fn lock(path: &Path, make: bool, installation: Option<Id128>) -> Result<Registry, RegistryError> {
        // A directory may go between its opening and the lock, with the end of its owner.
        for _ in 0..LOOKS {
            let place = Place::open(path, make)?;
            if !make && !is_registry(&place)? {
                return Err(place.error(Errno::NOENT));
            }
            if take_lock(&place)?.is_none() {
                continue;
            }
            let past = Past::read(&place);
            let lock = say_who(&place, &[], &past.runs)?;
            let installation = token(&place, installation)?;
            let inner = Inner {
                place,
                lock: Mutex::new(lock),
                installation,
                past: Mutex::new(past),
                owner: process::id(),
                runs: Mutex::default(),
                used: Mutex::default(),
                kept: Mutex::default(),
            };
            return Ok(Registry { inner: Arc::new(inner), names: MarkerNames::default() });
        }
        Err(RegistryError::io(path, Errno::NOENT))
    }

    pub(crate) fn installation_id(&self) -> Id128 {
        self.inner.installation
    }

    /// A spawner with this run id uses it.
    pub(crate) fn used_by(&self, run: Id128) {
        lock(&self.inner.runs).push(run);
        self.inner.say_runs();
    }

    /// The raw wait status of the last child of this kind and name that ended without an owner, if it is known; once. Its record goes: it
    /// was asked for, or there is a new child.
    pub(crate) fn take_status(&self, name: &Named) -> Option<Option<i32>> {
        let mut kept = lock(&self.inner.kept);
        let at = kept.iter().position(|(kept, ..)| kept == name)?;
        let (_, nonce, status) = kept.swap_remove(at);
        drop(kept);
        self.inner.remove(nonce);
        Some(status)
    }
}

impl Inner {
    fn is_ours(&self) -> bool {
        process::id() == self.owner
    }

    /// Says in the lock's file which runs use it now, and which ones have left somebody.
    fn say_runs(&self) {
        let said = say_who(&self.place, &lock(&self.runs), &lock(&self.past).runs);
        match said {
            Ok(file) => *lock(&self.lock) = file,
            // Where that is so, no record can be written either, and whoever asks for one is told.
            Err(e) => say!(debug, "who has no record cannot be found after a crash: {e}"),
        }
    }

    /// Whether the record of this nonce is that of a child of a spawner of this process.
    fn is_used(&self, nonce: Id128) -> bool {
        lock(&self.used).contains(&nonce) || lock(&self.kept).iter().any(|(_, kept, _)| *kept == nonce)
    }

    fn save(&self, record: &Record) -> io::Result<()> {
        self.place.write(&written::file_name(record.nonce), record.to_string().as_bytes())
    }

    /// Whether it is there no more.
    fn remove(&self, nonce: Id128) -> bool {
        let done = if self.is_ours() {
            self.place.remove(OsStr::new(&written::file_name(nonce)))
        } else {
            Err(Errno::PERM)
        };
        done.inspect_err(|e| say!(warn, "the record {nonce} stays: {e}")).is_ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_ours() {
            self.clear();
        }
    }
}

impl Inner {
    /// Removes the directory, if nothing is written down in it.
    fn clear(&self) {
        let Ok(names) = self.place.names() else { return };
        let is_own = |name: &OsStr| name == LOCK || name == TOKEN || is_passing(name);
        if names.iter().any(|name| !is_own(name)) {
            return;
        }
        for name in &names {
            let _ = self.place.remove(name);
        }
        // The lock is held: whoever has opened it meanwhile sees that it is there no more.
        if self.place.is_there() {
            let _ = std::fs::remove_dir(self.place.path());
        }
    }
}

/// Whether anything in it is of a registry.
fn is_registry(place: &Place) -> Result<bool, RegistryError> {
    let names = place.names().map_err(|e| place.error(e))?;
    let is_its =
        |name: &OsStr| name == LOCK || name == TOKEN || name.as_encoded_bytes().ends_with(RECORD.as_bytes());
    // An empty one was one, and is removed.
    Ok(names.is_empty() || names.iter().any(|name| is_its(name)))
}

fn is_passing(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") && name.as_encoded_bytes().ends_with(place::PASSING.as_bytes())
}

/// What earlier owners have said of themselves.
#[derive(Clone, Debug, Default)]
struct Past {
    /// Whether the last one is known to have ended, or is this process, which has given it back. Not so where the directory is a copy of
    /// one whose owner lives, and where nobody has said who it was.
    has_ended: bool,
    /// Of earlier owners that have ended: whoever carries one of them is nobody's any more.
    runs: Vec<Id128>,
}

/// Most runs that have left somebody which are remembered.
const PAST: usize = 64;

impl Past {
    fn read(place: &Place) -> Past {
        let text = place.read(OsStr::new(LOCK)).ok().flatten().and_then(|text| String::from_utf8(text).ok());
        let Some((text, (_, verdict))) = text.zip(owner(place)) else { return Past::default() };
        // A copy of a directory is nobody's leave to touch the children of whoever has the original.
        let ended = [Verdict::Gone, Verdict::NotOurs(Why::OtherBoot), Verdict::NotOurs(Why::Us)];
        let has_ended = ended.contains(&verdict) || matches!(verdict, Verdict::Recycled(_));
        let id =
            |line: &str| Id128::parse(line.strip_prefix("run ").or(line.strip_prefix("past "))?.as_bytes());
        let runs = text.lines().filter(|_| has_ended).filter_map(id).take(PAST).collect();
        Past { has_ended, runs }
    }
}

/// Takes the lock. `None`: the directory has gone meanwhile.
///
/// What is locked is the directory, so that no cleaner of temporary files takes what is in it, and nobody can take the lock away by removing
/// a file; and the file too, for whoever looks there.
fn take_lock(place: &Place) -> Result<Option<()>, RegistryError> {
    // Ends with the lock, or with the name of whoever has it.
    let mut seen = None;
    for look in 0..LOOKS {
        match flock(place, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if !place.is_there() => return Ok(None),
            Ok(()) => return Ok(Some(())),
            Err(Errno::WOULDBLOCK) => {}
            Err(e) => return Err(place.error(e)),
        }
        // Whoever has just taken it may not have said so yet.
        match owner(place) {
            Some((pid, Verdict::Same)) => {
                return Err(RegistryError::new(place.path(), RegistryErrorKind::AlreadyRunning(Some(pid))));
            }
            // Given back, a child that is just being made may still have a copy of the lock.
            Some((_, Verdict::NotOurs(Why::Us))) if look >= FEW_LOOKS => {
                let own = Some(process::id());
                return Err(RegistryError::new(place.path(), RegistryErrorKind::AlreadyRunning(own)));
            }
            other => seen = other.or(seen),
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(RegistryError::new(
        place.path(),
        match seen {
            Some((pid, Verdict::Gone | Verdict::Recycled(_))) => RegistryErrorKind::LockLeft(pid),
            // A number of another pid namespace is somebody else's here.
            Some((_, Verdict::Unknown(Why::OtherPidNamespace))) => RegistryErrorKind::AlreadyRunning(None),
            seen => RegistryErrorKind::AlreadyRunning(seen.map(|(pid, _)| pid)),
        },
    ))
}

/// Who was the last to say in the lock that it has it, and whether it lives.
fn owner(place: &Place) -> Option<(u32, Verdict)> {
    let text = place.read(OsStr::new(LOCK)).ok()??;
    let text = String::from_utf8(text).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("pid ")?.parse().ok())?;
    let identity = text.lines().find_map(|line| line.strip_prefix("identity "));
    let identity = identity.and_then(|line| pidward_core::identity::Identity::parse(line.as_bytes()).ok());
    let verdict = identity.map_or(Verdict::Unknown(Why::NoMarker), |identity| {
        // It carries no nonce of ours: its start is all there is to know it by where there are no inodes.
        match Host::look().verify(&identity, &Names::DEFAULT) {
            Err(Verdict::Unknown(Why::NoMarker)) => Verdict::Same,
            verified => crate::identity::of(&verified),
        }
    });
    Some((pid, verdict))
}

/// Whether a supervisor owns the directory now, as far as it can be told without touching anything.
fn is_locked(place: &Place) -> Result<bool, RegistryError> {
    match flock(place, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(place, FlockOperation::Unlock);
            Ok(false)
        }
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(e) => Err(place.error(e)),
    }
}

/// Says in the lock's file who has it, and for which runs; and which ones before them have left somebody.
fn say_who(place: &Place, runs: &[Id128], past: &[Id128]) -> Result<OwnedFd, RegistryError> {
    let error = |errno: pidward_core::Errno| RegistryError::io(&place.path().join(LOCK), errno);
    let mut text = format!("pid {}\n", process::id());
    if let Ok(own) = Host::look().own(None) {
        text += &format!("identity {own}\n");
    }
    let lines = |word: &'static str, ids: &[Id128]| {
        ids.iter().map(move |id| format!("{word} {id}\n")).collect::<String>()
    };
    text += &lines("run", runs);
    text += &lines("past", past);
    place.write(LOCK, text.as_bytes()).map_err(|e| error(place::errno_of(&e)))?;
    let file = place.file(OsStr::new(LOCK), OFlags::RDWR).map_err(|odd| error(odd.errno()))?;
    let file = file.ok_or_else(|| error(Errno::NOENT.into()))?;
    // Nobody else takes it who has not the directory.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

/// The installation: as it is written down, or as records have it, or `wanted`, or a new one.
fn token(place: &Place, wanted: Option<Id128>) -> Result<Id128, RegistryError> {
    let read = place.read(OsStr::new(TOKEN)).ok().flatten();
    let read = read.and_then(|text| Id128::parse(text.strip_suffix(b"\n")?));
    if let Some(id) = read {
        return Ok(id);
    }
    let of_records = || {
        let records = list::read(place).ok()?;
        records.into_iter().find_map(|(_, read)| read.ok()?.cookie.map(|run| run.installation))
    };
    let known = wanted.or_else(of_records).map_or_else(Id128::random, Ok);
    let id = known.map_err(|e| RegistryError::io(place.path(), e))?;
    let written = place.write(TOKEN, format!("{id}\n").as_bytes());
    written.map_err(|e| RegistryError::io(&place.path().join(TOKEN), place::errno_of(&e)))?;
    Ok(id)
}
