//! Pin, read through the pin, look again, judge.
#![forbid(unsafe_code)]

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, AtFlags},
};

use super::{Field, Identity, Process, Verdict, Why, process::Pin};
use crate::{
    Errno, Id128, Pid,
    marker::{Carried, ChildKind, Cookie, Markers, Names, Run, Scan, Tree},
    procfs::{Environ, Proc, ProcDir, ProcError, Stat, State},
    spawn, sys,
};

/// The file system of pidfds: `PID_FS_MAGIC` (`include/uapi/linux/magic.h`), Linux 6.9.
const PID_FS_MAGIC: fs::FsWord = 0x5049_4446;

/// Where processes are looked at: this boot, this pid namespace, this `/proc`.
///
/// Opened once and used for every look. What is missing makes verdicts unknown, never wrong.
#[derive(Debug)]
pub struct Host {
    proc: Result<Proc, ProcError>,
    /// Boot id and inode of the pid namespace.
    here: Result<(Id128, u64), ProcError>,
}

impl Host {
    /// Looks around.
    pub fn look() -> Host {
        let proc = Proc::open();
        let here = match &proc {
            Ok(proc) => proc.boot_id().and_then(|boot| {
                // Of the process itself; its children may be made in another (`pid_for_children`).
                let ns = fs::statat(proc, c"self/ns/pid", AtFlags::empty())?;
                Ok((boot, ns.st_ino))
            }),
            Err(e) => Err(*e),
        };
        // A file that is missing here is nobody's end.
        let here = here.map_err(|e| if e == ProcError::Gone { ProcError::NoProc } else { e });
        Host { proc, here }
    }

    /// `/proc`, if there is one that shows our processes.
    ///
    /// # Errors
    /// As [`Proc::open`].
    pub fn proc(&self) -> Result<&Proc, ProcError> {
        self.proc.as_ref().map_err(|e| *e)
    }

    /// Boot id and inode of the pid namespace: what every identity of here begins with.
    ///
    /// # Errors
    /// There is no `/proc` to read them from.
    pub const fn here(&self) -> Result<(Id128, u64), ProcError> {
        self.here
    }

    /// Writes down who a child is. It may have ended, but is not reaped: only until then is its number its own.
    ///
    /// # Errors
    /// [`ProcError::Gone`]: it was reaped. Else what could not be read.
    pub fn identity(&self, child: &spawn::Child, nonce: Option<Id128>) -> Result<Identity, ProcError> {
        let (boot, pid_ns) = self.here?;
        let start_ticks = self.proc()?.process(child.pid())?.stat()?.start_ticks;
        let inode = child.pidfd().and_then(|pidfd| pidfs_inode(pidfd).ok().flatten());
        if child.is_reaped() {
            return Err(ProcError::Gone);
        }
        Ok(Identity { boot, pid_ns, pid: child.pid(), start_ticks, inode, pgid: child.pgid(), nonce })
    }

    /// The caller itself, to be verified by others.
    ///
    /// # Errors
    /// There is no `/proc` to read it from.
    pub fn own(&self, nonce: Option<Id128>) -> Result<Identity, ProcError> {
        let (boot, pid_ns) = self.here?;
        let pid = Pid::own().ok_or(ProcError::Gone)?;
        let start_ticks = self.proc()?.process(pid)?.stat()?.start_ticks;
        let inode = sys::pidfd_open(pid).ok().and_then(|pidfd| pidfs_inode(pidfd.as_fd()).ok().flatten());
        Ok(Identity { boot, pid_ns, pid, start_ticks, inode, pgid: None, nonce })
    }

    /// Whether the process that was written down is there, and has not ended.
    ///
    /// The inode decides where it was written down and can be read. Else the start ticks must be the same and its environ must hold the
    /// nonce, under the name that `names` gives it.
    ///
    /// # Errors
    /// Every [`Verdict`] but [`Verdict::Same`].
    pub fn verify(&self, known: &Identity, names: &Names<'_>) -> Result<Process, Verdict> {
        let (boot, pid_ns) = self.here?;
        if known.boot != boot {
            return Err(Verdict::NotOurs(Why::OtherBoot));
        }
        if known.pid_ns != pid_ns {
            return Err(Verdict::Unknown(Why::OtherPidNamespace));
        }
        let pidfd = pin(known.pid)?;
        let found = match &pidfd {
            Some(fd) if known.inode.is_some() => {
                pidfs_inode(fd.as_fd()).map_err(|e| Verdict::Unknown(Why::Errno(e)))?
            }
            _ => None,
        };
        match (pidfd, found) {
            (Some(pidfd), Some(_)) if found == known.inode => {
                Process::still_there(known.pid, Pin::Pidfd(pidfd))
            }
            (_, Some(_)) => Err(Verdict::Recycled(Field::Inode)),
            (pidfd, None) => self.verify_nonce(known, names, pidfd),
        }
    }

