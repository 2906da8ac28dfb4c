//! The environment of a child: ours as it is at the spawn, without what says who we are, then the changes.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use pidward_core::image::{self, Change, PackError};

#[cfg(test)]
mod tests;

use super::strings::Strings;
use crate::{
    command::Command,
    names::{
        AGENT_NAME_ENV, API_SERVER_ENV, API_SERVER_STAMP_ENV, CHANNEL_ENV, ChildKind, MCP_SERVICE_ID_ENV,
        NONCE_ENV, SUBAGENT_ENV, SUBPROCESS_MARKER_ENV, TASK_NAME_ENV, TREE_PREFIX,
    },
};

/// Says who this process is: never inherited.
const OWN: [&str; 6] =
    [SUBPROCESS_MARKER_ENV, NONCE_ENV, API_SERVER_ENV, API_SERVER_STAMP_ENV, SUBAGENT_ENV, CHANNEL_ENV];
/// Ours only where the general marker says that a supervisor gave them; else names of the host's own.
const OWN_IF_MARKED: [&str; 3] = [AGENT_NAME_ENV, MCP_SERVICE_ID_ENV, TASK_NAME_ENV];

pub(super) fn build(cmd: &Command) -> Result<Strings, PackError> {
    let marked = env::var_os(SUBPROCESS_MARKER_ENV).is_some_and(|value| value == "1");
    merge(cmd, env::vars_os(), marked)
}

/// `marked`: the general marker is among `vars`.
pub(super) fn merge(
    cmd: &Command,
    vars: impl Iterator<Item = (OsString, OsString)>,
    marked: bool,
) -> Result<Strings, PackError> {
    let mut inherited = Strings::with_capacity(4096);
    for (name, value) in vars {
        if !is_own(&name, marked) {
            inherited.push(&[name.as_bytes(), b"=", value.as_bytes()])?;
        }
    }
    if !cmd.env_cleared && cmd.env.is_empty() && cmd.service.is_none() {
        return Ok(inherited);
    }
    let changes = changes(cmd);
    let bytes = changes.iter().map(length).sum::<usize>() + inherited.bytes();
    Strings::packed(bytes, inherited.count() + changes.len(), |packer| {
        image::pack_environ(packer, inherited.iter(), &changes, TREE_PREFIX.as_bytes())
    })
}

fn is_own(name: &OsStr, marked: bool) -> bool {
    OWN.iter().any(|own| name == *own) || marked && OWN_IF_MARKED.iter().any(|own| name == *own)
}

/// The caller's, then the markers: those win.
fn changes(cmd: &Command) -> Vec<Change<'_>> {
    let mut changes = Vec::with_capacity(cmd.env.len() + 3);
    if cmd.env_cleared {
        changes.push(Change::Clear);
    }
    changes.extend(cmd.env.iter().map(|(name, value)| match value {
        Some(value) => Change::Set { name: name.as_bytes(), value: value.as_bytes() },
        None => Change::Remove { name: name.as_bytes() },
    }));
    if let Some(service) = &cmd.service {
        let kind = cmd.kind.unwrap_or(ChildKind::Task);
        let name = kind.marker_env().as_bytes();
        if kind != ChildKind::Api {
            changes.push(Change::Set { name: SUBPROCESS_MARKER_ENV.as_bytes(), value: b"1" });
        }
        changes.push(Change::Set { name, value: service.as_str().as_bytes() });
    }
    changes
}

/// The bytes that a change adds at most: name, `=`, value, NUL.
fn length(change: &Change<'_>) -> usize {
    match change {
        Change::Set { name, value } => name.len() + value.len() + 2,
        _ => 0,
    }
}
