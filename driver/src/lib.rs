//! pidward: child processes that cannot outlive their supervisor.
#![forbid(unsafe_code)]

#[cfg(feature = "json")]
pub mod agent;
mod carriers;
pub mod channel;
mod child;
mod command;
mod drain;
mod error;
mod identity;
mod leaves;
mod markers;
mod members;
#[cfg(feature = "json")]
pub mod message;
mod names;
mod ports;
mod prepare;
mod probe;
mod reaper;
pub mod registry;
mod report;
pub mod restart;
pub mod role;
mod say;
pub mod spawner;
mod stamp;
mod stdio;
mod stop;
#[cfg(feature = "json")]
mod subagent;
mod tree;

pub use channel::{
    ChannelLimits, Event, Events, Liveness, Node, OnFault, ProtocolError, ProtocolErrorKind, Ready,
    SendError, StartFailure, Transport,
};
pub use child::{Child, ChildState};
pub use command::{Command, Resource, arm_parent_death_signal, mark_child, place_in_own_process_group};
pub use error::{Limit, SpawnError, SpawnErrorKind};
pub use identity::{Field, Identity, IdentityError, StopOwned, Verdict, Why, is_running, verify};
pub use leaves::{CgroupGuard, CgroupPlace};
pub use markers::{MarkerNames, MarkerNamesError};
#[cfg(feature = "json")]
pub use message::{AgentMsg, ControlMsg, MessageError, SpawnPayload, UnknownMsg};
pub use names::{
    AGENT_NAME_ENV, API_SERVER_ENV, API_SERVER_SERVICE, API_SERVER_STAMP_ENV, CHANNEL_ENV, ChildKind,
    DEPTH_ENV, MCP_SERVICE_ID_ENV, NONCE_ENV, SUBAGENT_ENV, SUBPROCESS_MARKER_ENV, ServiceName,
    ServiceNameError, TASK_NAME_ENV, TREE_ENV,
};
pub use pidward_core::{
    Errno, Signal, ladder::Rung, liveness::Verdict as Health, reap::Usage, spawn::Mechanism,
};
pub use ports::Listener;
pub use probe::{
    environ_has_entries, environ_identifies_api_server, environ_identifies_child,
    identity_verification_supported, is_zombie, live_environ, live_pid_is_subprocess, signalable_pid,
};
pub use reaper::{NodeId, Reaped, Reaper};
pub use registry::{Listing, Registry, RegistryError};
pub use report::{Cause, StopReport, Stopped, Survivor};
pub use role::Role;
pub use spawner::{OnLastDrop, Spawner, SpawnerBuilder};
pub use stamp::{ApiServerStamp, api_server_service, stamp_api_server};
pub use stdio::{ChildStderr, ChildStdin, ChildStdout, Stdio};
pub use stop::Stopping;
#[cfg(feature = "json")]
pub use subagent::{Subagent, spawn};
pub use tree::{Tree, TreeLimits, TreeRefusal};

/// The example in the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
