//! What a spawn gives back beside the child: the step that failed, or how it was done.
#![forbid(unsafe_code)]

use core::fmt;

use crate::Errno;

macro_rules! steps {
    ($($step:ident: $name:literal, $what:literal;)*) => {
        /// A step of a spawn, in the order they run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Step {
            $(#[doc = $what] $step,)*
        }

        impl Step {
            /// All steps, in order.
            pub const ALL: &[Step] = &[$(Step::$step),*];

            /// What the step does, as the middle of a sentence.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Step::$step => $name,)*
                }
            }
        }
    };
}

steps! {
    Plan: "plan", "The plan itself: descriptors not sorted, a number out of range; or a launcher that was made in another process (`EPERM`).";
    Prepare: "prepare", "Stack, probe, pipe and mask, before the clone.";
    Clone: "clone", "The clone.";
    Dispositions: "reset signals", "Signals to their defaults.";
    Group: "set process group", "Own group, joined group or session.";
    Terminal: "set terminal", "Foreground or controlling terminal.";
    Cgroup: "enter cgroup", "Into the cgroup leaf.";
    Rlimits: "set resource limit", "Resource limits.";
    Nice: "set niceness", "Niceness.";
    OomScore: "set oom_score_adj", "The score for the out-of-memory killer.";
    Groups: "set supplementary groups", "Supplementary groups.";
    Gid: "set group id", "Group id.";
    Uid: "set user id", "User id.";
    Cwd: "change directory", "Working directory.";
    DeathSignal: "arm death signal", "Death signal.";
    ParentCheck: "check parent", "The parent was gone before the death signal was armed.";
    NoNewPrivs: "set no_new_privs", "No-new-privileges flag.";
    Fds: "place descriptors", "Descriptors to their numbers.";
    CloseOthers: "close descriptors", "Every other descriptor.";
    Mask: "set signal mask", "Umask and signal mask.";
    Exec: "exec", "The exec.";
}

impl Step {
    /// The number that a child reports; 0 is none.
    pub(super) const fn raw(self) -> u32 {
        (self as u32).wrapping_add(1)
    }

    pub(super) fn from_raw(raw: u32) -> Option<Step> {
        Step::ALL.iter().copied().find(|step| step.raw() == raw)
    }
}

/// Why there is no child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpawnError {
    /// The step that failed.
    pub step: Step,
    /// What the kernel answered. `EINTR`: a signal ended the child at this step, before the program ran.
    pub errno: Errno,
}

impl SpawnError {
    /// `step` failed with `errno`.
    pub const fn new(step: Step, errno: Errno) -> SpawnError {
        SpawnError { step, errno }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step.name(), self.errno)
    }
}

impl core::error::Error for SpawnError {}

/// How the child was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cloning {
    /// `clone3` with shared memory and `CLONE_CLEAR_SIGHAND`.
    Clone3,
    /// `clone3` with shared memory, without `CLONE_CLEAR_SIGHAND`.
    Clone3KeepingHandlers,
    /// `clone` with shared memory.
    Clone,
    /// `clone3` without shared memory: cost grows with the supervisor's memory.
    Fork3,
    /// `clone` without shared memory.
    Fork,
}

impl Cloning {
    pub(super) const fn shares_memory(self) -> bool {
        matches!(self, Cloning::Clone3 | Cloning::Clone3KeepingHandlers | Cloning::Clone)
    }
}

/// Where the pidfd came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pidfd {
    /// The clone itself.
    FromClone,
    /// `pidfd_open`, while the child was unreaped.
    Opened,
    /// There is none: the number is pinned by the unreaped child only.
    None,
}

/// How the child got into its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// No leaf was asked for.
    NotAsked,
    /// It was born there (`CLONE_INTO_CGROUP`).
    Born,
    /// It wrote itself into `cgroup.procs` before exec.
    Wrote,
}

/// How the child made sure that its parent was alive after the death signal was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum ParentCheck {
    /// No death signal was asked for.
    NotAsked = 0,
    /// `getppid` named the supervisor.
    Ppid = 1,
    /// The parent is outside the child's pid namespace; its pidfd showed it alive.
    Pidfd = 2,
    /// Neither was possible: a supervisor that died before the death signal was armed would not be noticed.
    Unchecked = 3,
}

impl ParentCheck {
    pub(super) const fn from_note(notes: u32) -> ParentCheck {
        match notes & 0xff {
            0 => ParentCheck::NotAsked,
            1 => ParentCheck::Ppid,
            2 => ParentCheck::Pidfd,
            _ => ParentCheck::Unchecked,
        }
    }
}

/// How everything but the passed descriptors was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum Closing {
    /// `close_range`.
    CloseRange = 0,
    /// One by one from `/proc/self/fd`.
    Scan = 1,
    /// Not at all: only descriptors marked close-on-exec are closed.
    CloseOnExec = 2,
}

impl Closing {
    pub(super) const fn from_note(notes: u32) -> Closing {
        match notes >> 8 & 0xff {
            0 => Closing::CloseRange,
            1 => Closing::Scan,
            _ => Closing::CloseOnExec,
        }
    }
}

/// What a filter has refused of every spawn's promises, so that the child runs without it. An error of any other kind, and the refusal of
/// what a plan asks for beside them, ends the spawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// `rt_sigaction`: signals that the supervisor ignores stay ignored. (Handlers were taken away by the clone.)
    pub dispositions: bool,
    /// `setpgid`: the child has no group of its own, and is signalled alone.
    pub group: bool,
    /// `prctl`: nothing is sent to the child when the creating thread ends; the guard ends it when the supervisor does.
    pub death_signal: bool,
}

impl Refused {
    pub(super) const DISPOSITIONS: u32 = 1 << 16;
    pub(super) const GROUP: u32 = 1 << 17;
    pub(super) const DEATH_SIGNAL: u32 = 1 << 18;

    pub(super) const fn from_note(notes: u32) -> Refused {
        Refused {
            dispositions: notes & Refused::DISPOSITIONS != 0,
            group: notes & Refused::GROUP != 0,
            death_signal: notes & Refused::DEATH_SIGNAL != 0,
        }
    }
}

/// What happened in one spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mechanism {
    /// How the child was made.
    pub cloning: Cloning,
    /// Where the pidfd came from.
    pub pidfd: Pidfd,
    /// How it got into its leaf.
    pub placement: Placement,
    /// How it knew that its parent lived.
    pub parent_check: ParentCheck,
    /// How other descriptors were closed.
    pub closing: Closing,
    /// What it runs without.
    pub refused: Refused,
}

impl Mechanism {
    /// A plain fork of another kind: a guard's.
    pub(crate) const FORK: Mechanism = Mechanism {
        cloning: Cloning::Fork,
        pidfd: Pidfd::FromClone,
        placement: Placement::NotAsked,
        parent_check: ParentCheck::NotAsked,
        closing: Closing::CloseRange,
        refused: Refused { dispositions: false, group: false, death_signal: false },
    };

    /// Whether the child shared memory with the supervisor, so that the cost did not depend on its size.
    pub const fn shares_memory(&self) -> bool {
        self.cloning.shares_memory()
    }
}
