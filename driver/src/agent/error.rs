//! Why this process is no agent, and why an agent goes no further.

use std::{error, fmt, io};

use pidward_core::Errno;

use crate::{
    channel::{ProtocolError, ProtocolErrorKind},
    message::MessageError,
};

/// Why there is no [`Agent`](super::Agent). Never shows what came through the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentError {
    /// The role variable or the channel variable is not there: nobody has started this program as an agent.
    NotAnAgent,
    /// Both are there, and nothing that came through exec has the number of the channel, or it is no stream socket: they were inherited
    /// from an agent further up, or this process is connected already.
    BadChannel(Errno),
    /// No whole payload has come in time.
    Late,
    /// The channel was closed before a whole payload had come.
    Closed,
    /// What came is no stream of frames.
    Protocol(ProtocolErrorKind),
    /// The first frame is no message, or no payload that this version knows.
    Payload(MessageError),
    /// The first frame is another message.
    NotSpawn,
    /// No thread, or no descriptor.
    Resources(Errno),
}

impl AgentError {
    pub(super) fn protocol(error: &ProtocolError) -> AgentError {
        AgentError::Protocol(error.kind())
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::NotAnAgent => {
                f.write_str("not started as an agent: role and channel are not both set")
            }
            AgentError::BadChannel(e) => write!(f, "the channel variable names no inherited socket: {e}"),
            AgentError::Late => f.write_str("no payload has come in time"),
            AgentError::Closed => f.write_str("the channel was closed before the payload came"),
            AgentError::Protocol(kind) => write!(f, "no frames come through the channel: {kind:?}"),
            AgentError::Payload(e) => write!(f, "the payload: {e}"),
            AgentError::NotSpawn => f.write_str("the first message is no `spawn`"),
            AgentError::Resources(e) => write!(f, "the channel cannot be served: {e}"),
        }
    }
}

impl error::Error for AgentError {}

impl From<AgentError> for io::Error {
    fn from(error: AgentError) -> io::Error {
        let kind = match error {
            AgentError::NotAnAgent => io::ErrorKind::NotFound,
            AgentError::Late => io::ErrorKind::TimedOut,
            AgentError::Closed => io::ErrorKind::UnexpectedEof,
            AgentError::BadChannel(e) | AgentError::Resources(e) => {
                io::Error::from_raw_os_error(e.raw()).kind()
            }
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

/// Why something was not sent, or no input comes. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The supervisor has cancelled the work: what is left to say is the result.
    Cancelled,
    /// The channel is closed: the supervisor has gone, or wants no more. The process is ended soon.
    Closed,
    /// The work has ended, by a result or a failure.
    Ended,
    /// The message is longer than a frame may be.
    TooLarge,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Cancelled => "the work is cancelled",
            Refused::Closed => "the channel is closed",
            Refused::Ended => "the work has ended",
            Refused::TooLarge => "the message is longer than a frame may be",
        })
    }
}

impl error::Error for Refused {}

impl From<Refused> for io::Error {
    fn from(error: Refused) -> io::Error {
        let kind = match error {
            Refused::Closed => io::ErrorKind::BrokenPipe,
            // Not `Interrupted`: who sees that tries again.
            Refused::Cancelled => io::ErrorKind::Other,
            Refused::Ended | Refused::TooLarge => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}
