//! The fixture that lives the whole life of the core, and what it tells; only as pid 1 of a pid namespace, with nobody else in it.

use std::{
    fs::File,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{cgroup::Place, files, os, proc, story};

/// How long nobody of them may take.
const LIMIT: Duration = Duration::from_secs(20);

/// What each part told, by the name of the part; in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told(Vec<(String, String)>);

/// What the fixture needs around it.
#[derive(Debug)]
pub struct Stage {
    dir: files::TempDir,
    place: Option<Place>,
}

impl Stage {
    /// `None`: no programs of machine code for this instruction set.
    #[allow(clippy::new_ret_no_self, reason = "there may be none")]
    pub fn new() -> Option<Stage> {
        let dir = files::TempDir::new();
        files::program(&dir.at("seven"), &files::tiny_program(7)?);
        files::program(&dir.at("stay"), &files::tiny_sleeper()?);
        Some(Stage { dir, place: Place::new() })
    }

    /// Whether there is a cgroup to make leaves in.
    pub fn has_leaves(&self) -> bool {
        self.place.is_some()
    }

    /// Starts the fixture, with the file of its story.
    pub fn start(&self, fixture: &Path, how: &[&str]) -> (Child, File) {
        let story = story::file().expect("a file in memory");
        let mut command = Command::new(fixture);
        command.arg(self.dir.at(""));
        match &self.place {
            Some(place) => command.arg(place.path()),
            None => command.arg("none"),
        };
        command.args(how).stdin(Stdio::null()).stdout(story.try_clone().expect("a copy"));
        (command.spawn().expect("the fixture"), story)
    }

    /// What it told, once it has ended and its guard has ended whom it left: `Err` where either takes too long.
    ///
    /// # Errors
    /// Who did not end.
    pub fn finish(&self, mut child: Child, story: &File) -> Result<Told, String> {
        if !proc::until(LIMIT, || child.try_wait().expect("a child of ours").is_some()) {
            let told = story::lines(story).unwrap_or_default();
            end_all();
            return Err(format!("it hangs after {:?}", told.last()));
        }
        // The guard, and whom it ends.
        let left = || {
            proc::children(std::process::id()).into_iter().filter(|pid| proc::alive(*pid)).collect::<Vec<_>>()
        };
        if !proc::until(LIMIT, || left().is_empty()) {
            let left =
                left().into_iter().map(|pid| format!("{pid} {}", proc::cmdline(pid))).collect::<Vec<_>>();
            end_all();
            return Err(format!("{left:?} are left"));
        }
        os::reap_orphans();
        // What a refusal has left.
        for group in self.place.iter().flat_map(Place::below) {
            let _ = std::fs::remove_dir(group);
        }
        let lines = story::lines(story).expect("a file in memory");
        Ok(Told(
            lines
                .iter()
                .filter_map(|line| line.split_once('\t'))
                .map(|(part, what)| (part.into(), what.into()))
                .collect(),
        ))
    }
}

/// Ends every child of this process, and whoever becomes one by that.
fn end_all() {
    proc::until(proc::LIMIT, || {
        let left: Vec<u32> =
            proc::children(std::process::id()).into_iter().filter(|pid| proc::alive(*pid)).collect();
        left.iter().for_each(|pid| drop(os::signal_pid(*pid, libc::SIGKILL)));
        os::reap_orphans();
        left.is_empty()
    });
}

impl Told {
    /// What one part told last.
    pub fn of(&self, part: &str) -> Option<&str> {
        self.0.iter().rfind(|(told, _)| told == part).map(|(_, what)| what.as_str())
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(part, _)| part.as_str())
    }

    /// Whether a part could be tried: it was, and the kernel itself did not refuse it.
    pub fn has(&self, part: &str) -> bool {
        part == "end" || self.of(part).is_some_and(|what| !what.starts_with("refused at "))
    }

    /// In which parts this is another life than `usual`, as one line. A part that was not reached hangs on one that went otherwise; the
    /// last one always is.
    pub fn beside(&self, usual: &Told) -> String {
        let mut told: Vec<String> = Vec::new();
        for (part, what) in &self.0 {
            let is_last = self.of(part) == Some(what);
            // `signal` is told where one to the group was not sent.
            let tried = usual.has(part) || part == "signal";
            if is_last && tried && usual.of(part) != Some(what) && part != "left to the guard" {
                told.push(format!("{part}: {what}"));
            }
        }
        if self.of("end").is_none() {
            told.push("end: not reached".to_string());
        }
        if told.is_empty() { "same".to_string() } else { told.join("; ") }
    }
}
