//! What the record of a spawn says of each promise, in words.

use std::io;

use pidward_core::{
    probe::Pidfds,
    procfs::ProcError,
    spawn::{Cloning, Closing, Mechanism, ParentCheck, Pidfd},
};
use serde::Serialize;

use super::Found;

/// How a promise is kept, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rank {
    First,
    Fallback,
    NotKept,
}

impl Rank {
    /// The exit code where this is the worst.
    pub(super) const fn code(self) -> u8 {
        match self {
            Rank::First => 0,
            Rank::Fallback => 1,
            Rank::NotKept => 4,
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Rank::First => "first choice",
            Rank::Fallback => "fallback",
            Rank::NotKept => "not kept",
        }
    }
}

/// One promise.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) promise: &'static str,
    pub(super) mechanism: &'static str,
    pub(super) rank: Rank,
    /// Why it is not the first choice; empty where it is.
    pub(super) why: String,
    /// What helps; empty where nothing is to be done.
    pub(super) what_to_do: &'static str,
}

type Words = (&'static str, Rank, &'static str, &'static str);

pub(super) fn of(found: &Found) -> Vec<Row> {
    let Found { mechanism, guard, leaf, pidfds, here, scan } = found;
    [
        ("a spawn costs the same however large its supervisor is", cloning(mechanism.cloning)),
        ("a signal reaches the child and nobody who has its number later", signal(mechanism.pidfd, *pidfds)),
        ("a signal to the group reaches nobody else", group_signal(*mechanism, *pidfds)),
        ("the status is that of the child, and is taken once", wait(mechanism.pidfd, *pidfds)),
        ("the status is known though somebody else took it", exit_info(*pidfds)),
        ("a recorded process is told from who has its number later", recorded(*pidfds, *here)),
        ("a process of another supervisor is told by its environment", named(*here)),
        ("the child ends when its supervisor does", parent_check(*mechanism, *guard)),
        (
            "what the child has started ends when its supervisor does",
            guarded(*guard, *pidfds, here.or(*scan)),
        ),
        (
            "whoever descends from the child is found, whatever it does to itself",
            found_by(*leaf, here.or(*scan)),
        ),
        ("the child gets no descriptor but those passed to it", closing(mechanism.closing)),
    ]
    .into_iter()
    .map(|(promise, (mechanism, rank, why, what_to_do))| Row {
        promise,
        mechanism,
        rank,
        why: why.to_owned(),
        what_to_do,
    })
    .collect()
}

/// No program could be started at all.
pub(super) fn no_spawn(error: &io::Error) -> Row {
    Row {
        promise: "a program can be started",
        mechanism: "none",
        rank: Rank::NotKept,
        why: error.to_string(),
        what_to_do: "see the errno; a system call filter may refuse every way there is",
    }
}

fn cloning(cloning: Cloning) -> Words {
    match cloning {
        Cloning::Clone3 => ("clone3 with shared memory", Rank::First, "", ""),
        Cloning::Clone3KeepingHandlers => (
            "clone3 with shared memory; each signal is reset by itself",
            Rank::Fallback,
            "CLONE_CLEAR_SIGHAND is refused: Linux below 5.5, or a filter",
            "nothing need be done: a spawn takes a few microseconds more",
        ),
        Cloning::Clone => (
            "clone with shared memory",
            Rank::Fallback,
            "clone3 is refused: Linux below 5.3, or a system call filter",
            "allow clone3 in the filter; old container runtimes refuse it by default",
        ),
        Cloning::Fork3 => ("clone3 without shared memory", Rank::NotKept, NOT_SHARED, SHARE),
        Cloning::Fork => ("clone without shared memory", Rank::NotKept, NOT_SHARED, SHARE),
        _ => UNKNOWN,
    }
}

const NOT_SHARED: &str = "memory is not shared although the call asks for it: an emulator, a time namespace below \
                          Linux 6.2, or a filter";
const SHARE: &str =
    "run outside the emulator or the time namespace; else the cost grows with the supervisor's memory";
const UNKNOWN: Words =
    ("unknown", Rank::NotKept, "this command does not know the mechanism", "update pidward");

const KEPT_NUMBER: &str = "the unreaped child keeps its number";
const NO_PIDFDS: &str = "there are no pidfds: Linux below 5.3, or a filter on pidfd_open";
const ALLOW_OPEN: &str = "allow pidfd_open in the filter; nobody else may reap the child";

fn signal(pidfd: Pidfd, pidfds: Pidfds) -> Words {
    match pidfd {
        Pidfd::None => (KEPT_NUMBER, Rank::Fallback, NO_PIDFDS, ALLOW_OPEN),
        _ if pidfds.open && !pidfds.signal => (
            KEPT_NUMBER,
            Rank::Fallback,
            "pidfd_send_signal is refused by a filter",
            "allow pidfd_send_signal in the filter; nobody else may reap the child",
        ),
        Pidfd::FromClone => ("the pidfd that the clone gives", Rank::First, "", ""),
        Pidfd::Opened => (
            "pidfd_open, before the child can be reaped",
            Rank::Fallback,
            "CLONE_PIDFD is refused: Linux below 5.2, an emulator, or a filter",
            "nothing need be done: the child is ours and unreaped when its pidfd is opened",
        ),
        _ => UNKNOWN,
    }
}

fn group_signal(mechanism: Mechanism, pidfds: Pidfds) -> Words {
    if mechanism.refused.group {
        let todo = "allow setpgid in the filter; else the child is signalled alone";
        return (
            "none: the child has no group of its own",
            Rank::NotKept,
            "setpgid is refused by a filter",
            todo,
        );
    }
    if mechanism.pidfd != Pidfd::None && pidfds.signal_group {
        return ("the leader's pidfd, also after it was reaped", Rank::First, "", "");
    }
    let why = match pidfds {
        Pidfds { signal: true, .. } => "PIDFD_SIGNAL_PROCESS_GROUP is refused: Linux below 6.9, or a filter",
        Pidfds { open: true, .. } => "pidfd_send_signal is refused by a filter",
        _ => NO_PIDFDS,
    };
    let todo = "nothing need be done: the leader stays a zombie until its group is empty";
    (
        "the unreaped leader keeps the group's number; after it, each member by itself",
        Rank::Fallback,
        why,
        todo,
    )
}

fn wait(pidfd: Pidfd, pidfds: Pidfds) -> Words {
    match pidfd {
        Pidfd::None => ("waitid on the number of the unreaped child", Rank::Fallback, NO_PIDFDS, ALLOW_OPEN),
        _ if pidfds.wait || !pidfds.open => ("waitid on the pidfd", Rank::First, "", ""),
        _ => (
            "waitid on the number of the unreaped child",
            Rank::Fallback,
            "waitid refuses a pidfd: Linux below 5.4, or a filter",
            "nothing need be done, unless the host program waits for everybody's children",
        ),
    }
}

fn exit_info(pidfds: Pidfds) -> Words {
    if pidfds.exit_info {
        return ("PIDFD_GET_INFO", Rank::First, "", "");
    }
    let why =
        if pidfds.open { "PIDFD_GET_INFO is refused: Linux below 6.15, or a filter" } else { NO_PIDFDS };
    let todo = "keep the host program from waiting for children that it did not start";
    ("none: it is reported as taken by somebody else", Rank::Fallback, why, todo)
}

fn recorded(pidfds: Pidfds, here: Option<ProcError>) -> Words {
    match here {
        Some(error) => no_proc(NOT_SIGNALLED, error),
        None if pidfds.inode => ("the inode of its pidfd", Rank::First, "", ""),
        None => (
            "its start time and the nonce in its environment",
            Rank::Fallback,
            if pidfds.open {
                "pidfds have no inodes of their own: Linux below 6.9, or 32 bit"
            } else {
                NO_PIDFDS
            },
            "nothing need be done, but children that overwrite their environment cannot be told",
        ),
    }
}

fn named(here: Option<ProcError>) -> Words {
    here.map_or(("markers, run and nonce in /proc/<pid>/environ", Rank::First, "", ""), |error| {
        no_proc(NOT_SIGNALLED, error)
    })
}

const NOT_SIGNALLED: &str = "none: such a process is not signalled";

const fn no_proc(what_is_left: &'static str, error: ProcError) -> Words {
    let why = match error {
        ProcError::OtherPidNamespace => "/proc shows another pid namespace",
        ProcError::NoProc => "there is no /proc, or it does not show the boot id",
        _ => "/proc cannot be read: a filter, or no descriptor is left",
    };
    (what_is_left, Rank::NotKept, why, "mount the /proc of this pid namespace")
}

fn parent_check(mechanism: Mechanism, guard: bool) -> Words {
    if mechanism.refused.death_signal {
        let (what, rank) = if guard { ("the guard alone", Rank::Fallback) } else { ("none", Rank::NotKept) };
        return (
            what,
            rank,
            "prctl is refused by a filter",
            "allow prctl with PR_SET_PDEATHSIG in the filter",
        );
    }
    match mechanism.parent_check {
        ParentCheck::Ppid => ("death signal, then getppid names the supervisor", Rank::First, "", ""),
        ParentCheck::Pidfd => (
            "death signal, then the supervisor's pidfd shows it alive",
            Rank::Fallback,
            "the supervisor is outside the child's pid namespace, or a filter refuses getppid",
            "nothing need be done",
        ),
        ParentCheck::Unchecked => (
            "death signal",
            Rank::NotKept,
            "neither getppid nor a pidfd could show that the supervisor lived when the signal was armed",
            "allow pidfd_open in the filter, or start the supervisor inside the pid namespace",
        ),
        ParentCheck::NotAsked => ("none", Rank::NotKept, "no death signal was armed", "update pidward"),
        _ => UNKNOWN,
    }
}

fn guarded(guard: bool, pidfds: Pidfds, here: Option<ProcError>) -> Words {
    match (guard, here) {
        (true, _) if pidfds.open && !pidfds.signal => (
            "none: the guard finds them and cannot signal them safely",
            Rank::NotKept,
            "pidfd_send_signal is refused by a filter",
            "allow pidfd_send_signal in the filter",
        ),
        (true, _) if pidfds.open => {
            ("a guard process that holds the supervisor's pidfd", Rank::First, "", "")
        }
        (true, _) => {
            ("a guard process that asks for its parent", Rank::Fallback, NO_PIDFDS, "nothing need be done")
        }
        (false, Some(error)) => no_proc("none: only direct children end", error),
        (false, None) if pidfds.open && !pidfds.signal => (
            "none: a guard could not signal them safely",
            Rank::NotKept,
            "pidfd_send_signal is refused by a filter",
            "allow pidfd_send_signal in the filter",
        ),
        (false, None) => (
            "none: only direct children end",
            Rank::NotKept,
            "a guard process cannot be made: children begin a pid namespace, or a limit or a filter refuses the fork",
            "start the supervisor inside the pid namespace, or raise the limit",
        ),
    }
}

fn found_by(leaf: bool, here: Option<ProcError>) -> Words {
    match (leaf, here) {
        (true, _) => ("a cgroup v2 leaf", Rank::First, "", ""),
        (false, None) => (
            "its group, and the run in its environment",
            Rank::Fallback,
            "no cgroup v2 group of ours may be changed: not mounted, read-only, or not delegated",
            "delegate a group (systemd: Delegate=yes); else who leaves its group and loses its environment is not found",
        ),
        (false, Some(error)) => no_proc("its group alone", error),
    }
}

fn closing(closing: Closing) -> Words {
    match closing {
        Closing::CloseRange => ("close_range", Rank::First, "", ""),
        Closing::Scan => (
            "one by one, from /proc/self/fd",
            Rank::Fallback,
            "close_range is refused: Linux below 5.9, or a filter",
            "allow close_range in the filter",
        ),
        Closing::CloseOnExec => (
            "those marked close-on-exec alone",
            Rank::NotKept,
            "close_range is refused, and /proc cannot be read",
            "allow close_range in the filter, or mount /proc",
        ),
        _ => UNKNOWN,
    }
}
