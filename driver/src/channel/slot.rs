//! One child, as its receiver keeps it until its exit was given.

use std::{
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    sync::Arc,
    time::Instant,
};

use pidward_core::liveness::Verdict as Health;
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
    alive::Alive,
    event::{Event, ProtocolError},
    hub::{self, Hub, Work, is_later},
    out::Link,
    reader::Reader,
    settings::{ChannelLimits, OnFault},
    start::{Ear, Start},
};
use crate::{
    reaper::NodeId,
    report::Cause,
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
    /// Where it says that it is ready; heard as long as it lives.
    pub(super) ear: Option<Ear>,
    /// Until it is ready, or has failed to become so.
    pub(super) start: Option<Start>,
    pub(super) alive: Option<Alive>,
    pub(super) on_fault: OnFault,
    pub(super) ended: Option<Ended>,
    pub(super) held: bool,
    /// When its end, or the rest of a frame after it, is not waited for any longer.
    pub(super) end_due: Option<Instant>,
    /// Under which time it is on the list of those who are due.
    pub(super) listed: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Input {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) reader: Reader,
}

/// What a read gave.
pub(super) enum Got {
    Bytes(usize),
    Nothing,
    End,
}

pub(super) fn read(fd: &OwnedFd, space: &mut [u8]) -> Got {
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
        if let Some(ear) = &self.ear {
            hub.watch(ear.fd(), hub::key(self.node, hub::EAR))?;
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
        let (cause, rung) = self.entry.why();
        (self.node, Event::Exit { status, held: self.held, cause, rung })
    }

    /// Lets go of everything, without a word: the receiver goes.
    pub(super) fn abandon(mut self, hub: &Hub) {
        self.close(hub);
        if let Some((fd, _)) = self.stderr.take() {
            hub.forget(&fd);
        }
        self.close_ear(hub);
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
        if self.ended.is_some() && self.end_due.is_some() {
            bytes = input.reader.of_this(bytes);
        }
        let (node, pending) = (self.node, &mut work.pending);
        let (start, alive) = (&mut self.start, &mut self.alive);
        let take = |frame: Vec<u8>| {
            if start.take_if(|start| start.is_said_by(&frame)).is_some() {
                pending.push_back((node, Event::Ready));
            }
            let is_pong = alive.as_mut().is_some_and(|alive| alive.frame(&frame));
            if !is_pong {
                pending.push_back((node, Event::Frame(frame)));
            }
        };
        if let Err(error) = input.reader.feed(bytes, take) {
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
        self.fault(Cause::Protocol);
    }

    /// Something is wrong with it.
    fn fault(&self, cause: Cause) {
        // Of one that has ended nothing more is to be feared.
        if self.on_fault == OnFault::Stop && self.ended.is_none() {
            self.shared.stop_later(&self.entry, cause);
        }
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
            self.end_due = Some(Instant::now() + POLL_INTERVAL);
            return;
        }
        // It was registered, once.
        let _ = epoll::delete(&hub.epoll, self.entry.as_fd());
        self.alive = None;
        self.drain_stderr(hub, work);
        self.drain(hub, work);
        self.hear_the_last(hub, work);
    }

    /// When it is to be looked at, whatever happens.
    pub(super) fn due(&self) -> Option<Instant> {
        let start = self.start.as_ref().and_then(Start::due);
        let alive = self.alive.as_ref().and_then(Alive::due);
        [self.end_due, start, alive].into_iter().flatten().min()
    }

    /// It is due. `deaf`: what it sends is not read at the moment.
    pub(super) fn look(&mut self, hub: &Hub, work: &mut Work, deaf: bool) {
        let now = Instant::now();
        if self.end_due.take_if(|due| *due <= now).is_some() {
            self.overdue(hub, work);
        }
        if let Some(port) = self.start.as_mut().and_then(Start::port)
            && self.shared.is_listened_on_by(&self.entry, port)
        {
            self.is_ready(work);
        }
        if let Some(why) = self.start.as_ref().and_then(Start::failure) {
            self.fail_to_start(work, why);
        }
        let look = |alive: &mut Alive| alive.look(self.link.as_deref(), hub, deaf);
        let (event, cause) = match self.alive.as_mut().and_then(look) {
            Some(Health::Stuck) => (Event::Stuck, Cause::Stuck),
            Some(Health::PastDeadline) => (Event::PastDeadline, Cause::PastDeadline),
            _ => return,
        };
        work.pending.push_back((self.node, event));
        self.fault(cause);
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
            Some(Err(_)) => self.end_due = Some(Instant::now() + self.limits.drain),
        }
    }

    /// What was waited for has not come.
    fn overdue(&mut self, hub: &Hub, work: &mut Work) {
        if self.ended.is_none() {
            return self.end(hub, work);
        }
        if let Some(Err(error)) = self.input.as_ref().map(|input| input.reader.finish()) {
            self.fail(hub, work, error);
            self.held = true;
        }
    }
}

/// How many bytes are there to be read.
pub(super) fn queued(fd: &OwnedFd) -> usize {
    io::ioctl_fionread(fd).ok().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

/// Whether nobody can write to it any more.
fn is_closed(fd: &OwnedFd) -> bool {
    let fd = fd.as_fd();
    let mut polled = [PollFd::new(&fd, PollFlags::RDHUP)];
    let asked = poll(&mut polled, Some(&Timespec::default()));
    asked.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP)
}
