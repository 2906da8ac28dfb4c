//! Who a process is: written down when it was started, and verified before anything is sent to a number.
//!
//! A number says nothing about who has it now, and number and start time together say too little: a number that is taken again
//! within one clock tick keeps both. What is written down ([`Identity`]) or claimed (a number and a name) is an *allegation*.
//! [`Host::verify`] and [`Host::verify_named`] pin the process first, read through what they have pinned, look whether it is still
//! there, and only then judge. A [`Process`] is what was found to be the same: nothing else can be signalled.
//!
//! What decides, best first:
//!
//! | known | since Linux | what it is worth |
//! |---|---|---|
//! | inode of the pidfd | 6.9, on 64 bit | never given twice in a boot: the answer alone, whatever the process has done to itself |
//! | start ticks | | other ticks are another process; the same ticks prove nothing |
//! | nonce in the environ | | of this one spawn, but descendants inherit it, and a program can overwrite it |
//! | kind, name and run entry | | as the nonce, and without telling one spawn from the next |
//!
//! Unknown is never the same: where a marker is absent, unreadable or not there yet the verdict is [`Verdict::Unknown`], never
//! [`Verdict::NotOurs`]. This guards against mistakes and races. It does not guard against a process of the same user that means to
//! be taken for a child: such a one can copy an environ.
#![forbid(unsafe_code)]

mod line;
#[cfg(pidward_linux)]
mod process;
#[cfg(test)]
mod tests;
#[cfg(pidward_linux)]
mod verify;

pub use line::{LINE_MAX, LineError};
#[cfg(pidward_linux)]
pub(crate) use verify::pidfs_inode;
#[cfg(pidward_linux)]
pub use {process::Process, verify::Host};

#[cfg(pidward_linux)]
use crate::procfs::ProcError;
use crate::{Errno, Id128, Pid};

/// What was written down about a process. An allegation until it is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Of the boot in which it ran: after a reboot nothing else here means anything.
    pub boot: Id128,
    /// Inode of the pid namespace (pid_namespaces(7)) in which the number is its.
    pub pid_ns: u64,
    /// Its number.
    pub pid: Pid,
    /// Clock ticks since boot at which it was made: field 22 of proc_pid_stat(5).
    pub start_ticks: u64,
    /// Inode of its pidfd on pidfs. Linux 6.9, 64 bit; `None` before.
    pub inode: Option<u64>,
    /// The group that it was started as the leader of.
    pub pgid: Option<Pid>,
    /// The nonce of its spawn.
    pub nonce: Option<Id128>,
}

/// What a verification found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It is the process, and it has not ended.
    Same,
    /// The number is another process's now; by what it shows.
    Recycled(Field),
    /// It has ended, or nobody has the number. A zombie has ended; a process whose first thread has ended while others live has not.
    Gone,
    /// Whoever it is, it is none of ours.
    NotOurs(Why),
    /// It cannot be told. It may be the process.
    Unknown(Why),
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// The inode of its pidfd.
    Inode,
    /// The time at which it was made.
    StartTime,
    /// The nonce of its spawn.
    Nonce,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// What the kernel answered. `EACCES`: another user's, or it has made itself non-dumpable. `EPERM`: hidden by `hidepid`.
    Errno(Errno),
    /// Its environ does not hold what was looked for. Absence proves nothing: a program can overwrite its environ.
    NoMarker,
    /// It carries the markers of another spawn: it descends from that one.
    Inherited,
    /// It has not called exec yet, or is in it: what it shows is its parent's.
    NotYetExec,
    /// The number is a thread's.
    ThreadId,
    /// A thread of the kernel.
    KernelThread,
    /// The caller itself.
    Us,
    /// It descends from another installation; or it is pid 1 and descends from nobody.
    OtherTree,
    /// It was written down in another boot.
    OtherBoot,
    /// It was written down in another pid namespace, or `/proc` shows another one.
    OtherPidNamespace,
    /// There is no `/proc`.
    NoProc,
    /// Not on this system.
    Unsupported,
}

/// What a process that could not be looked at is found to be.
#[cfg(pidward_linux)]
impl From<ProcError> for Verdict {
    fn from(error: ProcError) -> Verdict {
        match error {
            ProcError::Gone => Verdict::Gone,
            ProcError::ThreadId => Verdict::NotOurs(Why::ThreadId),
            ProcError::Hidden => Verdict::Unknown(Why::Errno(Errno::EPERM)),
            ProcError::NoProc => Verdict::Unknown(Why::NoProc),
            ProcError::OtherPidNamespace => Verdict::Unknown(Why::OtherPidNamespace),
            ProcError::Malformed => Verdict::Unknown(Why::Errno(Errno::EIO)),
            ProcError::Errno(e) => Verdict::Unknown(Why::Errno(e)),
        }
    }
}
