//! How a fixture says that it is ready, and how a test waits for it: nobody sleeps and hopes.
//!
//! A fixture takes `--ready-fd N` or `--ready-file PATH` before its other arguments.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::fd::FromRawFd,
    path::{Path, PathBuf},
};

use crate::proc;

/// The place a fixture announces to.
#[derive(Debug)]
pub struct Place(Option<File>);

/// Takes the leading options that name the place from a fixture's arguments (without its own name).
pub fn take(args: &mut Vec<String>) -> Place {
    let place = match (args.first().map(String::as_str), args.get(1)) {
        (Some("--ready-fd"), Some(n)) => {
            let fd = n.parse().expect("a number after --ready-fd");
            // SAFETY: whoever starts a fixture with this number passes the descriptor for it alone.
            unsafe { File::from_raw_fd(fd) }
        }
        (Some("--ready-file"), Some(path)) => {
            OpenOptions::new().create(true).append(true).open(path).expect("the file to announce in")
        }
        _ => return Place(None),
    };
    args.drain(..2);
    Place(Some(place))
}

impl Place {
    /// Writes one line in one call, so that lines of several processes stay whole.
    pub fn say(&mut self, line: &str) {
        if let Some(file) = &mut self.0 {
            // A test that has gone needs no answer.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// One line on a board, for a fixture that is given its path as an argument.
pub fn say(board: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(board).expect("the board");
    file.write_all(format!("{line}\n").as_bytes()).expect("the board takes a line");
}

/// Where the fixtures are, as one of them sees it.
pub fn own_dir() -> PathBuf {
    std::env::current_exe().expect("its path").parent().expect("a directory").to_owned()
}

/// A file that fixtures announce in, as the test sees it.
#[derive(Debug, Clone)]
pub struct Board(PathBuf);

impl Board {
    /// The file need not be there yet.
    pub fn at(path: PathBuf) -> Board {
        Board(path)
    }

    /// For the argument of `--ready-file`.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The whole lines so far.
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let whole = text.rfind('\n').and_then(|end| text.get(..end)).unwrap_or_default();
        whole.lines().map(str::to_string).collect()
    }

    /// Waits for a line that begins with these words and gives what follows them.
    #[track_caller]
    pub fn wait_for(&self, words: &str) -> String {
        let mut found = None;
        proc::eventually(&format!("'{words}' in {}", self.0.display()), || {
            found = self.lines().iter().find_map(|l| Some(l.strip_prefix(words)?.trim().to_string()));
            found.is_some()
        });
        found.unwrap_or_default()
    }

    /// The same, for a line that ends in a pid.
    #[track_caller]
    pub fn wait_for_pid(&self, words: &str) -> u32 {
        self.wait_for(words).parse().expect("a pid after the words")
    }
}
