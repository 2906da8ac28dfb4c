//! A terminal for a child, and the test at the other end of the line.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command},
    time::{Duration, Instant},
};

use crate::os;

/// The master's end of a pseudo-terminal, 24 rows of 80 columns.
#[derive(Debug)]
pub struct Pty {
    master: File,
    slave: PathBuf,
    /// What was read and not yet taken by [`Pty::read_until`].
    pending: Vec<u8>,
}

impl Pty {
    /// A new pair; the other end is opened by whoever is started in it.
    ///
    /// # Errors
    /// No pseudo-terminals here, or none free.
    pub fn open() -> io::Result<Pty> {
        // SAFETY: takes numbers only.
        let raw =
            os::check(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) }.into())?;
        // SAFETY: just made, and nobody else knows the number.
        let master = unsafe { File::from_raw_fd(raw as i32) };
        // SAFETY: takes a descriptor only.
        os::check(unsafe { libc::unlockpt(master.as_raw_fd()) }.into())?;
        let mut number: libc::c_int = 0;
        // SAFETY: writes one int.
        os::check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number) }.into())?;
        let pty = Pty { master, slave: format!("/dev/pts/{number}").into(), pending: Vec::new() };
        pty.resize(24, 80)?;
        Ok(pty)
    }

    /// The path of the other end.
    pub fn slave(&self) -> &std::path::Path {
        &self.slave
    }

    /// Starts a command in a new session with this terminal as its controlling one and as its descriptors 0 to 2.
    ///
    /// # Errors
    /// As of std's `spawn`.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let slave =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(&self.slave)?;
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
        let lead = || {
            // SAFETY: takes nothing.
            os::check(unsafe { libc::setsid() }.into())?;
            // SAFETY: takes numbers only; 0 is the terminal by now.
            os::check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }.into()).map(drop)
        };
        // SAFETY: between fork and exec two system calls are made and nothing else.
        unsafe { command.pre_exec(lead) };
        command.spawn()
    }

    /// Types these bytes.
    ///
    /// # Errors
    /// As `write(2)`.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.master.write_all(bytes)
    }

    /// Reads until the output holds `pattern`, and gives everything up to and with it. What comes later stays for
    /// the next call. `None` when the time is over or nobody has the other end open any more.
    pub fn read_until(&mut self, pattern: &[u8], limit: Duration) -> Option<Vec<u8>> {
        let end = Instant::now() + limit;
        loop {
            if let Some(at) = self.pending.windows(pattern.len()).position(|w| w == pattern) {
                let rest = self.pending.split_off(at + pattern.len());
                return Some(std::mem::replace(&mut self.pending, rest));
            }
            let left = end.checked_duration_since(Instant::now())?;
            let mut poll = libc::pollfd { fd: self.master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let ms = left.as_millis().try_into().unwrap_or(i32::MAX);
            // SAFETY: one entry, as the count says.
            if unsafe { libc::poll(&raw mut poll, 1, ms) } > 0 {
                let mut buffer = [0; 4096];
                // EIO: the last of the other end has closed it.
                let n = self.master.read(&mut buffer).ok().filter(|n| *n > 0)?;
                self.pending.extend(buffer.iter().take(n));
            }
        }
    }

    /// What was read and not given yet: for the message of a test that fails.
    pub fn pending(&self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }

    /// The modes of the terminal.
    ///
    /// # Errors
    /// As `tcgetattr(3)`.
    pub fn modes(&self) -> io::Result<Modes> {
        // SAFETY: all fields are numbers, for which zero is a value.
        let mut t: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: writes one termios.
        os::check(unsafe { libc::tcgetattr(self.master.as_raw_fd(), &raw mut t) }.into())?;
        Ok(Modes {
            input: t.c_iflag,
            output: t.c_oflag,
            control: t.c_cflag,
            local: t.c_lflag,
            keys: t.c_cc.to_vec(),
        })
    }

    /// The group in the foreground; 0 where there is none.
    ///
    /// # Errors
    /// As `tcgetpgrp(3)`.
    pub fn foreground(&self) -> io::Result<u32> {
        // SAFETY: takes a descriptor only.
        let group = os::check(unsafe { libc::tcgetpgrp(self.master.as_raw_fd()) }.into())?;
        Ok(group.try_into().unwrap_or(0))
    }

    /// Sets the size of the window; the foreground group gets SIGWINCH if it is another one.
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: reads one winsize.
        os::check(unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }.into())
            .map(drop)
    }
}

/// The modes of a terminal, to be compared before and after (termios(3)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    /// `c_iflag`.
    pub input: u32,
    /// `c_oflag`.
    pub output: u32,
    /// `c_cflag`.
    pub control: u32,
    /// `c_lflag`.
    pub local: u32,
    /// `c_cc`.
    pub keys: Vec<u8>,
}

impl Modes {
    /// Whether lines are edited and typed keys shown: the modes of a shell's command, not of an editor.
    pub fn are_cooked(&self) -> bool {
        self.local & libc::ICANON != 0 && self.local & libc::ECHO != 0
    }
}
