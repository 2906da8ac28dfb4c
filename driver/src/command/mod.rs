//! A child that is to be started: program, arguments, environment, standard streams.

use std::{
    collections::{BTreeMap, btree_map},
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

/// Makes methods that set one thing.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($arg:ident: $type:ty) => $($place:ident).+ = $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, $arg: $type) -> &mut Command {
            self.$($place).+ = $value;
            self
        }
    )*};
}

#[cfg_attr(not(pidward_linux), path = "../other/settings.rs")]
mod settings;
#[cfg(test)]
mod tests;
#[cfg_attr(not(pidward_linux), path = "../other/options.rs")]
mod unix;

#[cfg(pidward_linux)]
pub(crate) use settings::GroupChoice;
#[cfg(pidward_linux)]
pub use settings::Resource;
pub(crate) use settings::Settings;
pub use unix::place_in_own_process_group;

use pidward_core::Signal;

#[cfg(pidward_linux)]
use crate::{channel, role};
use crate::{
    names::{ChildKind, ServiceName, TREE_PREFIX},
    stdio::Stdio,
};

/// A child that is to be started.
///
/// Every stable method of `std::process::Command` and of its Unix extension is here and does the same, but for
/// `pre_exec` and `before_exec`: code of the caller between clone and exec is what makes a spawn slow and
/// unsafe. The usual reasons for one (group, session, death signal, limits, credentials, descriptors, mask) are
/// methods.
///
/// # Where it differs from std
///
/// - The child has a process group of its own, as after std's `process_group(0)`: [`own_group`](Self::own_group).
/// - It gets SIGTERM when its supervisor ends: [`death_signal`](Self::death_signal).
/// - Its signal mask is empty and every signal is at its default: [`keep_mask`](Self::keep_mask),
///   [`keep_ignored`](Self::keep_ignored).
/// - Descriptors other than 0, 1 and 2 are closed, close-on-exec or not: [`pass_fd`](Self::pass_fd).
/// - A program name without `/` is looked for in the `PATH` that the *child* gets; without one, in
///   `/usr/local/bin`, `/usr/bin` and `/bin`. An empty element of `PATH` is skipped: it does not mean the
///   current directory.
/// - A relative program with `/` in it starts at the child's working directory.
/// - A file of a format that the kernel does not know is an error; no shell is tried.
/// - Inherited variables that hold the identity of this process itself are not passed on, see [`env`](Self::env).
///
/// # Methods
///
/// | method | what it sets or does |
/// |---|---|
/// | [`new`](Self::new) | the program |
/// | [`arg`](Self::arg) | one argument more |
/// | [`args`](Self::args) | several arguments more |
/// | [`env`](Self::env) | one variable |
/// | [`envs`](Self::envs) | several variables |
/// | [`env_remove`](Self::env_remove) | a variable away |
/// | [`env_clear`](Self::env_clear) | all inherited variables away |
/// | [`current_dir`](Self::current_dir) | the working directory |
/// | [`stdin`](Self::stdin) | standard input |
/// | [`stdout`](Self::stdout) | standard output |
/// | [`stderr`](Self::stderr) | standard error |
/// | [`spawn`](Self::spawn) | starts a child |
/// | [`output`](Self::output) | starts it, waits and collects its output |
/// | [`status`](Self::status) | starts it and waits |
/// | [`get_program`](Self::get_program) | the program |
/// | [`get_args`](Self::get_args) | the arguments |
/// | [`get_envs`](Self::get_envs) | the changes to the environment |
/// | [`get_current_dir`](Self::get_current_dir) | the working directory |
/// | [`uid`](Self::uid) | the user |
/// | [`gid`](Self::gid) | the group id |
/// | [`groups`](Self::groups) | the supplementary groups |
/// | [`arg0`](Self::arg0) | argv\[0\] |
/// | [`process_group`](Self::process_group) | the process group |
/// | [`exec`](Self::exec) | becomes the program |
/// | [`own_group`](Self::own_group) | a process group of its own or ours; not in std, as all below |
/// | [`own_session`](Self::own_session) | a session of its own |
/// | [`death_signal`](Self::death_signal) | what it gets when its supervisor ends |
/// | [`kind`](Self::kind) | what it is to its supervisor |
/// | [`service`](Self::service) | its name, and so its markers |
/// | [`rlimit`](Self::rlimit) | a limit |
/// | [`pass_fd`](Self::pass_fd) | one more descriptor |
/// | [`nice`](Self::nice) | niceness |
/// | [`oom_score_adj`](Self::oom_score_adj) | how readily the out-of-memory killer takes it |
/// | [`umask`](Self::umask) | the file mode creation mask |
/// | [`no_new_privs`](Self::no_new_privs) | no rights by exec |
/// | [`foreground`](Self::foreground) | the terminal's foreground |
/// | [`cgroup`](Self::cgroup) | its cgroup |
/// | [`keep_mask`](Self::keep_mask) | our signal mask |
/// | [`keep_ignored`](Self::keep_ignored) | our ignored signals |
/// | [`kill_on_drop`](Self::kill_on_drop) | SIGKILL when the `Child` is dropped |
/// | [`memory_limit`](Self::memory_limit) | memory of its whole tree |
/// | [`process_limit`](Self::process_limit) | processes of its whole tree |
/// | [`cpu_weight`](Self::cpu_weight) | its tree's share of the processor |
/// | [`ask_grace`](Self::ask_grace) | how long the end of its input may take to end it |
/// | [`survives_supervisor`](Self::survives_supervisor) | it lives on when its supervisor ends without a word |
/// | [`deadline`](Self::deadline) | how long the spawn may take |
/// | [`this_program`](Self::this_program) | this program once more, in a role |
/// | [`max_depth`](Self::max_depth) | how deep that may go on |
/// | [`channel`](Self::channel) | a channel to the receiver of its events |
/// | [`channel_limits`](Self::channel_limits) | how much the channel holds |
/// | [`stderr_events`](Self::stderr_events) | standard error as events |
/// | [`ready`](Self::ready) | how it says that it is ready, and how long that may take |
/// | [`liveness`](Self::liveness) | how it is told that it still works |
/// | [`on_fault`](Self::on_fault) | what becomes of it when that, or its channel, is at fault |
///
/// Debug shows program, arguments, working directory and the *names* of changed variables, never their values.
pub struct Command {
    pub(crate) program: OsString,
    pub(crate) arg0: Option<OsString>,
    pub(crate) args: Vec<OsString>,
    pub(crate) env_cleared: bool,
    /// `None`: removed.
    pub(crate) env: BTreeMap<OsString, Option<OsString>>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) stdin: Option<Stdio>,
    pub(crate) stdout: Option<Stdio>,
    pub(crate) stderr: Option<Stdio>,
    pub(crate) settings: Settings,
    pub(crate) kind: Option<ChildKind>,
    pub(crate) service: Option<ServiceName>,
    pub(crate) kill_on_drop: bool,
    pub(crate) ask: Option<Duration>,
    pub(crate) survives: bool,
    pub(crate) deadline: Option<Duration>,
    #[cfg(pidward_linux)]
    pub(crate) channel: channel::Settings,
    /// It is this program once more.
    #[cfg(pidward_linux)]
    pub(crate) copy: Option<role::Copy>,
}

