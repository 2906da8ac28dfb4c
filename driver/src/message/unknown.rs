//! A message of a type that this version does not know.

use std::fmt;

use super::read::Head;

/// A message of a type that this version does not know: passed on as the bytes that came.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownMsg {
    kind: String,
    bytes: Vec<u8>,
}

impl UnknownMsg {
    /// Its type.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// All of it, as it came.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

pub(super) fn unknown(head: &Head<'_>) -> UnknownMsg {
    UnknownMsg { kind: head.kind().to_owned(), bytes: head.text.as_bytes().to_vec() }
}

impl fmt::Debug for UnknownMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unknown({} bytes)", self.bytes.len())
    }
}
