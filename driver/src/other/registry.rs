//! The registry, on systems where nobody who is written down could be known again: there is none.

use std::{
    convert::Infallible,
    error, fmt, io,
    path::{Path, PathBuf},
};

/// A registry that this process owns. On this system there is none, and so no value of this type.
#[derive(Clone, Debug)]
pub struct Registry(Infallible);

impl Registry {
    /// The registry in this directory.
    ///
    /// # Errors
    /// [`RegistryErrorKind::Unsupported`], always. Nothing is made or locked.
    pub fn open(dir: impl AsRef<Path>) -> Result<Registry, RegistryError> {
        Err(RegistryError { path: dir.as_ref().to_owned() })
    }

    /// The registry in this directory, if there is one.
    ///
    /// # Errors
    /// As [`open`](Registry::open).
    pub fn open_existing(dir: impl AsRef<Path>) -> Result<Registry, RegistryError> {
        Registry::open(dir)
    }

    /// A registry of its own for this run.
    ///
    /// # Errors
    /// As [`open`](Registry::open).
    #[allow(clippy::new_without_default, reason = "it fails")]
    pub fn new() -> Result<Registry, RegistryError> {
        Registry::open("")
    }

    /// Where the directories of runs are: nowhere.
    pub fn roots() -> Vec<PathBuf> {
        Vec::new()
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// What its children carry.
    pub fn installation(&self) -> String {
        match self.0 {}
    }
}

/// What a registry error comes down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryErrorKind {
    /// Not on this system.
    Unsupported,
}

/// A registry that cannot be used. Nothing was changed.
#[derive(Clone, Debug)]
pub struct RegistryError {
    path: PathBuf,
}

impl RegistryError {
    /// What it comes down to.
    #[must_use]
    pub fn kind(&self) -> RegistryErrorKind {
        RegistryErrorKind::Unsupported
    }

    /// The errno: none, nothing was asked of the system.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        None
    }

    /// The directory in question.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "registry {:?}: not supported on this system: nobody who is written down could be known again",
            self.path
        )
    }
}

impl error::Error for RegistryError {}

impl From<RegistryError> for io::Error {
    fn from(error: RegistryError) -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, error)
    }
}
