//! Why there is no child, in one line.
//!
//! An error names the program, the step, the path in question and the errno by name. It never holds an argument or a value of the
//! environment, so it can be logged.

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    path::{Path, PathBuf},
};

use pidward_core::{
    Errno,
    cgroup::CgroupError,
    spawn::{self, Step},
};

mod kind;
mod limit;
mod refusal;
#[cfg(test)]
mod tests;

pub use kind::SpawnErrorKind;
pub use limit::Limit;

use crate::prepare::Prepared;
use refusal::Refusal;

/// Why there is no child. Whoever has it knows that nothing was started, or that what was has ended and was reaped.
///
/// It turns into [`io::Error`] with the nearest [`io::ErrorKind`]; the `SpawnError` is inside
/// (`get_ref`, `downcast`), and with it kind and number.
#[derive(Clone)]
pub struct SpawnError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: SpawnErrorKind,
    words: &'static str,
    /// What the words are about, where they need it.
    place: &'static str,
    program: OsString,
    step: Option<&'static str>,
    errno: Option<Errno>,
    path: Option<PathBuf>,
    limit: Option<Limit>,
}

impl SpawnError {
    fn new(kind: SpawnErrorKind, program: &OsStr) -> SpawnError {
        SpawnError(Box::new(Inner {
            kind,
            words: kind.words(),
            place: "",
            program: program.to_owned(),
            step: None,
            errno: None,
            path: None,
            limit: None,
        }))
    }

    /// Refused as a whole, for a reason outside the kernel. The program is filled in with
    /// [`of_program`](Self::of_program) by whoever knows it.
    pub(crate) fn refused(kind: SpawnErrorKind) -> SpawnError {
        SpawnError::new(kind, OsStr::new(""))
    }

    /// The queue of the spawner is full.
    pub(crate) fn queue_full() -> SpawnError {
        SpawnError::refused(SpawnErrorKind::QueueFull)
    }

    /// The deadline of the request has passed.
    pub(crate) fn deadline() -> SpawnError {
        SpawnError::refused(SpawnErrorKind::Deadline)
    }

    /// The spawner is shut down.
    pub(crate) fn shut_down() -> SpawnError {
        SpawnError::refused(SpawnErrorKind::ShutDown)
    }

    /// The number given for it is not free.
    pub(crate) fn node_in_use() -> SpawnError {
        SpawnError::refused(SpawnErrorKind::NodeInUse)
    }

    /// The spawner ended without an answer.
    pub(crate) fn reply_lost() -> SpawnError {
        SpawnError::refused(SpawnErrorKind::ReplyLost)
    }

    /// The request made the spawner's thread panic.
    pub(crate) fn panicked() -> SpawnError {
        SpawnError::refused(SpawnErrorKind::Panicked)
    }

    /// The spawner was made by a process that this one is a copy of.
    pub(crate) fn forked_copy() -> SpawnError {
        SpawnError::refused(SpawnErrorKind::ForkedCopy)
    }

    /// The same error, about this program where it names none yet.
    pub(crate) fn of_program(mut self, program: &OsStr) -> SpawnError {
        if self.0.program.is_empty() {
            self.0.program = program.to_owned();
        }
        self
    }

    /// The command cannot be meant.
    pub(crate) fn invalid(program: &OsStr, words: &'static str) -> SpawnError {
        let mut error = SpawnError::new(SpawnErrorKind::InvalidInput, program);
        error.0.words = words;
        error
    }

    /// A NUL byte in `place`.
    pub(crate) fn nul(program: &OsStr, place: &'static str) -> SpawnError {
        let mut error = SpawnError::new(SpawnErrorKind::Nul, program);
        error.0.place = place;
        error
    }

    /// The child cannot be written down.
    pub(crate) fn unrecorded(program: &OsStr, errno: Errno) -> SpawnError {
        let mut error = SpawnError::new(SpawnErrorKind::Registry, program);
        error.0.errno = Some(errno);
        error
    }

