//! Cgroup v2 leaves: one for each child, in a group of its spawner's run.
//!
//! The group of the run is called by the identity of this process: whoever finds it later knows whether its supervisor lives.

use std::{
    ffi::{CStr, CString},
    fmt, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use pidward_core::{
    Errno, Id128, Pid,
    cgroup::{Cgroup, CgroupError, Limits, Tally},
    identity::{Identity, Verdict},
    marker::Run,
};

use crate::spawner::{Ground, lock};

/// Where the children of a spawner get cgroup leaves of their own; see [`SpawnerBuilder::cgroup`](crate::SpawnerBuilder::cgroup).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CgroupPlace {
    /// Nowhere.
    #[default]
    Off,
    /// Below our own group, where that is allowed; else there are none, and the log says so, at level info.
    Auto,
    /// Below this group: an absolute path of a directory on a cgroup v2 file system.
    At(PathBuf),
}

/// How often the rest of a dead supervisor's run is looked at until it has gone, 10 ms apart.
const LOOKS: u32 = 100;

/// The group of a run.
#[derive(Debug)]
pub(crate) struct Home {
    above: Cgroup,
    name: CString,
    group: Cgroup,
    /// Its directory, where that can be told.
    path: Option<PathBuf>,
    /// Leaves that were still busy when their child's handle went.
    busy: Mutex<Vec<CString>>,
    /// A forked copy of it removes nothing.
    owner: u32,
}

impl Home {
    /// Makes it, and clears what dead supervisors have left beside it.
    /// `end`: who is left in one of our installation is ended; else it stays.
    pub(crate) fn make(ground: &Ground, place: &CgroupPlace, end: bool) -> Result<Option<Home>, CgroupError> {
        let above = match place {
            CgroupPlace::Off => return Ok(None),
            CgroupPlace::Auto => Cgroup::own(ground.host().proc().map_err(|_| CgroupError::NoTree)?)?,
            CgroupPlace::At(path) => open(path)?,
        };
        sweep(&above, ground, end);
        let nonce = ground.nonce().ok();
        let own = ground.host().own(nonce).map_err(|_| CgroupError::NoTree)?;
        let name = c_string(&own.to_string());
        let group = above.make(&name)?;
        let link = format!("/proc/self/fd/{}", group.as_fd().as_raw_fd());
        let path = std::fs::read_link(link).ok();
        Ok(Some(Home { above, name, group, path, busy: Mutex::default(), owner: process::id() }))
    }

    pub(crate) fn group(&self) -> &Cgroup {
        &self.group
    }

    /// The group above, and the name in it.
    pub(crate) fn place(&self) -> (&Cgroup, &CStr) {
        (&self.above, &self.name)
    }

    /// Removes what could not be removed before.
    pub(crate) fn tidy(&self) {
        lock(&self.busy).retain(|name| self.group.remove(name) == Err(Errno::EBUSY));
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if process::id() != self.owner {
            return;
        }
        for _ in 0..LOOKS {
            self.tidy();
            let removed = self.above.remove(&self.name);
            // Busy for some milliseconds after the last one's end. Whoever lives on keeps it, for the guard or the next start.
            if removed != Err(Errno::EBUSY) || self.group.is_populated() != Ok(false) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The leaf of one child.
pub(crate) struct Leaf {
    home: Arc<Home>,
    name: CString,
    group: Cgroup,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leaf").field(&self.name).finish()
    }
}

impl Leaf {
    pub(crate) fn make(home: &Arc<Home>, nonce: Id128, limits: &Limits) -> Result<Leaf, CgroupError> {
        let name = c_string(&nonce.to_string());
        let group = home.group.make(&name)?;
        let leaf = Leaf { home: Arc::clone(home), name, group };
        leaf.group.limit([&home.above, &home.group], limits)?;
        Ok(leaf)
    }

    pub(crate) fn group(&self) -> &Cgroup {
        &self.group
    }

    /// Its directory, where that can be told.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.home.path.as_ref().map(|home| home.join(self.name.to_string_lossy().as_ref()))
    }

    /// For the plan of a spawn.
    pub(crate) fn dir(&self) -> io::Result<OwnedFd> {
        self.group.as_fd().try_clone_to_owned()
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if process::id() == self.home.owner && self.home.group.remove(&self.name) == Err(Errno::EBUSY) {
            lock(&self.home.busy).push(std::mem::take(&mut self.name));
        }
    }
}

/// The cgroup leaf of a child: a handle by which it can be asked and ended as a whole.
#[derive(Clone, Debug)]
pub struct CgroupGuard {
    pub(crate) leaf: Arc<Leaf>,
    pub(crate) ground: Arc<Ground>,
    pub(crate) pid: Pid,
}

impl CgroupGuard {
    /// Whether the child is verified to be in the leaf: listed there, or ended.
    pub fn is_armed(&self) -> bool {
        let host = self.ground.host();
        let Ok(proc) = host.proc() else { return false };
        let mut listed = false;
        self.leaf.group.members(proc, |process, _| listed |= process.pid() == self.pid);
        listed || !proc.process(self.pid).and_then(|dir| dir.stat()).is_ok_and(|stat| !stat.is_ended())
    }

