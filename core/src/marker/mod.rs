//! Markers: entries in a child's environ by which it can be known again.
//!
//! A marker that is *present* is evidence; one that is absent, unreadable or not there yet is none. Descendants inherit markers, and
//! between fork and exec a child shows its parent's. Kinds never stand in for each other. Of a name that comes twice the first
//! entry counts.
#![forbid(unsafe_code)]

mod run;
mod scan;
#[cfg(test)]
mod tests;

pub use run::{Run, Tails};
pub use scan::{Carried, Cookie, Scan, Tree};

use crate::procfs::{Entry, Matcher};

/// What a child is to its supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildKind {
    /// An agent.
    Agent,
    /// An MCP server.
    Mcp,
    /// An API server: known by its name alone, without the general marker.
    Api,
    /// Anything else.
    Task,
}

impl ChildKind {
    /// The variable that names a child of this kind, as [`Names::DEFAULT`] has it.
    pub const fn marker_env(self) -> &'static str {
        Names::DEFAULT.of(self)
    }
}

/// The names of the variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// Marks every child but an API server; its value is exactly `1`.
    pub general: &'a str,
    /// Names an agent.
    pub agent: &'a str,
    /// Names an MCP server.
    pub mcp: &'a str,
    /// Names an API server.
    pub api: &'a str,
    /// Names a task.
    pub task: &'a str,
    /// The nonce of one spawn.
    pub nonce: &'a str,
    /// The role of a re-executed copy.
    pub role: &'a str,
    /// The descriptor of the control channel.
    pub channel: &'a str,
    /// What comes before the run id in the name of a run's entry; [`Run`].
    pub tree: &'a str,
}

impl Names<'static> {
    /// The names in use unless others are configured.
    pub const DEFAULT: Names<'static> = Names {
        general: "PIDWARD_SUBPROCESS",
        agent: "AGENT_NAME",
        mcp: "MCP_SERVICE_ID",
        api: "PIDWARD_API_SERVER",
        task: "PIDWARD_TASK",
        nonce: "PIDWARD_NONCE",
        role: "PIDWARD_ROLE",
        channel: "PIDWARD_CHANNEL",
        tree: "PIDWARD_TREE_",
    };
}

impl<'a> Names<'a> {
    /// The variable that names a child of this kind.
    pub const fn of(&self, kind: ChildKind) -> &'a str {
        match kind {
            ChildKind::Agent => self.agent,
            ChildKind::Mcp => self.mcp,
            ChildKind::Api => self.api,
            ChildKind::Task => self.task,
        }
    }
}

/// The entries by which a child of one kind and name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Markers<'a> {
    general: Option<&'a str>,
    key: &'a str,
    service: &'a str,
}

impl<'a> Markers<'a> {
    /// Those of a child of this kind and service name.
    pub fn new(names: &Names<'a>, kind: ChildKind, service: &'a str) -> Markers<'a> {
        let general = (kind != ChildKind::Api).then_some(names.general);
        Markers { general, key: names.of(kind), service }
    }

    /// Looks for the entries: general marker, name.
    pub fn matcher(&self) -> Matcher<'a, 2> {
        let general = self.general.map(|name| (name, "1")).unwrap_or_default();
        Matcher::pairs([bytes(general), bytes((self.key, self.service))])
    }

    /// Whether what the [`matcher`](Self::matcher) found are all of the entries. `false` proves nothing.
    pub fn proven(&self, [general, name]: [Entry; 2]) -> bool {
        name == Entry::Same && (self.general.is_none() || general == Entry::Same)
    }

    /// Whether a whole environ holds all of the entries; its last one may lack the NUL.
    pub fn are_in(&self, environ: &[u8]) -> bool {
        let mut matcher = self.matcher();
        matcher.feed(environ);
        self.proven(matcher.finish())
    }
}

/// Whether an environ holds the general marker and `key=name`.
pub fn environ_identifies_child(environ: &[u8], key: &str, name: &str) -> bool {
    let general = Some(Names::DEFAULT.general);
    Markers { general, key, service: name }.are_in(environ)
}

/// Whether an environ is that of the API server of this name.
pub fn environ_identifies_api_server(environ: &[u8], service: &str) -> bool {
    Markers::new(&Names::DEFAULT, ChildKind::Api, service).are_in(environ)
}

/// Whether an environ holds any variable: one without was withheld or overwritten, and proves nothing.
pub fn environ_has_entries(environ: &[u8]) -> bool {
    environ.contains(&b'=')
}

const fn bytes<'a>((name, value): (&'a str, &'a str)) -> (&'a [u8], &'a [u8]) {
    (name.as_bytes(), value.as_bytes())
}
