//! The two sides of a new channel.
//!
//! Ours does not block; the child's does. Each has an open file description of its own, so that what is set on one is not seen on the other.

use std::sync::Arc;

use rustix::{
    fd::OwnedFd,
    io,
    net::{self, AddressFamily, SocketFlags, SocketType},
    pipe::{self, PipeFlags},
};

use super::{settings::Transport, start::Ready};
use crate::command::Command;

/// Our side of a channel.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(super) input: Arc<OwnedFd>,
    /// The same descriptor, where it is a socket.
    pub(super) output: Arc<OwnedFd>,
}

/// The child's side: descriptors and their numbers there, by number.
pub(crate) type Theirs = Vec<(u32, OwnedFd)>;

impl Ends {
    /// Makes both sides of what the command asks for. `received`: there is somebody for our side.
    ///
    /// # Errors
    /// The command cannot be meant so, in words; or no descriptor is left.
    pub(crate) fn make(
        cmd: &Command,
        received: bool,
    ) -> Result<io::Result<Option<(Ends, Theirs)>>, &'static str> {
        cmd.channel.check(cmd, received)?;
        Ok(match cmd.channel.transport {
            None => Ok(None),
            Some(Transport::Socket) => socket(free(cmd)).map(Some),
            Some(Transport::Stdio | Transport::Lines) => pipes().map(Some),
        })
    }
}

fn socket(number: u32) -> io::Result<(Ends, Theirs)> {
    let (ours, theirs) =
        net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    io::ioctl_fionbio(&ours, true)?;
    let ours = Arc::new(ours);
    Ok((Ends { input: Arc::clone(&ours), output: ours }, vec![(number, theirs)]))
}

fn pipes() -> io::Result<(Ends, Theirs)> {
    let (stdin, output) = pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (input, stdout) = pipe::pipe_with(PipeFlags::CLOEXEC)?;
    io::ioctl_fionbio(&output, true)?;
    io::ioctl_fionbio(&input, true)?;
    Ok((Ends { input: Arc::new(input), output: Arc::new(output) }, vec![(0, stdin), (1, stdout)]))
}

/// The lowest number that no passed descriptor has, and not the one that it becomes ready by.
fn free(cmd: &Command) -> u32 {
    let ready = match cmd.channel.ready {
        Some((Ready::Fd(number), _)) => Some(number),
        _ => None,
    };
    let is_taken = |n: &u32| ready == Some(*n) || cmd.settings.passed.iter().any(|(taken, _)| taken == n);
    (3..).find(|n| !is_taken(n)).unwrap_or(3)
}
