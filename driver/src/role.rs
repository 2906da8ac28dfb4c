//! Roles: this program once more, as a child that is told what it is to be.
//!
//! The copy is started through a descriptor of the program that runs, not by its path: replaced or removed on disk, the version that runs is
//! the one that is started. The descriptor is held from the first [`Command::this_program`] on, so that whoever goes into a chroot or loses
//! `/proc` calls that once before; it is opened with `O_PATH`, is for nothing but exec, and no child has it. (What may write the program's
//! file is not changed by that: the kernel refuses it while the program runs, `ETXTBSY`; afterwards the file's permissions decide, also for
//! whoever has kept `/proc/<pid>/exe` of a copy. For children in less trusted places the file is to be one that their user cannot write.)
//!
//! A process is a role only if it has both, the variable [`SUBAGENT_ENV`](crate::SUBAGENT_ENV) and the channel that
//! [`CHANNEL_ENV`](crate::CHANNEL_ENV) names. A variable that has leaked to a tool further down makes nothing of it: no channel, no role. Whatever
//! this library starts inherits neither, and the channel is close-on-exec as soon as it is taken. What is started by other means is given
//! the variables, and never the channel.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use pidward_core::{Errno, inherited, marker::Names};
use rustix::{
    fs::{self, Mode, OFlags, PROC_SUPER_MAGIC},
    io::Errno as Raw,
    net::{AddressFamily, SocketType, sockopt},
};

use crate::{
    channel::{Events, Node, Transport},
    command::Command,
    error::{SpawnError, SpawnErrorKind},
    markers::MarkerNames,
    names::{DEPTH_ENV, ServiceName},
    prepare::Prepared,
    spawner::Spawner,
};

#[cfg(test)]
mod tests;

/// How deep copies start copies where nobody has said otherwise.
pub const DEFAULT_MAX_DEPTH: u32 = 4;

/// What a command says of the copy.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) image: Arc<OwnedFd>,
    role: ServiceName,
    max_depth: u32,
}

impl Copy {
    /// The two entries of the copy's environment. `number`: that of its channel.
    pub(crate) fn enter(
        cmd: &Command,
        number: Option<u32>,
        names: &Names<'_>,
        prepared: &mut Prepared,
    ) -> Result<(), SpawnError> {
        let Some(copy) = &cmd.copy else { return Ok(()) };
        if number.is_none() {
            return Err(SpawnError::invalid(&cmd.program, "a role needs a channel by `Transport::Socket`"));
        }
        prepared.stamp(names.role, copy.role.as_str());
        prepared.stamp(DEPTH_ENV, &copy.minted(&cmd.program)?);
        Ok(())
    }

    /// The value of the depth's variable in the copy: one deeper than we are, and no deeper than we may.
    fn minted(&self, program: &OsStr) -> Result<String, SpawnError> {
        let own = env::var_os(DEPTH_ENV);
        let own = own.as_deref().map_or(Some(Depth { at: 0, most: self.max_depth }), Depth::read);
        let own = own.ok_or_else(|| SpawnError::invalid(program, "our own PIDWARD_DEPTH is no depth"))?;
        let next = own.below(self.max_depth);
        let next = next.ok_or_else(|| SpawnError::refused(SpawnErrorKind::DepthLimit).of_program(program))?;
        Ok(format!("{}/{}", next.at, next.most))
    }
}

/// Where a process is, and how deep its tree may be. Minted by the parent: a copy can lower the limit for those below, and not raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Depth {
    at: u32,
    most: u32,
}

impl Depth {
    /// `at/most` in decimal.
    fn read(value: &OsStr) -> Option<Depth> {
        let (at, most) = value.to_str()?.split_once('/')?;
        let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
        Some(Depth { at: number(at)?, most: number(most)? })
    }

    fn below(self, most: u32) -> Option<Depth> {
        let most = most.min(self.most);
        (self.at < most).then(|| Depth { at: self.at + 1, most })
    }
}

impl Command {
    /// This program once more, as `role`; without arguments, and with a channel. For [`Events::spawn`]; [`Role::take`] is the other side.
    ///
    /// `argv[0]` is ours. Before Linux 6.14 the copy is called by a number in `ps`. A program that a loader was called
    /// for by hand (`ld.so program`) is that loader to the kernel, and so is its copy. Its depth comes from ours, see
    /// [`max_depth`](Self::max_depth).
    ///
    /// # Errors
    /// - `Other` with `ENOENT`, or `Unsupported`: there is no `/proc` of our pid namespace, and this is the first call.
    /// - `NoFds`.
    pub fn this_program(role: &ServiceName) -> Result<Command, SpawnError> {
        let program = env::args_os().next().filter(|name| !name.is_empty());
        let program = program.unwrap_or_else(|| OsString::from("/proc/self/exe"));
        let image = held().map_err(|errno| SpawnError::preparing(&program, errno))?;
        let mut cmd = Command::new(program);
        cmd.copy = Some(Copy { image, role: role.clone(), max_depth: DEFAULT_MAX_DEPTH });
        cmd.channel(Transport::Socket);
        Ok(cmd)
    }

