//! From a [`Command`] to one of std.

use std::{
    env,
    ffi::{OsStr, OsString},
    process,
};

use pidward_core::marker::Names;

use crate::{
    command::{Command, place_in_own_process_group},
    error::{SpawnError, SpawnErrorKind},
    names::{API_SERVER_STAMP_ENV, ChildKind, TREE_PREFIX},
    stdio::Stdio,
};

/// What the standard streams are where the command does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultStdio {
    /// Ours.
    Inherit,
    /// Nothing to read from, pipes to write to.
    Piped,
}

/// The child, with its pipes.
pub(crate) fn spawn(
    cmd: &Command,
    default: DefaultStdio,
    names: &Names<'_>,
) -> Result<process::Child, SpawnError> {
    check(cmd)?;
    let mut std = process::Command::new(&cmd.program);
    std.args(&cmd.args);
    environ(&mut std, cmd, names);
    if let Some(dir) = &cmd.cwd {
        std.current_dir(dir);
    }
    let (read, write) = match default {
        DefaultStdio::Inherit => (Stdio::inherit(), Stdio::inherit()),
        DefaultStdio::Piped => (Stdio::null(), Stdio::piped()),
    };
    let set = |stdio: &Option<Stdio>, default: &Stdio| {
        stdio.as_ref().unwrap_or(default).to_std().map_err(|e| SpawnError::from_io(cmd, e))
    };
    std.stdin(set(&cmd.stdin, &read)?).stdout(set(&cmd.stdout, &write)?).stderr(set(&cmd.stderr, &write)?);
    if cmd.settings.own_group {
        place_in_own_process_group(&mut std);
    }
    #[cfg(unix)]
    of_unix(&mut std, cmd);
    std.spawn().map_err(|e| SpawnError::from_io(cmd, e))
}

#[cfg(unix)]
fn of_unix(std: &mut process::Command, cmd: &Command) {
    use std::os::unix::process::CommandExt;

    if let Some(name) = &cmd.arg0 {
        std.arg0(name);
    }
    if let Some(group) = cmd.settings.join {
        std.process_group(group);
    }
    if let Some(id) = cmd.settings.gid {
        std.gid(id);
    }
    if let Some(id) = cmd.settings.uid {
        std.uid(id);
    }
}

/// What can be refused without a child.
fn check(cmd: &Command) -> Result<(), SpawnError> {
    let nul = |text: &OsStr| text.as_encoded_bytes().contains(&0);
    let invalid = |words| Err(SpawnError::of(SpawnErrorKind::InvalidInput, &cmd.program, words));
    if let Some(words) = cmd.settings.lacking {
        return Err(SpawnError::of(SpawnErrorKind::Unsupported, &cmd.program, words));
    }
    if cmd.program.is_empty() {
        return invalid("the name of the program is empty");
    }
    let is_name = |name: &OsStr| !name.is_empty() && !name.as_encoded_bytes().contains(&b'=') && !nul(name);
    if !cmd.env.keys().all(|name| is_name(name)) {
        return invalid("a variable has an empty name, or one with '=' or a NUL byte in it");
    }
    let places = [
        (nul(&cmd.program), "the name of the program"),
        (cmd.arg0.as_deref().is_some_and(nul), "argv[0]"),
        (cmd.args.iter().any(|arg| nul(arg)), "an argument"),
        (cmd.env.values().flatten().any(|value| nul(value)), "the value of a variable"),
        (cmd.cwd.as_deref().is_some_and(|dir| nul(dir.as_os_str())), "the working directory"),
    ];
    match places.iter().find(|(found, _)| *found) {
        Some((_, place)) => Err(SpawnError::nul(&cmd.program, place)),
        None => Ok(()),
    }
}

/// Ours as it is now, without what says who we are; then the changes; then the markers: those win.
fn environ(std: &mut process::Command, cmd: &Command, names: &Names<'_>) {
    let marked = env::var_os(names.general).is_some_and(|value| value == "1");
    let own = [names.general, names.nonce, names.api, names.role, names.channel, API_SERVER_STAMP_ENV];
    // Ours only where the general marker says that a supervisor gave them; else names of the host's own.
    let if_marked = [names.agent, names.mcp, names.task];
    let is_own = |name: &OsString| {
        own.iter().any(|own| name == own) || marked && if_marked.iter().any(|own| name == own)
    };
    if cmd.env_cleared {
        std.env_clear();
    }
    for (name, value) in env::vars_os() {
        // The entries of supervisors further out stay.
        let of_tree = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if is_own(&name) {
            std.env_remove(name);
        } else if cmd.env_cleared && (of_tree(TREE_PREFIX) || of_tree(names.tree)) {
            std.env(name, value);
        }
    }
    for (name, value) in &cmd.env {
        match value {
            Some(value) => std.env(name, value),
            None => std.env_remove(name),
        };
    }
    if let Some(service) = &cmd.service {
        let kind = cmd.kind.unwrap_or(ChildKind::Task);
        if kind != ChildKind::Api {
            std.env(names.general, "1");
        }
        std.env(names.of(kind.core()), service.as_str());
    }
}
