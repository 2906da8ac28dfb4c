//! Registries of tests, apart from those of the machine, and runs that are written down in them.

use std::{
    ffi::OsStr,
    fs,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output},
};

use serde_json::Value;

use crate::{
    announce::Board,
    command::{self, finish, plain},
    files::TempDir,
    leftovers::NoLeftovers,
    proc,
};

/// Where a test's runs write down what they do.
#[derive(Debug)]
pub struct Home<'a> {
    guard: &'a NoLeftovers,
    dir: TempDir,
}

impl Home<'_> {
    /// A new one.
    pub fn new(guard: &NoLeftovers) -> Home<'_> {
        Home { guard, dir: TempDir::new() }
    }

    /// A place in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.at(name)
    }

    /// The directory of the runs that were told of none.
    pub fn root(&self) -> String {
        self.path("pidward")
    }

    /// A place in it, as a word of a command.
    pub fn path(&self, name: &str) -> String {
        self.dir.at(name).to_str().expect("a path").to_owned()
    }

    /// `pidward` with these words.
    pub fn command<A: AsRef<OsStr>>(&self, words: &[A]) -> Command {
        let mut command = plain(self.guard);
        command.args(words).env("XDG_RUNTIME_DIR", self.dir.at("")).env("TMPDIR", self.dir.at(""));
        command
    }

    /// The same, to its end: exit code, standard output, standard error.
    #[track_caller]
    pub fn ask(&self, words: &[&str]) -> (i32, String, String) {
        said(finish(&mut self.command(words)))
    }

    /// `pidward run` with these options and this program, started.
    pub fn run<A: AsRef<OsStr>>(&self, options: &[&str], program: &[A]) -> Run {
        let mut command = self.command(&["run"]);
        command.args(options).arg("--").args(program);
        Run(command.spawn().expect("pidward"))
    }

    /// The same with a program that is deaf, at the time when it is written down who it is. Its pid is the second.
    #[track_caller]
    pub fn deaf(&self, termdeaf: &std::path::Path, name: &str, options: &[&str]) -> (Run, u32) {
        let board = Board::at(self.at(&format!("board of {name}")));
        // There may be that of an earlier one.
        let _ = fs::remove_file(board.path());
        let program = [termdeaf.as_os_str(), OsStr::new("--ready-file"), board.path().as_os_str()];
        let run = self.run(&[&["--name", name], options].concat(), &program);
        let pid = board.wait_for_pid("ready");
        self.until_written(&[pid]);
        (run, pid)
    }

    /// Waits until it is written down who these are, in a directory of its own or in one here.
    #[track_caller]
    pub fn until_written(&self, pids: &[u32]) {
        let is_there = |pid: &u32| self.records().iter().any(|text| text.contains(&format!("\npid={pid}\n")));
        proc::eventually("the records", || pids.iter().all(is_there));
    }

    /// What all records say.
    fn records(&self) -> Vec<String> {
        let list = |dir: PathBuf| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten();
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
        };
        let mut files = Vec::new();
        for dir in list(self.at("")).into_iter().chain(list(self.at("pidward"))) {
            files.extend(list(dir).into_iter().filter(|path| path.extension() == Some(OsStr::new("record"))));
        }
        files.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
    }
}

/// Each line as an object.
#[track_caller]
pub fn objects(text: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let all: Vec<Value> = text.lines().map(object).collect();
    assert!(all.iter().all(|value| value["v"] == 1), "{text}");
    all
}

/// Exit code, standard output, standard error.
#[track_caller]
pub fn said(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (command::code(&output), text(output.stdout), text(output.stderr))
}

/// A run that was started.
#[derive(Debug)]
pub struct Run(Child);

impl Run {
    /// The pid of the outer one.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// To its end.
    pub fn wait(mut self) -> ExitStatus {
        self.0.wait().expect("its end")
    }

    /// The same, and what it said.
    #[track_caller]
    pub fn end(self) -> (i32, String, String) {
        said(self.0.wait_with_output().expect("its end"))
    }

    /// Ends both of its processes as a crash does, so that neither is told of the other's end.
    #[track_caller]
    pub fn crash(self) {
        let inner = command::inner_of(self.id());
        // Stopped, the outer one sees nothing.
        command::signal(self.id(), libc::SIGSTOP);
        command::signal(inner, libc::SIGKILL);
        proc::eventually("its end", || proc::has_ended(inner));
        command::signal(self.id(), libc::SIGKILL);
        self.wait();
    }
}
