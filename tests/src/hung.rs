//! A program file that hangs whoever executes it, from the fixture `hungfs`.
//!
//! The mount lives in a mount namespace of the fixture's own and goes away with it; the file is reached through
//! the fixture's root in `/proc`.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Which call of the file system is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The open: an exec hangs in its first step.
    Open,
    /// The first read: the file is open, and exec waits for its head.
    Read,
}

/// Whether a signal that ends the waiting process lets it go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// The server gives way, as most do.
    Answered,
    /// The server is deaf: whoever waits stays, SIGKILL or not, until the release.
    Ignored,
}

/// A running server with one program that exits with 7.
#[derive(Debug)]
pub struct HungProgram {
    server: Child,
    path: PathBuf,
    lines: BufReader<std::process::ChildStdout>,
}

impl HungProgram {
    /// Starts `fixture!("hungfs")`. Needs root and `/dev/fuse` (`skip::has_fuse`).
    ///
    /// # Errors
    /// The server cannot be started or cannot mount.
    pub fn start(hungfs: &Path, at: At, interrupt: Interrupt) -> io::Result<HungProgram> {
        let at = if at == At::Open { "open" } else { "read" };
        let interrupt = if interrupt == Interrupt::Answered { "answered" } else { "ignored" };
        let mut server = Command::new(hungfs)
            .args([at, interrupt])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(server.stdout.take().expect("piped"));
        let mut this = HungProgram { server, path: PathBuf::new(), lines };
        match this.line().strip_prefix("ready ") {
            Some(path) => this.path = path.into(),
            None => return Err(io::Error::other("no mount")),
        }
        Ok(this)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        // Nothing read is the server's end, which the caller sees from the empty line.
        let _ = self.lines.read_line(&mut line);
        line.trim_end().to_string()
    }

    /// The program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The server's pid.
    pub fn server(&self) -> u32 {
        self.server.id()
    }

    /// Waits until somebody hangs, and gives its pid as the kernel told the server (of the initial namespace).
    pub fn wait_hung(&mut self) -> Option<u32> {
        self.line().strip_prefix("hung ")?.parse().ok()
    }

    /// Answers everybody who hangs, and everybody who comes later, with the file as it is.
    ///
    /// # Errors
    /// The server has gone.
    pub fn serve(&mut self) -> io::Result<()> {
        self.server.stdin.as_ref().expect("piped").write_all(b"g")
    }

    /// Answers everybody who hangs, and everybody who comes later, with EIO.
    ///
    /// # Errors
    /// The server has gone.
    pub fn fail(&mut self) -> io::Result<()> {
        self.server.stdin.as_ref().expect("piped").write_all(b"e")
    }
}

impl Drop for HungProgram {
    fn drop(&mut self) {
        // The server's end takes the mount away: who still hangs gets an error.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
