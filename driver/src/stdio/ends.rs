//! Our ends of a child's pipes.
//!
//! A write to a pipe that nobody reads any more is the error `EPIPE`, also in a program that does not ignore SIGPIPE. Children
//! start with SIGPIPE at its default.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd},
    process,
};

use pidward_core::signal;

use super::Stdio;

// Of a child of std.
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
