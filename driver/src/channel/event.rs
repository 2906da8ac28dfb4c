//! What the merged channel says of a child.

use std::{error, fmt, process::ExitStatus};

use pidward_core::{frame::FrameError, ladder::Rung};

use super::start::StartFailure;
use crate::report::Cause;

/// How much of a wrong stream is kept to be shown.
const SHOWN: usize = 64;

/// One thing that happened to a child. Debug never shows what a child has sent.
#[non_exhaustive]
pub enum Event {
    /// A whole frame; with [`Transport::Lines`](super::Transport::Lines) a line without its newline.
    Frame(Vec<u8>),
    /// No frame comes any more: the child's side was closed between two frames, or the child has ended and what it had sent was given.
    Closed,
    /// What came is no stream of frames, or it ended inside one. The channel was closed: no frame comes any more, what is sent is refused,
    /// and the child's next write is the error `EPIPE`.
    Protocol(ProtocolError),
    /// It is [ready](crate::Command::ready).
    Ready,
    /// It did not become ready. It is being stopped with its tree.
    FailedToStart(StartFailure),
    /// It gives no sign of [life](crate::Command::liveness) in time. Comes again only after it has given one.
    Stuck,
    /// Its time is over.
    PastDeadline,
    /// The child has ended. Always the last event of a child.
    #[non_exhaustive]
    Exit {
        /// `None`: somebody else took the status (a `waitpid(-1)` in this program), and the kernel does not remember it (Linux < 6.15).
        status: Option<ExitStatus>,
        /// Somebody else had the child's side of the channel open at that moment: a grandchild; or, for a moment, another child that
        /// this program was just starting. It was closed on our side.
        held: bool,
        /// Why it ended.
        cause: Cause,
        /// The last rung of a stop that was taken while it lived.
        rung: Option<Rung>,
    },
    /// A line of its standard error without the newline, where [`Command::stderr_events`](crate::Command::stderr_events) asks for them. A
    /// line longer than the cap comes in pieces.
    Stderr(Vec<u8>),
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Frame(bytes) => write!(f, "Frame({} bytes)", bytes.len()),
            Event::Closed => f.write_str("Closed"),
            Event::Protocol(error) => f.debug_tuple("Protocol").field(error).finish(),
            Event::Ready => f.write_str("Ready"),
            Event::FailedToStart(why) => f.debug_tuple("FailedToStart").field(why).finish(),
            Event::Stuck => f.write_str("Stuck"),
            Event::PastDeadline => f.write_str("PastDeadline"),
            Event::Exit { status, held, cause, rung } => f
                .debug_struct("Exit")
                .field("status", status)
                .field("held", held)
                .field("cause", cause)
                .field("rung", rung)
                .finish(),
            Event::Stderr(bytes) => write!(f, "Stderr({} bytes)", bytes.len()),
        }
    }
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolErrorKind {
    /// Text stands where a frame should begin: something else writes to the channel, a stray `print` most likely.
    NotAFrame,
    /// A frame or line is longer than the cap.
    TooLarge {
        /// The length asked for; of a line what came of it.
        length: u64,
        /// The longest allowed.
        cap: u32,
    },
    /// The stream ended inside a frame or line, or the rest did not come within the drain bound after the child's end.
    Cut,
}

/// What came is no stream of frames. Display shows at most 64 bytes of it, escaped; Debug shows none.
#[derive(Clone, PartialEq, Eq)]
pub struct ProtocolError {
    kind: ProtocolErrorKind,
    first: Vec<u8>,
}

impl ProtocolError {
    /// `header` and `rest`: what came instead, in two parts.
    pub(super) fn new(kind: ProtocolErrorKind, header: &[u8], rest: &[u8]) -> ProtocolError {
        ProtocolError { kind, first: header.iter().chain(rest).take(SHOWN).copied().collect() }
    }

    /// `rest`: what follows the length, or begins where a length should.
    pub(super) fn of(error: FrameError, rest: &[u8]) -> ProtocolError {
        match error {
            FrameError::TooLarge { length, cap } => {
                // The length was taken already, all four bytes of it.
                let header = u32::try_from(length).map(u32::to_be_bytes).unwrap_or_default();
                ProtocolError::new(ProtocolErrorKind::TooLarge { length, cap }, &header, rest)
            }
            FrameError::NotAFrame { .. } => ProtocolError::new(ProtocolErrorKind::NotAFrame, &[], rest),
            _ => ProtocolError::new(ProtocolErrorKind::Cut, &[], &[]),
        }
    }

    /// What is wrong.
    pub fn kind(&self) -> ProtocolErrorKind {
        self.kind
    }
}

impl fmt::Debug for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ProtocolErrorKind::NotAFrame => f.write_str("not a frame")?,
            ProtocolErrorKind::TooLarge { length, cap } => {
                write!(f, "a frame of {length} bytes, of {cap} at most")?;
            }
            ProtocolErrorKind::Cut => f.write_str("the channel ended inside a frame")?,
        }
        if self.first.is_empty() { Ok(()) } else { write!(f, ": \"{}\"", self.first.escape_ascii()) }
    }
}

impl error::Error for ProtocolError {}
