//! Reading the files of `/proc`, by number.
#![forbid(unsafe_code)]

use core::fmt::Write;

use heapless::String;
use rustix::{
    fd::OwnedFd,
    fs::{self, CWD, Mode, OFlags, RawDir},
    io,
};

use super::{Stat, State};
use crate::{Errno, Pid};

/// Longer than any stat line: a name has at most 64 bytes, each of 51 fields at most 20.
const STAT_LEN: usize = 2048;

/// Why nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcError {
    /// Nobody has the number, or no `/proc` shows it.
    Gone,
    /// The number is a thread's.
    ThreadId,
    /// The file is not what it should be.
    Malformed,
    /// What the kernel answered. `EACCES`: another user's, or it has made itself non-dumpable. `ESRCH`: a zombie or a kernel thread has
    /// no environ (Linux ≥ 6.12; older ones let it be read as empty).
    Errno(Errno),
}

impl From<io::Errno> for ProcError {
    fn from(errno: io::Errno) -> ProcError {
        if errno == io::Errno::NOENT { ProcError::Gone } else { ProcError::Errno(errno.into()) }
    }
}

/// The stat line of a process. A thread has one too, which is refused: it would pass for a process.
///
/// # Errors
/// [`ProcError`].
pub fn stat(pid: Pid) -> Result<Stat, ProcError> {
    let mut status = [0; STAT_LEN];
    let head = fill(&open(pid, "status")?, &mut status)?;
    if thread_group(head) != Some(pid.get()) {
        return Err(ProcError::ThreadId);
    }
    let mut line = [0; STAT_LEN];
    let line = fill(&open(pid, "stat")?, &mut line)?;
    Stat::parse(line).map_err(|_| ProcError::Malformed)
}

/// Whether the process has ended and only its status is left. A thread that has ended is not a process that has: threads of
/// it may live on. Unknown is `false`.
pub fn is_zombie(pid: Pid) -> bool {
    stat(pid).is_ok_and(|stat| stat.state == State::Zombie && stat.is_ended())
}

/// Gives the environ of a process to `piece`, piece by piece; the number of bytes.
///
/// Between fork and exec these are the *parent's*; during exec there are none for a moment. A program can overwrite
/// them.
///
/// # Errors
/// [`ProcError`].
pub fn environ(pid: Pid, mut piece: impl FnMut(&[u8])) -> Result<u64, ProcError> {
    let file = open(pid, "environ")?;
    let mut buffer = [0; 4096];
    let mut total = 0u64;
    // Ends at the end of the file, which is bounded by what exec takes.
    loop {
        match io::read(&file, &mut buffer) {
            Ok(0) => return Ok(total),
            Ok(n) => {
                piece(buffer.get(..n).unwrap_or_default());
                total = total.saturating_add(n as u64);
            }
            Err(io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Calls `visit` for every process that `/proc` lists, until it answers `false`.
///
/// # Errors
/// `/proc` is not there or cannot be read.
pub fn pids(mut visit: impl FnMut(Pid) -> bool) -> Result<(), ProcError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = fs::openat(CWD, c"/proc", flags, Mode::empty())?;
    let mut buffer = [core::mem::MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = core::str::from_utf8(entry.file_name().to_bytes()).unwrap_or_default();
        if let Some(pid) = name.parse().ok().and_then(Pid::new)
            && !visit(pid)
        {
            return Ok(());
        }
    }
    Ok(())
}

/// `Tgid:` of a status file. The name of the process, which comes first, cannot fake it: the kernel writes a newline in it as
/// two characters.
fn thread_group(status: &[u8]) -> Option<u32> {
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Tgid:\t"))?;
    core::str::from_utf8(line).ok()?.parse().ok()
}

fn open(pid: Pid, file: &str) -> Result<OwnedFd, ProcError> {
    let mut path: String<40> = String::new();
    // Always fits: ten digits and a name of at most ten letters.
    write!(path, "/proc/{pid}/{file}").map_err(|_| ProcError::Malformed)?;
    Ok(fs::openat(CWD, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Reads from the beginning until the buffer is full or the file at its end.
fn fill<'b>(file: &OwnedFd, buffer: &'b mut [u8]) -> Result<&'b [u8], ProcError> {
    let mut filled = 0;
    // Ends at the end of the file or of the buffer.
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match io::read(file, room) {
            Ok(0) => break,
            Ok(n) => filled = filled.saturating_add(n),
            Err(io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(buffer.get(..filled).unwrap_or_default())
}