    /// Whether anybody lives in it. `false` once it was removed.
    pub fn is_populated(&self) -> bool {
        self.leaf.group.is_populated().unwrap_or(false)
    }

    /// SIGKILL to everybody in it, without waiting.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn kill(&self) -> io::Result<()> {
        let host = self.ground.host();
        let proc = host.proc().map_err(|_| io::ErrorKind::Unsupported)?;
        self.leaf.group.kill(proc).map_err(|e| io::Error::from_raw_os_error(e.raw()))
    }

    /// Processes in it that the out-of-memory killer took; `None` where memory is not limited.
    pub fn oom_kills(&self) -> Option<u64> {
        self.tally().oom_kills
    }

    /// Forks in it that the limit on processes refused; `None` where they are not limited.
    pub fn forks_refused(&self) -> Option<u64> {
        self.tally().forks_refused
    }

    fn tally(&self) -> Tally {
        self.leaf.group.tally()
    }
}

/// Removes the groups of runs whose supervisor is dead. Who is left in one is ended, if that is to be and it is of our installation, and we
/// are not in it ourselves; else it stays.
fn sweep(above: &Cgroup, ground: &Ground, end: bool) {
    let mut stale = Vec::new();
    above.each(|name| {
        let Ok(owner) = Identity::parse(name.to_bytes()) else { return };
        // The nonce is the group's: a supervisor that is somebody's child carries another one.
        let (nonce, owner) = (owner.nonce, Identity { nonce: None, ..owner });
        let dead = matches!(
            ground.host().verify(&owner, &ground.names()),
            Err(Verdict::Gone | Verdict::Recycled(_))
        );
        stale.extend(dead.then(|| {
            (name.to_owned(), nonce.is_some_and(|nonce| Run::spawned(ground.installation(), nonce)))
        }));
    });
    for (name, ours) in stale {
        let host = ground.host();
        let (Ok(group), Ok(proc)) = (above.open(&name), host.proc()) else { continue };
        let mut are_we_there = false;
        if end && ours {
            group.members(proc, |process, _| are_we_there |= process.pid().get() == process::id());
        }
        for _ in 0..LOOKS {
            match above.remove(&name) {
                Err(Errno::EBUSY) if end && ours && !are_we_there && group.kill(proc).is_ok() => {
                    thread::sleep(Duration::from_millis(10));
                }
                // For some milliseconds after the last one's end.
                Err(Errno::EBUSY) if group.is_populated() == Ok(false) => {
                    thread::sleep(Duration::from_millis(10));
                }
                _ => break,
            }
        }
    }
}

/// Removes them below the group in this directory, if it is one; nobody is ended, and a group with somebody in it stays.
pub(crate) fn tidy_path(above: &Path, ground: &Ground) {
    if let Ok(above) = open(above) {
        sweep(&above, ground, false);
    }
}

/// The group in this directory.
pub(crate) fn open(path: &Path) -> Result<Cgroup, CgroupError> {
    Cgroup::of(open_dir(path)?)
}

fn open_dir(path: &Path) -> Result<OwnedFd, CgroupError> {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|e| CgroupError::Errno(e.into()))
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// For a person.
pub(crate) fn words(error: CgroupError) -> String {
    match error {
        CgroupError::NoTree => "no cgroup v2 file system shows our group here".to_owned(),
        CgroupError::Threaded => "the group is threaded, and takes no processes".to_owned(),
        CgroupError::NoController(name) => {
            format!("the controller '{name}' is not enabled for groups below this one")
        }
        CgroupError::Errno(e) => format!("the group may not be changed: {e}"),
        _ => "unknown".to_owned(),
    }
}
