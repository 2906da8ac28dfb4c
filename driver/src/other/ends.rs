//! Our ends of a child's pipes: those of std, which starts it.

use std::{io, process};

pub use std::process::{ChildStderr, ChildStdin, ChildStdout};

use super::{Kind, Stdio};

impl Stdio {
    /// For one spawn: the command can be used again.
    pub(crate) fn to_std(&self) -> io::Result<process::Stdio> {
        Ok(match &self.0 {
            Kind::Inherit => process::Stdio::inherit(),
            Kind::Null => process::Stdio::null(),
            Kind::Piped => process::Stdio::piped(),
            Kind::Fd(owned) => owned.try_clone()?.into(),
            Kind::Stdout => io::stdout().into(),
            Kind::Stderr => io::stderr().into(),
        })
    }
}
