//! Both parsers of messages against a table of the documented members, applied to what `serde_json::Value` reads.
#![no_main]

use std::fmt;

use libfuzzer_sys::fuzz_target;
use pidward::{AgentMsg, ControlMsg, MessageError};
use serde_json::{
    Map, Value, from_slice, json,
    value::Value::{Null, Object},
};

/// What a member may be, and what is written where it is absent or null (`None`: nothing).
enum Kind {
    /// Null is a value like others, and there must be one.
    Any,
    Needed(fn(&Value) -> bool),
    Optional(fn(&Value) -> bool, Option<Value>),
    Payload,
}

type Table = Vec<(&'static str, Vec<(&'static str, Kind)>)>;

fn small(value: &Value) -> bool {
    value.as_u64().is_some_and(|n| n < 1 << 32)
}

fn control() -> Table {
    vec![
        ("spawn", vec![("payload", Kind::Payload)]),
        ("ping", vec![("id", Kind::Optional(Value::is_u64, None))]),
        ("pause", vec![]),
        ("resume", vec![]),
        ("cancel", vec![("reason", Kind::Optional(Value::is_string, None))]),
        ("inject", vec![("message", Kind::Any)]),
    ]
}

fn agent() -> Table {
    vec![
        ("ready", vec![]),
        ("pong", vec![("id", Kind::Optional(Value::is_u64, None))]),
        (
            "event",
            vec![
                ("name", Kind::Needed(Value::is_string)),
                ("fields", Kind::Optional(Value::is_object, None)),
            ],
        ),
        ("turn", vec![("outcome", Kind::Any)]),
        ("result", vec![("outcome", Kind::Any)]),
        ("failed", vec![("error", Kind::Needed(Value::is_string))]),
    ]
}

fn payload() -> Vec<(&'static str, Kind)> {
    vec![
        ("v", Kind::Needed(|v| *v == json!(1))),
        ("role", Kind::Needed(Value::is_string)),
        ("task", Kind::Optional(|_| true, Some(Null))),
        ("depth", Kind::Optional(small, Some(json!(0)))),
        ("limits", Kind::Optional(Value::is_object, None)),
        ("ids", Kind::Optional(Value::is_object, None)),
        ("extra", Kind::Optional(Value::is_object, None)),
    ]
}

/// The same with the members of the table alone, or `None` where one is not of its kind.
fn normal(from: &Map<String, Value>, table: &[(&'static str, Kind)]) -> Option<Map<String, Value>> {
    let mut to = Map::new();
    for (name, kind) in table {
        let value = from.get(*name);
        let given = value.filter(|value| !value.is_null());
        let kept = match kind {
            Kind::Any => Some(value?.clone()),
            Kind::Needed(fits) => Some(given.filter(|value| fits(value))?.clone()),
            Kind::Optional(fits, absent) => match given {
                None => absent.clone(),
                Some(value) if fits(value) => {
                    Some(value.clone()).filter(|v| absent.is_some() || *v != json!({}))
                }
                Some(_) => return None,
            },
            Kind::Payload => Some(Object(normal(given?.as_object()?, &payload())?)),
        };
        to.extend(kept.map(|value| (name.to_string(), value)));
    }
    Some(to)
}

/// How often an object has a member `type`.
struct Types(usize);

impl<'de> serde::Deserialize<'de> for Types {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Types, D::Error> {
        struct Count;
        impl<'de> serde::de::Visitor<'de> for Count {
            type Value = Types;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Types, A::Error> {
                let mut count = 0;
                while let Some((key, serde::de::IgnoredAny)) = map.next_entry::<String, _>()? {
                    count += usize::from(key == "type");
                }
                Ok(Types(count))
            }
        }
        from.deserialize_map(Count)
    }
}

/// `ours`: what was read, as it shows itself and as it is written; with the type where that is not known.
fn check(data: &[u8], table: &Table, ours: Result<(String, Vec<u8>, Option<String>), MessageError>) {
    let whole = from_slice::<Value>(data).ok();
    let object = whole.as_ref().and_then(Value::as_object);
    let tag = object.and_then(|object| object.get("type")).and_then(Value::as_str);
    let members = |tag: &str| table.iter().find(|(known, _)| *known == tag).map(|(_, members)| members);
    match ours {
        Ok((shown, written, Some(kind))) => {
            assert_eq!(written, data, "passed on as it came");
            assert_eq!(shown, format!("Unknown({} bytes)", data.len()));
            assert!(members(&kind).is_none());
            assert!(whole.is_none() || tag == Some(&kind));
        }
        Ok((shown, written, None)) => {
            assert!(shown.len() < 80, "{shown}");
            let tag = tag.expect("an object with a type");
            let mut expected = normal(object.expect("an object"), members(tag).expect("a known type"));
            let expected = expected.as_mut().expect("of its shape");
            expected.insert("type".into(), tag.into());
            assert_eq!(from_slice::<Value>(&written).expect("JSON"), Object(expected.clone()));
        }
        Err(MessageError::NotAMessage) => {
            let twice = || from_slice::<Types>(data).is_ok_and(|types| types.0 > 1);
            assert!(tag.is_none() || twice(), "{tag:?}");
        }
        Err(MessageError::Malformed { kind, field: None, .. }) => {
            assert!(whole.is_none() && members(kind).is_some());
        }
        Err(MessageError::Malformed { kind, field: Some(_), .. }) => {
            assert_eq!(tag, Some(kind));
            let members = members(kind).expect("a known type");
            assert_eq!(normal(object.expect("an object"), members), None);
        }
        Err(MessageError::Version { v, .. }) => {
            assert_eq!(tag, Some("spawn"));
            assert!(v > 1 && whole.expect("JSON")["payload"]["v"] == json!(v));
        }
        Err(other) => panic!("{other:?}"),
    }
}

fuzz_target!(|data: &[u8]| {
    let down = ControlMsg::parse(data);
    if let Ok(message) = &down {
        assert_eq!(ControlMsg::parse(&message.to_bytes()).as_ref(), Ok(message));
    }
    let kind = |m: &ControlMsg| match m {
        ControlMsg::Unknown(m) => Some(m.kind().to_string()),
        _ => None,
    };
    check(data, &control(), down.map(|m| (format!("{m:?}"), m.to_bytes(), kind(&m))));
    let up = AgentMsg::parse(data);
    if let Ok(message) = &up {
        assert_eq!(AgentMsg::parse(&message.to_bytes()).as_ref(), Ok(message));
    }
    let kind = |m: &AgentMsg| match m {
        AgentMsg::Unknown(m) => Some(m.kind().to_string()),
        _ => None,
    };
    check(data, &agent(), up.map(|m| (format!("{m:?}"), m.to_bytes(), kind(&m))));
});