    /// How deep copies may start copies, counted from the first program, which is 0: [4](DEFAULT_MAX_DEPTH). Of this and what our own parent
    /// has said the smaller one holds. At the limit every spawn is refused, with [`SpawnErrorKind::DepthLimit`]. Nothing where the command is
    /// no [copy](Self::this_program) of this program.
    ///
    /// The depth is in the variable [`DEPTH_ENV`](crate::DEPTH_ENV), which everything below inherits, so that a program in between changes
    /// nothing. It keeps a mistake from filling the machine; whoever empties the environment begins anew.
    pub fn max_depth(&mut self, most: u32) -> &mut Command {
        if let Some(copy) = &mut self.copy {
            copy.max_depth = most;
        }
        self
    }
}

impl Events {
    /// Starts this program once more, as `role`: [`Command::this_program`] and [`spawn`](Self::spawn) in one.
    ///
    /// # Errors
    /// As these two.
    pub fn spawn_self(&self, spawner: &Spawner, role: &ServiceName) -> Result<Node, SpawnError> {
        self.spawn(spawner, &Command::this_program(role)?)
    }
}

/// The program that runs. Not remembered where it fails.
fn held() -> Result<Arc<OwnedFd>, Errno> {
    static HELD: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    if let Some(held) = HELD.get() {
        return Ok(Arc::clone(held));
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let proc = fs::open(c"/proc", flags | OFlags::DIRECTORY, Mode::empty())?;
    // Whoever has mounted something else there does not choose what we run.
    if fs::fstatfs(&proc)?.f_type != PROC_SUPER_MAGIC {
        return Err(Errno::EOPNOTSUPP);
    }
    // `self` is nobody in a `/proc` of another pid namespace.
    let image = fs::openat(&proc, c"self/exe", flags, Mode::empty())?;
    Ok(Arc::clone(HELD.get_or_init(|| Arc::new(image))))
}

/// What this process is to be, as its parent has said, and the channel to it.
pub struct Role {
    name: ServiceName,
    depth: u32,
    channel: OwnedFd,
}

impl Role {
    /// The role of this process, once: `None` the second time, and wherever one of the two variables or the channel is missing. Called first
    /// thing in `main`, before the arguments are looked at and anything is started. The channel is close-on-exec from then on.
    ///
    /// Opens nothing and never fails: whoever has no role is the program itself.
    pub fn take() -> Option<Role> {
        Role::by(&Names::DEFAULT)
    }

    /// The same, where the parent's spawner has [names](crate::SpawnerBuilder::markers) of its own.
    pub fn take_named(names: &MarkerNames) -> Option<Role> {
        Role::by(&names.core())
    }

    fn by(names: &Names<'_>) -> Option<Role> {
        let name = ServiceName::try_new(env::var(names.role).ok()?).ok()?;
        let channel = take_channel(&env::var_os(names.channel)?).ok()?;
        let depth = env::var_os(DEPTH_ENV).as_deref().and_then(Depth::read).map_or(1, |depth| depth.at);
        Some(Role { name, depth, channel })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// How deep it is below the first program: 1 or more.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The channel: a stream socket that blocks. The number that it came by stays open beside it, so the other side sees its end when this
    /// process ends, or when it is shut down (`shutdown(2)`), not when this is dropped.
    pub fn into_channel(self) -> OwnedFd {
        self.channel
    }
}

impl AsFd for Role {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role").field("name", &self.name).field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// The channel of the number that a variable holds, close-on-exec from then on. It is one only if it came through exec, is 3 or more, and
/// is one side of a pair of stream sockets.
pub(crate) fn take_channel(number: &OsStr) -> Result<OwnedFd, Errno> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let digits = number.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let number: Option<u32> = digits.and_then(|digits| digits.parse().ok());
    let number = number.filter(|number| *number > 2).ok_or(Errno::EBADF)?;
    let fd = inherited::copy(number)?;
    let is_stream = sockopt::socket_domain(&fd)? == AddressFamily::UNIX
        && sockopt::socket_type(&fd)? == SocketType::STREAM;
    if !is_stream {
        return Err(Raw::PROTOTYPE.into());
    }
    rustix::net::getpeername(&fd)?;
    inherited::close_on_exec(number)?;
    Ok(fd)
}
