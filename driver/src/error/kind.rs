//! The kinds of spawn errors, and what each is to std.

use std::{error, io};

#[cfg(pidward_linux)]
use pidward_core::{Errno, spawn::Step};

use super::SpawnError;

/// What a spawn error comes down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// No file of that name, or none in the `PATH` of the child.
    ProgramMissing,
    /// The file is there and is nothing to run: a directory, no execute bit, a file system mounted noexec.
    NotExecutable,
    /// The program is there; the interpreter of its `#!` line or its ELF loader is not.
    InterpreterMissing,
    /// The kernel does not know the format of the file. A script needs a `#!` line: no shell is tried.
    BadFormat,
    /// The working directory is not there, or is none.
    WorkingDirectoryMissing,
    /// One argument or variable is longer than the kernel takes (131,071 bytes where pages have 4 KiB), or all
    /// together are longer than a quarter of the stack limit.
    ArgumentTooLong,
    /// A NUL byte in a string.
    Nul,
    /// The command cannot be meant: a name of a variable with `=`, a number out of range.
    InvalidInput,
    /// A limit on processes is reached, see [`SpawnError::limit`](super::SpawnError::limit).
    ProcessLimit,
    /// Somebody holds the program file open for writing.
    TextBusy,
    /// This process, or the system, has no descriptor left.
    NoFds,
    /// No memory.
    OutOfMemory,
    /// Not permitted.
    Permission,
    /// The child cannot be written down: the errno says why. See [`SpawnerBuilder::registry`](crate::SpawnerBuilder::registry).
    Registry,
    /// The queue of the spawner is full.
    QueueFull,
    /// The deadline of the request has passed.
    Deadline,
    /// The spawner is shut down.
    ShutDown,
    /// The number is that of a child whose exit was not given yet, or no number of a node.
    NodeInUse,
    /// The spawner ended without an answer.
    ReplyLost,
    /// The request made the spawner's thread panic.
    Panicked,
    /// The call came from a forked copy of the process that the spawner belongs to.
    ForkedCopy,
    /// A copy of this program would be [deeper](crate::Command::max_depth) than it may.
    DepthLimit,
    /// Exec in place while children live.
    ChildrenLive,
    /// This kernel, or a filter, does not do what was asked for.
    Unsupported,
    /// A signal ended the child before it ran the program.
    Ended,
    /// Anything else: the errno says what.
    Other,
}

