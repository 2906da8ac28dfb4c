#![doc = include_str!("../../docs/messages.md")]
//!
//! # In this crate
//!
//! `parse` and `to_bytes` of [`ControlMsg`] and [`AgentMsg`] read and write the payload of a frame. Neither Debug nor an error ever shows
//! what a message holds.

use std::fmt;

use serde::Serialize;
pub use serde_json::{Map, Value};

mod error;
mod payload;
mod read;
mod unknown;

pub use self::{error::MessageError, payload::SpawnPayload, unknown::UnknownMsg};
use self::{
    read::{Fields, Head},
    unknown::unknown,
};

/// What a supervisor says to an agent.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlMsg {
    /// What the agent is started for: the first frame, once.
    Spawn(SpawnPayload),
    /// Asks for a [`Pong`](AgentMsg::Pong).
    #[non_exhaustive]
    Ping {
        /// The pong has the same.
        id: Option<u64>,
    },
    /// No events and turns until [`Resume`](Self::Resume).
    Pause,
    /// Goes on after a pause.
    Resume,
    /// Ends the work at its next turn, also while it is paused.
    #[non_exhaustive]
    Cancel {
        /// For people.
        reason: Option<String>,
    },
    /// Input for the next turn.
    #[non_exhaustive]
    Inject {
        /// The input.
        message: Value,
    },
    /// A type that this version does not know, as it came.
    Unknown(UnknownMsg),
}

/// What an agent says to its supervisor.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentMsg {
    /// It has begun to work.
    Ready,
    /// Answers a [`Ping`](ControlMsg::Ping).
    #[non_exhaustive]
    Pong {
        /// That of the ping.
        id: Option<u64>,
    },
    /// Something has happened.
    #[non_exhaustive]
    Event {
        /// What.
        name: String,
        /// More about it.
        fields: Map<String, Value>,
    },
    /// One turn is over, and there may be more.
    #[non_exhaustive]
    Turn {
        /// What has come of it.
        outcome: Value,
    },
    /// The work is done.
    #[non_exhaustive]
    Result {
        /// What has come of it.
        outcome: Value,
    },
    /// The work has failed.
    #[non_exhaustive]
    Failed {
        /// Why, for people.
        error: String,
    },
    /// A type that this version does not know, as it came.
    Unknown(UnknownMsg),
}