    /// Limits were asked for that no leaf can have.
    pub(crate) fn unlimited(program: &OsStr, error: Option<CgroupError>) -> SpawnError {
        let mut refused = SpawnError::new(SpawnErrorKind::Unsupported, program);
        refused.0.words = match error {
            None => "a limit on the child's tree needs a cgroup leaf, and there is none",
            Some(CgroupError::NoController(_)) => {
                "a limit on the child's tree needs its controller enabled for cgroup leaves here"
            }
            Some(_) => "a limit on the child's tree cannot be set: its cgroup leaf may not be changed",
        };
        refused
    }

    /// The kernel refused what is needed before the clone.
    pub(crate) fn preparing(program: &OsStr, errno: Errno) -> SpawnError {
        let mut error = SpawnError::new(kind::of_errno(Step::Prepare, errno), program);
        error.0.step = Some(Step::Prepare.name());
        error.0.errno = Some(errno);
        error
    }

    /// The kernel refused a step of the spawn. Looks at files, and at the process limit at limits, to say
    /// why: not for every try, only for the last.
    pub(crate) fn from_core(core: spawn::SpawnError, prepared: &Prepared) -> SpawnError {
        let spawn::SpawnError { step, errno, .. } = core;
        let refusal = match step {
            Step::Exec => refusal::at_exec(errno, prepared),
            Step::Cwd => refusal::at_cwd(errno, prepared),
            _ => Refusal::plain(kind::of_errno(step, errno)),
        };
        let mut error = SpawnError::new(refusal.kind, prepared.program());
        error.0.words = refusal.words;
        error.0.path = refusal.path;
        error.0.step = Some(step.name());
        error.0.errno = Some(errno);
        if refusal.kind == SpawnErrorKind::ProcessLimit {
            // Exec and a change of user know one limit only, that of the user.
            let at_clone = step == Step::Clone;
            error.0.limit = if at_clone { limit::find(prepared.cgroup()) } else { Some(Limit::User) };
        }
        error
    }

    /// What it comes down to.
    #[must_use]
    pub fn kind(&self) -> SpawnErrorKind {
        self.0.kind
    }

    /// The errno, where the kernel refused something.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.errno.map(Errno::raw)
    }

    /// What was being done: `"exec"`, `"change directory"`, `"clone"` and the like. `None` where the request did not get so far.
    #[must_use]
    pub fn step(&self) -> Option<&'static str> {
        self.0.step
    }

    /// The program as the caller named it.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.0.program
    }

    /// The file or directory in question, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Which limit, for [`SpawnErrorKind::ProcessLimit`] and where it could be told.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.0.limit
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &*self.0;
        // Debug of a path escapes what would break the line.
        if error.program.is_empty() {
            f.write_str("cannot start a program: ")?;
        } else {
            write!(f, "cannot start {:?}: ", error.program)?;
        }
        if let Some(step) = error.step {
            write!(f, "{step}: ")?;
        }
        f.write_str(error.words)?;
        f.write_str(error.place)?;
        if let Some(limit) = error.limit {
            write!(f, ", {limit}")?;
        }
        if let Some(path) = &error.path {
            write!(f, ": {path:?}")?;
        }
        if let Some(errno) = error.errno {
            write!(f, ": {errno} ({})", words_of(errno))?;
        }
        Ok(())
    }
}

/// What std says of the number, without the number.
fn words_of(errno: Errno) -> String {
    let mut words = io::Error::from_raw_os_error(errno.raw()).to_string();
    if let Some(end) = words.rfind(" (os error") {
        words.truncate(end);
    }
    words
}

impl fmt::Debug for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, program, step, errno, path, limit, .. } = &*self.0;
        f.debug_struct("SpawnError")
            .field("kind", kind)
            .field("program", program)
            .field("step", step)
            .field("errno", errno)
            .field("path", path)
            .field("limit", limit)
            .finish()
    }
}
