//! A child of this program, to be stopped.

use std::{
    os::{fd::BorrowedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use pidward_core::{Pid, Signal, ladder::Rung, signal::SignalError};

use super::Tree;
use crate::{
    carriers::{Looks, Sure},
    members,
    report::{Stopped, Survivor},
    spawner::{Entry, Shared},
    stdio::ChildStdin,
};

/// A child of this program.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(super) entry: Arc<Entry>,
    pub(super) shared: Arc<Shared>,
    /// Its end is how the child is asked.
    pub(super) input: Option<ChildStdin>,
}

impl Tree for Ours {
    fn ask_grace(&self) -> Option<Duration> {
        self.entry.ask_grace().or(self.entry.about.ask.filter(|_| self.input.is_some()))
    }

    fn ask(&mut self) {
        self.entry.note_stopping();
        self.entry.ask();
        self.input = None;
    }

    fn note(&self, rung: Rung) {
        self.entry.note_rung(rung);
    }

    fn pid(&self) -> Pid {
        self.entry.pid()
    }

    fn has_ended(&self) -> bool {
        self.shared.look(&self.entry).is_some()
    }

    fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.entry.as_fd())
    }

    fn signal(&self, signal: Signal, looks: &mut Looks) -> Result<(), SignalError> {
        self.entry.note_stopping();
        let sent = self.entry.signal_tree(signal);
        if let Some(kin) = self.entry.kin() {
            looks.signal(kin, signal);
        }
        self.entry.signal_leaf(signal);
        sent
    }

    fn left(&self, ended: bool, after: Option<Instant>, looks: &mut Looks) -> (Vec<Survivor>, Sure) {
        let mut left = members::left(&self.entry, ended);
        let is_leaf_empty = self.entry.about.leaf.as_ref().is_some_and(|leaf| {
            let (in_leaf, is_empty) =
                members::in_leaf(&self.entry.ground, leaf.group(), self.entry.pid(), &left);
            left.extend(in_leaf);
            is_empty
        });
        let Some(kin) = self.entry.kin() else { return (left, Sure::Likely) };
        let (away, sure) = looks.left(kin, after, &left);
        left.extend(away);
        // The kernel's own word, where nobody was ever seen outside.
        (left, if is_leaf_empty && sure == Sure::Likely { Sure::Proven } else { sure })
    }

    fn status(&self) -> Option<ExitStatus> {
        self.entry.ended().flatten().map(|exit| ExitStatus::from_raw(exit.status.raw()))
    }

    fn finish(&self) {
        // Its group is empty: nothing is pinned by a zombie any more.
        let _ = self.entry.child.try_reap();
        self.entry.about.written.iter().for_each(|written| written.remove());
    }
}

/// A forked copy of the program was to stop it: it is not the copy's child, and nothing of it is known here.
pub(super) fn untouched(entry: &Entry) -> Stopped {
    let pid = entry.pid().get();
    let survivors = vec![Survivor { pid, state: '?' }];
    Stopped { pid, status: None, rung: None, took: Duration::ZERO, survivors, proven: false }
}
