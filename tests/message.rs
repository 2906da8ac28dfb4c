//! Messages between a supervisor and its agents: the documented wire form, what is refused, and that nothing is shown.

use std::{fs, io, path::Path};

use pidward::{AgentMsg, ControlMsg, MessageError, SpawnPayload, message::Map, message::Value};
use serde_json::json;

type Parsed = Result<(String, Vec<u8>), MessageError>;

fn down(bytes: &[u8]) -> Parsed {
    ControlMsg::parse(bytes).map(|message| (format!("{message:?}"), message.to_bytes()))
}

fn up(bytes: &[u8]) -> Parsed {
    AgentMsg::parse(bytes).map(|message| (format!("{message:?}"), message.to_bytes()))
}

/// The examples of a section: whatever stands in its blocks of JSON.
fn examples(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line {
            "```json" => inside = true,
            "```" => inside = false,
            line if inside => found.push(line),
            _ => {}
        }
    }
    found
}

#[test]
fn each_documented_example_is_read_and_written_again() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/docs/messages.md");
    let text = fs::read_to_string(path).unwrap();
    let (control, agent) = text.split_once("# From the agent").unwrap();
    let (control, agent) = (examples(control), examples(agent));
    assert_eq!((control.len(), agent.len()), (9, 8));
    for (examples, parse, other) in
        [(control, down as fn(&[u8]) -> Parsed, up as fn(&[u8]) -> Parsed), (agent, up, down)]
    {
        for example in examples {
            let (shown, written) = parse(example.as_bytes()).unwrap();
            assert!(!shown.starts_with("Unknown"), "{example}: {shown}");
            assert_eq!(String::from_utf8(written).unwrap(), example);
            // To the other side it is a type like any other.
            let (shown, written) = other(example.as_bytes()).unwrap();
            assert!(shown.starts_with("Unknown") && written == example.as_bytes(), "{example}: {shown}");
            // What is not known, in any order, changes nothing.
            let mut more: Value = serde_json::from_str(example).unwrap();
            more["aa"] = json!({"type": "no", "deep": [[1e300, null]]});
            more["zz"] = json!("more");
            let more = serde_json::to_vec(&more).unwrap();
            assert_eq!(parse(&more).unwrap().1, example.as_bytes());
        }
    }
}

#[test]
fn constructors_make_what_the_parser_reads() {
    let fields: Map<String, Value> = [("n".to_string(), json!(0.1))].into_iter().collect();
    let mut payload = SpawnPayload::new("worker", json!({"do": ["this", 1.0e-7]}));
    payload.depth = u32::MAX;
    payload.ids.insert("run".into(), json!("r"));
    for message in [
        ControlMsg::Spawn(payload),
        ControlMsg::ping(u64::MAX),
        ControlMsg::ping(None),
        ControlMsg::Pause,
        ControlMsg::Resume,
        ControlMsg::cancel(),
        ControlMsg::cancel_because("why"),
        ControlMsg::inject(Value::Null),
        ControlMsg::inject("text"),
    ] {
        assert_eq!(ControlMsg::parse(&message.to_bytes()), Ok(message));
    }
    for message in [
        AgentMsg::Ready,
        AgentMsg::pong(7),
        AgentMsg::pong(None),
        AgentMsg::event("name", fields),
        AgentMsg::event("", Map::new()),
        AgentMsg::turn(json!([1, 2])),
        AgentMsg::result(Value::Null),
        AgentMsg::failed("why"),
    ] {
        assert_eq!(AgentMsg::parse(&message.to_bytes()), Ok(message));
    }
}

