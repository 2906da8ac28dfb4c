//! One child, as its receiver keeps it until its exit was given.

use std::{
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    sync::Arc,
    time::Instant,
};

use rustix::{
    event::{
        PollFd, PollFlags, Timespec,
        epoll::{self, EventData, EventFlags},
        poll,
    },
    fd::OwnedFd,
    io::{self, Errno},
};

use super::{
    event::{Event, ProtocolError},
    hub::{self, Hub, Work, is_later},
    out::Link,
    reader::Reader,
    settings::ChannelLimits,
};
use crate::{
    reaper::NodeId,
    say::say,
    spawner::{Ended, Entry, POLL_INTERVAL, Shared},
};

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) node: NodeId,
    pub(super) entry: Arc<Entry>,
    pub(super) shared: Arc<Shared>,
    pub(super) limits: ChannelLimits,
    /// Until its end was told.
    pub(super) input: Option<Input>,
    pub(super) link: Option<Arc<Link>>,
    pub(super) stderr: Option<(Arc<OwnedFd>, Vec<u8>)>,
    pub(super) ended: Option<Ended>,
    pub(super) held: bool,
    pub(super) due: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Input {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) reader: Reader,
}

/// What a read gave.
enum Got {
    Bytes(usize),
    Nothing,
    End,
}

fn read(fd: &OwnedFd, space: &mut [u8]) -> Got {
    match io::read(fd, space) {
        Ok(0) => Got::End,
        Ok(n) => Got::Bytes(n),
        Err(e) if is_later(e) => Got::Nothing,
        // It has ended without reading all that was sent; what it has sent came before this.
        Err(Errno::CONNRESET) => Got::End,
        Err(e) => {
            say!(warn, "a channel cannot be read: {e}");
            Got::End
        }
    }
}

impl Slot {
    /// Begins to watch everything of it.
    pub(super) fn watch(&self, hub: &Hub) -> Result<(), Errno> {
        match (&self.input, &self.link) {
            (_, Some(link)) if link.is_socket() => link.begin(hub)?,
            (Some(input), _) => hub.watch(&input.fd, hub::key(self.node, hub::IN))?,
            (None, _) => {}
        }
        if let Some((fd, _)) = &self.stderr {
            hub.watch(fd, hub::key(self.node, hub::ERR))?;
        }
        // Last: what fails leaves nothing behind but descriptors that are closed, and with it forgotten.
        let data = EventData::new_u64(hub::key(self.node, hub::END));
        epoll::add(&hub.epoll, self.entry.as_fd(), data, EventFlags::IN | EventFlags::ONESHOT)
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended.is_some() && self.input.is_none()
    }

    /// The last event.
    pub(super) fn exit(self, hub: &Hub) -> (NodeId, Event) {
        if let Some(link) = &self.link {
            link.end(hub);
        }
        let status = self.ended.flatten().map(|exit| ExitStatus::from_raw(exit.status.raw()));
        (self.node, Event::Exit { status, held: self.held })
    }

    /// Lets go of everything, without a word: the receiver goes.
    pub(super) fn abandon(mut self, hub: &Hub) {
        self.close(hub);
        if let Some((fd, _)) = self.stderr.take() {
            hub.forget(&fd);
        }
        if self.ended.is_none() {
            // It may never have been added.
            let _ = epoll::delete(&hub.epoll, self.entry.as_fd());
        }
    }

