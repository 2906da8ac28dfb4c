//! Children in states that make them hard to know, each ready when its maker is back. For the places that do so, see
//! [`place`](crate::place).
//!
//! What the fixtures are told to be: `strange zeros|title|half|undumpable`, `strange user N`, `lostmain --ready-fd 1`.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
};

pub use crate::fork::Held;
use crate::{leftovers::random_word, proc};

/// A child that has said what it has become, and stays until its standard input ends.
#[derive(Debug)]
pub struct Strange {
    child: Child,
    input: ChildStdin,
}

impl Strange {
    /// Starts it, and waits for the line `ready PID` on its standard output.
    #[track_caller]
    pub fn start(command: &mut Command) -> Strange {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, format!("ready {}\n", child.id()), "{command:?}");
        Strange { child, input }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it end, and leaves it as a zombie.
    #[track_caller]
    pub fn into_zombie(self) -> Zombie {
        drop(self.input);
        Zombie::from(self.child)
    }

    /// Lets it end, and reaps it.
    #[track_caller]
    pub fn end(self) -> ExitStatus {
        let Strange { mut child, input } = self;
        drop(input);
        child.wait().expect("a child of the test")
    }
}

/// A child that has ended, whole, and was not reaped: it keeps its number.
#[derive(Debug)]
pub struct Zombie(Child);

impl From<Child> for Zombie {
    /// Waits until a child that ends by itself has done so.
    #[track_caller]
    fn from(child: Child) -> Zombie {
        let pid = child.id();
        // The first thread alone would show the letter too.
        proc::eventually("it has ended", || proc::state(pid) == Some('Z') && proc::threads(pid) == 1);
        Zombie(child)
    }
}

impl Zombie {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Reaps it.
    #[track_caller]
    pub fn end(mut self) -> ExitStatus {
        self.0.wait().expect("a child of the test")
    }
}

/// A Python that has the package setproctitle: the system's, or one below this directory, which gets it from the package index once and
/// stays for the next run (`CARGO_TARGET_TMPDIR` of the test). `None`: skip the test, for `needs-setproctitle`.
pub fn python_with_setproctitle(dir: &Path) -> Option<PathBuf> {
    let has = |python: &Path| {
        let import = Command::new(python).args(["-c", "import setproctitle"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let kept = dir.join("setproctitle");
    let python = |home: &Path| home.join("bin/python");
    if let Some(found) = ["python3".into(), python(&kept)].into_iter().find(|python| has(python)) {
        return Some(found);
    }
    // Whole or not at all: another run may be at the same.
    let home = dir.join(random_word());
    let ok = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let made = ok(Command::new("python3").args(["-m", "venv"]).arg(&home))
        && ok(Command::new(python(&home)).args(["-m", "pip", "install", "--quiet", "setproctitle"]));
    if !made || fs::rename(&home, &kept).is_err() {
        // What stays is in the way of nobody.
        let _ = fs::remove_dir_all(&home);
    }
    Some(python(&kept)).filter(|python| has(python))
}

/// A script for that Python (`-c`): takes a title longer than the room its arguments leave, says `ready PID`, and stays until the end of
/// its standard input.
pub const TITLE_SCRIPT: &str = "import os, setproctitle, sys\n\
    setproctitle.setproctitle('agent: ' + 'busy ' * 4000)\n\
    print('ready', os.getpid(), flush=True)\n\
    sys.stdin.read()\n";

/// The bytes of a process's environ, as `/proc` shows them.
///
/// # Errors
/// `EACCES`: not to be looked at. `ENOENT`, `ESRCH`: gone, or hidden.
pub fn environ(pid: u32) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ"))
}
