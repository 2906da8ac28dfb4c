//! The terminal: lent to the program's group, taken back with its modes.
//!
//! A group in the background is stopped when it touches the terminal. So the program's group is put in front where we
//! are in front; keys that make signals, and changes of the window's size, then reach the program directly. In a pipeline
//! the terminal may be another member's to read, as in `pidward run -- seq 9 | less`: there it is lent only when the
//! program has been stopped for want of it.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use pidward_core::procfs;
use rustix::{
    fs::{FileType, fstat},
    io::Errno,
    process::{Pid, getpgrp, getppid},
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp},
};

/// Our controlling terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    fd: OwnedFd,
    /// It is one of our standard streams.
    standard: bool,
    /// Our group.
    own: Pid,
    /// The modes that we found, and give back.
    modes: Option<Termios>,
    /// The modes of the program, from when it was stopped.
    program_modes: Option<Termios>,
    /// The program has it, or had it when it was stopped.
    wanted: bool,
    /// The program's group is in front because we put it there.
    lent: bool,
}

impl Terminal {
    /// The first of the standard streams that is our controlling terminal, or that terminal itself.
    pub(super) fn find() -> Option<Terminal> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let is_ours = |fd: &BorrowedFd<'_>| tcgetpgrp(fd).is_ok();
        let standard = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()].into_iter().find(is_ours);
        let fd = match standard {
            Some(fd) => fd.try_clone_to_owned().ok()?,
            // tty(4): whatever the controlling terminal is.
            None => File::options().read(true).write(true).open("/dev/tty").ok()?.into(),
        };
        let modes = tcgetattr(&fd).ok();
        Some(Terminal {
            fd,
            standard: standard.is_some(),
            own: getpgrp(),
            modes,
            program_modes: None,
            wanted: false,
            lent: false,
        })
    }

    /// What the program is to be started in front of, if it is.
    pub(super) fn hand_over_at_start(&mut self) -> Option<OwnedFd> {
        let stdout = fstat(io::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let piped = matches!(stdout, Ok(FileType::Fifo | FileType::Socket));
        if !self.standard || piped || !self.is_in_front() {
            return None;
        }
        let fd = self.fd.try_clone().ok()?;
        self.wanted = true;
        self.lent = true;
        Some(fd)
    }

    /// Whether our group is in front.
    pub(super) fn is_in_front(&self) -> bool {
        tcgetpgrp(&self.fd) == Ok(self.own)
    }

    /// Whether the program's group is in front.
    pub(super) fn is_programs(&self, program: u32) -> bool {
        tcgetpgrp(&self.fd).is_ok_and(|front| group(program) == Some(front))
    }

    pub(super) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Puts the program's group in front, with the modes that it had there. Whether that worked.
    pub(super) fn lend(&mut self, program: u32) -> bool {
        if let Some(modes) = self.program_modes.take() {
            set_modes(&self.fd, &modes);
        }
        match group(program).ok_or(Errno::SRCH).and_then(|program| tcsetpgrp(&self.fd, program)) {
            Ok(()) => {
                self.wanted = true;
                self.lent = true;
            }
            Err(e) => log::warn!("the terminal cannot be given to group {program}: {e}"),
        }
        self.lent
    }

    /// The program goes on: it is put in front again if it was there and we are there now. Else somebody has
    /// sent us to the background, and the terminal is not ours to lend.
    pub(super) fn lend_again(&mut self, program: u32) {
        if self.is_in_front() {
            if self.wanted {
                self.lend(program);
            }
        } else if self.is_parents() {
            self.lent = false;
        }
    }

    /// The program is stopped: puts us in front again, with our modes, for whoever started us.
    pub(super) fn take_back(&mut self) {
        if self.lent {
            self.program_modes = tcgetattr(&self.fd).ok();
            self.finish();
        }
    }

    /// The program has ended.
    pub(super) fn finish(&mut self) {
        if !self.lent || self.is_parents() {
            return;
        }
        self.lent = false;
        // Allowed from the background because SIGTTOU is blocked, see tcsetpgrp(3).
        if let Err(e) = tcsetpgrp(&self.fd, self.own) {
            log::debug!("the terminal cannot be taken back: {e}");
        }
        if let Some(modes) = &self.modes {
            set_modes(&self.fd, modes);
        }
    }

    /// Whether the shell that started us has put itself in front.
    fn is_parents(&self) -> bool {
        let parent = getppid().and_then(|parent| pidward_core::Pid::from_raw(parent.as_raw_pid()));
        // 0 where it is in another pid namespace. The outer pidward is of our own group: then its parent is meant.
        let stat = |pid| procfs::stat(pid).ok();
        let parent = parent.and_then(stat);
        let above = parent.as_ref().filter(|parent| parent.pgrp == self.own.as_raw_pid());
        let above = above.and_then(|outer| pidward_core::Pid::new(outer.ppid)).and_then(stat);
        let group = above.or(parent).map(|stat| stat.pgrp);
        let front = tcgetpgrp(&self.fd).map_or(0, Pid::as_raw_pid);
        front > 0 && group == Some(front) && front != self.own.as_raw_pid()
    }
}

/// For a poll: hung up when the terminal is closed.
impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn set_modes(fd: &OwnedFd, modes: &Termios) {
    if let Err(e) = tcsetattr(fd, OptionalActions::Now, modes) {
        log::debug!("the modes of the terminal cannot be set: {e}");
    }
}

#[expect(clippy::disallowed_methods, reason = "positive here, and only the terminal is told")]
fn group(program: u32) -> Option<Pid> {
    i32::try_from(program).ok().and_then(Pid::from_raw)
}
