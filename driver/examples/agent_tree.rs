//! A tree of agents, all of them this program: it starts an agent, that one starts the next, three deep. Three trees are grown. The first
//! works and its results travel up; the second is cancelled from above; of the third the one in the middle is killed, and whoever
//! is below it goes down with it.
//!
//! `cargo run --features json --example agent_tree`

use std::{
    error::Error,
    thread,
    time::{Duration, Instant},
};

use pidward::{
    AgentMsg, Command, ControlMsg, Event, Events, Identity, NodeId, ServiceName, Signal, SpawnPayload,
    Spawner, Subagent, Verdict,
    agent::{self, Agent, AgentError, Input, Refused},
    message::{Map, Value},
};

/// How deep the tree is.
const DEEPEST: u32 = 3;

/// What the first agent is told: to end the one below it, as an out-of-memory kill would.
const CRASH: &str = "crash";

/// Of every thread here.
type Failure = Box<dyn Error + Send + Sync>;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Failure> {
    match agent::connect() {
        Ok(agent) => work(&agent),
        Err(AgentError::NotAnAgent | AgentError::BadChannel(_)) => grow_all(),
        Err(e) => Err(e.into()),
    }
}

/// Starts the agent of the next depth: this program once more.
fn start(depth: u32, events: &Events, spawner: &Spawner) -> Result<Subagent, Failure> {
    let role: ServiceName = "level".parse()?;
    let mut cmd = Command::this_program(&role)?;
    let mut payload = SpawnPayload::new(role.as_str(), "");
    payload.depth = depth;
    Ok(Subagent::spawn(&mut cmd, &payload, NodeId(1), events, spawner)?)
}

// An agent.

fn work(agent: &Agent) -> Result<(), Failure> {
    let depth = agent.payload().depth;
    agent.ready()?;
    if depth < DEEPEST {
        return manage(agent, depth);
    }
    // The lowest: it does what it is told, unless it is cancelled.
    let outcome = match agent.next(None) {
        Ok(Some(Input::Message(word))) => format!("depth {depth} has done: {}", word.as_str().unwrap_or("?")),
        Err(Refused::Cancelled) => {
            format!("depth {depth} was cancelled: {}", agent.cancel_reason().unwrap_or_default())
        }
        _ => return Ok(agent.failed("nothing to do")?),
    };
    Ok(agent.result(outcome)?)
}

/// Has the task done by the agent below, and passes on what is said in both directions.
fn manage(agent: &Agent, depth: u32) -> Result<(), Failure> {
    let (spawner, events) = (Spawner::new()?, Events::new()?);
    let mut below = start(depth + 1, &events, &spawner)?;
    let identity = below.child().identity()?;
    agent.event("started", fields(depth + 1, &identity))?;
    thread::scope(|scope| {
        let up = scope.spawn(|| pass_up(agent, &events, depth));
        // Ends when the agent's work has: by a cancel, by what has come from below, or with its supervisor.
        loop {
            match agent.next(None) {
                Ok(Some(Input::Message(word))) if word == CRASH => below.child().signal(Signal::KILL)?,
                // Here and below: whoever has ended meanwhile needs no word any more.
                Ok(Some(Input::Message(word))) => _ = below.send(&ControlMsg::inject(word)),
                Ok(_) => {}
                Err(Refused::Cancelled) => {
                    let reason = agent.cancel_reason().unwrap_or_default();
                    _ = below.send(&ControlMsg::cancel_because(reason));
                    break;
                }
                Err(_) => break,
            }
        }
        up.join().map_err(|_| "the thread that passes on has panicked")?
    })
}

/// Passes on what the agent below says, to its exit.
fn pass_up(agent: &Agent, events: &Events, depth: u32) -> Result<(), Failure> {
    let mut done = false;
    // Ends with the exit, which is the last event.
    while let Some((_, event)) = events.recv(None) {
        match event {
            Event::Frame(frame) => match AgentMsg::parse(&frame)? {
                AgentMsg::Result { outcome, .. } => {
                    done = true;
                    agent.result(vec![Value::from(format!("depth {depth} passes on")), outcome])?;
                }
                AgentMsg::Failed { error, .. } => {
                    done = true;
                    agent.failed(error)?;
                }
                AgentMsg::Event { name, fields, .. } => agent.event(name, fields)?,
                _ => {}
            },
            Event::Exit { status, .. } => {
                if !done {
                    let how = status.map_or("in an unknown way".to_string(), |status| status.to_string());
                    agent.failed(format!("depth {} has ended: {how}", depth + 1))?;
                }
                break;
            }
            _ => {}
        }
    }
    Ok(())
}

fn fields(depth: u32, identity: &Identity) -> Map<String, Value> {
    let text = [("depth", Value::from(depth)), ("identity", Value::from(identity.to_string()))];
    text.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

// The supervisor of all.

fn grow_all() -> Result<(), Failure> {
    let (spawner, events) = (Spawner::new()?, Events::new()?);
    let words = [
        ("results", ControlMsg::inject("the task")),
        ("cancel", ControlMsg::cancel_because("enough")),
        ("crash", ControlMsg::inject(CRASH)),
    ];
    for (name, word) in words {
        Tree::grow(name, &events, &spawner)?.follow(&word)?;
    }
    Ok(())
}

/// A tree as its root sees it.
struct Tree<'a> {
    name: &'static str,
    first: Subagent,
    events: &'a Events,
    all: Vec<Identity>,
}

impl Tree<'_> {
    fn grow<'a>(name: &'static str, events: &'a Events, spawner: &Spawner) -> Result<Tree<'a>, Failure> {
        let mut first = start(1, events, spawner)?;
        let identity = first.child().identity()?;
        println!("{name}: depth 1 is pid {}", identity.pid());
        Ok(Tree { name, first, events, all: vec![identity] })
    }

    /// Follows it to its end. The first agent is given `word` once the tree is as deep as it gets.
    fn follow(&mut self, word: &ControlMsg) -> Result<(), Failure> {
        let name = self.name;
        // Ends with the exit of the first agent, which is the last event.
        loop {
            match self.events.recv(Some(LIMIT)).ok_or("nothing happens")?.1 {
                Event::Frame(frame) => match AgentMsg::parse(&frame)? {
                    AgentMsg::Event { fields, .. } => {
                        let identity: Identity = fields["identity"].as_str().unwrap_or_default().parse()?;
                        println!("{name}: depth {} is pid {}", fields["depth"], identity.pid());
                        self.all.push(identity);
                        if self.all.len() == DEEPEST as usize {
                            self.first.send(word)?;
                        }
                    }
                    AgentMsg::Result { outcome, .. } => println!("{name}: result {outcome}"),
                    AgentMsg::Failed { error, .. } => println!("{name}: failed: {error}"),
                    _ => {}
                },
                Event::Exit { .. } => break,
                _ => {}
            }
        }
        let began = Instant::now();
        // A zombie that nobody has reaped yet is not the same any more either: it has ended.
        while self.all.iter().any(|identity| matches!(identity.verify(), Verdict::Same | Verdict::Unknown(_)))
        {
            if began.elapsed() > LIMIT {
                return Err(format!("{name}: somebody is left").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        println!("{name}: nobody is left of {}", self.all.len());
        Ok(())
    }
}
