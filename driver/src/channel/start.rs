//! Whether a child is ready: how it says so, and how long it may take.

use std::{
    fmt,
    io::IoSliceMut,
    mem::MaybeUninit,
    sync::Arc,
    time::{Duration, Instant},
};

use pidward_core::Id128;
use rustix::{
    cmsg_space,
    fd::OwnedFd,
    io,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
        SocketType, bind, recvmsg, socket_with, sockopt::set_socket_passcred,
    },
    pipe::{PipeFlags, pipe_with},
    process::geteuid,
};

use super::{
    alive::holds,
    event::Event,
    hub::{Hub, Work, is_later},
    slot::Slot,
};
use crate::{command::Command, report::Cause};

/// How a child says that it is ready, for [`Command::ready`](crate::Command::ready).
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Ready {
    /// By the first frame for which this holds. The frame itself comes too, after [`Event::Ready`](crate::Event::Ready).
    Frame(fn(&[u8]) -> bool),
    /// By a newline on a descriptor that it gets under this number, 3 or higher, as s6 has it. One that is closed without that is a failed
    /// start.
    Fd(u32),
    /// By `READY=1` to the socket that it finds in `NOTIFY_SOCKET`, as systemd has it
    /// (<https://man7.org/linux/man-pages/man3/sd_notify.3.html>). The address is an abstract one of our network namespace, new for each
    /// child; only what our user, the child's or root sends to it counts.
    Notify,
    /// By listening on this TCP port in our network namespace: the child itself, a member of its group or leaf, or whoever carries the nonce
    /// of its spawn. It is looked for every 20 ms at first, every 250 ms later, and a look at a port that is listened on reads what
    /// every process has open. A socket that was passed to the child counts from the beginning.
    Port(u16),
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ready::Frame(_) => f.write_str("Frame"),
            Ready::Fd(number) => f.debug_tuple("Fd").field(number).finish(),
            Ready::Notify => f.write_str("Notify"),
            Ready::Port(port) => f.debug_tuple("Port").field(port).finish(),
        }
    }
}

/// Why a child did not become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartFailure {
    /// It ended before.
    Ended,
    /// Its time for it is over.
    TimedOut,
    /// It has closed what it could have said it with.
    Closed,
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartFailure::Ended => "it ended before it was ready",
            StartFailure::TimedOut => "it did not become ready in time",
            StartFailure::Closed => "it has closed the descriptor that it was to become ready by",
        })
    }
}

/// Where it is heard.
#[derive(Debug)]
pub(crate) enum Ear {
    Line(Arc<OwnedFd>),
    /// And the users that may say it.
    Notify(Arc<OwnedFd>, [u32; 3]),
}

/// The child's side.
#[derive(Debug)]
pub(crate) enum Mouth {
    /// A descriptor, and its number there.
    Fd(u32, OwnedFd),
    /// A value of `NOTIFY_SOCKET`.
    Address(String),
}

/// What is made for a child that says it by a descriptor or a message.
pub(crate) fn ready(cmd: &Command) -> io::Result<Option<(Ear, Mouth)>> {
    match cmd.channel.ready {
        Some((Ready::Fd(number), _)) => {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            io::ioctl_fionbio(&read, true)?;
            Ok(Some((Ear::Line(Arc::new(read)), Mouth::Fd(number, write))))
        }
        Some((Ready::Notify, _)) => {
            let id = Id128::random().map_err(|e| io::Errno::from_raw_os_error(e.raw()))?;
            let name = format!("pidward-notify-{id}");
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
            set_socket_passcred(&socket, true)?;
            bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
            let own = geteuid().as_raw();
            let users = [0, own, cmd.settings.uid.unwrap_or(own)];
            Ok(Some((Ear::Notify(Arc::new(socket), users), Mouth::Address(format!("@{name}")))))
        }
        _ => Ok(None),
    }
}

/// A start that is not over.
#[derive(Debug)]
pub(super) struct Start {
    by: Ready,
    /// `None`: there is no limit.
    until: Option<Instant>,
    /// What it could have said it with was closed. It has failed unless it turns out that it has ended, which closes that first.
    closed: bool,
    /// When the port is looked at next, and how long after that again.
    look: Option<(Instant, Duration)>,
}

/// How long after it was closed the child's end may show.
const CLOSED: Duration = Duration::from_millis(100);

/// So many messages may wait to be read when a child has ended: the kernel keeps 10 as a rule, 512 at most here and there.
const LAST_WORDS: usize = 1024;

/// The first pause between two looks at a port, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

