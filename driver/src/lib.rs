//! pidward: child processes that cannot outlive their supervisor.
//!
//! # Other systems
//!
//! Everything is built and tested for Linux with 64 bit. On other systems the crate compiles, and [`Command`], [`Spawner`] and [`Child`] start
//! programs, capture output, wait and give exit codes, as std does. What they cannot do there fails closed:
//!
//! - Nobody is ever known by a number or a record: [`identity_verification_supported`], [`live_pid_is_subprocess`] and [`is_zombie`] are
//!   `false`, [`live_environ`] is `None`, each [`Verdict`] is [`Unknown`](Verdict::Unknown) with [`Why::Unsupported`], each [`StopOwned`]
//!   is [`Unverifiable`](StopOwned::Unverifiable), and [`stamp_api_server`] leaves the process as it is.
//! - Nothing is signalled but the own child that is unreaped, by [`Child::kill`], [`Child::stop`], [`Spawner::shutdown`] and the drop of the
//!   last handle: those end the child, not what it has started. There is no SIGTERM: the grace begins with the end of its input.
//! - There is neither death signal nor guard: children outlive a supervisor that ends without a word, and the log says so once.
//! - What a [`Command`] asks for and the system has not is the error [`Unsupported`](SpawnErrorKind::Unsupported), and no child exists. A
//!   [`Registry`] cannot be opened.
//! - Linux only: events, channels, roles, trees and agents (messages are read and written everywhere), `Reaper`, `CgroupGuard`, `Listing`, `Listener`, `Mechanism`, `Usage`, `Stopping`, `Limit`, `Resource`
//!   and the methods that take or give them; `Command::exec` and `foreground`; `AsFd` of a child; the feature `cli`.
#![forbid(unsafe_code)]

#[cfg(all(feature = "cli", not(pidward_linux)))]
compile_error!("the command pidward is for Linux with 64 bit: leave the feature `cli` out");

#[cfg(all(feature = "json", pidward_linux))]
pub mod agent;
#[cfg(pidward_linux)]
mod carriers;
#[cfg(pidward_linux)]
pub mod channel;
#[cfg_attr(not(pidward_linux), path = "other/child.rs")]
mod child;
mod command;
#[cfg(pidward_linux)]
mod drain;
#[cfg_attr(not(pidward_linux), path = "other/error.rs")]
mod error;
#[cfg_attr(not(pidward_linux), path = "other/identity.rs")]
mod identity;
#[cfg(pidward_linux)]
mod leaves;
mod markers;
#[cfg(pidward_linux)]
mod members;
#[cfg(feature = "json")]
pub mod message;
mod names;
#[cfg(pidward_linux)]
mod ports;
#[cfg_attr(not(pidward_linux), path = "other/prepare.rs")]
mod prepare;
mod probe;
#[cfg(pidward_linux)]
mod reaper;
#[cfg_attr(not(pidward_linux), path = "other/registry.rs")]
pub mod registry;
mod report;
pub mod restart;
#[cfg(pidward_linux)]
pub mod role;
mod say;
#[cfg_attr(not(pidward_linux), path = "other/spawner.rs")]
pub mod spawner;
#[cfg_attr(not(pidward_linux), path = "other/stamp.rs")]
mod stamp;
mod stdio;
#[cfg(pidward_linux)]
mod stop;
#[cfg(all(feature = "json", pidward_linux))]
mod subagent;
#[cfg(pidward_linux)]
mod tree;

pub use child::{Child, ChildState};
pub use command::{Command, arm_parent_death_signal, mark_child, place_in_own_process_group};
pub use error::{SpawnError, SpawnErrorKind};
pub use identity::{Field, Identity, IdentityError, StopOwned, Verdict, Why, is_running, verify};
pub use markers::{MarkerNames, MarkerNamesError};
#[cfg(feature = "json")]
pub use message::{AgentMsg, ControlMsg, MessageError, SpawnPayload, UnknownMsg};
pub use names::{
    AGENT_NAME_ENV, API_SERVER_ENV, API_SERVER_SERVICE, API_SERVER_STAMP_ENV, ApiServerStamp, CHANNEL_ENV,
    ChildKind, DEPTH_ENV, MCP_SERVICE_ID_ENV, NONCE_ENV, SUBAGENT_ENV, SUBPROCESS_MARKER_ENV, ServiceName,
    ServiceNameError, TASK_NAME_ENV, TREE_ENV, api_server_service,
};
pub use pidward_core::{Errno, Signal, ladder::Rung};
pub use probe::{
    environ_has_entries, environ_identifies_api_server, environ_identifies_child,
    identity_verification_supported, is_zombie, live_environ, live_pid_is_subprocess, signalable_pid,
};
pub use registry::{Registry, RegistryError};
pub use report::{Cause, StopReport, Stopped, Survivor};
pub use spawner::{OnLastDrop, Spawner, SpawnerBuilder};
pub use stamp::stamp_api_server;
pub use stdio::{ChildStderr, ChildStdin, ChildStdout, Stdio};
#[cfg(all(feature = "json", pidward_linux))]
pub use subagent::{Subagent, spawn};
#[cfg(pidward_linux)]
pub use {
    channel::{
        ChannelLimits, Event, Events, Liveness, Node, OnFault, ProtocolError, ProtocolErrorKind, Ready,
        SendError, StartFailure, Transport,
    },
    command::Resource,
    error::Limit,
    leaves::{CgroupGuard, CgroupPlace},
    pidward_core::{liveness::Verdict as Health, reap::Usage, spawn::Mechanism},
    ports::Listener,
    reaper::{NodeId, Reaped, Reaper},
    registry::Listing,
    role::Role,
    stop::Stopping,
    tree::{Tree, TreeLimits, TreeRefusal},
};

/// The example in the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
