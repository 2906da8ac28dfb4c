//! What is no message.

use std::{error, fmt, io};

use super::payload::VERSION;

/// Why a frame is no message of this protocol. Never shows what the frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// No JSON object with one `type`, which is a string.
    NotAMessage,
    /// The type is known, and the message is not of its shape.
    #[non_exhaustive]
    Malformed {
        /// The type.
        kind: &'static str,
        /// The member that is missing or is not what it must be. `None`: some value cannot be held: a number out of range, half a
        /// surrogate pair, values nested more than 128 deep.
        field: Option<&'static str>,
    },
    /// The payload of a spawn is of a later version.
    #[non_exhaustive]
    Version {
        /// Which.
        v: u64,
    },
}

impl MessageError {
    pub(super) fn malformed(kind: &'static str, field: impl Into<Option<&'static str>>) -> MessageError {
        MessageError::Malformed { kind, field: field.into() }
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::NotAMessage => f.write_str("no message: expected a JSON object with one `type`"),
            MessageError::Malformed { kind, field: Some(field) } => {
                write!(f, "a malformed message `{kind}`: `{field}` is missing or not what it must be")
            }
            MessageError::Malformed { kind, field: None } => {
                write!(f, "a malformed message `{kind}`: a value in it cannot be held")
            }
            MessageError::Version { v } => {
                write!(f, "a payload of version {v}: this program knows {VERSION}")
            }
        }
    }
}

impl error::Error for MessageError {}

impl From<MessageError> for io::Error {
    fn from(error: MessageError) -> io::Error {
        let kind = match error {
            MessageError::Version { .. } => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}
