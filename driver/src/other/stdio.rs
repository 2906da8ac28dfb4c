//! Standard input, output and error of a child. Our ends of its pipes are those of std.

#[cfg(not(windows))]
use std::os::fd::OwnedFd as Owned;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as Owned;
use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter},
    process,
    sync::Arc,
};

pub use std::process::{ChildStderr, ChildStdin, ChildStdout};

/// What one of the standard streams of a child is.
///
/// Like `std::process::Stdio`. What was given away stays open in this process until the [`Command`](crate::Command) is dropped.
#[derive(Debug)]
pub struct Stdio(Kind);

#[derive(Debug)]
enum Kind {
    Inherit,
    Null,
    Piped,
    Owned(Arc<Owned>),
    Stdout,
    Stderr,
}

impl Stdio {
    /// That of this process.
    pub const fn inherit() -> Stdio {
        Stdio(Kind::Inherit)
    }

    /// Nothing: `/dev/null`, `NUL`.
    pub const fn null() -> Stdio {
        Stdio(Kind::Null)
    }

    /// A new pipe; our end is in the `Child`.
    pub const fn piped() -> Stdio {
        Stdio(Kind::Piped)
    }

    /// For one spawn: the command can be used again.
    pub(crate) fn to_std(&self) -> io::Result<process::Stdio> {
        Ok(match &self.0 {
            Kind::Inherit => process::Stdio::inherit(),
            Kind::Null => process::Stdio::null(),
            Kind::Piped => process::Stdio::piped(),
            Kind::Owned(owned) => owned.try_clone()?.into(),
            Kind::Stdout => io::stdout().into(),
            Kind::Stderr => io::stderr().into(),
        })
    }
}

impl From<Owned> for Stdio {
    fn from(owned: Owned) -> Stdio {
        Stdio(Kind::Owned(Arc::new(owned)))
    }
}

/// Our own standard output.
impl From<io::Stdout> for Stdio {
    fn from(_: io::Stdout) -> Stdio {
        Stdio(Kind::Stdout)
    }
}

/// Our own standard error.
impl From<io::Stderr> for Stdio {
    fn from(_: io::Stderr) -> Stdio {
        Stdio(Kind::Stderr)
    }
}

macro_rules! stdio_from {
    ($($owner:ty),*) => {$(
        impl From<$owner> for Stdio {
            fn from(owner: $owner) -> Stdio {
                Stdio::from(Owned::from(owner))
            }
        }
    )*};
}

stdio_from!(File, PipeReader, PipeWriter, ChildStdin, ChildStdout, ChildStderr);
