//! The environment of a child: ours as it is at the spawn, without what says who we are, then the changes.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use pidward_core::{
    image::{self, Change, PackError},
    marker::Names,
};

#[cfg(test)]
mod tests;

use super::strings::Strings;
use crate::{
    command::Command,
    names::{API_SERVER_STAMP_ENV, ChildKind, TREE_PREFIX},
};

pub(super) fn build(cmd: &Command, names: &Names<'_>) -> Result<Strings, PackError> {
    let marked = env::var_os(names.general).is_some_and(|value| value == "1");
    merge(cmd, env::vars_os(), marked, names)
}

/// `marked`: the general marker is among `vars`.
pub(super) fn merge(
    cmd: &Command,
    vars: impl Iterator<Item = (OsString, OsString)>,
    marked: bool,
    names: &Names<'_>,
) -> Result<Strings, PackError> {
    let mut inherited = Strings::with_capacity(4096);
    for (name, value) in vars {
        if !is_own(&name, marked, names) {
            inherited.push(&[name.as_bytes(), b"=", value.as_bytes()])?;
        }
    }
    if !cmd.env_cleared && cmd.env.is_empty() && cmd.service.is_none() {
        return Ok(inherited);
    }
    let changes = changes(cmd, names);
    // Under names of our own, too, the entries of supervisors further out stay.
    let outer = inherited.iter().filter(|entry| cmd.env_cleared && is_outers(entry, names));
    let outer: Vec<Change<'_>> = outer.filter_map(set).collect();
    let at = usize::from(cmd.env_cleared);
    let mut changes = changes;
    changes.splice(at..at, outer);
    let bytes = changes.iter().map(length).sum::<usize>() + inherited.bytes();
    Strings::packed(bytes, inherited.count() + changes.len(), |packer| {
        image::pack_environ(packer, inherited.iter(), &changes, names.tree.as_bytes())
    })
}

/// Whether the variable says who this process is: such are never inherited.
fn is_own(name: &OsStr, marked: bool, names: &Names<'_>) -> bool {
    let own = [names.general, names.nonce, names.api, names.role, names.channel, API_SERVER_STAMP_ENV];
    // Ours only where the general marker says that a supervisor gave them; else names of the host's own.
    let if_marked = [names.agent, names.mcp, names.task];
    own.iter().any(|own| name == *own) || marked && if_marked.iter().any(|own| name == *own)
}

/// The caller's, then the markers: those win.
fn changes<'a>(cmd: &'a Command, names: &Names<'a>) -> Vec<Change<'a>> {
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
        let name = names.of(kind.core()).as_bytes();
        if kind != ChildKind::Api {
            changes.push(Change::Set { name: names.general.as_bytes(), value: b"1" });
        }
        changes.push(Change::Set { name, value: service.as_str().as_bytes() });
    }
    changes
}

/// Whether it is a run entry under the usual prefix, where ours is another.
fn is_outers(entry: &[u8], names: &Names<'_>) -> bool {
    entry.starts_with(TREE_PREFIX.as_bytes()) && !entry.starts_with(names.tree.as_bytes())
}

/// The same variable once more.
fn set(entry: &[u8]) -> Option<Change<'_>> {
    let at = entry.iter().position(|byte| *byte == b'=')?;
    Some(Change::Set { name: &entry[..at], value: &entry[at + 1..] })
}

/// The bytes that a change adds at most: name, `=`, value, NUL.
fn length(change: &Change<'_>) -> usize {
    match change {
        Change::Set { name, value } => name.len() + value.len() + 2,
        _ => 0,
    }
}
