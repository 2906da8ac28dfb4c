//! One errno of exec has several causes; a look at the files tells them apart.
//!
//! The look comes after the fact and with our rights, so it decides words and kind only, never what is done.

use std::{
    fs::Metadata,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use pidward_core::{Errno, spawn::Step};
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::{
    SpawnErrorKind::{self, InterpreterMissing, NotExecutable, ProgramMissing, WorkingDirectoryMissing},
    kind,
};
use crate::prepare::Prepared;

pub(super) struct Refusal {
    pub(super) kind: SpawnErrorKind,
    pub(super) words: &'static str,
    pub(super) path: Option<PathBuf>,
}

impl Refusal {
    pub(super) fn plain(kind: SpawnErrorKind) -> Refusal {
        Refusal { kind, words: kind.words(), path: None }
    }
}

/// The working directory could not be entered.
pub(super) fn at_cwd(errno: Errno, prepared: &Prepared) -> Refusal {
    let path = prepared.cwd().map(Path::to_owned);
    match errno {
        Errno::ENOTDIR => {
            Refusal { kind: WorkingDirectoryMissing, words: "the working directory is not a directory", path }
        }
        Errno::ENOENT => Refusal { path, ..Refusal::plain(WorkingDirectoryMissing) },
        _ => Refusal { path, ..Refusal::plain(kind::of_errno(Step::Cwd, errno)) },
    }
}

/// No candidate could be run.
pub(super) fn at_exec(errno: Errno, prepared: &Prepared) -> Refusal {
    let mut files = prepared.paths().filter_map(|path| {
        // The child resolves a relative one in its own directory.
        let path = prepared.cwd().map_or_else(|| path.to_owned(), |dir| dir.join(path));
        let found = path.metadata();
        found.ok().map(|found| (path, found))
    });
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => match files.find(|(_, found)| found.is_file()) {
            Some((path, _)) => Refusal { path: Some(path), ..Refusal::plain(InterpreterMissing) },
            None => Refusal::plain(ProgramMissing),
        },
        Errno::EACCES => files
            .find_map(|(path, found)| {
                let words = not_executable(&path, &found)?;
                Some(Refusal { kind: NotExecutable, words, path: Some(path) })
            })
            .unwrap_or_else(|| Refusal::plain(SpawnErrorKind::Permission)),
        _ => {
            // Any other answer ended the search, and it ended at a file.
            let path = files.find(|(_, found)| found.is_file()).map(|(path, _)| path);
            Refusal { path, ..Refusal::plain(kind::of_errno(Step::Exec, errno)) }
        }
    }
}

fn not_executable(path: &Path, found: &Metadata) -> Option<&'static str> {
    if found.is_dir() {
        return Some("is a directory");
    }
    if !found.is_file() {
        return Some("is not a regular file");
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Some("has no execute permission");
    }
    let mount = statvfs(path).map_err(io::Error::from).ok()?;
    mount.f_flag.contains(StatVfsMountFlags::NOEXEC).then_some("is on a file system mounted noexec")
}
