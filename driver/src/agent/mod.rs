//! The agent's side: what a program does that was started by [`spawn`](fn@crate::spawn).
//!
//! ```no_run
//! use pidward::agent::{self, AgentError, Input};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let agent = match agent::connect() {
//!         Ok(agent) => agent,
//!         // Started by hand, or by a tool of some agent further up.
//!         Err(AgentError::NotAnAgent | AgentError::BadChannel(_)) => return Ok(println!("usage: …")),
//!         Err(e) => return Err(e.into()),
//!     };
//!     agent.ready()?;
//!     // Ends when the supervisor cancels, or goes.
//!     while let Ok(Some(Input::Message(input))) = agent.next(None) {
//!         agent.turn(input)?;
//!     }
//!     Ok(agent.result("done")?)
//! }
//! ```
//!
//! # What is promised
//!
//! - Pings are answered by a thread of its own, whatever the work loop does. A second one reads, and never waits for the supervisor: a
//!   supervisor that writes much before it reads does not stand still, nor does the agent.
//! - Sending waits until the kernel has taken the whole frame. Frames of several threads do not mix.
//! - While the supervisor has paused the agent, [`event`](Agent::event), [`turn`](Agent::turn), [`next`](Agent::next) and
//!   [`checkpoint`](Agent::checkpoint) wait, and nothing is lost. One event may be under way when the pause comes. Results and failures do not
//!   wait.
//! - After a cancel, paused or not, [`event`](Agent::event), [`next`](Agent::next) and [`checkpoint`](Agent::checkpoint) are
//!   [`Refused`]: a loop that calls one of them each turn ends within one turn. A [`turn`](Agent::turn) and a result are still sent.
//! - When the channel is closed, because the supervisor has gone or wants no more, all waits end, and after five seconds the process does, with
//!   [`CLOSED_EXIT_CODE`], unless the [`Agent`] was dropped by then.
//! - What [`Command`](crate::Command) starts gets neither variable and no channel.
//!
//! # What is not
//!
//! - The two variables stay in this process: to remove them is unsafe in a program that may have threads. Nobody gets the channel who is
//!   started later, by whatever means; a program that starts others by other means than [`Command`](crate::Command) may remove
//!   [`SUBAGENT_ENV`](crate::SUBAGENT_ENV) and [`CHANNEL_ENV`](crate::CHANNEL_ENV) there. Where they are inherited all the same,
//!   [`connect`] is [`AgentError::BadChannel`], and takes nothing that the program has opened itself.
//! - Injected messages wait in memory until they are taken.
//! - The number of the channel stays open until the end of the process, close-on-exec; what is sent ends with the [`Agent`].

use std::{
    env, fmt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use pidward_core::{Errno, frame::DEFAULT_CAP};

mod error;
mod listen;
mod state;
mod wire;

pub use error::{AgentError, Refused};

use self::{state::Shared, wire::Wire};
use crate::{
    channel::Reader,
    markers::MarkerNames,
    message::{AgentMsg, Map, SpawnPayload, UnknownMsg, Value},
    role::take_channel,
    spawner::lock,
};

/// With which an agent ends whose channel is closed and whose work does not end by itself: `EX_UNAVAILABLE` of sysexits(3).
pub const CLOSED_EXIT_CODE: i32 = 69;

/// How long the work may take to end once the channel is closed.
const GRACE: Duration = Duration::from_secs(5);

/// How an agent connects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentSettings {
    /// The names of the variables, where the spawner has [others](crate::SpawnerBuilder::markers).
    pub names: MarkerNames,
    /// How long the payload is waited for: 30 s.
    pub payload_wait: Duration,
    /// The longest frame, in both directions: 16 MiB, as [`ChannelLimits::frame`](crate::ChannelLimits::frame).
    pub frame: u32,
}

impl Default for AgentSettings {
    fn default() -> AgentSettings {
        let (names, payload_wait) = (MarkerNames::default(), Duration::from_secs(30));
        AgentSettings { names, payload_wait, frame: DEFAULT_CAP }
    }
}

/// What the supervisor gives a running agent.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// Input for the next turn.
    Message(Value),
    /// A message of a type that this version does not know.
    Unknown(UnknownMsg),
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Message(_) => f.write_str("Message"),
            Input::Unknown(message) => message.fmt(f),
        }
    }
}

/// This process, as an agent of its supervisor. From any thread.
///
/// Dropping it ends what is sent: the supervisor reads what was sent, then the end.
pub struct Agent {
    payload: SpawnPayload,
    shared: Arc<Shared>,
}

/// Becomes the agent that this program was started as: takes the channel, and reads the payload. Once in a process, before it starts
/// others.
///
/// # Errors
/// [`AgentError`]. After [`NotAnAgent`](AgentError::NotAnAgent) and [`BadChannel`](AgentError::BadChannel) nothing was touched.
pub fn connect() -> Result<Agent, AgentError> {
    connect_with(&AgentSettings::default())
}

