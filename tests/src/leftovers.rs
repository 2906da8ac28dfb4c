//! No test leaves a process behind: the guard that looks, names who is left, ends it, and fails the test.
//!
//! Tests run side by side in one process, so "all children" says nothing. A test's processes are those that carry
//! its random entry in their environ, those it has registered by pid, and whoever descends from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::File,
    io::Read,
    process::Command,
    sync::Mutex,
    time::Duration,
};

use crate::{os, proc};

/// The name of the entry.
pub const TOKEN: &str = "PIDWARD_TEST_TOKEN";

/// Looks at the end of a test for what it has left running. Zombies are no concern of it.
#[derive(Debug)]
pub struct NoLeftovers {
    value: String,
    registered: Mutex<Vec<(u32, u64)>>,
    all_children: bool,
}

/// Sixteen random bytes as hexadecimal digits.
pub fn random_word() -> String {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    read.expect("random bytes");
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl NoLeftovers {
    /// For a test beside others: looks for the token and for what was registered.
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> NoLeftovers {
        NoLeftovers::looking(false)
    }

    /// For a test in a process of its own (`in_child!`): every child of the process counts as well, and
    /// orphans below it come to it.
    pub fn alone() -> NoLeftovers {
        os::become_subreaper();
        NoLeftovers::looking(true)
    }

    fn looking(all_children: bool) -> NoLeftovers {
        NoLeftovers { value: random_word(), registered: Mutex::default(), all_children }
    }

    /// Name and value of the entry, to be set for everything the test starts.
    pub fn token(&self) -> (&'static str, &str) {
        (TOKEN, &self.value)
    }

    /// The whole entry, `name=value`.
    pub fn entry(&self) -> String {
        format!("{TOKEN}={}", self.value)
    }

    /// A command of the standard library that carries the entry.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(TOKEN, &self.value);
        command
    }

    /// The same for a script of a shell that pidward starts.
    pub fn shell(&self, script: &str) -> pidward::Command {
        let mut command = pidward::Command::new("/bin/sh");
        command.args(["-c", script]).env(TOKEN, &self.value);
        command
    }

    /// Registers a process that may have lost the entry. Call it while the pid cannot have gone to another.
    pub fn watch(&self, pid: u32) {
        if let Some(start) = proc::start_time(pid) {
            self.registered.lock().expect("no test panics here").push((pid, start));
        }
    }

    /// Who is alive now, in order of pid.
    pub fn left(&self) -> Vec<u32> {
        let registered = self.registered.lock().expect("no test panics here");
        let roots =
            registered.iter().filter(|(p, start)| proc::start_time(*p) == Some(*start)).map(|(p, _)| *p);
        let mut roots: Vec<u32> = roots.collect();
        if self.all_children {
            roots.extend(proc::children(std::process::id()));
        }
        family(&self.entry(), roots)
    }

    /// Ends everybody with SIGKILL and says who was there. Bounded: a fork loop may need more than this.
    pub fn end_all(&self) -> Vec<String> {
        let mut seen = BTreeMap::new();
        for _ in 0..200 {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            for pid in left {
                // As it was before the first signal.
                seen.entry(pid).or_insert_with(|| describe(pid));
                // Gone meanwhile is as good.
                let _ = os::signal_pid(pid, libc::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        seen.into_values().collect()
    }
}

/// The living carriers of an entry, the roots, and all who descend from them; never this process.
fn family(entry: &str, roots: Vec<u32>) -> Vec<u32> {
    let mut found: BTreeSet<u32> = proc::carriers(entry).into_iter().chain(roots).collect();
    let parents: Vec<(u32, u32)> =
        proc::pids().into_iter().filter_map(|p| Some((p, proc::ppid(p)?))).collect();
    // Ends when a round finds nobody new.
    loop {
        let new: Vec<u32> = parents
            .iter()
            .filter(|(p, up)| found.contains(up) && !found.contains(p))
            .map(|(p, _)| *p)
            .collect();
        if new.is_empty() {
            break;
        }
        found.extend(new);
    }
    let own = std::process::id();
    found.into_iter().filter(|p| *p != own && proc::alive(*p)).collect()
}

fn describe(pid: u32) -> String {
    let state = proc::state(pid).unwrap_or('?');
    format!("{pid} {state} {}", proc::cmdline(pid))
}

impl Drop for NoLeftovers {
    fn drop(&mut self) {
        // Whoever is on its way out already is none that was left; the way takes some time.
        proc::until(proc::LIMIT, || self.left().into_iter().all(|p| !proc::ending(p)));
        let left = self.end_all();
        if !left.is_empty() {
            let text = format!("the test has left behind (pid, state, command):\n{}", left.join("\n"));
            if std::thread::panicking() {
                eprintln!("{text}");
            } else {
                panic!("{text}");
            }
        }
    }
}
