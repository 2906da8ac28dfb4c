//! A supervisor with one agent: what it starts, and what comes of it, in words.

use std::time::Duration;

use pidward::{AgentMsg, Command, Event, Events, NodeId, SpawnPayload, Spawner, Subagent, message::Value};
use pidward_tests::{channel, fixture, leftovers::NoLeftovers};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Stage {
    pub(crate) events: Events,
    pub(crate) spawner: Spawner,
    pub(crate) guard: NoLeftovers,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage { events: Events::new().unwrap(), spawner: Spawner::new().unwrap(), guard: NoLeftovers::new() }
    }

    /// The fixture.
    pub(crate) fn command(&self) -> Command {
        let mut cmd = Command::new(fixture!("agent"));
        cmd.env(self.guard.token().0, self.guard.token().1);
        cmd
    }

    /// Starts it in a role, as node 1.
    pub(crate) fn start(&self, role: &str, task: impl Into<Value>) -> Subagent {
        self.start_as(&mut self.command(), &SpawnPayload::new(role, task))
    }

    /// Starts a command, as node 1.
    pub(crate) fn start_as(&self, cmd: &mut Command, payload: &SpawnPayload) -> Subagent {
        Subagent::spawn(cmd, payload, NodeId(1), &self.events, &self.spawner).unwrap()
    }

    /// The next event, as a word.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        let (node, event) = channel::next(&self.events);
        assert_eq!(node, NodeId(1));
        word(&event)
    }

    /// All events to the exit, as words.
    #[track_caller]
    pub(crate) fn to_exit(&self) -> Vec<String> {
        let mut words = Vec::new();
        // Ends with the exit; every event comes in time.
        loop {
            words.push(self.next());
            if words.last().is_some_and(|word| word.starts_with("exit")) {
                assert!(self.events.try_recv().is_none(), "something after {words:?}");
                return words;
            }
        }
    }
}

pub(crate) fn word(event: &Event) -> String {
    let Event::Frame(bytes) = event else { return channel::word(event) };
    match AgentMsg::parse(bytes).unwrap() {
        AgentMsg::Ready => "ready".into(),
        AgentMsg::Pong { id, .. } => format!("pong {}", id.map_or(-1, |id| id as i64)),
        AgentMsg::Event { name, fields, .. } if name.len() < 100 => {
            format!("event {name} {}", fields.get("n").and_then(Value::as_u64).unwrap_or(u64::MAX))
        }
        AgentMsg::Event { name, .. } => format!("event of {}", name.len()),
        AgentMsg::Turn { outcome, .. } => format!("turn {outcome}"),
        AgentMsg::Result { outcome, .. } => format!("result {outcome}"),
        AgentMsg::Failed { error, .. } => format!("failed {error}"),
        AgentMsg::Unknown(message) => format!("unknown {}", message.kind()),
        other => panic!("{other:?}"),
    }
}