impl Command {
    /// `program` without arguments, with our environment and working directory.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Command {
            program: program.as_ref().to_owned(),
            arg0: None,
            args: Vec::new(),
            env_cleared: false,
            env: BTreeMap::new(),
            cwd: None,
            stdin: None,
            stdout: None,
            stderr: None,
            settings: Settings::default(),
            kind: None,
            service: None,
            kill_on_drop: false,
            ask: None,
            survives: false,
            deadline: None,
            #[cfg(pidward_linux)]
            channel: channel::Settings::default(),
            #[cfg(pidward_linux)]
            copy: None,
        }
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    ///
    /// What is not changed comes from our environment as it is at the spawn, without what says who *we* are:
    /// `PIDWARD_SUBPROCESS`, `PIDWARD_NONCE`, `PIDWARD_API_SERVER`, `PIDWARD_ROLE` and `PIDWARD_CHANNEL`; and
    /// `AGENT_NAME`, `MCP_SERVICE_ID` and `PIDWARD_TASK` where `PIDWARD_SUBPROCESS=1` shows that a supervisor
    /// gave them to us. A child that inherited them would pass for its own supervisor. Set here, they are
    /// passed on.
    pub fn env<K, V>(&mut self, key: K, val: V) -> &mut Command
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.env.insert(key.as_ref().to_owned(), Some(val.as_ref().to_owned()));
        self
    }

    /// Sets variables.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        for (key, val) in vars {
            self.env(key, val);
        }
        self
    }

    /// Removes a variable.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        let key = key.as_ref();
        if self.env_cleared && !in_tree(key) {
            self.env.remove(key);
        } else {
            self.env.insert(key.to_owned(), None);
        }
        self
    }

    /// Starts from an empty environment.
    ///
    /// Variables whose name starts with `PIDWARD_TREE_`, or with the prefix of the spawner's
    /// [`MarkerNames`](crate::MarkerNames), stay: by them the supervisors further out find what descends from them.
    /// [`env_remove`](Self::env_remove) of the very name is obeyed, under the default prefix.
    pub fn env_clear(&mut self) -> &mut Command {
        self.env_cleared = true;
        self.env.retain(|key, _| in_tree(key));
        self
    }

    /// The working directory, entered with the rights of the child.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.cwd = Some(dir.as_ref().to_owned());
        self
    }

    /// Standard input. Default: inherited; nothing (`/dev/null`) for `output`.
    pub fn stdin<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.stdin = Some(cfg.into());
        self
    }

    /// Standard output. Default: inherited; a pipe for `output`.
    pub fn stdout<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.stdout = Some(cfg.into());
        self
    }

    /// Standard error. Default: inherited; a pipe for `output`.
    pub fn stderr<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.stderr = Some(cfg.into());
        self
    }

    /// The program as it was named.
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        &self.program
    }

    /// The arguments without argv\[0\].
    pub fn get_args(&self) -> impl ExactSizeIterator<Item = &OsStr> + Clone + fmt::Debug {
        self.args.iter().map(OsString::as_os_str as fn(&OsString) -> &OsStr)
    }

    /// The changes to the environment, sorted by name; `None` is a removal. Markers are not among them.
    pub fn get_envs(&self) -> impl ExactSizeIterator<Item = (&OsStr, Option<&OsStr>)> + Clone {
        self.env.iter().map(|(key, val)| (key.as_os_str(), val.as_deref()))
    }

    /// The working directory, if one is set.
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    setters! {
        /// What kind of child it is. With a [`service`](Self::service) name it gets the markers of that kind.
        kind(kind: ChildKind) => kind = Some(kind);

        /// The name by which the child can be recognised; with it come its markers, which no change to the
        /// environment takes away. The kind is [`ChildKind::Task`] if none is given.
        service(service: &ServiceName) => service = Some(service.clone());
    }

    /// argv\[0\], where it is not to be the program.
    #[cfg(unix)]
    pub fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.arg0 = Some(arg.as_ref().to_owned());
        self
    }
}