impl SpawnErrorKind {
    /// For a person. What never reached the kernel says that there is no child.
    pub(super) const fn words(self) -> &'static str {
        match self {
            SpawnErrorKind::ProgramMissing => "no such program",
            SpawnErrorKind::NotExecutable => "not executable",
            SpawnErrorKind::InterpreterMissing => "the file is there, its interpreter or loader is not",
            SpawnErrorKind::BadFormat => "not a format that this kernel runs",
            SpawnErrorKind::WorkingDirectoryMissing => "no such working directory",
            SpawnErrorKind::ArgumentTooLong => {
                "one argument or variable is too long, or all together are; send large data through a pipe"
            }
            SpawnErrorKind::Nul => "a NUL byte in ",
            SpawnErrorKind::InvalidInput => "invalid input",
            SpawnErrorKind::ProcessLimit => "a limit on processes is reached",
            SpawnErrorKind::TextBusy => "the program file is open for writing",
            SpawnErrorKind::NoFds => "no file descriptor left",
            SpawnErrorKind::OutOfMemory => "out of memory",
            SpawnErrorKind::Permission => "not permitted",
            SpawnErrorKind::Registry => "its record cannot be written; no child exists",
            SpawnErrorKind::QueueFull => "the queue of the spawner is full; no child exists",
            SpawnErrorKind::Deadline => "the deadline has passed; no child exists",
            SpawnErrorKind::ShutDown => "the spawner is shut down; no child exists",
            SpawnErrorKind::NodeInUse => "the number of the node is in use, or is none; no child exists",
            SpawnErrorKind::ReplyLost => "the spawner ended without an answer; no child exists",
            SpawnErrorKind::Panicked => "the spawner panicked over this request; no child exists",
            SpawnErrorKind::ForkedCopy => {
                "the spawner belongs to the process that this one was forked from; no child exists"
            }
            SpawnErrorKind::DepthLimit => {
                "a copy of this program would be deeper than it may; no child exists"
            }
            SpawnErrorKind::ChildrenLive => "this process has children that its end would take down or lose",
            SpawnErrorKind::Unsupported => "not supported by this kernel",
            SpawnErrorKind::Ended => "a signal ended the child before the program ran",
            SpawnErrorKind::Other => "failed",
        }
    }

    /// The nearest kind of std; where there is none, what std makes of the number.
    pub(super) fn to_io(self, raw: Option<i32>) -> io::ErrorKind {
        match self {
            SpawnErrorKind::ProgramMissing
            | SpawnErrorKind::InterpreterMissing
            | SpawnErrorKind::WorkingDirectoryMissing => io::ErrorKind::NotFound,
            SpawnErrorKind::NotExecutable | SpawnErrorKind::Permission => io::ErrorKind::PermissionDenied,
            SpawnErrorKind::ArgumentTooLong => io::ErrorKind::ArgumentListTooLong,
            SpawnErrorKind::Nul | SpawnErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
            SpawnErrorKind::ProcessLimit => io::ErrorKind::WouldBlock,
            SpawnErrorKind::TextBusy => io::ErrorKind::ExecutableFileBusy,
            SpawnErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            SpawnErrorKind::QueueFull | SpawnErrorKind::ChildrenLive => io::ErrorKind::ResourceBusy,
            SpawnErrorKind::NodeInUse => io::ErrorKind::AlreadyExists,
            SpawnErrorKind::Deadline => io::ErrorKind::TimedOut,
            SpawnErrorKind::Unsupported => io::ErrorKind::Unsupported,
            // Not what std makes of EINTR: who sees `Interrupted` tries again.
            SpawnErrorKind::Ended => io::ErrorKind::Other,
            _ => raw.map_or(io::ErrorKind::Other, |raw| io::Error::from_raw_os_error(raw).kind()),
        }
    }
}

impl error::Error for SpawnError {}

impl From<SpawnError> for io::Error {
    fn from(error: SpawnError) -> io::Error {
        let kind = error.kind().to_io(error.raw_os_error());
        io::Error::new(kind, error)
    }
}

/// The kind of a refusal that needs no look at a file.
#[cfg(pidward_linux)]
pub(super) fn of_errno(step: Step, errno: Errno) -> SpawnErrorKind {
    match (step, errno) {
        (Step::Plan, Errno::EPERM) => SpawnErrorKind::ForkedCopy,
        // The core's word for a child that a signal ended.
        (_, Errno::EINTR) => SpawnErrorKind::Ended,
        (Step::Clone | Step::Uid | Step::Exec, Errno::EAGAIN) => SpawnErrorKind::ProcessLimit,
        (Step::Exec, Errno::E2BIG) => SpawnErrorKind::ArgumentTooLong,
        (Step::Exec, Errno::ETXTBSY) => SpawnErrorKind::TextBusy,
        (Step::Exec, Errno::ENOEXEC | Errno::EINVAL) => SpawnErrorKind::BadFormat,
        (Step::Exec, errno) if errno.raw() == ELIBBAD => SpawnErrorKind::BadFormat,
        (_, Errno::EMFILE | Errno::ENFILE) => SpawnErrorKind::NoFds,
        (_, Errno::ENOMEM) => SpawnErrorKind::OutOfMemory,
        (_, Errno::EACCES | Errno::EPERM) => SpawnErrorKind::Permission,
        (_, Errno::EINVAL) => SpawnErrorKind::InvalidInput,
        (_, Errno::ENOSYS | Errno::EOPNOTSUPP) => SpawnErrorKind::Unsupported,
        _ => SpawnErrorKind::Other,
    }
}

/// An ELF loader that is none (`include/uapi/asm-generic/errno.h`).
#[cfg(pidward_linux)]
const ELIBBAD: i32 = 80;