/// As they are written: the tag comes first.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wire<'a> {
    Spawn { payload: &'a SpawnPayload },
    Ping(Id),
    Pause,
    Resume,
    Cancel(Reason<'a>),
    Inject { message: &'a Value },
    Ready,
    Pong(Id),
    Event(EventBody<'a>),
    Turn { outcome: &'a Value },
    Result { outcome: &'a Value },
    Failed { error: &'a str },
}

#[derive(Serialize)]
struct Id {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
}

#[derive(Serialize)]
struct Reason<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct EventBody<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: &'a Map<String, Value>,
}

impl Wire<'_> {
    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("every value is JSON, every key a string, and memory takes all of it")
    }
}

impl SpawnPayload {
    /// The payload of its frame.
    pub(crate) fn to_frame(&self) -> Vec<u8> {
        Wire::Spawn { payload: self }.to_bytes()
    }
}

impl ControlMsg {
    /// A ping; the pong has the same id.
    pub fn ping(id: impl Into<Option<u64>>) -> ControlMsg {
        ControlMsg::Ping { id: id.into() }
    }

    /// A cancel without a reason.
    pub fn cancel() -> ControlMsg {
        ControlMsg::Cancel { reason: None }
    }

    /// A cancel with a reason.
    pub fn cancel_because(reason: impl Into<String>) -> ControlMsg {
        ControlMsg::Cancel { reason: Some(reason.into()) }
    }

    /// Input for the next turn.
    pub fn inject(message: impl Into<Value>) -> ControlMsg {
        ControlMsg::Inject { message: message.into() }
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// [`MessageError`]. A type that is not known is none.
    pub fn parse(frame: &[u8]) -> Result<ControlMsg, MessageError> {
        let head = Head::of(frame)?;
        Ok(match head.kind() {
            "spawn" => {
                let payload = Fields::of(&head, "spawn")?.value("payload")?;
                ControlMsg::Spawn(SpawnPayload::from_value(payload)?)
            }
            "ping" => ControlMsg::Ping { id: Fields::of(&head, "ping")?.number("id")? },
            "pause" => Fields::of(&head, "pause").map(|_| ControlMsg::Pause)?,
            "resume" => Fields::of(&head, "resume").map(|_| ControlMsg::Resume)?,
            "cancel" => ControlMsg::Cancel { reason: Fields::of(&head, "cancel")?.text("reason")? },
            "inject" => ControlMsg::Inject { message: Fields::of(&head, "inject")?.value("message")? },
            _ => ControlMsg::Unknown(unknown(&head)),
        })
    }

    /// The payload of its frame.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            ControlMsg::Spawn(payload) => payload.to_frame(),
            ControlMsg::Ping { id } => Wire::Ping(Id { id: *id }).to_bytes(),
            ControlMsg::Pause => Wire::Pause.to_bytes(),
            ControlMsg::Resume => Wire::Resume.to_bytes(),
            ControlMsg::Cancel { reason } => Wire::Cancel(Reason { reason: reason.as_deref() }).to_bytes(),
            ControlMsg::Inject { message } => Wire::Inject { message }.to_bytes(),
            ControlMsg::Unknown(message) => message.as_bytes().to_vec(),
        }
    }
}

impl AgentMsg {
    /// The answer to a ping.
    pub fn pong(id: impl Into<Option<u64>>) -> AgentMsg {
        AgentMsg::Pong { id: id.into() }
    }

    /// Something has happened.
    pub fn event(name: impl Into<String>, fields: Map<String, Value>) -> AgentMsg {
        AgentMsg::Event { name: name.into(), fields }
    }

    /// A turn is over.
    pub fn turn(outcome: impl Into<Value>) -> AgentMsg {
        AgentMsg::Turn { outcome: outcome.into() }
    }

    /// The work is done.
    pub fn result(outcome: impl Into<Value>) -> AgentMsg {
        AgentMsg::Result { outcome: outcome.into() }
    }

    /// The work has failed.
    pub fn failed(error: impl Into<String>) -> AgentMsg {
        AgentMsg::Failed { error: error.into() }
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// [`MessageError`]. A type that is not known is none.
    pub fn parse(frame: &[u8]) -> Result<AgentMsg, MessageError> {
        let head = Head::of(frame)?;
        Ok(match head.kind() {
            "ready" => Fields::of(&head, "ready").map(|_| AgentMsg::Ready)?,
            "pong" => AgentMsg::Pong { id: Fields::of(&head, "pong")?.number("id")? },
            "event" => {
                let mut fields = Fields::of(&head, "event")?;
                AgentMsg::Event { name: fields.needed_text("name")?, fields: fields.object("fields")? }
            }
            "turn" => AgentMsg::Turn { outcome: Fields::of(&head, "turn")?.value("outcome")? },
            "result" => AgentMsg::Result { outcome: Fields::of(&head, "result")?.value("outcome")? },
            "failed" => AgentMsg::Failed { error: Fields::of(&head, "failed")?.needed_text("error")? },
            _ => AgentMsg::Unknown(unknown(&head)),
        })
    }

    /// The payload of its frame.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            AgentMsg::Ready => Wire::Ready.to_bytes(),
            AgentMsg::Pong { id } => Wire::Pong(Id { id: *id }).to_bytes(),
            AgentMsg::Event { name, fields } => Wire::Event(EventBody { name, fields }).to_bytes(),
            AgentMsg::Turn { outcome } => Wire::Turn { outcome }.to_bytes(),
            AgentMsg::Result { outcome } => Wire::Result { outcome }.to_bytes(),
            AgentMsg::Failed { error } => Wire::Failed { error }.to_bytes(),
            AgentMsg::Unknown(message) => message.as_bytes().to_vec(),
        }
    }
}

/// What kind of message it is, and nothing that it holds.
impl fmt::Debug for ControlMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlMsg::Spawn(payload) => f.debug_tuple("Spawn").field(payload).finish(),
            ControlMsg::Ping { id } => f.debug_struct("Ping").field("id", id).finish(),
            ControlMsg::Pause => f.write_str("Pause"),
            ControlMsg::Resume => f.write_str("Resume"),
            ControlMsg::Cancel { .. } => f.debug_struct("Cancel").finish_non_exhaustive(),
            ControlMsg::Inject { .. } => f.debug_struct("Inject").finish_non_exhaustive(),
            ControlMsg::Unknown(message) => message.fmt(f),
        }
    }
}

/// What kind of message it is, and nothing that it holds.
impl fmt::Debug for AgentMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentMsg::Ready => f.write_str("Ready"),
            AgentMsg::Pong { id } => f.debug_struct("Pong").field("id", id).finish(),
            AgentMsg::Event { .. } => f.debug_struct("Event").finish_non_exhaustive(),
            AgentMsg::Turn { .. } => f.debug_struct("Turn").finish_non_exhaustive(),
            AgentMsg::Result { .. } => f.debug_struct("Result").finish_non_exhaustive(),
            AgentMsg::Failed { .. } => f.debug_struct("Failed").finish_non_exhaustive(),
            AgentMsg::Unknown(message) => message.fmt(f),
        }
    }
}