impl Start {
    pub(super) fn new((by, limit): (Ready, Duration)) -> Start {
        let now = Instant::now();
        let look = matches!(by, Ready::Port(_)).then_some((now + LOOKS.0, LOOKS.0));
        Start { by, until: now.checked_add(limit), closed: false, look }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        [self.until, self.look.map(|(at, _)| at)].into_iter().flatten().min()
    }

    /// Why it has failed, if its time is over.
    pub(super) fn failure(&self) -> Option<StartFailure> {
        let why = if self.closed { StartFailure::Closed } else { StartFailure::TimedOut };
        self.until.is_some_and(|until| until <= Instant::now()).then_some(why)
    }

    fn close(&mut self) {
        let soon = Instant::now() + CLOSED;
        self.closed = true;
        self.until = self.until.map_or(Some(soon), |until| Some(until.min(soon)));
    }

    /// Whether this frame says it.
    pub(super) fn is_said_by(&self, frame: &[u8]) -> bool {
        matches!(self.by, Ready::Frame(says) if holds(says, frame))
    }

    /// The port, if it is time to look at it.
    pub(super) fn port(&mut self) -> Option<u16> {
        let (at, pause) = self.look.as_mut()?;
        let now = Instant::now();
        if *at > now {
            return None;
        }
        *pause = (*pause * 2).min(LOOKS.1);
        *at = now + *pause;
        if let Ready::Port(port) = self.by { Some(port) } else { None }
    }
}

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Ready,
    /// Something else.
    Other,
    Nothing,
    /// Nothing will come any more.
    End,
}

impl Ear {
    pub(super) fn fd(&self) -> &Arc<OwnedFd> {
        match self {
            Ear::Line(fd) | Ear::Notify(fd, _) => fd,
        }
    }

    /// Takes one message or piece of a line.
    fn hear(&self, space: &mut [u8]) -> Heard {
        let heard = match self {
            Ear::Line(fd) => io::read(fd, &mut *space).map(|n| {
                let heard = space.get(..n).unwrap_or_default();
                match n {
                    0 => Heard::End,
                    _ if heard.contains(&b'\n') => Heard::Ready,
                    _ => Heard::Other,
                }
            }),
            Ear::Notify(fd, users) => message(fd, users, space),
        };
        match heard {
            Err(e) if is_later(e) => Heard::Nothing,
            Err(_) => Heard::End,
            Ok(heard) => heard,
        }
    }
}

/// One datagram. Descriptors that come with it are closed: some senders wait for that.
fn message(fd: &OwnedFd, users: &[u32; 3], space: &mut [u8]) -> io::Result<Heard> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1), ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let got = recvmsg(fd, &mut [IoSliceMut::new(space)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let is_of_them = control.drain().any(
        |part| matches!(part, RecvAncillaryMessage::ScmCredentials(who) if users.contains(&who.uid.as_raw())),
    );
    let heard = space.get(..got.bytes).unwrap_or_default();
    let is_said = heard.split(|byte| *byte == b'\n').any(|line| line == b"READY=1");
    Ok(if is_said && is_of_them { Heard::Ready } else { Heard::Other })
}

impl Slot {
    /// It says whether it is ready, or something else of which nothing is made.
    /// Whether there may be more.
    pub(super) fn hear(&mut self, hub: &Hub, work: &mut Work) -> bool {
        let Some(ear) = &self.ear else { return false };
        let heard = ear.hear(&mut work.chunk);
        match heard {
            Heard::Ready => self.is_ready(work),
            Heard::Other | Heard::Nothing => {}
            Heard::End => {
                self.close_ear(hub);
                self.start.iter_mut().for_each(Start::close);
            }
        }
        matches!(heard, Heard::Ready | Heard::Other)
    }

    /// It has ended: its last word may be that it is ready. Others may go on saying something, and are not listened to for ever.
    pub(super) fn hear_the_last(&mut self, hub: &Hub, work: &mut Work) {
        // Ends when nothing is left, or when it is ready.
        for _ in 0..LAST_WORDS {
            if self.start.is_none() || !self.hear(hub, work) {
                break;
            }
        }
        self.close_ear(hub);
        self.fail_to_start(work, StartFailure::Ended);
    }

    pub(super) fn close_ear(&mut self, hub: &Hub) {
        if let Some(ear) = self.ear.take() {
            hub.forget(ear.fd());
        }
    }

    pub(super) fn is_ready(&mut self, work: &mut Work) {
        if self.start.take().is_some() {
            work.pending.push_back((self.node, Event::Ready));
        }
    }

    /// If it was to become ready, it will not.
    pub(super) fn fail_to_start(&mut self, work: &mut Work, why: StartFailure) {
        if self.start.take().is_some() {
            work.pending.push_back((self.node, Event::FailedToStart(why)));
            self.shared.stop_later(&self.entry, Cause::NotReady);
        }
    }
}
