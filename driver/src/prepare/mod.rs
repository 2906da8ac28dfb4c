//! From a [`Command`] to the plan of a spawn.
//!
//! Everything that can be refused without a child is refused here, on the thread of the asker: NULs, names,
//! numbers, missing descriptors. What is left owns its strings and descriptors, so that it can go to the
//! spawner's thread and be tried there more than once.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::Arc,
};

use pidward_core::{
    Errno,
    cgroup::Limits,
    image::{self, PackError},
    marker::Names,
    signal,
    spawn::{FdMap, Plan, Program},
};
use rustix::{
    fs::{self, Mode, OFlags},
    pipe::{self, PipeFlags},
};

mod environ;
mod strings;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use strings::{Strings, tables};

use crate::{
    channel::{self, Ear, Ends, Mouth},
    command::{Command, Settings},
    error::SpawnError,
    leaves::Leaf,
    names::ChildKind,
    role,
    spawner::About,
    stdio::{ChildStderr, ChildStdin, ChildStdout, Kind, Stdio},
};

/// What the standard streams are where the command does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultStdio {
    /// Ours.
    Inherit,
    /// `/dev/null` to read from, pipes to write to.
    Piped,
    /// Ours, and there is a receiver for what the command says of a channel.
    Received,
}

/// Our ends of the pipes.
#[derive(Debug, Default)]
pub(crate) struct ParentEnds {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) channel: Option<Ends>,
    pub(crate) ready: Option<Ear>,
}

/// A descriptor that the child gets.
enum Source {
    Fd(Arc<OwnedFd>),
    Stdout(io::Stdout),
    Stderr(io::Stderr),
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Source::Fd(fd) => fd.as_fd(),
            Source::Stdout(out) => out.as_fd(),
            Source::Stderr(err) => err.as_fd(),
        }
    }
}

/// Everything a spawn needs, owned and `Send`: made on the asker's thread, used on the spawner's.
///
/// It holds the child's ends of the pipes. Whoever has spawned drops it before telling the asker, or the asker
/// waits for an end of file that does not come.
pub(crate) struct Prepared {
    pub(crate) about: About,
    program: OsString,
    argv: Strings,
    environ: Strings,
    paths: Strings,
    /// The program itself, where it is not to be found by a path.
    image: Option<Arc<OwnedFd>>,
    cwd: Option<CString>,
    /// Sorted by number.
    fds: Vec<(u32, Source)>,
    settings: Settings,
    /// The asker's signal mask, where the child is to keep it.
    mask: Option<u64>,
}

