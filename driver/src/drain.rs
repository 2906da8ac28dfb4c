//! Reading a child's outputs to their end, both at once, without waiting for a grandchild that keeps one open.

use std::{
    io::{self, Read},
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    spawner::{Entry, Shared},
    stdio::{ChildStderr, ChildStdout},
};

/// How long after the child's end its pipes are read on, if somebody else keeps them open.
const AFTER_END: Duration = Duration::from_secs(1);

/// Two pipes and what has come.
#[derive(Debug)]
pub(crate) struct Drain {
    stdout: (Option<ChildStdout>, Vec<u8>),
    stderr: (Option<ChildStderr>, Vec<u8>),
}

impl Drain {
    pub(crate) fn new(stdout: Option<ChildStdout>, stderr: Option<ChildStderr>) -> Drain {
        Drain { stdout: (stdout, Vec::new()), stderr: (stderr, Vec::new()) }
    }

    /// Reads until both pipes are at their end, or the child has ended and a second has passed.
    pub(crate) fn until_end(&mut self, shared: &Shared, entry: &Arc<Entry>) -> io::Result<()> {
        let mut last_call: Option<Instant> = None;
        // Ends with both pipes, or a bounded time after the child.
        while self.stdout.0.is_some() || self.stderr.0.is_some() {
            if last_call.is_none() && shared.look(entry).is_some() {
                last_call = Some(Instant::now() + AFTER_END);
            }
            let left = last_call.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let (out, err) = self.readable(left, last_call.is_none().then_some(&**entry))?;
            if out {
                read_some(&mut self.stdout)?;
            }
            if err {
                read_some(&mut self.stderr)?;
            }
        }
        Ok(())
    }

    /// Waits for either pipe, or for the child's end if it is still to come.
    fn readable(&self, left: Option<Duration>, entry: Option<&Entry>) -> io::Result<(bool, bool)> {
        let pipes = [self.stdout.0.as_ref().map(AsFd::as_fd), self.stderr.0.as_ref().map(AsFd::as_fd)];
        let end = entry.map(Entry::as_fd);
        let mut polled: Vec<_> =
            pipes.iter().flatten().chain(&end).map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        let mut of = |pipe: Option<_>| pipe.is_some() && ready.next().unwrap_or(false);
        Ok((of(pipes[0]), of(pipes[1])))
    }

    /// What has come.
    pub(crate) fn finish(self) -> (Vec<u8>, Vec<u8>) {
        (self.stdout.1, self.stderr.1)
    }
}

fn read_some<R: Read>((pipe, bytes): &mut (Option<R>, Vec<u8>)) -> io::Result<()> {
    let Some(open) = pipe else { return Ok(()) };
    let mut chunk = [0; 16 * 1024];
    match open.read(&mut chunk) {
        Ok(0) => *pipe = None,
        Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
        Err(e) => return Err(e),
    }
    Ok(())
}
