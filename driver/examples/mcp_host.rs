//! A host of MCP servers that speak over their standard streams: starts each, greets it, shows the names of its tools, and stops it. A stop
//! ends its input first; whoever is left after two seconds gets SIGTERM, and in the end SIGKILL, with everybody it has started: also what
//! is below a launcher that has ended.
//!
//! `cargo run --features json --example mcp_host -- npx -y @modelcontextprotocol/server-everything -- uvx mcp-server-time`
//!
//! Each `--` begins another server; without any these two are started. The code is 0 where each has shown its tools.

use std::{collections::BTreeMap, env, error::Error, ffi::OsString, process::ExitCode, time::Duration};

use pidward::{Command, Event, Events, Liveness, Node, NodeId, Ready, Spawner, Transport};
use serde_json::{Value, json};

/// How long a server may take to answer the greeting: a launcher may have to fetch it first.
const START: Duration = Duration::from_secs(60);

/// How long it may take for everything.
const ALL: Duration = Duration::from_secs(120);

/// How much is shown of what is no message.
const SHOWN: usize = 200;

/// The ids of the two requests.
const GREETING: u64 = 1;
const TOOLS: u64 = 2;

/// Where it is started by hand, without a word.
const DEFAULT: [&[&str]; 2] =
    [&["npx", "-y", "@modelcontextprotocol/server-everything"], &["uvx", "mcp-server-time"]];

/// One server, and what it has shown so far.
struct Server {
    node: Node,
    tools: Vec<String>,
    has_listed: bool,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    let mut lines: Vec<Vec<OsString>> =
        args.split(|arg| arg == "--").filter(|line| !line.is_empty()).map(<[_]>::to_vec).collect();
    if lines.is_empty() {
        lines = DEFAULT.iter().map(|line| line.iter().map(OsString::from).collect()).collect();
    }
    let (spawner, events) = (Spawner::new()?, Events::new()?);
    let mut servers = BTreeMap::new();
    for line in &lines {
        let mut node = start(&events, &spawner, line)?;
        let id = node.id();
        println!("{id}: pid {}, {}", node.child().id(), line[0].display());
        let server = Server { node, tools: Vec::new(), has_listed: false };
        server.send(&greeting());
        servers.insert(id, server);
    }
    let mut all_listed = true;
    // Ends with the exit of the last; whatever they do, their time ends.
    while let Some((id, event)) = events.recv(None) {
        let Some(server) = servers.get_mut(&id) else { continue };
        server.take(id, &event);
        if let Event::Exit { .. } = event {
            all_listed &= server.has_listed;
            servers.remove(&id);
        }
        if servers.is_empty() {
            break;
        }
    }
    println!("all have ended");
    Ok(if all_listed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts a server. It is ready when it has answered the greeting; one that does not is stopped.
fn start(events: &Events, spawner: &Spawner, line: &[OsString]) -> Result<Node, pidward::SpawnError> {
    let mut cmd = Command::new(&line[0]);
    cmd.args(&line[1..])
        .channel(Transport::Lines)
        .stderr_events(true)
        .ready(Ready::Frame(|frame| message(frame).is_some_and(|m| m["id"] == GREETING)), START)
        .liveness(Liveness::new().deadline(ALL));
    events.spawn(spawner, &cmd)
}

fn greeting() -> Value {
    json!({"jsonrpc": "2.0", "id": GREETING, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "mcp_host", "version": env!("CARGO_PKG_VERSION")},
    }})
}

/// What a line says, if it is a message at all.
fn message(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    (message["jsonrpc"] == "2.0").then_some(message)
}

impl Server {
    fn send(&self, message: &Value) {
        // Closed: it has ended, and the exit says so. Full: it does not read, and its time ends.
        if let Err(e) = self.node.send(message.to_string().as_bytes()) {
            println!("{}: not sent: {e}", self.node.id());
        }
    }

    fn take(&mut self, id: NodeId, event: &Event) {
        match event {
            Event::Frame(line) => match message(line) {
                Some(message) => self.answer(id, &message),
                // Something in it prints where only messages belong. Nothing is broken by that: a line is a line.
                None => println!("{id}: no message: {}", shown(line)),
            },
            Event::Stderr(line) => println!("{id}: stderr: {}", shown(line)),
            Event::FailedToStart(why) => println!("{id}: {why}"),
            Event::Protocol(error) => println!("{id}: {error}"),
            Event::Exit { status, cause, rung, .. } => {
                let status = status.map_or("status unknown".to_string(), |status| status.to_string());
                println!("{id}: ended: {status}, cause {cause:?}, rung {rung:?}");
            }
            other => println!("{id}: {other:?}"),
        }
    }

    /// Takes a message: an answer, or a request or word of the server's own.
    fn answer(&mut self, id: NodeId, message: &Value) {
        if let Some(method) = message["method"].as_str() {
            let answer = match (message.get("id"), method) {
                (None, _) => return,
                (Some(number), "ping") => json!({"jsonrpc": "2.0", "id": number, "result": {}}),
                (Some(number), _) => json!({"jsonrpc": "2.0", "id": number,
                    "error": {"code": -32601, "message": "this host has no such method"}}),
            };
            return self.send(&answer);
        }
        let result = &message["result"];
        if message.get("error").is_some() {
            println!("{id}: refused: {}", shown(message["error"].to_string().as_bytes()));
            self.node.begin_stop();
        } else if message["id"] == GREETING {
            let text = |value: &Value| value.as_str().unwrap_or("?").escape_debug().to_string();
            let (name, version) = (&result["serverInfo"]["name"], &result["protocolVersion"]);
            println!("{id}: server {}, protocol {}", text(name), text(version));
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            self.send(&json!({"jsonrpc": "2.0", "id": TOOLS, "method": "tools/list"}));
        } else if message["id"] == TOOLS {
            let names =
                result["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str());
            self.tools.extend(names.map(|name| name.escape_debug().to_string()));
            if let Some(cursor) = result["nextCursor"].as_str() {
                let params = json!({"cursor": cursor});
                return self
                    .send(&json!({"jsonrpc": "2.0", "id": TOOLS, "method": "tools/list", "params": params}));
            }
            println!("{id}: tools: {}", self.tools.join(" "));
            self.has_listed = true;
            self.node.begin_stop();
        }
    }
}

/// A line of a stranger's, so that it can be shown: no control character, and not longer than a screen takes.
fn shown(line: &[u8]) -> String {
    let (head, more) = (&line[..line.len().min(SHOWN)], line.len().saturating_sub(SHOWN));
    let end = if more == 0 { String::new() } else { format!(" … and {more} bytes") };
    format!("{}{end}", head.escape_ascii())
}
