//! Registries as a test sees them: files, and the supervisors that write them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use pidward::{
    Registry, Spawner,
    registry::{Policy, Reconciliation},
};

use crate::{announce::Board, leftovers::NoLeftovers};

/// The grace of what follows.
pub const SHORT: Duration = Duration::from_millis(300);

/// A spawner without a guard that writes its children down.
pub fn spawner(registry: &Registry) -> Spawner {
    Spawner::builder().guard(false).grace(SHORT).registry(registry.clone()).build().expect("a spawner")
}

/// One answer to everything that is asked.
pub fn reconcile(registry: &Registry, policy: Policy) -> Reconciliation {
    registry.reconcile(SHORT, |_| policy).expect("a directory that can be read")
}

/// The files of records in a directory, and what is in them.
pub fn records(dir: &Path) -> Vec<(PathBuf, String)> {
    let list = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let records = list.filter(|path| path.extension().is_some_and(|end| end == "record"));
    records.filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?))).collect()
}

/// Whether a text has this line.
pub fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|each| each == line)
}

/// A supervisor without a guard, of the directory, that is there with its tree; and its board.
#[derive(Debug)]
pub struct Supervised {
    /// It.
    pub supervisor: Child,
    /// Its board.
    pub board: Board,
}

impl Supervised {
    /// Waits until it is there: `recorded DIR BOARD WHAT KIND...`.
    #[track_caller]
    pub fn start(
        guard: &NoLeftovers,
        program: &Path,
        dir: &Path,
        board: PathBuf,
        what: &str,
        kinds: &[&str],
    ) -> Supervised {
        let board = Board::at(board);
        let mut cmd = guard.command(program);
        cmd.arg(dir).arg(board.path()).arg(what).args(kinds).stdin(Stdio::null());
        let supervisor = cmd.spawn().expect("a supervisor");
        board.wait_for(if what.starts_with("many") || what.starts_with("lasting") {
            "many"
        } else {
            "ready"
        });
        Supervised { supervisor, board }
    }

    /// SIGKILL.
    pub fn kill(mut self) -> Board {
        self.supervisor.kill().expect("it lives");
        self.supervisor.wait().expect("ours");
        self.board
    }
}
