//! The rest of a child: ids, group and session, signals, limits, descriptors, and exec in place.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process,
    sync::Arc,
    time::Duration,
};

use pidward_core::{
    Signal,
    marker::Names,
    spawn::{self, Rlimit},
};
use rustix::process::{WaitId, WaitIdOptions};

use super::{Command, GroupChoice, Resource};
use crate::{
    error::{SpawnError, SpawnErrorKind},
    prepare::{DefaultStdio, Prepared},
};

impl Command {
    setters! {
        /// The user (real, effective and saved). As with std, a child of root that changes user without
        /// [`groups`](Self::groups) has no supplementary group.
        ///
        /// Any change of credentials makes the spawn a plain fork, whose cost grows with our memory.
        uid(id: u32) => settings.uid = Some(id);

        /// The group id (real, effective and saved).
        gid(id: u32) => settings.gid = Some(id);
    }

    /// The supplementary groups, the whole list.
    pub fn groups(&mut self, groups: &[u32]) -> &mut Command {
        self.settings.groups = Some(groups.to_vec());
        self
    }

    /// The process group: 0 is one of the child's own (the default), other numbers an existing one of our session.
    ///
    /// This, [`own_group`](Self::own_group) and [`own_session`](Self::own_session) set the same: the last counts.
    pub fn process_group(&mut self, pgroup: i32) -> &mut Command {
        self.settings.group = if pgroup == 0 { GroupChoice::Own } else { GroupChoice::Join(pgroup) };
        self
    }

    /// Whether the child gets a group of its own (the default) or stays in ours. In ours it gets what the terminal sends
    /// us, and it is not stopped as a group.
    pub fn own_group(&mut self, own: bool) -> &mut Command {
        self.settings.group = if own { GroupChoice::Own } else { GroupChoice::Inherit };
        self
    }

    /// A session of its own, and so a group of its own and no controlling terminal; `false` goes back to a group
    /// of its own.
    pub fn own_session(&mut self, own: bool) -> &mut Command {
        self.settings.group = if own { GroupChoice::Session } else { GroupChoice::Own };
        self
    }

    /// What the child gets when its supervisor ends in whatever way: SIGTERM by default. `None`: nothing, but the spawner's guard ends it
    /// with the rest; see [`survives_supervisor`](Self::survives_supervisor).
    ///
    /// The kernel takes it off where the program is set-id or has file capabilities, see
    /// `PR_SET_PDEATHSIG` in prctl(2).
    pub fn death_signal(&mut self, signal: Option<Signal>) -> &mut Command {
        self.settings.death_signal = signal;
        self
    }

