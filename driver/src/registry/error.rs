//! Why a registry cannot be used, in one line.

use std::{
    error, fmt, io,
    path::{Path, PathBuf},
};

use pidward_core::Errno;

/// What a registry error comes down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryErrorKind {
    /// A supervisor runs on the directory: this process. `None`: whoever holds the lock has not said who it is.
    AlreadyRunning(Option<u32>),
    /// The supervisor that held the lock, this process, has ended, and somebody has the lock from it: a child that hangs in exec, or a
    /// forked copy of the supervisor.
    LockLeft(u32),
    /// The directory belongs to this user.
    NotOwned(u32),
    /// Others than its owner can write to the directory.
    OthersCanWrite,
    /// What the kernel answered.
    Io,
}

/// A registry that cannot be used. Nothing was signalled, and nothing of anybody else was changed.
#[derive(Clone, Debug)]
pub struct RegistryError {
    path: PathBuf,
    kind: RegistryErrorKind,
    errno: Option<Errno>,
}

impl RegistryError {
    pub(super) fn new(path: &Path, kind: RegistryErrorKind) -> RegistryError {
        RegistryError { path: path.to_owned(), kind, errno: None }
    }

    pub(super) fn io(path: &Path, errno: impl Into<Errno>) -> RegistryError {
        RegistryError { errno: Some(errno.into()), ..RegistryError::new(path, RegistryErrorKind::Io) }
    }

    /// What it comes down to.
    #[must_use]
    pub fn kind(&self) -> RegistryErrorKind {
        self.kind
    }

    /// The errno, where the kernel refused something.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno.map(Errno::raw)
    }

    /// The directory or file in question.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug of a path escapes what would break the line.
        write!(f, "registry {:?}: ", self.path)?;
        match (self.kind, self.errno) {
            (RegistryErrorKind::AlreadyRunning(Some(pid)), _) => {
                write!(f, "already running: process {pid} supervises there")
            }
            (RegistryErrorKind::AlreadyRunning(None), _) => {
                f.write_str("already running: a supervisor of another pid namespace, or one that has not said who it is, has the lock")
            }
            (RegistryErrorKind::LockLeft(pid), _) => write!(
                f,
                "locked: process {pid}, which had the lock, has ended; a child of it that hangs in exec, or a copy of it, keeps it"
            ),
            (RegistryErrorKind::NotOwned(user), _) => write!(f, "it belongs to another user, {user}"),
            (RegistryErrorKind::OthersCanWrite, _) => {
                f.write_str("others can write to it: expected a directory that only its owner can write to, as of mode 0700")
            }
            (RegistryErrorKind::Io, Some(errno)) => write!(f, "{}", io::Error::from_raw_os_error(errno.raw())),
            (RegistryErrorKind::Io, None) => f.write_str("it cannot be used"),
        }
    }
}

impl error::Error for RegistryError {}

impl From<RegistryError> for io::Error {
    fn from(error: RegistryError) -> io::Error {
        let kind = match (error.kind, error.errno) {
            (RegistryErrorKind::AlreadyRunning(_) | RegistryErrorKind::LockLeft(_), _) => {
                io::ErrorKind::ResourceBusy
            }
            (RegistryErrorKind::Io, Some(errno)) => io::Error::from_raw_os_error(errno.raw()).kind(),
            _ => io::ErrorKind::PermissionDenied,
        };
        io::Error::new(kind, error)
    }
}