/// As [`connect`], otherwise than by default.
///
/// # Errors
/// As [`connect`].
pub fn connect_with(settings: &AgentSettings) -> Result<Agent, AgentError> {
    let names = settings.names.core();
    let (Some(_), Some(number)) = (env::var_os(names.role), env::var_os(names.channel)) else {
        return Err(AgentError::NotAnAgent);
    };
    let fd = take_channel(&number).map_err(AgentError::BadChannel)?;
    let mut reader = Reader::new(false, settings.frame);
    let (payload, rest) = listen::payload(&fd, &mut reader, settings.payload_wait)?;
    let shared = Arc::new(Shared::new(Wire::new(fd, settings.frame)));
    // Ends the first thread where there is none for the second.
    let agent = Agent { payload, shared: Arc::clone(&shared) };
    let answering = Arc::clone(&shared);
    start("pidward-pong", move || listen::answer(&answering))?;
    start("pidward-agent", move || listen::listen(&shared, reader, &rest))?;
    Ok(agent)
}

fn start(name: &str, main: impl FnOnce() + Send + 'static) -> Result<(), AgentError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(main);
    let errno = |e: std::io::Error| e.raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::ENOMEM);
    started.map(drop).map_err(|e| AgentError::Resources(errno(e)))
}

impl Agent {
    /// What it was started for.
    pub fn payload(&self) -> &SpawnPayload {
        &self.payload
    }

    /// Says that the work begins.
    ///
    /// # Errors
    /// [`Refused`], but for [`Cancelled`](Refused::Cancelled).
    pub fn ready(&self) -> Result<(), Refused> {
        self.send(&AgentMsg::Ready)
    }

    /// Says that something has happened.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn event(&self, name: impl Into<String>, fields: Map<String, Value>) -> Result<(), Refused> {
        self.send(&AgentMsg::event(name, fields))
    }

    /// Says that a turn is over, and what has come of it.
    ///
    /// # Errors
    /// [`Refused`], but for [`Cancelled`](Refused::Cancelled).
    pub fn turn(&self, outcome: impl Into<Value>) -> Result<(), Refused> {
        self.send(&AgentMsg::turn(outcome))
    }

    /// Ends the work with what has come of it. Nothing but pongs is sent after it.
    ///
    /// # Errors
    /// [`Refused`], but for [`Cancelled`](Refused::Cancelled).
    pub fn result(&self, outcome: impl Into<Value>) -> Result<(), Refused> {
        self.send(&AgentMsg::result(outcome))
    }

    /// Ends the work, which has failed. Nothing but pongs is sent after it.
    ///
    /// # Errors
    /// [`Refused`], but for [`Cancelled`](Refused::Cancelled).
    pub fn failed(&self, error: impl Into<String>) -> Result<(), Refused> {
        self.send(&AgentMsg::failed(error))
    }

    /// Sends any message: types of the caller's own as [`AgentMsg::parse`] gives them, held back and refused as events are.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn send(&self, message: &AgentMsg) -> Result<(), Refused> {
        match message {
            AgentMsg::Result { .. } | AgentMsg::Failed { .. } => return self.send_last(message),
            AgentMsg::Event { .. } | AgentMsg::Unknown(_) => self.shared.pass()?,
            AgentMsg::Turn { .. } => match self.shared.pass() {
                // Its supervisor may still listen, and what was done is done.
                Ok(()) | Err(Refused::Cancelled | Refused::Closed) => {}
                Err(refused) => return Err(refused),
            },
            AgentMsg::Ready if lock(&self.shared.state).ended => return Err(Refused::Ended),
            AgentMsg::Ready | AgentMsg::Pong { .. } => {}
        }
        self.shared.wire.send(&self.shared, &message.to_bytes())
    }

    fn send_last(&self, message: &AgentMsg) -> Result<(), Refused> {
        if std::mem::replace(&mut lock(&self.shared.state).ended, true) {
            return Err(Refused::Ended);
        }
        let sent = self.shared.wire.send(&self.shared, &message.to_bytes());
        // Also wakes a thread that waits for input.
        self.shared.change(|state| state.ended = sent != Err(Refused::TooLarge));
        sent
    }

    /// The next input; waits for it, at most so long, and for the end of a pause. `None`: there was none.
    ///
    /// # Errors
    /// [`Refused::Cancelled`], [`Refused::Closed`], [`Refused::Ended`]: the work is over, whatever waits.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<Input>, Refused> {
        // So long that it cannot be said when it is over.
        self.shared.next(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// For a work loop between two steps: waits for the end of a pause, and says whether to go on.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn checkpoint(&self) -> Result<(), Refused> {
        self.shared.pass()
    }

    /// Whether to go on, without waiting: cancelled, or the channel is closed.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.shared.state).refused().is_some()
    }

    /// Why the supervisor has cancelled the work, if it has and said so.
    pub fn cancel_reason(&self) -> Option<String> {
        lock(&self.shared.state).reason.clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.change(|state| state.dropped = true);
        self.shared.wire.end();
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("payload", &self.payload).finish_non_exhaustive()
    }
}
