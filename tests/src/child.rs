//! A test's body in a fresh process: the test binary starts itself again, for this one test.
//!
//! For everything that changes the process it happens in: system call filters, descriptors 0 to 2, resource limits, a death of
//! the supervisor, a pid namespace. [`in_child!`](crate::in_child) at the head of a test does it.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek},
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::{launch, leftovers::NoLeftovers, os, proc};

/// Set in the process that runs the body, to the test's name.
const MARK: &str = "PIDWARD_TEST_CHILD";

/// Set in a process that has mounts of its own, to the mount namespace it must not change.
const ABOVE: &str = "PIDWARD_TEST_MOUNTS_ABOVE";

/// Runs the rest of the test in a process of its own. `in_child!()`, or with options:
/// `in_child!(|again| again.in_pid_namespace())`. A panic there, a wrong exit status, a time-out or a process left
/// behind fails the test here.
#[macro_export]
macro_rules! in_child {
    () => {
        $crate::in_child!(|again| again)
    };
    ($options:expr) => {
        let name = $crate::this_test!();
        if !$crate::child::is(&name) {
            let options: fn($crate::child::Again) -> $crate::child::Again = $options;
            options($crate::child::Again::of(&name)).run().check();
            return;
        }
    };
}

/// Whether this process was started for the body of that test.
pub fn is(test: &str) -> bool {
    std::env::var_os(MARK).is_some_and(|m| m == test)
}

/// Whether this process was started for the body of some test.
pub fn is_any() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Fails the test unless this process was started for it, with mounts of its own.
#[track_caller]
pub fn assert_own_mounts() {
    let above = std::env::var_os(ABOVE).expect("only after in_pid_namespace or in_mount_namespace");
    // Where `/proc` is no use any more, an earlier change has been allowed.
    assert!(mounts().is_none_or(|own| own != above), "these are the mounts of everybody");
}

/// The name of this process's mount namespace.
fn mounts() -> Option<OsString> {
    std::fs::read_link("/proc/self/ns/mnt").ok().map(OsString::from)
}

/// How to start the test binary for one test.
#[derive(Debug)]
pub struct Again {
    test: String,
    env: Vec<(String, String)>,
    pids: bool,
    mounts: bool,
    ignored: Vec<i32>,
    limit: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The test binary's (or, in a pid namespace, that of `unshare`, which passes it on).
    pub status: ExitStatus,
    /// What the body and the test runner have printed.
    pub stdout: String,
    /// The same for standard error.
    pub stderr: String,
    /// The time was over, and everybody was ended.
    pub timed_out: bool,
    /// Who was still alive when the process had ended; everybody was ended.
    pub left: Vec<String>,
}

impl Again {
    /// The test of this name (as the runner prints it), in this binary; two minutes.
    pub fn of(test: &str) -> Again {
        Again {
            test: test.to_string(),
            env: Vec::new(),
            pids: false,
            mounts: false,
            ignored: Vec::new(),
            limit: Duration::from_secs(120),
        }
    }

    /// One more environment entry.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Again {
        self.env.push((name.to_string(), value.to_string()));
        self
    }

    /// In a pid namespace of its own, with a `/proc` of its own. pid 1 of it is the test binary, and
    /// everything in it ends with it. Who is not root becomes root of a user namespace, which has no other user.
    #[must_use]
    pub fn in_pid_namespace(mut self) -> Again {
        self.pids = true;
        self
    }

    /// With mounts of its own, and the pids of everybody. Only for root.
    #[must_use]
    pub fn in_mount_namespace(mut self) -> Again {
        self.mounts = true;
        self
    }

    /// Started by somebody who ignored these signals.
    #[must_use]
    pub fn ignoring(mut self, signals: &[i32]) -> Again {
        self.ignored.extend(signals);
        self
    }

    /// Another limit.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Again {
        self.limit = limit;
        self
    }

    fn command(&self, guard: &NoLeftovers) -> io::Result<Command> {
        let own = std::env::current_exe()?;
        let mut command = if self.pids || self.mounts {
            let mut unshare = guard.command("unshare");
            unshare.env(ABOVE, mounts().ok_or(io::ErrorKind::NotFound)?);
            if self.pids {
                unshare.args(pid_namespace());
            }
            unshare.args(["--mount", "--propagation", "private", "--"]).arg(own);
            unshare
        } else {
            guard.command(own)
        };
        command.args(["--exact", &self.test, "--nocapture", "--test-threads=1"]);
        command.env(MARK, &self.test).envs(self.env.iter().map(|(n, v)| (n, v)));
        command.stdin(Stdio::null()).process_group(0);
        if !self.ignored.is_empty() {
            launch::ignoring(&mut command, &self.ignored);
        }
        Ok(command)
    }

    /// Runs it to its end, or to the limit.
    #[track_caller]
    pub fn run(self) -> Outcome {
        let guard = NoLeftovers::new();
        let (mut out, mut err) = (memory("out"), memory("err"));
        let mut command = self.command(&guard).expect("the path of the test binary");
        command.stdout(out.try_clone().expect("a copy")).stderr(err.try_clone().expect("a copy"));
        let mut child = command.spawn().expect("the test binary, or unshare");
        guard.watch(child.id());
        let mut status = None;
        let ended = proc::until(self.limit, || {
            status = child.try_wait().expect("a child of ours");
            status.is_some()
        });
        if ended {
            proc::until(proc::LIMIT, || guard.left().into_iter().all(|p| !proc::ending(p)));
        }
        let left = guard.end_all();
        let status = status.unwrap_or_else(|| child.wait().expect("a child of ours"));
        let outcome =
            Outcome { status, stdout: text(&mut out), stderr: text(&mut err), timed_out: !ended, left };
        for line in outcome.stderr.lines().filter(|l| l.starts_with("SKIP ")) {
            // The log has the line already; this is for whoever watches.
            let _ = io::Write::write_all(&mut io::stderr(), format!("{line}\n").as_bytes());
        }
        outcome
    }
}

/// The options of `unshare` for a pid namespace of its own.
pub(crate) fn pid_namespace() -> impl Iterator<Item = &'static str> {
    let user = ["--user", "--map-root-user"].into_iter().filter(|_| !os::is_root());
    user.chain(["--pid", "--fork", "--mount-proc", "--kill-child"])
}

fn memory(name: &str) -> File {
    os::memory_file(name).expect("a file in memory")
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.expect("a file in memory can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Outcome {
    /// What is wrong with it; `None` where the one test ran and passed, in time, and left nobody behind.
    pub fn fault(&self) -> Option<String> {
        let why = if self.timed_out {
            "the time was over".to_string()
        } else if !self.status.success() {
            format!("{}", self.status)
        } else if !self.stdout.contains("1 passed") {
            "no test of that name ran".to_string()
        } else if !self.left.is_empty() {
            format!("left behind (pid, state, command):\n{}", self.left.join("\n"))
        } else {
            return None;
        };
        Some(format!("{why}\n--- its output\n{}--- its errors\n{}", self.stdout, self.stderr))
    }

    /// Fails the test where something is wrong.
    #[track_caller]
    pub fn check(&self) {
        if let Some(fault) = self.fault() {
            panic!("in the process of its own: {fault}");
        }
    }
}
