//! What is on its way to a child. Nothing here ever waits.

use std::{
    collections::VecDeque,
    error, fmt,
    io::{self, IoSlice},
    sync::{Arc, Mutex},
};

use pidward_core::{frame, signal};
use rustix::{
    event::epoll::{self, EventData, EventFlags},
    fd::OwnedFd,
    io::Errno,
    net::{self, SendAncillaryBuffer, SendFlags},
};

use super::{ends::Ends, hub::Hub, settings::ChannelLimits};
use crate::{say::say, spawner::lock};

/// How much is written at once; whoever sends meanwhile has to wait for so much.
const TURN: usize = 256 << 10;

/// Why a frame was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// So much waits for the child already as may: it does not read, or not as fast.
    Full,
    /// It is longer than the cap.
    TooLarge,
    /// The channel is closed, or the child never had one.
    Closed,
    /// A newline inside what is to be one line.
    Newline,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "the child does not read: its queue is full",
            SendError::TooLarge => "the frame is longer than the channel allows",
            SendError::Closed => "the channel is closed",
            SendError::Newline => "a newline inside a line",
        })
    }
}

impl error::Error for SendError {}

impl From<SendError> for io::Error {
    fn from(error: SendError) -> io::Error {
        let kind = match error {
            SendError::Full => io::ErrorKind::WouldBlock,
            SendError::Closed => io::ErrorKind::BrokenPipe,
            SendError::TooLarge | SendError::Newline => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

/// The way to a child.
#[derive(Debug)]
pub(super) struct Link {
    key: u64,
    lines: bool,
    socket: bool,
    limits: ChannelLimits,
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    /// `None`: closed.
    fd: Option<Arc<OwnedFd>>,
    /// Nothing more is taken.
    closing: bool,
    /// Frames as they are written; of the first, `written` bytes are gone.
    queue: VecDeque<Vec<u8>>,
    written: usize,
    bytes: usize,
    /// Whether the descriptor, which is a socket, is read too.
    reading: bool,
    /// What it is registered for.
    armed: EventFlags,
}

impl Link {
    /// `key`: under which the descriptor to write to is registered; of a socket it is the one to read from.
    pub(super) fn new(ends: &Ends, key: u64, lines: bool, limits: ChannelLimits) -> Link {
        let socket = Arc::ptr_eq(&ends.input, &ends.output);
        let out = Out {
            fd: Some(Arc::clone(&ends.output)),
            closing: false,
            queue: VecDeque::new(),
            written: 0,
            bytes: 0,
            reading: socket,
            armed: EventFlags::empty(),
        };
        Link { key, lines, socket, limits, out: Mutex::new(out) }
    }

    pub(super) fn is_socket(&self) -> bool {
        self.socket
    }

    /// Begins to read from a socket.
    pub(super) fn begin(&self, hub: &Hub) -> Result<(), Errno> {
        self.arm(hub, &mut lock(&self.out))
    }

    /// A socket is not read any more.
    pub(super) fn stop_reading(&self, hub: &Hub) {
        let mut out = lock(&self.out);
        out.reading = false;
        self.arm_or_say(hub, &mut out);
    }

    /// Writes the frame, or keeps what cannot be written at once.
    pub(super) fn send(&self, hub: &Hub, payload: &[u8]) -> Result<(), SendError> {
        let header = frame::header(payload.len(), self.limits.frame).map_err(|_| SendError::TooLarge)?;
        if self.lines && payload.contains(&b'\n') {
            return Err(SendError::Newline);
        }
        let parts: [&[u8]; 2] = if self.lines { [payload, b"\n"] } else { [&header, payload] };
        let length = parts[0].len() + parts[1].len();
        let mut out = lock(&self.out);
        let Some(fd) = out.fd.as_ref().filter(|_| !out.closing) else { return Err(SendError::Closed) };
        let mut written = 0;
        if out.queue.is_empty() {
            match self.write(fd, &parts.map(IoSlice::new)) {
                Ok(n) if n == length => return Ok(()),
                Ok(n) => written = n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => {
                    self.refuse(hub, &mut out);
                    return Err(SendError::Closed);
                }
            }
        } else if out.queue.len() >= self.limits.queue_frames
            || out.bytes.saturating_add(length) > self.limits.queue_bytes
        {
            return Err(SendError::Full);
        }
        let mut rest = Vec::with_capacity(length - written);
        rest.extend_from_slice(parts[0].get(written..).unwrap_or_default());
        rest.extend_from_slice(parts[1].get(written.saturating_sub(parts[0].len())..).unwrap_or_default());
        out.bytes += rest.len();
        out.queue.push_back(rest);
        self.arm_or_say(hub, &mut out);
        Ok(())
    }

    fn write(&self, fd: &OwnedFd, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        if self.socket {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            return net::sendmsg(fd, parts, &mut SendAncillaryBuffer::default(), flags);
        }
        signal::without_pipe_signal(|| rustix::io::writev(fd, parts))
    }

    /// The child takes more.
    pub(super) fn flush(&self, hub: &Hub) {
        let mut out = lock(&self.out);
        let out = &mut *out;
        let mut left = TURN;
        // Ends when the child takes no more, when all is written, or after a turn.
        while let (Some(fd), Some(first)) = (&out.fd, out.queue.front()) {
            let rest = first.get(out.written..).unwrap_or_default();
            let part = rest.get(..left).unwrap_or(rest);
            let (all, asked) = (rest.len(), part.len());
            match self.write(fd, &[IoSlice::new(part)]) {
                Ok(n) => {
                    out.bytes -= n;
                    left -= n;
                    out.written += n;
                    if n == all {
                        out.queue.pop_front();
                        out.written = 0;
                    }
                    if left == 0 || n < asked {
                        break;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => return self.refuse(hub, out),
            }
        }
        if out.closing && out.queue.is_empty() {
            self.shut(hub, out);
        }
        self.arm_or_say(hub, out);
    }

    /// Nothing more is taken; what waits is still written, then the child reads the end.
    pub(super) fn close(&self, hub: &Hub) {
        let mut out = lock(&self.out);
        if !out.closing {
            out.closing = true;
            if out.queue.is_empty() {
                self.shut(hub, &mut out);
            }
        }
    }

    /// Closes it at once, in both directions.
    pub(super) fn end(&self, hub: &Hub) {
        let mut out = lock(&self.out);
        out.reading = false;
        self.refuse(hub, &mut out);
        out.fd = None;
    }

    /// Our writing side ends.
    fn shut(&self, hub: &Hub, out: &mut Out) {
        if self.socket {
            // Where the child has gone, it needs no end.
            let _ = out.fd.as_ref().map(|fd| net::shutdown(fd, net::Shutdown::Write));
        } else {
            self.refuse(hub, out);
        }
    }

    /// Nobody reads what is written.
    fn refuse(&self, hub: &Hub, out: &mut Out) {
        out.closing = true;
        out.queue = VecDeque::new();
        (out.bytes, out.written) = (0, 0);
        self.arm_or_say(hub, out);
        if !self.socket {
            out.fd = None;
        }
    }

    fn arm_or_say(&self, hub: &Hub, out: &mut Out) {
        if let Err(e) = self.arm(hub, out) {
            say!(error, "a channel cannot be watched: {e}");
        }
    }

    /// Asks for the events that mean something now.
    fn arm(&self, hub: &Hub, out: &mut Out) -> Result<(), Errno> {
        let Some(fd) = &out.fd else { return Ok(()) };
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, out.reading);
        wanted.set(EventFlags::OUT, !out.queue.is_empty());
        let (epoll, data) = (&hub.epoll, EventData::new_u64(self.key));
        match (out.armed.is_empty(), wanted.is_empty()) {
            _ if wanted == out.armed => {}
            (true, _) => epoll::add(epoll, fd, data, wanted)?,
            // A hang-up is told to whoever is registered at all.
            (false, true) => epoll::delete(epoll, fd)?,
            (false, false) => epoll::modify(epoll, fd, data, wanted)?,
        }
        out.armed = wanted;
        Ok(())
    }
}
