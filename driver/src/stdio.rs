//! Standard input, output and error of a child, and our ends of its pipes.
//!
//! A write to a pipe that nobody reads any more is the error `EPIPE`, also in a program that does not ignore SIGPIPE. Children
//! start with SIGPIPE at its default.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd},
    process,
    sync::Arc,
};

use pidward_core::signal;

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
    Fd(Arc<OwnedFd>),
    Stdout,
    Stderr,
}

impl Stdio {
    /// The descriptor of this process; `/dev/null` where it is closed or close-on-exec here.
    pub const fn inherit() -> Stdio {
        Stdio(Kind::Inherit)
    }

    /// `/dev/null`.
    pub const fn null() -> Stdio {
        Stdio(Kind::Null)
    }

    /// A new pipe; our end is in the `Child`.
    pub const fn piped() -> Stdio {
        Stdio(Kind::Piped)
    }
}

impl From<OwnedFd> for Stdio {
    fn from(fd: OwnedFd) -> Stdio {
        Stdio(Kind::Fd(Arc::new(fd)))
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
                Stdio::from(OwnedFd::from(owner))
            }
        }
    )*};
}

stdio_from!(File, PipeReader, PipeWriter, ChildStdin, ChildStdout, ChildStderr);
stdio_from!(process::ChildStdin, process::ChildStdout, process::ChildStderr);

macro_rules! pipe_end {
    ($(#[doc = $doc:literal])* $name:ident) => {
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub struct $name(File);

        impl From<OwnedFd> for $name {
            fn from(fd: OwnedFd) -> $name {
                $name(File::from(fd))
            }
        }

        impl From<$name> for OwnedFd {
            fn from(end: $name) -> OwnedFd {
                OwnedFd::from(end.0)
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }

        impl IntoRawFd for $name {
            fn into_raw_fd(self) -> RawFd {
                self.0.into_raw_fd()
            }
        }
    };
}

pipe_end! {
    /// The end to write to of a child's standard input. Dropping it closes it, which is how most programs learn
    /// that there is no more.
    ChildStdin
}
pipe_end! {
    /// The end to read from of a child's standard output.
    ChildStdout
}
pipe_end! {
    /// The end to read from of a child's standard error.
    ChildStderr
}

macro_rules! read {
    ($($name:ty),*) => {$(
        impl Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                (&self.0).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&self.0).read_vectored(bufs)
            }

            fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
                (&self.0).read_to_end(buf)
            }
        }
    )*};
}

macro_rules! write {
    ($($name:ty),*) => {$(
        impl Write for $name {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                signal::without_pipe_signal(|| (&self.0).write(buf))
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                signal::without_pipe_signal(|| (&self.0).write_vectored(bufs))
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    )*};
}

read!(ChildStdout, &ChildStdout, ChildStderr, &ChildStderr);
write!(ChildStdin, &ChildStdin);
