//! The directory of a registry: who may use it, and how its files are read and written.
//!
//! What stands in it is an allegation: of whoever could write there, which is checked to be its owner, who must be the caller. Files are
//! opened without following links and without waiting, looked at before they are read, and read up to a bound. A file is written whole
//! or not at all: under another name first, and then renamed.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use pidward_core::record::RECORD_MAX;
use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
    process::geteuid,
};

use super::error::{RegistryError, RegistryErrorKind};

/// Most bytes that are read of a file: more than the longest record has.
const READ_MAX: u64 = RECORD_MAX as u64 + 1;

/// Others than the owner can write.
const OTHERS: u32 = 0o022;

/// An open directory that belongs to the caller alone.
#[derive(Debug)]
pub(super) struct Place {
    dir: OwnedFd,
    path: PathBuf,
}

impl Place {
    /// Opens the directory, and makes it where it is missing and may be made.
    pub(super) fn open(path: &Path, make: bool) -> Result<Place, RegistryError> {
        let error = |errno: Errno| RegistryError::io(path, errno);
        // The working directory may be another one later.
        let path = &std::path::absolute(path).map_err(|e| RegistryError::io(path, errno_of(&e)))?;
        let mut made = false;
        if make {
            match fs::mkdir(path, Mode::RWXU) {
                Ok(()) => made = true,
                Err(Errno::EXIST) => {}
                // A directory that is there may stand in one that cannot be written to.
                Err(_) if path.is_dir() => {}
                Err(e) => return Err(error(e)),
            }
        }
        if made {
            // Whatever the umask says.
            fs::chmod(path, Mode::RWXU).map_err(error)?;
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = fs::open(path, flags, Mode::empty()).map_err(error)?;
        let stat = fs::fstat(&dir).map_err(error)?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(RegistryError::new(path, RegistryErrorKind::NotOwned(stat.st_uid)));
        }
        if stat.st_mode & OTHERS != 0 {
            return Err(RegistryError::new(path, RegistryErrorKind::OthersCanWrite));
        }
        Ok(Place { dir, path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn error(&self, errno: Errno) -> RegistryError {
        RegistryError::io(&self.path, errno)
    }

    /// The names of all that stands in it, each once. What is made or renamed meanwhile may be missing.
    pub(super) fn names(&self) -> Result<Vec<OsString>, Errno> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.dir)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Opens a file of ours, or says why it is none. `None`: there is no such file.
    pub(super) fn file(&self, name: &OsStr, flags: OFlags) -> Result<Option<OwnedFd>, Odd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(Odd::Link),
            Err(e) => return Err(Odd::Errno(e.into())),
        };
        let stat = fs::fstat(&file).map_err(|e| Odd::Errno(e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Odd::NoFile);
        }
        if stat.st_uid != geteuid().as_raw() {
            return Err(Odd::Foreign(stat.st_uid));
        }
        if stat.st_mode & OTHERS != 0 {
            return Err(Odd::Open);
        }
        Ok(Some(file))
    }

    /// What stands in a file of ours; more than a record may have is cut one byte behind that.
    pub(super) fn read(&self, name: &OsStr) -> Result<Option<Vec<u8>>, Odd> {
        let Some(file) = self.file(name, OFlags::RDONLY)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = std::fs::File::from(file).take(READ_MAX).read_to_end(&mut text);
        read.map_err(|e| Odd::Errno(errno_of(&e)))?;
        Ok(Some(text))
    }

    /// Writes a file, in place of any of that name. What it held before stays whole until it is replaced.
    pub(super) fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let passing = format!(".{name}{PASSING}");
        let (flags, mode) =
            (OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let open = || fs::openat(&self.dir, &*passing, flags, mode);
        let file = match open() {
            // Of whoever was killed while it wrote; or whatever else stands there.
            Err(Errno::EXIST) => self.remove(OsStr::new(&passing)).and_then(|()| open()),
            opened => opened,
        }?;
        // Whatever the umask says.
        let moded = fs::fchmod(&file, mode);
        let written = moded.map_err(io::Error::from).and_then(|()| std::fs::File::from(file).write_all(text));
        let done = written.and_then(|()| Ok(fs::renameat(&self.dir, &*passing, &self.dir, name)?));
        if done.is_err() {
            let _ = fs::unlinkat(&self.dir, &*passing, AtFlags::empty());
        }
        done
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &OsStr) -> Result<(), Errno> {
        match fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }

    /// Whether its path still leads to it.
    pub(super) fn is_there(&self) -> bool {
        let same = |a: Stat, b: Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        fs::lstat(&self.path).is_ok_and(|there| fs::fstat(&self.dir).is_ok_and(|own| same(own, there)))
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// How the name of a file ends that is being written.
pub(super) const PASSING: &str = ".tmp";

/// Why a file in a registry is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Odd {
    Link,
    NoFile,
    Foreign(u32),
    Open,
    Name,
    Text(pidward_core::record::RecordError),
    Errno(pidward_core::Errno),
}

impl Odd {
    /// The nearest errno.
    pub(super) fn errno(self) -> pidward_core::Errno {
        match self {
            Odd::Link => Errno::LOOP.into(),
            Odd::NoFile => Errno::ISDIR.into(),
            Odd::Foreign(_) | Odd::Open => Errno::PERM.into(),
            Odd::Name | Odd::Text(_) => Errno::INVAL.into(),
            Odd::Errno(e) => e,
        }
    }
}

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Odd::Link => f.write_str("it is a symbolic link"),
            Odd::NoFile => f.write_str("it is no regular file"),
            Odd::Foreign(user) => write!(f, "it belongs to another user, {user}"),
            Odd::Open => f.write_str("others can write to it"),
            Odd::Name => f.write_str("its name is not that of its nonce"),
            Odd::Text(error) => write!(f, "{error}"),
            Odd::Errno(e) => write!(f, "{}", io::Error::from_raw_os_error(e.raw())),
        }
    }
}

pub(super) fn errno_of(error: &io::Error) -> pidward_core::Errno {
    error.raw_os_error().and_then(pidward_core::Errno::from_raw).unwrap_or(pidward_core::Errno::EIO)
}

/// The directories that hold those of runs, the best first: below `$XDG_RUNTIME_DIR`, `/run`, and the temporary directory.
pub(super) fn roots() -> Vec<PathBuf> {
    let own = |dir: PathBuf| dir.join("pidward");
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let user = geteuid().as_raw();
    let private = std::env::temp_dir().join(format!("pidward-{user}"));
    runtime.map(own).into_iter().chain([own("/run".into()), private]).collect()
}
