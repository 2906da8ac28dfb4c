//! From bytes to the members of an object.

use std::{borrow::Cow, str};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::MessageError;

/// A whole message of which the type is known, and that it is JSON. Memory is taken for the type only.
pub(super) struct Head<'a> {
    pub(super) text: &'a str,
    tag: Tag<'a>,
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

impl<'a> Head<'a> {
    pub(super) fn of(frame: &'a [u8]) -> Result<Head<'a>, MessageError> {
        let text = str::from_utf8(frame).map_err(|_| MessageError::NotAMessage)?;
        // An array would do for the reader below.
        if !text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
            return Err(MessageError::NotAMessage);
        }
        let tag = serde_json::from_str(text).map_err(|_| MessageError::NotAMessage)?;
        Ok(Head { text, tag })
    }

    pub(super) fn kind(&self) -> &str {
        &self.tag.kind
    }
}

/// The members of a message; each is taken once.
pub(super) struct Fields {
    kind: &'static str,
    members: Map<String, Value>,
}

impl Fields {
    pub(super) fn of(head: &Head<'_>, kind: &'static str) -> Result<Fields, MessageError> {
        let members = serde_json::from_str(head.text).map_err(|_| MessageError::malformed(kind, None))?;
        Ok(Fields { kind, members })
    }

    /// Those of an object inside a message.
    pub(super) fn inside(kind: &'static str, members: Map<String, Value>) -> Fields {
        Fields { kind, members }
    }

    fn fault(&self, field: &'static str) -> MessageError {
        MessageError::malformed(self.kind, field)
    }

    /// A member of an object inside has a path; its name is what follows the dot.
    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.members.remove(field.rsplit('.').next().unwrap_or(field))
    }

    /// `None` where it is not there, or null.
    fn optional<T>(
        &mut self,
        field: &'static str,
        convert: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, MessageError> {
        match self.take(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => convert(value).map(Some).ok_or_else(|| self.fault(field)),
        }
    }

    /// Any value, null too.
    pub(super) fn value(&mut self, field: &'static str) -> Result<Value, MessageError> {
        self.take(field).ok_or_else(|| self.fault(field))
    }

    pub(super) fn any(&mut self, field: &'static str) -> Value {
        self.take(field).unwrap_or_default()
    }

    pub(super) fn number(&mut self, field: &'static str) -> Result<Option<u64>, MessageError> {
        self.optional(field, |value| value.as_u64())
    }

    pub(super) fn small_number(&mut self, field: &'static str) -> Result<Option<u32>, MessageError> {
        self.optional(field, |value| value.as_u64().and_then(|number| u32::try_from(number).ok()))
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<Option<String>, MessageError> {
        self.optional(field, |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    pub(super) fn needed_text(&mut self, field: &'static str) -> Result<String, MessageError> {
        self.text(field)?.ok_or_else(|| self.fault(field))
    }

    pub(super) fn object(&mut self, field: &'static str) -> Result<Map<String, Value>, MessageError> {
        let object = self.optional(field, |value| match value {
            Value::Object(object) => Some(object),
            _ => None,
        });
        Ok(object?.unwrap_or_default())
    }
}