    /// Without inodes.
    fn verify_nonce(
        &self,
        known: &Identity,
        names: &Names<'_>,
        pidfd: Option<OwnedFd>,
    ) -> Result<Process, Verdict> {
        let (dir, stat) = self.open(known.pid)?;
        if stat.start_ticks != known.start_ticks {
            return Err(Verdict::Recycled(Field::StartTime));
        }
        let markers = Markers::new(names, ChildKind::Task, "");
        let carried = carried(&dir, &stat, Scan::new(names, markers, Cookie::Any))?;
        match (known.nonce, carried.nonce) {
            (Some(known), Some(found)) if found != known => return Err(Verdict::Recycled(Field::Nonce)),
            (Some(_), Some(_)) => {}
            _ => return Err(Verdict::Unknown(Why::NoMarker)),
        }
        // A leader's number is not given away while its group has a member. Who has it and leads no group is a descendant that got it later.
        if known.pgid == Some(known.pid) && stat.pgrp != known.pid.raw() {
            return Err(Verdict::Unknown(Why::Inherited));
        }
        Process::still_there(known.pid, pidfd.map_or(Pin::Dir(dir), Pin::Pidfd))
    }

    /// Whether the number is, now, a child of this kind and name, and carries the cookie; with it the nonce of its spawn. A caller who knows
    /// that nonce under another number knows a descendant ([`Why::Inherited`]).
    ///
    /// # Errors
    /// Every [`Verdict`] but [`Verdict::Same`].
    pub fn verify_named(
        &self,
        pid: Pid,
        names: &Names<'_>,
        (kind, service): (ChildKind, &str),
        cookie: Cookie,
    ) -> Result<(Process, Option<Id128>), Verdict> {
        let pidfd = pin(pid)?;
        let (dir, stat) = self.open(pid)?;
        let scan = || Scan::new(names, Markers::new(names, kind, service), cookie);
        let Carried { named, nonce, tree } = carried(&dir, &stat, scan())?;
        match (tree, named) {
            (Tree::Other, _) => return Err(Verdict::NotOurs(Why::OtherTree)),
            (Tree::Ours, true) => {}
            _ => return Err(Verdict::Unknown(Why::NoMarker)),
        }
        if let (Cookie::Installation(ours), Some(nonce)) = (cookie, nonce)
            && !Run::spawned(ours, nonce)
        {
            return Err(Verdict::NotOurs(Why::OtherTree));
        }
        // Each spawn has a nonce of its own: who has its parent's was not spawned, but started by a child or one of its descendants.
        let parent = Pid::new(stat.ppid).and_then(|parent| self.proc().ok()?.process(parent).ok());
        let of_parent = parent.and_then(|parent| {
            let mut scan = scan();
            parent.environ(|piece| scan.feed(piece)).ok()?;
            scan.carried().nonce
        });
        if nonce.is_some() && nonce == of_parent {
            return Err(Verdict::Unknown(Why::Inherited));
        }
        Ok((Process::still_there(pid, pidfd.map_or(Pin::Dir(dir), Pin::Pidfd))?, nonce))
    }

    /// The directory of a living process of user space.
    fn open(&self, pid: Pid) -> Result<(ProcDir, Stat), Verdict> {
        let dir = self.proc()?.process(pid)?;
        let stat = dir.stat()?;
        match stat {
            _ if stat.is_ended() => Err(Verdict::Gone),
            _ if stat.is_kernel_thread() => Err(Verdict::NotOurs(Why::KernelThread)),
            _ => Ok((dir, stat)),
        }
    }
}

/// Holds on to whoever has the number now: it is theirs until the pin says that they have ended. `None` where there is no pidfd to be had.
fn pin(pid: Pid) -> Result<Option<OwnedFd>, Verdict> {
    if Pid::own() == Some(pid) {
        return Err(Verdict::NotOurs(Why::Us));
    }
    if pid == Pid::INIT {
        return Err(Verdict::NotOurs(Why::OtherTree));
    }
    match sys::pidfd_open(pid) {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(Errno::ESRCH) => Err(Verdict::Gone),
        // A thread's number (`ENOENT`, before Linux 6.18 `EINVAL`) or a refusal: the directory tells.
        Err(Errno::EINVAL | Errno::ENOENT | Errno::ENOSYS | Errno::EPERM) => Ok(None),
        Err(e) => Err(Verdict::Unknown(Why::Errno(e))),
    }
}

/// The inode of a pidfd; `None` where it is none of pidfs (all pidfds of an older kernel have the same), or can come twice (32 bit).
pub(crate) fn pidfs_inode(pidfd: BorrowedFd<'_>) -> Result<Option<u64>, Errno> {
    if cfg!(not(target_pointer_width = "64")) || fs::fstatfs(pidfd)?.f_type != PID_FS_MAGIC {
        return Ok(None);
    }
    Ok(Some(fs::fstat(pidfd)?.st_ino))
}

/// What the environ of a process says, if it is its own.
fn carried(dir: &ProcDir, stat: &Stat, mut scan: Scan<'_>) -> Result<Carried, Verdict> {
    if !stat.has_execed() {
        return Err(Verdict::Unknown(Why::NotYetExec));
    }
    match dir.environ(|piece| scan.feed(piece))? {
        Environ::Bytes(_) => Ok(scan.carried()),
        Environ::Ended => Err(Verdict::Gone),
        Environ::KernelThread => Err(Verdict::NotOurs(Why::KernelThread)),
        // It has none; or its first thread has ended, and with that its environ. Else it is in exec.
        Environ::Empty if stat.has_environ() || stat.state == State::ZOMBIE => {
            Err(Verdict::Unknown(Why::NoMarker))
        }
        Environ::Empty => Err(Verdict::Unknown(Why::NotYetExec)),
    }
}
