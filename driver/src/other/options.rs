//! The rest of a child: group, ids; and what other systems lack, which makes the spawn fail.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::{process, time::Duration};

use pidward_core::Signal;

use super::Command;

/// Makes methods of which this system has nothing: where they ask for something the spawn fails with
/// [`SpawnErrorKind::Unsupported`](crate::SpawnErrorKind::Unsupported), and no child exists.
macro_rules! lacking {
    ($($(#[$doc:meta])* $name:ident($arg:ident: $type:ty) if $asked:expr, $words:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Not on this system: the spawn fails with [`SpawnErrorKind::Unsupported`](crate::SpawnErrorKind::Unsupported).
        pub fn $name(&mut self, $arg: $type) -> &mut Command {
            if $asked {
                self.settings.lacking.get_or_insert($words);
            }
            self
        }
    )*};
}

impl Command {
    lacking! {
        /// A session of its own.
        own_session(own: bool) if own, "there are no sessions of a child's own on this system";
        /// The supplementary groups, the whole list.
        groups(_groups: &[u32]) if true, "the groups of a child cannot be set on this system";
        /// How many bytes of memory the child and all that it starts may use together.
        memory_limit(_bytes: u64) if true, "no limit on a child's tree on this system";
        /// How many processes and threads the child and all that it starts may be together.
        process_limit(_count: u64) if true, "no limit on a child's tree on this system";
        /// Share of the processor.
        cpu_weight(_weight: u64) if true, "no share of the processor for a child's tree on this system";
        /// Niceness.
        nice(_nice: i32) if true, "the niceness of a child cannot be set on this system";
        /// How readily the out-of-memory killer takes the child.
        oom_score_adj(_score: i16) if true, "there is no oom_score_adj on this system";
        /// The file mode creation mask.
        umask(_mask: u32) if true, "the umask of a child cannot be set on this system";
        /// Whether exec stops granting rights.
        no_new_privs(on: bool) if on, "there is no no_new_privs on this system";
        /// Whether the child keeps our signal mask.
        keep_mask(keep: bool) if keep, "a child cannot keep the signal mask on this system";
        /// Whether signals that we ignore are ignored in the child.
        keep_ignored(keep: bool) if keep, "a child cannot keep ignored signals on this system";
    }

    /// Whether the child gets a process group of its own (the default) or stays in ours. On Windows that is
    /// `CREATE_NEW_PROCESS_GROUP`.
    pub fn own_group(&mut self, own: bool) -> &mut Command {
        self.settings.own_group = own;
        #[cfg(unix)]
        {
            self.settings.join = None;
        }
        self
    }

    /// What it gets when its supervisor ends: nothing on this system, whatever is set. A child outlives its supervisor, and the first
    /// [`Spawner`](crate::Spawner) says so in the log.
    pub fn death_signal(&mut self, _signal: Option<Signal>) -> &mut Command {
        self
    }

    setters! {
        /// Whether dropping the `Child` ends the child.
        kill_on_drop(kill: bool) => kill_on_drop = kill;
        /// How long a stop waits after it has closed the child's standard input, beside the grace.
        ask_grace(grace: Duration) => ask = Some(grace);
        /// Whether the child lives on when the supervisor ends without a word: on this system it always does.
        survives_supervisor(survives: bool) => survives = survives;
        /// How long this spawn may take. On this system nothing holds it to that.
        deadline(deadline: Duration) => deadline = Some(deadline);
    }
}

#[cfg(unix)]
impl Command {
    setters! {
        /// The user, as std has it.
        uid(id: u32) => settings.uid = Some(id);
        /// The group id, as std has it.
        gid(id: u32) => settings.gid = Some(id);
    }

    /// The process group: 0 is one of the child's own (the default), other numbers an existing one of our session.
    pub fn process_group(&mut self, pgroup: i32) -> &mut Command {
        self.settings.own_group = pgroup == 0;
        self.settings.join = (pgroup != 0).then_some(pgroup);
        self
    }

    /// The directory of a cgroup v2 leaf.
    ///
    /// Not on this system: the spawn fails with [`SpawnErrorKind::Unsupported`](crate::SpawnErrorKind::Unsupported).
    pub fn cgroup(&mut self, _dir: impl Into<OwnedFd>) -> &mut Command {
        self.settings.lacking.get_or_insert("there are no cgroups on this system");
        self
    }

    /// Passes a descriptor on as `number`.
    ///
    /// Not on this system: the spawn fails with [`SpawnErrorKind::Unsupported`](crate::SpawnErrorKind::Unsupported).
    pub fn pass_fd(&mut self, _fd: impl Into<OwnedFd>, _number: u32) -> &mut Command {
        self.settings.lacking.get_or_insert("a descriptor cannot be passed on at a number on this system");
        self
    }
}

/// The same place for a child of std: a process group of its own.
pub fn place_in_own_process_group(cmd: &mut process::Command) {
    group(cmd);
}

#[cfg(unix)]
fn group(cmd: &mut process::Command) {
    std::os::unix::process::CommandExt::process_group(cmd, 0);
}

#[cfg(windows)]
fn group(cmd: &mut process::Command) {
    /// `winbase.h`.
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    std::os::windows::process::CommandExt::creation_flags(cmd, CREATE_NEW_PROCESS_GROUP);
}
