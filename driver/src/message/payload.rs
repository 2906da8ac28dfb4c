//! What an agent is started for.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{error::MessageError, read::Fields};

/// The version that this crate writes.
pub(super) const VERSION: u32 = 1;

const KIND: &str = "spawn";

/// What an agent is started for. It goes to the agent as the first frame of its channel, never by its arguments or its environment, so
/// that it may hold what others must not see. Debug shows version and depth only.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SpawnPayload {
    /// The version of the payload: 1.
    pub v: u32,
    /// As what the program is started: the value of its role variable too, which other programs of the user can see.
    pub role: String,
    /// What is to be done.
    pub task: Value,
    /// How deep in the tree it is. Given by the supervisor, whatever the agent says of itself.
    pub depth: u32,
    /// What it may use.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub limits: Map<String, Value>,
    /// How it is called elsewhere.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub ids: Map<String, Value>,
    /// Anything else.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl SpawnPayload {
    /// A payload of depth 0 without limits, ids and extras, which are set as fields.
    pub fn new(role: impl Into<String>, task: impl Into<Value>) -> SpawnPayload {
        SpawnPayload {
            v: VERSION,
            role: role.into(),
            task: task.into(),
            depth: 0,
            limits: Map::new(),
            ids: Map::new(),
            extra: Map::new(),
        }
    }

    pub(super) fn from_value(value: Value) -> Result<SpawnPayload, MessageError> {
        let Value::Object(members) = value else { return Err(MessageError::malformed(KIND, "payload")) };
        let mut fields = Fields::inside(KIND, members);
        // First: of a later version nothing else is known.
        let v = match fields.number("payload.v")? {
            Some(v) if v == u64::from(VERSION) => VERSION,
            Some(v) if v > u64::from(VERSION) => return Err(MessageError::Version { v }),
            _ => return Err(MessageError::malformed(KIND, "payload.v")),
        };
        Ok(SpawnPayload {
            v,
            role: fields.needed_text("payload.role")?,
            task: fields.any("payload.task"),
            depth: fields.small_number("payload.depth")?.unwrap_or_default(),
            limits: fields.object("payload.limits")?,
            ids: fields.object("payload.ids")?,
            extra: fields.object("payload.extra")?,
        })
    }
}

impl fmt::Debug for SpawnPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnPayload").field("v", &self.v).field("depth", &self.depth).finish_non_exhaustive()
    }
}