impl Prepared {
    /// Takes what it needs from the command, which can be used again.
    ///
    /// # Errors
    /// What can be known without a child: a NUL, a bad name of a variable, a number out of range; no descriptor
    /// left for a pipe.
    pub(crate) fn new(
        cmd: &Command,
        default: DefaultStdio,
        names: &Names<'_>,
    ) -> Result<(Prepared, ParentEnds), SpawnError> {
        let bad = |words| move |error| packing(cmd, error, words);
        let program = cmd.program.as_bytes();
        let mut argv = Strings::with_capacity(256);
        argv.push(&[cmd.arg0.as_deref().map_or(program, OsStr::as_bytes)]).map_err(bad("argv[0]"))?;
        for arg in &cmd.args {
            argv.push(&[arg.as_bytes()]).map_err(bad("an argument"))?;
        }
        cmd.settings.check().map_err(|words| SpawnError::invalid(&cmd.program, words))?;
        let environ = environ::build(cmd, names).map_err(bad("the value of a variable"))?;
        let path = environ.value(b"PATH");
        let paths = match &cmd.copy {
            Some(_) => Strings::default(),
            None => candidates(program, path).map_err(bad("the name of the program"))?,
        };
        let cwd = cmd.cwd.as_deref().map(|dir| CString::new(dir.as_os_str().as_bytes())).transpose();
        let cwd = cwd.map_err(|_| packing(cmd, PackError::Nul, "the working directory"))?;
        let failed = |errno: rustix::io::Errno| SpawnError::preparing(&cmd.program, Errno::from(errno));
        let (mut fds, mut ends) = streams(cmd, default).map_err(failed)?;
        fds.extend(cmd.settings.passed.iter().map(|(number, fd)| (*number, Source::Fd(Arc::clone(fd)))));
        let made = Ends::make(cmd, default == DefaultStdio::Received);
        let made = made.map_err(|words| SpawnError::invalid(&cmd.program, words))?.map_err(failed)?;
        let mut number = None;
        if let Some((ours, theirs)) = made {
            ends.channel = Some(ours);
            number = theirs.last().map(|(number, _)| *number).filter(|number| *number > 2);
            fds.extend(theirs.into_iter().map(|(number, fd)| (number, Source::Fd(Arc::new(fd)))));
        }
        let mut notify = None;
        if let Some((ear, mouth)) = channel::ready(cmd).map_err(failed)? {
            ends.ready = Some(ear);
            match mouth {
                Mouth::Fd(number, fd) => fds.push((number, Source::Fd(Arc::new(fd)))),
                Mouth::Address(address) => notify = Some(address),
            }
        }
        fds.sort_unstable_by_key(|(number, _)| *number);
        let (program, mut settings) = (cmd.program.clone(), cmd.settings.clone());
        settings.death_signal = settings.death_signal.filter(|_| !cmd.survives);
        let mask = settings.keep_mask.then(signal::blocked).transpose();
        let mask = mask.map_err(|errno| SpawnError::preparing(&program, errno))?;
        let name = cmd.service.clone().map(|service| (cmd.kind.unwrap_or(ChildKind::Task), service));
        let about = About {
            kill_on_drop: cmd.kill_on_drop,
            ask: cmd.ask,
            survives: cmd.survives,
            name,
            ..About::default()
        };
        let image = cmd.copy.as_ref().map(|copy| Arc::clone(&copy.image));
        let mut prepared = Prepared { about, program, argv, environ, paths, image, cwd, fds, settings, mask };
        if let Some(number) = number {
            prepared.stamp(names.channel, &number.to_string());
        }
        role::Copy::enter(cmd, number, names, &mut prepared)?;
        if let Some(address) = notify {
            prepared.stamp("NOTIFY_SOCKET", &address);
        }
        Ok((prepared, ends))
    }

    /// One more entry of the environment, in place of any of that name. `name` and `value` are ours: without NUL, the
    /// name without `=`.
    pub(crate) fn stamp(&mut self, name: &str, value: &str) {
        let environ = &self.environ;
        if environ.value(name.as_bytes()).is_some() {
            let mut rest = Strings::with_capacity(environ.bytes());
            let is_other =
                |entry: &&[u8]| !entry.strip_prefix(name.as_bytes()).is_some_and(|e| e.starts_with(b"="));
            for entry in environ.iter().filter(is_other) {
                rest.push(&[entry]).expect("was pushed before");
            }
            self.environ = rest;
        }
        let parts: [&[u8]; 3] = [name.as_bytes(), b"=", value.as_bytes()];
        self.environ.push(&parts).expect("names and values of our own hold no NUL");
    }