    setters! {
        /// How many bytes of memory the child and all that it starts may use together. Past that the out-of-memory killer takes one of them.
        ///
        /// This and the next two need a leaf ([`SpawnerBuilder::cgroup`](crate::SpawnerBuilder::cgroup)) and the controller enabled
        /// for it; else the spawn fails ([`SpawnErrorKind::Unsupported`]).
        memory_limit(bytes: u64) => settings.limits.memory = Some(bytes);

        /// How many processes and threads the child and all that it starts may be together. One more is refused with `EAGAIN`.
        process_limit(count: u64) => settings.limits.pids = Some(count);

        /// Share of the processor against others beside its leaf, 1 to 10,000; 100 is the usual.
        cpu_weight(weight: u64) => settings.limits.cpu_weight = Some(weight);

        /// Niceness, -20 to 19.
        nice(nice: i32) => settings.nice = Some(nice);

        /// How readily the out-of-memory killer takes the child, -1000 to 1000. Lowering it needs privilege.
        oom_score_adj(score: i16) => settings.oom_score_adj = Some(score);

        /// The file mode creation mask.
        umask(mask: u32) => settings.umask = Some(mask);

        /// Whether exec stops granting rights (set-id bits, file capabilities), for the child and all it starts.
        no_new_privs(on: bool) => settings.no_new_privs = on;

        /// Makes the child's group the foreground of this terminal before the program runs; with a session of its
        /// own, makes the terminal its controlling one.
        foreground(terminal: impl Into<OwnedFd>) => settings.terminal = Some(Arc::new(terminal.into()));

        /// The directory of a cgroup v2 leaf that the child is in before the program runs.
        cgroup(dir: impl Into<OwnedFd>) => settings.cgroup = Some(Arc::new(dir.into()));

        /// Whether the child keeps the signal mask of the thread that asks for it. A death signal in it stays pending.
        keep_mask(keep: bool) => settings.keep_mask = keep;

        /// Whether signals that we ignore are ignored in the child. Every Rust program ignores SIGPIPE.
        keep_ignored(keep: bool) => settings.keep_ignored = keep;

        /// Whether dropping the `Child` sends SIGKILL to its process tree.
        kill_on_drop(kill: bool) => kill_on_drop = kill;

        /// How long a stop waits for the child's own end after it has closed the child's piped standard input, before it sends SIGTERM: the way
        /// in which servers that speak over it, as MCP's, are told to end. Default: SIGTERM at once.
        ask_grace(grace: Duration) => ask = Some(grace);

        /// Whether the child and what it starts live on when the supervisor ends without a word: no death signal, no run entry, and no leaf.
        /// Its [`identity`](crate::Child::identity), kept in a file, is how a later supervisor knows and stops it. A stop, a shutdown and
        /// the drop of the last handle end it like any other child.
        survives_supervisor(survives: bool) => survives = survives;

        /// How long this spawn may take, queue and waiting between tries included.
        deadline(deadline: Duration) => deadline = Some(deadline);
    }

    /// A limit, in force from before the program runs. [`Resource::UNLIMITED`] is none. Of several for one
    /// resource the last counts.
    pub fn rlimit(&mut self, resource: Resource, soft: u64, hard: u64) -> &mut Command {
        let limits = &mut self.settings.rlimits;
        limits.retain(|limit| limit.resource != resource as u32);
        limits.push(Rlimit { resource: resource as u32, soft, hard });
        self
    }

    /// Passes a descriptor on as `number`, 3 or higher; a later one for the same number takes its place.
    /// Ours may be close-on-exec, the child's is not. It stays open here until the command is dropped; to keep one of
    /// your own, pass a `try_clone`.
    pub fn pass_fd(&mut self, fd: impl Into<OwnedFd>, number: u32) -> &mut Command {
        let (fd, passed) = (Arc::new(fd.into()), &mut self.settings.passed);
        match passed.binary_search_by_key(&number, |(taken, _)| *taken) {
            Ok(at) => passed[at].1 = fd,
            Err(at) => passed.insert(at, (number, fd)),
        }
        self
    }

    /// Becomes the program: returns on failure only. What std says of exec goes for this one: nothing is
    /// dropped, and other threads just end.
    ///
    /// Group, death signal and cgroup stay as they are, and descriptors that are neither passed nor standard stay
    /// open unless marked close-on-exec. A failure may leave signals, limits, niceness, ids, working
    /// directory and descriptors changed.
    ///
    /// # Errors
    /// Those of a spawn, and [`SpawnErrorKind::ChildrenLive`] while this process has children, running or
    /// unreaped: the end of its threads would signal them, and nobody would be left who knows them.
    #[must_use = "it returns only if it failed"]
    pub fn exec(&mut self) -> io::Error {
        let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if !matches!(rustix::process::waitid(WaitId::All, any), Err(rustix::io::Errno::CHILD)) {
            return SpawnError::refused(SpawnErrorKind::ChildrenLive).of_program(&self.program).into();
        }
        let (prepared, _ends) = match Prepared::new(self, DefaultStdio::Inherit, &Names::DEFAULT) {
            Ok(prepared) => prepared,
            Err(error) => return error.into(),
        };
        let error = prepared.with_plan(spawn::replace);
        SpawnError::from_core(error, &prepared).into()
    }
}

/// The same place for a child of std: a process group of its own.
pub fn place_in_own_process_group(cmd: &mut process::Command) {
    cmd.process_group(0);
}