#[test]
fn unknown_types_come_through_byte_for_byte() {
    for text in [
        r#"{"type":"swap_intel","to":"there"}"#,
        " \n{ \"a\" : 1e999 , \"type\" : \"Ping\" }\t",
        r#"{"type":"","type2":1}"#,
        r#"{"type":"naïve","x":"\ud800"}"#,
        r#"{"\u0074ype":"pin\u0067s"}"#,
    ] {
        for parse in [down, up] {
            let (shown, written) = parse(text.as_bytes()).unwrap();
            assert_eq!(
                (shown, written),
                (format!("Unknown({} bytes)", text.len()), text.as_bytes().to_vec())
            );
        }
    }
    let Ok(ControlMsg::Unknown(message)) = ControlMsg::parse(br#"{"\u0074ype":"pin\u0067s"}"#) else {
        panic!()
    };
    assert_eq!(message.kind(), "pings");
    let deep = format!(r#"{{"type":"other","x":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(down(deep.as_bytes()).unwrap().1, deep.as_bytes());
}

#[test]
fn what_is_no_message_is_said_to_be_none() {
    for text in [
        "",
        " ",
        "{",
        "[]",
        "null",
        "\"ping\"",
        "7",
        "[\"ping\"]",
        "[{\"type\":\"ping\"}]",
        "{}",
        "{\"Type\":\"ping\"}",
        "{\"type\":null}",
        "{\"type\":1}",
        "{\"type\":[\"ping\"]}",
        "{\"type\":\"ping\"} {",
        "{\"type\":\"ping\",}",
        "{\"type\":\"ping\",\"type\":\"pong\"}",
        "{\"type\":\"ping\" \"id\":1}",
        "{'type':'ping'}",
        "Loading...",
        "\u{feff}{\"type\":\"ping\"}",
        "{\"type\":\"ping\"}\0",
    ] {
        assert_eq!(
            [down(text.as_bytes()), up(text.as_bytes())],
            [const { Err(MessageError::NotAMessage) }; 2],
            "{text}"
        );
    }
    let not_utf8 = b"{\"type\":\"other\",\"x\":\"\xff\"}";
    assert_eq!(down(not_utf8), Err(MessageError::NotAMessage));
}

#[test]
fn known_types_of_another_shape_name_the_member() {
    let malformed = |parse: fn(&[u8]) -> Parsed, text: &str| match parse(text.as_bytes()) {
        Err(error @ MessageError::Malformed { kind, field, .. }) => {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("secret"), "{shown}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidData);
            format!("{kind} {}", field.unwrap_or("-"))
        }
        other => panic!("{text}: {other:?}"),
    };
    for (text, expected) in [
        (r#"{"type":"ping","id":"secret"}"#, "ping id"),
        (r#"{"type":"ping","id":-1}"#, "ping id"),
        (r#"{"type":"ping","id":1.5}"#, "ping id"),
        (r#"{"type":"ping","id":18446744073709551616}"#, "ping id"),
        (r#"{"type":"pause","x":1e999}"#, "pause -"),
        (r#"{"type":"cancel","reason":{"secret":1}}"#, "cancel reason"),
        (r#"{"type":"inject"}"#, "inject message"),
        (r#"{"type":"inject","message":"\ud800 secret"}"#, "inject -"),
        (r#"{"type":"spawn"}"#, "spawn payload"),
        (r#"{"type":"spawn","payload":"secret"}"#, "spawn payload"),
        (r#"{"type":"spawn","payload":{"role":"r"}}"#, "spawn payload.v"),
        (r#"{"type":"spawn","payload":{"v":0,"role":"r"}}"#, "spawn payload.v"),
        (r#"{"type":"spawn","payload":{"v":"1","role":"r"}}"#, "spawn payload.v"),
        (r#"{"type":"spawn","payload":{"v":1,"task":"secret"}}"#, "spawn payload.role"),
        (r#"{"type":"spawn","payload":{"v":1,"role":["secret"]}}"#, "spawn payload.role"),
        (r#"{"type":"spawn","payload":{"v":1,"role":"r","depth":4294967296}}"#, "spawn payload.depth"),
        (r#"{"type":"spawn","payload":{"v":1,"role":"r","limits":["secret"]}}"#, "spawn payload.limits"),
        (r#"{"type":"spawn","payload":{"v":1,"role":"r","ids":"secret"}}"#, "spawn payload.ids"),
        (r#"{"type":"spawn","payload":{"v":1,"role":"r","extra":7}}"#, "spawn payload.extra"),
    ] {
        assert_eq!(malformed(down, text), expected);
    }
    for (text, expected) in [
        (r#"{"type":"pong","id":true}"#, "pong id"),
        (r#"{"type":"event","fields":{}}"#, "event name"),
        (r#"{"type":"event","name":null}"#, "event name"),
        (r#"{"type":"event","name":"secret","fields":[1]}"#, "event fields"),
        (r#"{"type":"turn"}"#, "turn outcome"),
        (r#"{"type":"result","Outcome":"secret"}"#, "result outcome"),
        (r#"{"type":"failed","error":{"secret":1}}"#, "failed error"),
    ] {
        assert_eq!(malformed(up, text), expected);
    }
    let deep = format!(r#"{{"type":"turn","outcome":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(malformed(up, &deep), "turn -");
}

#[test]
fn payload_of_a_later_version_is_refused_before_anything_else() {
    let later = ControlMsg::parse(br#"{"type":"spawn","payload":{"v":2,"role":["secret"]}}"#).unwrap_err();
    assert!(matches!(later, MessageError::Version { v: 2, .. }) && !later.to_string().contains("secret"));
    assert_eq!(io::Error::from(later).kind(), io::ErrorKind::Unsupported);
    let nulls =
        br#"{"type":"spawn","payload":{"v":1,"role":"r","task":null,"depth":null,"limits":null,"ids":null}}"#;
    assert_eq!(ControlMsg::parse(nulls), Ok(ControlMsg::Spawn(SpawnPayload::new("r", Value::Null))));
}

#[test]
fn debug_shows_nothing_of_a_message() {
    let mut payload = SpawnPayload::new("secret", "secret");
    payload.extra.insert("secret".into(), "secret".into());
    let fields: Map<String, Value> = [("secret".to_string(), json!("secret"))].into_iter().collect();
    let unknown = br#"{"type":"secret"}"#;
    let shown = format!(
        "{:?} {:?}",
        [
            ControlMsg::Spawn(payload),
            ControlMsg::cancel_because("secret"),
            ControlMsg::inject("secret"),
            ControlMsg::parse(unknown).unwrap(),
        ],
        [
            AgentMsg::event("secret", fields),
            AgentMsg::turn("secret"),
            AgentMsg::result("secret"),
            AgentMsg::failed("secret"),
            AgentMsg::parse(unknown).unwrap(),
        ],
    );
    assert!(
        !shown.contains("secret") && shown.contains("Spawn(SpawnPayload { v: 1, depth: 0, .. })"),
        "{shown}"
    );
}