    /// Packs the tables and lends the plan.
    pub(crate) fn with_plan<R>(&self, f: impl FnOnce(&Plan<'_>) -> R) -> R {
        tables([&self.argv, &self.environ, &self.paths], |[argv, environ, paths]| {
            let maps: Vec<FdMap<'_>> = self.fds.iter().map(|(n, fd)| FdMap::new(fd.as_fd(), *n)).collect();
            let program = self.image.as_ref().map_or(Program::Paths(paths), |fd| Program::Open(fd.as_fd()));
            let mut plan = Plan::new(program, argv, environ);
            plan.fds = &maps;
            plan.cwd = self.cwd.as_deref();
            self.settings.apply(&mut plan, self.mask);
            f(&plan)
        })
    }

    /// The program as the caller named it.
    pub(crate) fn program(&self) -> &OsStr {
        &self.program
    }

    /// The working directory of the child, where it is not ours.
    pub(crate) fn cwd(&self) -> Option<&Path> {
        self.cwd.as_ref().map(|dir| Path::new(OsStr::from_bytes(dir.as_bytes())))
    }

    /// The paths that exec tries, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// What the members of the child's leaf may use together.
    pub(crate) fn limits(&self) -> Limits {
        self.settings.limits
    }

    /// The child will be in this leaf.
    pub(crate) fn set_leaf(&mut self, leaf: Leaf) -> io::Result<()> {
        self.settings.cgroup = Some(Arc::new(leaf.dir()?));
        self.about.leaf = Some(Arc::new(leaf));
        Ok(())
    }

    /// The cgroup that the child is charged to, where it is not ours.
    pub(crate) fn cgroup(&self) -> Option<BorrowedFd<'_>> {
        self.settings.cgroup.as_ref().map(|dir| dir.as_fd())
    }
}

/// What exec tries.
fn candidates(program: &[u8], path: Option<&[u8]>) -> Result<Strings, PackError> {
    let size = image::candidates_size(program, path)?;
    Strings::packed(size.bytes, size.pointers, |packer| image::candidates(packer, program, path))
}

fn packing(cmd: &Command, error: PackError, place: &'static str) -> SpawnError {
    match error {
        PackError::Name => SpawnError::invalid(
            &cmd.program,
            "a variable has an empty name, or one with '=' or a NUL byte in it",
        ),
        PackError::Program => SpawnError::invalid(&cmd.program, "the name of the program is empty"),
        _ => SpawnError::nul(&cmd.program, place),
    }
}

/// The child's standard descriptors that are not just inherited, and our ends of its pipes.
fn streams(cmd: &Command, default: DefaultStdio) -> rustix::io::Result<(Vec<(u32, Source)>, ParentEnds)> {
    let (read, write) = match default {
        DefaultStdio::Inherit | DefaultStdio::Received => (Stdio::inherit(), Stdio::inherit()),
        DefaultStdio::Piped => (Stdio::null(), Stdio::piped()),
    };
    let mut fds = Vec::with_capacity(3 + cmd.settings.passed.len());
    let mut null = None;
    let mut ends = ParentEnds::default();
    let lines = cmd.channel.stderr.then(Stdio::piped);
    let asked = [(&cmd.stdin, &read), (&cmd.stdout, &write), (&cmd.stderr, lines.as_ref().unwrap_or(&write))];
    for (number, (stdio, default)) in (0u32..).zip(asked) {
        let source = match &stdio.as_ref().unwrap_or(default).0 {
            Kind::Inherit => continue,
            Kind::Null => Source::Fd(null_device(&mut null)?),
            Kind::Fd(fd) => Source::Fd(Arc::clone(fd)),
            Kind::Stdout => Source::Stdout(io::stdout()),
            Kind::Stderr => Source::Stderr(io::stderr()),
            Kind::Piped => {
                let (read, write) = pipe::pipe_with(PipeFlags::CLOEXEC)?;
                Source::Fd(Arc::new(ends.keep(number, read, write)))
            }
        };
        fds.push((number, source));
    }
    Ok((fds, ends))
}

/// One descriptor serves all three streams.
fn null_device(null: &mut Option<Arc<OwnedFd>>) -> rustix::io::Result<Arc<OwnedFd>> {
    if let Some(null) = null {
        return Ok(Arc::clone(null));
    }
    let opened = Arc::new(fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?);
    Ok(Arc::clone(null.insert(opened)))
}

impl ParentEnds {
    /// Keeps our end of the pipe of stream `number` and gives back the child's.
    fn keep(&mut self, number: u32, read: OwnedFd, write: OwnedFd) -> OwnedFd {
        if number == 0 {
            self.stdin = Some(write.into());
            return read;
        }
        if number == 1 {
            self.stdout = Some(read.into());
        } else {
            self.stderr = Some(read.into());
        }
        write
    }
}
