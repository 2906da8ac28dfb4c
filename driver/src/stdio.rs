//! Standard input, output and error of a child, and our ends of its pipes.

#[cfg(not(windows))]
use std::os::fd::OwnedFd as Owned;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as Owned;
use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter},
    sync::Arc,
};

macro_rules! stdio_from {
    ($($owner:ty),*) => {$(
        impl From<$owner> for Stdio {
            fn from(owner: $owner) -> Stdio {
                Stdio::from($crate::stdio::Owned::from(owner))
            }
        }
    )*};
}

#[cfg_attr(not(pidward_linux), path = "other/ends.rs")]
mod ends;

pub use ends::{ChildStderr, ChildStdin, ChildStdout};

/// What one of the standard descriptors of a child is.
///
/// Like `std::process::Stdio`, without `FromRawFd`, which needs unsafe code: `OwnedFd` has it. A descriptor
/// that was given away stays open in this process until the [`Command`](crate::Command) is dropped.
#[derive(Debug)]
pub struct Stdio(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Inherit,
    Null,
    Piped,
    /// A descriptor; a handle on Windows.
    Fd(Arc<Owned>),
    Stdout,
    Stderr,
}

impl Stdio {
    /// The descriptor of this process; on Linux `/dev/null` where it is closed or close-on-exec here.
    pub const fn inherit() -> Stdio {
        Stdio(Kind::Inherit)
    }

    /// `/dev/null`, on Windows `NUL`.
    pub const fn null() -> Stdio {
        Stdio(Kind::Null)
    }

    /// A new pipe; our end is in the `Child`.
    pub const fn piped() -> Stdio {
        Stdio(Kind::Piped)
    }
}

impl From<Owned> for Stdio {
    fn from(owned: Owned) -> Stdio {
        Stdio(Kind::Fd(Arc::new(owned)))
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

stdio_from!(File, PipeReader, PipeWriter, ChildStdin, ChildStdout, ChildStderr);
