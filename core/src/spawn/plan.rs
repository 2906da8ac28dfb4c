//! What to start and how. A plan borrows everything: the caller owns the buffers and the descriptors.
#![forbid(unsafe_code)]

use core::{cell::Cell, ffi::CStr};

use rustix::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::{Pid, Signal, image::Table};

/// Where the program file is found.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// Tried in order, relative ones from the child's working directory; see
    /// [`search_goes_on`](crate::image::search_goes_on) for what ends the search.
    Paths(Table<'a>),
    /// The file that is open as this descriptor (`execveat`, Linux ≥ 3.19; where that is refused, by its name in `/proc/self/fd`). `O_PATH`
    /// is enough. A script needs a descriptor that stays open across
    /// exec, and `/proc`.
    Open(BorrowedFd<'a>),
}

/// The group and session of the child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// The caller's.
    Inherit,
    /// A group of its own, in the caller's session.
    #[default]
    Own,
    /// An existing group of the caller's session.
    Join(Pid),
    /// A session, and so a group, of its own.
    Session,
}

/// One descriptor and its number in the child.
#[derive(Debug)]
pub struct FdMap<'a> {
    source: BorrowedFd<'a>,
    target: u32,
    /// Where the child has put the source out of the way of the targets.
    pub(super) moved: Cell<RawFd>,
}

impl<'a> FdMap<'a> {
    /// `source`, an open descriptor of the caller, becomes number `target` in the child.
    pub const fn new(source: BorrowedFd<'a>, target: u32) -> FdMap<'a> {
        FdMap { source, target, moved: Cell::new(-1) }
    }

    /// The number in the child; negative only where it cannot be one, which the plan's check refuses.
    pub const fn target(&self) -> RawFd {
        self.target as RawFd
    }

    pub(super) fn source(&self) -> RawFd {
        self.source.as_raw_fd()
    }

    /// The standard numbers are those below.
    pub(super) const STANDARD: RawFd = 3;

    /// The first number above the standard ones and all targets of a sorted list.
    pub(super) fn above(sorted: &[FdMap<'_>]) -> RawFd {
        match sorted.last() {
            Some(map) if map.target() >= FdMap::STANDARD => map.target().wrapping_add(1),
            _ => FdMap::STANDARD,
        }
    }

    pub(super) fn is_target(sorted: &[FdMap<'_>], fd: RawFd) -> bool {
        sorted.binary_search_by_key(&fd, FdMap::target).is_ok()
    }
}

/// One limit, in the kernel's units for it (`setrlimit(2)`); `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rlimit {
    /// `RLIMIT_…` number of `asm-generic/resource.h`.
    pub resource: u32,
    /// The limit in force.
    pub soft: u64,
    /// How far it may be raised.
    pub hard: u64,
}

/// Who the child becomes. What is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// Supplementary groups, the whole list.
    pub groups: Option<&'a [u32]>,
    /// Real, effective and saved group.
    pub gid: Option<u32>,
    /// Real, effective and saved user.
    pub uid: Option<u32>,
}

impl Credentials<'_> {
    pub(super) const fn change_something(&self) -> bool {
        self.groups.is_some() || self.gid.is_some() || self.uid.is_some()
    }
}

/// What the child keeps of the caller's signal set-up. The default keeps nothing: empty mask, every
/// signal at its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The mask to run the program with, bit `n - 1` for signal `n`; the default is none. A blocked death signal
    /// stays pending in the program.
    pub mask: Option<u64>,
    /// Which signals are ignored. (Handlers never survive exec.)
    pub ignored: bool,
}

/// A prepared child.
///
/// Steps run in the order of [`Step`](super::Step).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Plan<'a> {
    /// The program file.
    pub program: Program<'a>,
    /// Its arguments, the name of the program first.
    pub argv: Table<'a>,
    /// Its environment, whole.
    pub environ: Table<'a>,
    /// Descriptors to pass, sorted by target, each target once. A standard number that is not among them is
    /// inherited; one that is closed or close-on-exec in the caller becomes `/dev/null`. Everything else is closed.
    pub fds: &'a [FdMap<'a>],
    /// Working directory, entered with the child's rights.
    pub cwd: Option<&'a CStr>,
    /// Group and session.
    pub group: Group,
    /// A terminal that the child's group becomes the foreground of; with a session of its own, the terminal
    /// becomes its controlling one.
    pub terminal: Option<BorrowedFd<'a>>,
    /// Directory of a cgroup v2 leaf that the child is in before it runs the program.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Limits, applied in order.
    pub rlimits: &'a [Rlimit],
    /// Niceness, -20 to 19.
    pub nice: Option<i32>,
    /// -1000 to 1000, see proc_pid_oom_score_adj(5).
    pub oom_score_adj: Option<i16>,
    /// User and groups. Any change makes the spawn a plain fork.
    pub credentials: Credentials<'a>,
    /// Sent when the creating thread ends. `None`: the child may outlive it.
    pub death_signal: Option<Signal>,
    /// Sets the no-new-privileges flag; never set otherwise.
    pub no_new_privs: bool,
    /// File mode creation mask.
    pub umask: Option<u32>,
    /// Signal set-up to keep.
    pub keep: Keep,
}

impl<'a> Plan<'a> {
    /// A plan with every promise on: own group, SIGTERM when the creating thread ends, clean signals, no
    /// descriptor but 0, 1 and 2.
    pub const fn new(program: Program<'a>, argv: Table<'a>, environ: Table<'a>) -> Plan<'a> {
        Plan {
            program,
            argv,
            environ,
            fds: &[],
            cwd: None,
            group: Group::Own,
            terminal: None,
            cgroup: None,
            rlimits: &[],
            nice: None,
            oom_score_adj: None,
            credentials: Credentials { groups: None, gid: None, uid: None },
            death_signal: Some(Signal::TERM),
            no_new_privs: false,
            umask: None,
            keep: Keep { mask: None, ignored: false },
        }
    }

    /// Whether the descriptors are sorted, unique and representable, and the numbers in range.
    pub(super) fn is_sound(&self) -> bool {
        let mut next = 0u32;
        for map in self.fds {
            if map.target < next || map.target >= i32::MAX as u32 {
                return false;
            }
            next = map.target.saturating_add(1);
        }
        self.oom_score_adj.is_none_or(|adj| (-1000..=1000).contains(&adj))
            && self.nice.is_none_or(|nice| (-20..=19).contains(&nice))
    }
}
