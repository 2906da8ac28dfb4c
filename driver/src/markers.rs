//! The names of the variables by which children are known, where a program wants others than the defaults.

use std::{error, fmt};

use pidward_core::marker::Names;

/// The names of the variables that the children of one spawner carry: see
/// [`SpawnerBuilder::markers`](crate::SpawnerBuilder::markers).
///
/// A name has 1 to 128 bytes, without NUL, `=` and control characters; no two are equal, and none begins with the prefix of run entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerNames {
    names: [String; 9],
}

/// Places in the array; the words name them in errors.
const FIELDS: [&str; 9] =
    ["general", "agent", "mcp", "api", "task", "nonce", "role", "channel", "tree prefix"];

macro_rules! setters {
    ($($at:literal $name:ident: $what:literal;)*) => {
        $(#[doc = $what]
        #[must_use]
        pub fn $name(mut self, name: impl Into<String>) -> MarkerNames {
            self.names[$at] = name.into();
            self
        })*
    };
}

impl MarkerNames {
    setters! {
        0 general: "Marks every child but an API server. Default [`SUBPROCESS_MARKER_ENV`](crate::SUBPROCESS_MARKER_ENV).";
        1 agent: "Names an agent. Default [`AGENT_NAME_ENV`](crate::AGENT_NAME_ENV).";
        2 mcp: "Names an MCP server. Default [`MCP_SERVICE_ID_ENV`](crate::MCP_SERVICE_ID_ENV).";
        3 api: "Names an API server. Default [`API_SERVER_ENV`](crate::API_SERVER_ENV).";
        4 task: "Names a task. Default [`TASK_NAME_ENV`](crate::TASK_NAME_ENV).";
        5 nonce: "The nonce of one spawn. Default [`NONCE_ENV`](crate::NONCE_ENV).";
        6 role: "The role of a re-executed copy. Default [`SUBAGENT_ENV`](crate::SUBAGENT_ENV).";
        7 channel: "The descriptor of the control channel. Default [`CHANNEL_ENV`](crate::CHANNEL_ENV).";
        8 tree: "What the id of the run follows in a run entry. Default [`TREE_ENV`](crate::TREE_ENV) and `_`.";
    }

    pub(crate) fn core(&self) -> Names<'_> {
        let [general, agent, mcp, api, task, nonce, role, channel, tree] = &self.names;
        Names { general, agent, mcp, api, task, nonce, role, channel, tree }
    }

    /// Whether they can be told apart, and are names of variables.
    pub(crate) fn check(&self) -> Result<(), MarkerNamesError> {
        let tree = &self.names[8];
        for (at, (name, field)) in self.names.iter().zip(FIELDS).enumerate() {
            let fault = |words| Err(MarkerNamesError { field, words });
            if name.is_empty() || name.len() > 128 {
                return fault("1 to 128 bytes");
            }
            if name.contains(|c: char| c == '=' || c.is_control()) {
                return fault("no '=' and no control character");
            }
            if self.names[..at].contains(name) {
                return fault("a name that no other has");
            }
            if at < 8 && !tree.is_empty() && name.starts_with(tree.as_str()) {
                return fault("a name that does not begin with the tree prefix");
            }
        }
        Ok(())
    }
}

impl Default for MarkerNames {
    fn default() -> MarkerNames {
        let Names { general, agent, mcp, api, task, nonce, role, channel, tree } = Names::DEFAULT;
        let names = [general, agent, mcp, api, task, nonce, role, channel, tree];
        MarkerNames { names: names.map(str::to_owned) }
    }
}

/// A name is none; Display says which and what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerNamesError {
    field: &'static str,
    words: &'static str,
}

impl fmt::Display for MarkerNamesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the marker name '{}': expected {}", self.field, self.words)
    }
}

impl error::Error for MarkerNamesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_names_and_each_rule_is_named() {
        assert_eq!(MarkerNames::default().check(), Ok(()));
        assert_eq!(MarkerNames::default().core(), Names::DEFAULT);
        for (names, field, words) in [
            (MarkerNames::default().general(""), "general", "1 to 128"),
            (MarkerNames::default().agent("x".repeat(129)), "agent", "1 to 128"),
            (MarkerNames::default().mcp("A=B"), "mcp", "no '='"),
            (MarkerNames::default().api("A\0B"), "api", "control"),
            (MarkerNames::default().nonce("PIDWARD_TASK"), "nonce", "no other has"),
            (MarkerNames::default().tree(""), "tree prefix", "1 to 128"),
            (MarkerNames::default().tree("PIDWARD_"), "general", "tree prefix"),
            (MarkerNames::default().role("PIDWARD_TREE_X"), "role", "tree prefix"),
            (MarkerNames::default().task("N\n"), "task", "control"),
            (MarkerNames::default().channel("a\u{9b}"), "channel", "control"),
        ] {
            let error = names.check().expect_err("no name");
            assert!(error.field == field && error.to_string().contains(words), "{error}");
        }
        assert_eq!(MarkerNames::default().tree("ACME_TREE_").general("ACME").check(), Ok(()));
    }
}
