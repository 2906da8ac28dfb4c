//! What a child is given beyond what it runs: group, limits, credentials, further descriptors.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use pidward_core::{
    Pid, Signal,
    cgroup::Limits,
    spawn::{Credentials, Group, Keep, Plan, Rlimit},
};

/// A resource that can be limited, see setrlimit(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Resource {
    // The numbers of `include/uapi/asm-generic/resource.h`.
    /// Processor time, in seconds.
    Cpu = 0,
    /// Size of a file it writes, in bytes.
    FileSize = 1,
    /// Data segment, in bytes.
    Data = 2,
    /// Stack of the main thread, in bytes; a quarter of it bounds arguments and environment together.
    Stack = 3,
    /// Core dump, in bytes.
    Core = 4,
    /// Processes and threads of the child's *user*, not of the child.
    Processes = 6,
    /// One more than the highest descriptor number.
    OpenFiles = 7,
    /// Locked memory, in bytes.
    LockedMemory = 8,
    /// Address space, in bytes.
    AddressSpace = 9,
    /// Pending signals of the user.
    PendingSignals = 11,
    /// POSIX message queues of the user, in bytes.
    MessageQueues = 12,
    /// 20 minus the lowest niceness it may take.
    Nice = 13,
    /// Highest real-time priority.
    RealtimePriority = 14,
    /// Time of a real-time thread without a blocking call, in microseconds.
    RealtimeTime = 15,
}

impl Resource {
    /// No limit.
    pub const UNLIMITED: u64 = u64::MAX;
}

/// The group as it was asked for; a number is looked at when the child is prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupChoice {
    Inherit,
    Own,
    Session,
    Join(i32),
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) group: GroupChoice,
    pub(crate) terminal: Option<Arc<OwnedFd>>,
    pub(crate) cgroup: Option<Arc<OwnedFd>>,
    /// Further descriptors, sorted by number, each number once.
    pub(crate) passed: Vec<(u32, Arc<OwnedFd>)>,
    pub(crate) rlimits: Vec<Rlimit>,
    /// Of the leaf.
    pub(crate) limits: Limits,
    pub(crate) nice: Option<i32>,
    pub(crate) oom_score_adj: Option<i16>,
    pub(crate) groups: Option<Vec<u32>>,
    pub(crate) gid: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) death_signal: Option<Signal>,
    pub(crate) no_new_privs: bool,
    pub(crate) umask: Option<u32>,
    pub(crate) keep_mask: bool,
    pub(crate) keep_ignored: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            group: GroupChoice::Own,
            terminal: None,
            cgroup: None,
            passed: Vec::new(),
            rlimits: Vec::new(),
            limits: Limits::default(),
            nice: None,
            oom_score_adj: None,
            groups: None,
            gid: None,
            uid: None,
            death_signal: Some(Signal::TERM),
            no_new_privs: false,
            umask: None,
            keep_mask: false,
            keep_ignored: false,
        }
    }
}

impl Settings {
    /// Whether the child leads a process group.
    #[cfg(feature = "json")]
    pub(crate) fn leads_a_group(&self) -> bool {
        matches!(self.group, GroupChoice::Own | GroupChoice::Session)
    }

    /// What cannot be meant, as words for the error.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.group {
            GroupChoice::Join(number) if number < 0 => return Err("a process group is a positive number"),
            GroupChoice::Inherit if self.terminal.is_some() => {
                return Err("a terminal goes to a group or session of the child's own");
            }
            _ => {}
        }
        if self.passed.first().is_some_and(|(number, _)| *number < 3) {
            return Err(
                "a passed descriptor has number 3 or higher; 0, 1 and 2 are stdin, stdout and stderr",
            );
        }
        if self.passed.last().is_some_and(|(number, _)| *number >= i32::MAX as u32) {
            return Err("the number of a passed descriptor is too high");
        }
        if self.limits.cpu_weight.is_some_and(|weight| !(1..=10_000).contains(&weight)) {
            return Err("the share of the processor is 1 to 10000");
        }
        if self.nice.is_some_and(|nice| !(-20..=19).contains(&nice)) {
            return Err("niceness is -20 to 19");
        }
        if self.oom_score_adj.is_some_and(|score| !(-1000..=1000).contains(&score)) {
            return Err("oom_score_adj is -1000 to 1000");
        }
        Ok(())
    }

    /// Puts everything but the descriptors to pass into the plan. `mask` is the one to keep.
    pub(crate) fn apply<'a>(&'a self, plan: &mut Plan<'a>, mask: Option<u64>) {
        plan.group = match self.group {
            GroupChoice::Inherit => Group::Inherit,
            GroupChoice::Session => Group::Session,
            GroupChoice::Own => Group::Own,
            GroupChoice::Join(number) => Pid::from_raw(number).map_or(Group::Own, Group::Join),
        };
        plan.terminal = self.terminal.as_ref().map(|fd| fd.as_fd());
        plan.cgroup = self.cgroup.as_ref().map(|fd| fd.as_fd());
        plan.rlimits = &self.rlimits;
        plan.nice = self.nice;
        plan.oom_score_adj = self.oom_score_adj;
        plan.credentials = Credentials { groups: self.groups.as_deref(), gid: self.gid, uid: self.uid };
        // As std does: who gives up root for a user gives up root's groups too.
        if self.uid.is_some() && self.groups.is_none() && rustix::process::getuid().is_root() {
            plan.credentials.groups = Some(&[]);
        }
        plan.death_signal = self.death_signal;
        plan.no_new_privs = self.no_new_privs;
        plan.umask = self.umask;
        plan.keep = Keep { mask, ignored: self.keep_ignored };
    }
}
