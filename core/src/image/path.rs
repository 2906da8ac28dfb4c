//! Where a program is looked for: one rule, the same on every way a child is made.
//!
//! A name with a `/` in it is used as it is. Any other is looked for in the `PATH` *that the child gets*:
//!
//! - a child without `PATH` is served by [`DEFAULT_PATH`];
//! - an empty element, be it at either end, between two colons, or the whole of an empty `PATH`, is skipped.
//!   For POSIX it means the current directory, and a file planted there would run;
//! - a relative element is used as written: it is asked for by name, and the kernel resolves it in the
//!   child's working directory;
//! - no shell is tried where the kernel does not know the format (`ENOEXEC`), unlike `execvp(3)`.
//!
//! The candidates are tried in order by exec itself, not looked at beforehand: what a check saw may be gone.
//! [`search_goes_on`] says which refusals lead to the next.
#![forbid(unsafe_code)]

use super::{PackError, Packer, Parts, Size, Table, measure, room_for};
use crate::Errno;

/// What is searched where the child has no `PATH`.
pub const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Packs the paths that exec tries, in order. `path` is the value of `PATH` in the child's environ,
/// `None` where it has none.
///
/// The list is empty where `PATH` holds empty elements only: then nothing may run, and the answer of the
/// search is `ENOENT`.
///
/// # Errors
/// [`PackError::Program`] for an empty name, [`PackError::Nul`], [`PackError::BytesFull`],
/// [`PackError::PointersFull`].
pub fn candidates<'b>(
    packer: Packer<'b>,
    program: &[u8],
    path: Option<&[u8]>,
) -> Result<Table<'b>, PackError> {
    packer.pack(paths(program, path)?)
}

/// What [`candidates`] needs for the same list.
///
/// # Errors
/// [`PackError::Program`], [`PackError::Nul`].
pub fn candidates_size(program: &[u8], path: Option<&[u8]>) -> Result<Size, PackError> {
    measure(paths(program, path)?)
}

/// Whether the next candidate is tried after exec refused one with `errno`.
///
/// It is where this path leads to no program: missing (`ENOENT`, `ENOTDIR`), not permitted or not a file
/// (`EACCES`), not resolvable (`ENAMETOOLONG`, `ELOOP`), or on a file system that does not answer (`ENODEV`,
/// `ETIMEDOUT`, `ESTALE`). Anything else is about the program that was found, or about the system, and ends
/// the search.
///
/// Where no candidate is left, the answer is `EACCES` if any of them gave that (a program is there, it may
/// not be run), else the errno of the last.
#[inline(always)]
pub const fn search_goes_on(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::EACCES
            | Errno::ENAMETOOLONG
            | Errno::ELOOP
            | Errno::ENODEV
            | Errno::ETIMEDOUT
            | Errno::ESTALE
    )
}

fn paths<'a>(
    program: &'a [u8],
    path: Option<&'a [u8]>,
) -> Result<impl Iterator<Item = Parts<'a>>, PackError> {
    if program.is_empty() {
        return Err(PackError::Program);
    }
    // Here, since there may be no candidate that would tell.
    room_for(&[program])?;
    let whole: Option<Parts<'a>> = program.contains(&b'/').then_some([program, b"", b""]);
    let dirs = if whole.is_some() { b"" } else { path.unwrap_or(DEFAULT_PATH) };
    let found = dirs.split(|b| *b == b':').filter(|d| !d.is_empty()).map(move |d| [d, b"/", program]);
    Ok(whole.into_iter().chain(found))
}
