//! Cgroup v2 groups that a test makes leaves in.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use pidward::{CgroupPlace, Spawner};

use crate::{announce::Board, leftovers::random_word, proc, skip};

/// A group of this test's own, where leaves can be made.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// `None` where there is no cgroup v2 tree that may be changed.
    #[allow(clippy::new_ret_no_self, reason = "there may be none")]
    pub fn new() -> Option<Place> {
        let dir = skip::cgroup2()?.join(format!("pidward-test-{}", random_word()));
        fs::create_dir(&dir).ok()?;
        Some(Place(dir))
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// For a spawner whose children have their leaves here.
    pub fn at(&self) -> CgroupPlace {
        CgroupPlace::At(self.0.clone())
    }

    /// Such a spawner, with a grace of 300 ms.
    pub fn spawner(&self) -> Spawner {
        Spawner::builder().cgroup(self.at()).grace(Duration::from_millis(300)).build().expect("a spawner")
    }

    /// The groups right below.
    pub fn below(&self) -> Vec<PathBuf> {
        groups(&self.0)
    }
}

/// A group of version 1 or 2 that limits memory to so many bytes, removed when nobody is in it any more.
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` where there is no such controller, or it is not ours to use.
    pub fn of(bytes: u64) -> Option<MemoryGroup> {
        let places = [(PathBuf::from("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")];
        let places = places.into_iter().chain(skip::cgroup2().map(|dir| (dir, "memory.max")));
        places.into_iter().find_map(|(above, file)| {
            let group = MemoryGroup(above.join(format!("pidward-test-{}", random_word())));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(file), bytes.to_string()).is_ok().then_some(group)
        })
    }

    /// Who writes a pid, or 0 for itself, into this file is in it.
    pub fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        proc::until(Duration::from_secs(5), || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

/// The groups right below another.
pub fn groups(dir: &Path) -> Vec<PathBuf> {
    let list = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    list.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

impl Drop for Place {
    fn drop(&mut self) {
        // Of a test that has failed.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        proc::until(Duration::from_secs(3), || {
            fs::read_to_string(self.0.join("cgroup.events")).is_ok_and(|e| e.contains("populated 0"))
        });
        for run in self.below() {
            groups(&run).iter().for_each(|leaf| drop(fs::remove_dir(leaf)));
            let _ = fs::remove_dir(run);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// A daemon that executes `sleep` without any variable.
#[track_caller]
pub fn bare(board: &Board) -> u32 {
    let bare = board.wait_for_pid("bare");
    proc::eventually("exec", || proc::environ(bare).is_empty() && proc::cmdline(bare).contains("sleep"));
    bare
}
