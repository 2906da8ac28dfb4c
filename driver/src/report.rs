//! What a stop reports.

use std::{process::ExitStatus, time::Duration};

use pidward_core::ladder::Rung;

/// Why a child ended, as far as this program had a part in it: the first reason for which it began to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// By itself, or by somebody else: nothing here had begun to stop it.
    Itself,
    /// It was ended by the kernel because its cgroup leaf was out of memory.
    OutOfMemory,
    /// The program asked for a stop.
    Stopped,
    /// It did not become [ready](crate::Command::ready) in time.
    NotReady,
    /// It gave no sign of life in time.
    Stuck,
    /// Its time was over.
    PastDeadline,
    /// What it sent was no stream of frames.
    Protocol,
    /// Nobody receives its events any more.
    NoReceiver,
}

/// Somebody that a stop could not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survivor {
    /// Its pid when it was looked at.
    pub pid: u32,
    /// Its state letter in `/proc/<pid>/stat`; `?` where that cannot be read.
    pub state: char,
}

/// What became of one child.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stopped {
    /// Its pid. Only a number by now.
    pub pid: u32,
    /// Its status; `None` while it has not ended, and where somebody else took it.
    pub status: Option<ExitStatus>,
    /// The last thing that had to be done; `None` if it and all of its group had ended before.
    pub rung: Option<Rung>,
    /// How long it took.
    pub took: Duration,
    /// Who is left. Empty: nobody was found.
    pub survivors: Vec<Survivor>,
    /// Whether it is proven that nobody is left who shows that it descends from the child: two looks in a row at all processes, while
    /// nobody came or went, found none. `false` on a machine that is never quiet for so long, and without `/proc`.
    pub proven: bool,
}

/// What a stop did. It is over when nobody is left, or when the report says who is.
#[derive(Clone, Debug, Default)]
#[must_use = "it says whether anybody survived"]
#[non_exhaustive]
pub struct StopReport {
    /// One for each child that was to be stopped.
    pub children: Vec<Stopped>,
    /// Of a [shutdown](crate::Spawner::shutdown): who is left of others that descend from this spawner, as children of children that
    /// had ended before.
    pub strays: Vec<Survivor>,
}

impl StopReport {
    /// Whether nobody is left.
    pub fn is_complete(&self) -> bool {
        self.survivors().next().is_none()
    }

    /// Who is left.
    pub fn survivors(&self) -> impl Iterator<Item = Survivor> {
        self.children.iter().flat_map(|child| &child.survivors).chain(&self.strays).copied()
    }

    /// The status of the first child; the one that was asked for, if it was one.
    pub fn status(&self) -> Option<ExitStatus> {
        self.children.first().and_then(|child| child.status)
    }

    /// The last rung that was needed for any of them.
    pub fn rung(&self) -> Option<Rung> {
        self.children.iter().filter_map(|child| child.rung).max()
    }
}