    /// Something is to be read, or the socket takes more.
    pub(super) fn input(&mut self, hub: &Hub, flags: EventFlags, work: &mut Work) {
        if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            self.output(hub);
        }
        // An error is one of sending, or comes after the data: it is read like everything else.
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.read_some(hub, work);
        }
    }

    pub(super) fn output(&mut self, hub: &Hub) {
        if let Some(link) = &self.link {
            link.flush(hub);
        }
    }

    /// One read, so that no child keeps the others waiting.
    fn read_some(&mut self, hub: &Hub, work: &mut Work) {
        let Some(input) = &mut self.input else { return };
        let ended = self.ended.is_some();
        let most = if ended { input.reader.missing() } else { usize::MAX }.min(work.chunk.len());
        match read(&input.fd, &mut work.chunk[..most]) {
            Got::Bytes(n) => self.take(hub, work, n),
            Got::Nothing => {}
            Got::End => self.finish(hub, work),
        }
        if ended && self.input.as_ref().is_some_and(|input| input.reader.finish().is_ok()) {
            self.let_go(hub, work);
        }
    }

    /// The first `n` bytes of the chunk have come.
    fn take(&mut self, hub: &Hub, work: &mut Work, n: usize) {
        let Some(input) = &mut self.input else { return };
        let mut bytes = &work.chunk[..n];
        if self.ended.is_some() && self.due.is_some() {
            bytes = input.reader.of_this(bytes);
        }
        let (node, pending) = (self.node, &mut work.pending);
        if let Err(error) = input.reader.feed(bytes, |frame| pending.push_back((node, Event::Frame(frame)))) {
            self.fail(hub, work, error);
        }
    }

    /// The stream has ended.
    fn finish(&mut self, hub: &Hub, work: &mut Work) {
        let Some(input) = &self.input else { return };
        match input.reader.finish() {
            Ok(()) => {
                work.pending.push_back((self.node, Event::Closed));
                self.stop_reading(hub);
            }
            Err(error) => self.fail(hub, work, error),
        }
    }

    fn fail(&mut self, hub: &Hub, work: &mut Work, error: ProtocolError) {
        work.pending.push_back((self.node, Event::Protocol(error)));
        self.close(hub);
    }

    /// The child has ended, and somebody else has the channel open.
    fn let_go(&mut self, hub: &Hub, work: &mut Work) {
        self.held = true;
        work.pending.push_back((self.node, Event::Closed));
        self.close(hub);
    }

    fn stop_reading(&mut self, hub: &Hub) {
        let Some(input) = self.input.take() else { return };
        match &self.link {
            Some(link) if link.is_socket() => link.stop_reading(hub),
            _ => hub.forget(&input.fd),
        }
    }

    /// Closes the channel in both directions.
    fn close(&mut self, hub: &Hub) {
        self.stop_reading(hub);
        if let Some(link) = &self.link {
            link.end(hub);
        }
    }

    /// The child has ended: what it has written is there, all of it.
    pub(super) fn end(&mut self, hub: &Hub, work: &mut Work) {
        if self.ended.is_some() {
            return;
        }
        self.ended = self.shared.look(&self.entry);
        if self.ended.is_none() {
            // Its status cannot be had yet; a debugger may have it.
            return self.call_at(Instant::now() + POLL_INTERVAL, work);
        }
        // It was registered, once.
        let _ = epoll::delete(&hub.epoll, self.entry.as_fd());
        self.drain_stderr(hub, work);
        self.drain(hub, work);
    }

    /// Reads what is there at this moment, and the rest of a frame for a bounded time. What somebody else writes from now on is
    /// not waited for.
    fn drain(&mut self, hub: &Hub, work: &mut Work) {
        let Some(input) = &self.input else { return };
        let mut queued = queued(&input.fd);
        // Ends when so much was read.
        while let Some(input) = self.input.as_ref().filter(|_| queued > 0) {
            let most = queued.min(work.chunk.len());
            match read(&input.fd, &mut work.chunk[..most]) {
                Got::Bytes(n) => {
                    queued -= n;
                    self.take(hub, work, n);
                }
                Got::Nothing => break,
                Got::End => return self.finish(hub, work),
            }
        }
        // Ends with the stream: nobody is left who could write to it.
        while let Some(input) = self.input.as_ref().filter(|input| is_closed(&input.fd)) {
            match read(&input.fd, &mut work.chunk) {
                Got::Bytes(n) => self.take(hub, work, n),
                Got::Nothing => break,
                Got::End => return self.finish(hub, work),
            }
        }
        match self.input.as_ref().map(|input| input.reader.finish()) {
            None => {}
            Some(Ok(())) => self.let_go(hub, work),
            Some(Err(_)) => self.call_at(Instant::now() + self.limits.drain, work),
        }
    }

    fn call_at(&mut self, at: Instant, work: &mut Work) {
        self.due = Some(at);
        work.call_at(at);
    }

    /// What was waited for has not come.
    pub(super) fn overdue(&mut self, hub: &Hub, work: &mut Work) {
        if self.ended.is_none() {
            return self.end(hub, work);
        }
        if let Some(Err(error)) = self.input.as_ref().map(|input| input.reader.finish()) {
            self.fail(hub, work, error);
            self.held = true;
        }
    }

    /// One read of standard error.
    pub(super) fn read_stderr(&mut self, hub: &Hub, work: &mut Work) {
        let Some((fd, part)) = &mut self.stderr else { return };
        match read(fd, &mut work.chunk) {
            Got::Bytes(n) => self.lines(work, n),
            Got::Nothing => {}
            Got::End => {
                hub.forget(fd);
                let rest = std::mem::take(part);
                self.stderr = None;
                self.last_line(work, rest);
            }
        }
    }

    fn last_line(&self, work: &mut Work, rest: Vec<u8>) {
        if !rest.is_empty() {
            work.pending.push_back((self.node, Event::Stderr(rest)));
        }
    }

    /// The first `n` bytes of the chunk are of standard error.
    fn lines(&mut self, work: &mut Work, n: usize) {
        let Some((_, part)) = &mut self.stderr else { return };
        let cap = self.limits.stderr_line.max(1);
        for line in work.chunk[..n].split_inclusive(|byte| *byte == b'\n') {
            let (line, is_whole) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
            let mut rest = line;
            // Ends with the line; each turn gives a piece as long as the cap.
            while part.len() + rest.len() > cap {
                let (more, after) = rest.split_at(cap - part.len());
                part.extend_from_slice(more);
                rest = after;
                work.pending.push_back((self.node, Event::Stderr(std::mem::take(part))));
            }
            part.extend_from_slice(rest);
            if is_whole {
                work.pending.push_back((self.node, Event::Stderr(std::mem::take(part))));
            }
        }
    }

    /// The child has ended: what is there of its standard error, and no more.
    fn drain_stderr(&mut self, hub: &Hub, work: &mut Work) {
        let mut left = self.stderr.as_ref().map_or(0, |(fd, _)| queued(fd));
        // Ends when so much was read.
        while let Some((fd, _)) = self.stderr.as_ref().filter(|_| left > 0) {
            let most = left.min(work.chunk.len());
            let Got::Bytes(n) = read(fd, &mut work.chunk[..most]) else { break };
            left -= n;
            self.lines(work, n);
        }
        if let Some((fd, rest)) = self.stderr.take() {
            hub.forget(&fd);
            self.last_line(work, rest);
        }
    }
}

/// How many bytes are there to be read.
fn queued(fd: &OwnedFd) -> usize {
    io::ioctl_fionread(fd).ok().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

/// Whether nobody can write to it any more.
fn is_closed(fd: &OwnedFd) -> bool {
    let fd = fd.as_fd();
    let mut polled = [PollFd::new(&fd, PollFlags::RDHUP)];
    let asked = poll(&mut polled, Some(&Timespec::default()));
    asked.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP)
}
