//! What a child is called: its kind and its service name, and the variables that say so.

use std::{error, ffi::OsStr, fmt, path::Path, str::FromStr};

use pidward_core::{
    marker::{self, Names},
    name::{self, MAX_NAME, NameError},
};

use crate::probe::{environ_identifies_api_server, environ_identifies_child};

/// Marks a child of a supervisor; its value is exactly `1`.
pub const SUBPROCESS_MARKER_ENV: &str = Names::DEFAULT.general;
/// Names an agent.
pub const AGENT_NAME_ENV: &str = Names::DEFAULT.agent;
/// Names an MCP server.
pub const MCP_SERVICE_ID_ENV: &str = Names::DEFAULT.mcp;
/// Names an API server.
pub const API_SERVER_ENV: &str = Names::DEFAULT.api;
/// Pid and start ticks of the process that [`stamp_api_server`](crate::stamp_api_server) has stamped, `pid:ticks`: an inherited
/// [`API_SERVER_ENV`] is no stamp.
pub const API_SERVER_STAMP_ENV: &str = "PIDWARD_API_SERVER_STAMP";
/// Names a task.
pub const TASK_NAME_ENV: &str = Names::DEFAULT.task;
/// The nonce of one spawn.
pub const NONCE_ENV: &str = Names::DEFAULT.nonce;
/// The role of a re-executed copy of this program.
pub const SUBAGENT_ENV: &str = Names::DEFAULT.role;
/// How deep a role is below the first program, and how deep its tree may be: `2/4`. Inherited by all below.
pub const DEPTH_ENV: &str = "PIDWARD_DEPTH";
/// The descriptor of the control channel.
pub const CHANNEL_ENV: &str = Names::DEFAULT.channel;
/// How the variable begins that all descendants of one supervisor run inherit; `_` and the id of the run follow.
pub const TREE_ENV: &str = "PIDWARD_TREE";
/// Variables by which each supervisor run finds its descendants start with this; the id of the run follows.
pub(crate) const TREE_PREFIX: &str = Names::DEFAULT.tree;

/// What a child is to its supervisor. The markers of one kind never prove a child of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChildKind {
    /// An agent.
    Agent,
    /// An MCP server.
    Mcp,
    /// An API server. It carries its name only, not [`SUBPROCESS_MARKER_ENV`].
    Api,
    /// Anything else.
    Task,
}

/// The value of [`API_SERVER_ENV`] in an API server.
pub const API_SERVER_SERVICE: &str = "api";

/// What [`stamp_api_server`](crate::stamp_api_server) came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether others can know this process"]
pub enum ApiServerStamp {
    /// The kernel shows the stamp. On Linux only.
    Stamped,
    /// The kernel does not show this process its own environ: nobody could tell whether a stamp is there, and none was set.
    Unverifiable,
}

/// The one service name that an API server has.
pub fn api_server_service() -> ServiceName {
    ServiceName(API_SERVER_SERVICE.to_owned())
}

impl ChildKind {
    /// Whether an environ, as the kernel shows it, is that of a child of this kind and name. Kinds do not stand in for each other:
    /// an agent's markers never prove an MCP server. The general marker is needed too, except for an API server.
    pub fn identifies(self, environ: &[u8], service: &ServiceName) -> bool {
        match self {
            ChildKind::Api => environ_identifies_api_server(environ, service.as_str()),
            _ => environ_identifies_child(environ, self.marker_env(), service.as_str()),
        }
    }

    /// The variable that holds the service name of a child of this kind.
    pub const fn marker_env(self) -> &'static str {
        self.core().marker_env()
    }

    /// The same, as core has it.
    pub(crate) const fn core(self) -> marker::ChildKind {
        match self {
            ChildKind::Agent => marker::ChildKind::Agent,
            ChildKind::Mcp => marker::ChildKind::Mcp,
            ChildKind::Api => marker::ChildKind::Api,
            ChildKind::Task => marker::ChildKind::Task,
        }
    }
}

/// The name of a child: 1 to 128 bytes of UTF-8 without NUL, `=`, `/` and control characters; not `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(String);

impl ServiceName {
    /// The text as a name.
    ///
    /// # Errors
    /// It breaks the rule; nothing is replaced or cut.
    pub fn try_new(text: impl Into<String>) -> Result<ServiceName, ServiceNameError> {
        let text = text.into();
        match name::check(text.as_bytes()) {
            Ok(_) => Ok(ServiceName(text)),
            Err(rule) => Err(ServiceNameError(rule)),
        }
    }

    /// The base name of a program; each byte that breaks the rule becomes `-`.
    pub fn of_program(program: &OsStr) -> ServiceName {
        let base = Path::new(program).file_name().unwrap_or_default();
        let mut name = String::new();
        for chunk in base.as_encoded_bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '=' || c == '/' || c.is_control() {
                    name.extend(std::iter::repeat_n('-', c.len_utf8()));
                } else {
                    name.push(c);
                }
            }
            name.extend(chunk.invalid().iter().map(|_| '-'));
        }
        while name.len() > MAX_NAME {
            name.pop();
        }
        ServiceName::try_new(name).unwrap_or_else(|_| ServiceName("-".to_owned()))
    }

    /// A record holds no other names.
    #[cfg(pidward_linux)]
    pub(crate) fn of_record(text: &str) -> ServiceName {
        ServiceName(text.to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServiceName {
    type Err = ServiceNameError;

    fn from_str(text: &str) -> Result<ServiceName, ServiceNameError> {
        ServiceName::try_new(text)
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is no [`ServiceName`]; Display says which rule it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceNameError(NameError);

impl fmt::Display for ServiceNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the service name {}", self.0)
    }
}

impl error::Error for ServiceNameError {}