fn in_tree(key: &OsStr) -> bool {
    key.as_encoded_bytes().starts_with(TREE_PREFIX.as_bytes())
}

/// Gives the child kind and name, and so its markers.
pub fn mark_child(cmd: &mut Command, kind: ChildKind, service: &ServiceName) {
    cmd.kind(kind).service(service);
}

/// SIGTERM for the child when its supervisor ends. This is the default; the call undoes a
/// [`death_signal(None)`](Command::death_signal), which says what other systems make of it.
pub fn arm_parent_death_signal(cmd: &mut Command) {
    cmd.death_signal(Some(Signal::TERM));
}

/// Takes over program, arguments, changes to the environment and working directory.
///
/// std does not let anybody see the rest (streams, ids, group, argv\[0\], hooks), nor whether `env_clear` was
/// called: set them again.
impl From<&process::Command> for Command {
    fn from(std: &process::Command) -> Command {
        let mut cmd = Command::new(std.get_program());
        cmd.args(std.get_args());
        cmd.env.extend(std.get_envs().map(|(key, val)| (key.to_owned(), val.map(OsStr::to_owned))));
        cmd.cwd = std.get_current_dir().map(Path::to_owned);
        cmd
    }
}

/// Changes to the environment without their values: `+NAME` is set, `-NAME` removed.
struct Names<'a>(btree_map::Iter<'a, OsString, Option<OsString>>);

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |set: bool| if set { '+' } else { '-' };
        let names = self.0.clone().map(|(key, val)| format!("{}{}", sign(val.is_some()), key.display()));
        f.debug_list().entries(names).finish()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env_cleared", &self.env_cleared)
            .field("env", &Names(self.env.iter()))
            .field("current_dir", &self.cwd)
            .field("kind", &self.kind)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
