//! What the child inherits, by the names of the variables.

use super::*;
use crate::names::ServiceName;

/// The entries that the command makes of `vars`.
fn environ_of(cmd: &Command, vars: &[(&str, &str)]) -> Vec<String> {
    let marked = vars.contains(&("PIDWARD_SUBPROCESS", "1"));
    let vars = vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let environ = merge(cmd, vars, marked, &Names::DEFAULT).unwrap();
    environ.iter().map(|entry| String::from_utf8(entry.to_vec()).unwrap()).collect()
}

#[test]
fn a_child_does_not_inherit_the_identity_of_its_supervisor() {
    let own = [
        ("PIDWARD_SUBPROCESS", "1"),
        ("PIDWARD_NONCE", "n"),
        ("PIDWARD_API_SERVER", "api"),
        ("PIDWARD_ROLE", "r"),
        ("PIDWARD_CHANNEL", "3"),
        ("AGENT_NAME", "a"),
        ("MCP_SERVICE_ID", "m"),
        ("PIDWARD_TASK", "t"),
        ("PIDWARD_TREE_1", "i"),
        ("HOME", "/h"),
    ];
    let plain = Command::new("x");
    assert_eq!(environ_of(&plain, &own), ["PIDWARD_TREE_1=i", "HOME=/h"]);
    // Without the general marker the names are the host's own.
    let unmarked = ["AGENT_NAME=a", "MCP_SERVICE_ID=m", "PIDWARD_TASK=t", "PIDWARD_TREE_1=i", "HOME=/h"];
    assert_eq!(environ_of(&plain, &own[1..]), unmarked);
    assert_eq!(environ_of(&plain, &[("PIDWARD_SUBPROCESS", "0"), ("AGENT_NAME", "a")]), ["AGENT_NAME=a"]);
    // What the caller sets is meant.
    let mut set = Command::new("x");
    set.env("PIDWARD_ROLE", "mine").env("AGENT_NAME", "b");
    assert_eq!(environ_of(&set, &own), ["PIDWARD_TREE_1=i", "HOME=/h", "AGENT_NAME=b", "PIDWARD_ROLE=mine"]);
}

#[test]
fn clearing_keeps_the_entries_of_supervisors_further_out() {
    let inherited = [("A", "1"), ("PIDWARD_TREE_outer", "i"), ("PIDWARD_TREE", "x")];
    let mut cmd = Command::new("x");
    cmd.env("B", "2").env("PIDWARD_TREE_own", "j").env_clear().env("C", "3");
    assert_eq!(environ_of(&cmd, &inherited), ["PIDWARD_TREE_outer=i", "C=3", "PIDWARD_TREE_own=j"]);
    cmd.env_remove("PIDWARD_TREE_outer").env_remove("C").env_remove("A");
    assert_eq!(environ_of(&cmd, &inherited), ["PIDWARD_TREE_own=j"]);
    let mut changed = Command::new("x");
    changed.env_remove("A").env("PIDWARD_TREE", "y");
    assert_eq!(environ_of(&changed, &inherited), ["PIDWARD_TREE_outer=i", "PIDWARD_TREE=y"]);
}

#[test]
fn markers_say_kind_and_name_and_win_over_the_environment() {
    let name = ServiceName::try_new("n").unwrap();
    let marked = |kind: Option<ChildKind>| {
        let mut cmd = Command::new("x");
        cmd.service(&name).env("PIDWARD_SUBPROCESS", "no").env("AGENT_NAME", "no").env_clear();
        kind.map(|kind| cmd.kind(kind));
        environ_of(&cmd, &[])
    };
    assert_eq!(marked(Some(ChildKind::Agent)), ["PIDWARD_SUBPROCESS=1", "AGENT_NAME=n"]);
    assert_eq!(marked(Some(ChildKind::Mcp)), ["PIDWARD_SUBPROCESS=1", "MCP_SERVICE_ID=n"]);
    assert_eq!(marked(Some(ChildKind::Task)), ["PIDWARD_SUBPROCESS=1", "PIDWARD_TASK=n"]);
    assert_eq!(marked(None), ["PIDWARD_SUBPROCESS=1", "PIDWARD_TASK=n"]);
    // The general marker is not for an API server.
    assert_eq!(marked(Some(ChildKind::Api)), ["PIDWARD_API_SERVER=n"]);
}
