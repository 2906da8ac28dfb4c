//! Cgroup v2 groups that a test makes leaves in.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{leftovers::random_word, proc, skip};

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

    /// The groups right below.
    pub fn below(&self) -> Vec<PathBuf> {
        groups(&self.0)
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
