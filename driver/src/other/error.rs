//! Why there is no child, in one line: program, step, and what the system said. Never an argument or a value of the environment.

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    path::Path,
    sync::Arc,
};

#[path = "../error/kind.rs"]
mod kind;

pub use kind::SpawnErrorKind;

use crate::command::Command;

/// Why there is no child. Whoever has it knows that nothing was started.
///
/// It turns into [`io::Error`] with the nearest [`io::ErrorKind`]; the `SpawnError` is inside
/// (`get_ref`, `downcast`), and with it kind and number.
#[derive(Clone)]
pub struct SpawnError {
    kind: SpawnErrorKind,
    words: &'static str,
    /// What the words are about, where they need it.
    place: &'static str,
    program: OsString,
    /// What was being done, and what the system answered.
    cause: Option<(&'static str, Arc<io::Error>)>,
}

impl SpawnError {
    pub(crate) fn new(kind: SpawnErrorKind, program: &OsStr) -> SpawnError {
        SpawnError { kind, words: kind.words(), place: "", program: program.to_owned(), cause: None }
    }

    /// The command cannot be meant, or asks for what this system has not.
    pub(crate) fn of(kind: SpawnErrorKind, program: &OsStr, words: &'static str) -> SpawnError {
        SpawnError { words, ..SpawnError::new(kind, program) }
    }

    /// A NUL byte in `place`.
    pub(crate) fn nul(program: &OsStr, place: &'static str) -> SpawnError {
        SpawnError { place, ..SpawnError::new(SpawnErrorKind::Nul, program) }
    }

    /// What the system answered to the spawn.
    pub(crate) fn from_io(cmd: &Command, error: io::Error) -> SpawnError {
        let no_dir = cmd.cwd.as_deref().is_some_and(|dir| !dir.is_dir());
        let (kind, step) = if no_dir {
            (SpawnErrorKind::WorkingDirectoryMissing, "change directory")
        } else {
            (of_io(&error), "exec")
        };
        SpawnError { cause: Some((step, Arc::new(error))), ..SpawnError::new(kind, &cmd.program) }
    }

    /// What it comes down to.
    #[must_use]
    pub fn kind(&self) -> SpawnErrorKind {
        self.kind
    }

    /// The number of this system, where it refused something.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.cause.as_ref().and_then(|(_, error)| error.raw_os_error())
    }

    /// What was being done: `"exec"` or `"change directory"`. `None` where the request did not get so far.
    #[must_use]
    pub fn step(&self) -> Option<&'static str> {
        self.cause.as_ref().map(|(step, _)| *step)
    }

    /// The program as the caller named it.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// The file or directory in question: not told on this system.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        None
    }
}

/// The kind of what std says.
fn of_io(error: &io::Error) -> SpawnErrorKind {
    // ENOEXEC and ERROR_BAD_EXE_FORMAT have no kind in std.
    let bad_format = if cfg!(windows) { 193 } else { 8 };
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SpawnErrorKind::ProgramMissing,
        io::ErrorKind::PermissionDenied => SpawnErrorKind::Permission,
        io::ErrorKind::ArgumentListTooLong => SpawnErrorKind::ArgumentTooLong,
        io::ErrorKind::ExecutableFileBusy => SpawnErrorKind::TextBusy,
        io::ErrorKind::OutOfMemory => SpawnErrorKind::OutOfMemory,
        io::ErrorKind::WouldBlock => SpawnErrorKind::ProcessLimit,
        io::ErrorKind::InvalidInput => SpawnErrorKind::InvalidInput,
        io::ErrorKind::Unsupported => SpawnErrorKind::Unsupported,
        _ if error.raw_os_error() == Some(bad_format) => SpawnErrorKind::BadFormat,
        _ => SpawnErrorKind::Other,
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpawnError { words, place, program, cause, .. } = self;
        // Debug of a path escapes what would break the line.
        write!(f, "cannot start {program:?}: ")?;
        match cause {
            Some((step, error)) => write!(f, "{step}: {words}: {error}"),
            None => write!(f, "{words}{place}"),
        }
    }
}

impl fmt::Debug for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpawnError { kind, program, cause, .. } = self;
        f.debug_struct("SpawnError")
            .field("kind", kind)
            .field("program", program)
            .field("cause", cause)
            .finish()
    }
}
