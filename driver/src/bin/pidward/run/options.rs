//! What `run` was told, checked.

#[cfg(test)]
mod tests;

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ArgMatches;
use pidward::{CgroupPlace, ChildKind, ServiceName};

use super::users::{self, User};
use crate::{
    environ::{duration, grace, invalid, size},
    names, registries,
};

#[derive(Debug)]
pub(super) struct Options {
    pub(super) name: ServiceName,
    pub(super) kind: ChildKind,
    pub(super) grace: Duration,
    pub(super) registry: Option<PathBuf>,
    pub(super) registry_optional: bool,
    pub(super) stdin_null: bool,
    pub(super) pass_fds: Vec<u32>,
    pub(super) ready_fd: Option<u32>,
    pub(super) user: Option<User>,
    group: Option<u32>,
    pub(super) chdir: Option<PathBuf>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) clear_env: bool,
    pub(super) no_new_privs: bool,
    pub(super) guard: bool,
    pub(super) cgroup: CgroupPlace,
    pub(super) memory: Option<u64>,
    pub(super) pids: Option<u64>,
    pub(super) timeout: Option<Duration>,
    /// It is started again when it has failed.
    pub(super) restart: bool,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
}

impl Options {
    /// The values, or the line that says what is wrong with one.
    pub(super) fn read(matches: &ArgMatches) -> Result<Options, String> {
        let one = |name: &str| matches.get_one::<OsString>(name);
        let many = |name: &str| matches.get_many::<OsString>(name).unwrap_or_default();
        let mut words = many("program").cloned();
        let program = words.next().ok_or("no program: expected '-- PROGRAM [ARG]...'")?;
        let is_open = "the number of an open descriptor, 3 or higher";
        let passed = many("pass-fd").map(|n| descriptor(n, "--pass-fd", is_open));
        let pass_fds = passed.collect::<Result<Vec<_>, _>>()?;
        Ok(Options {
            name: one("name")
                .map_or_else(|| Ok(ServiceName::of_program(&program)), |name| names::name(name))?,
            kind: one("kind").map_or(Ok(ChildKind::Task), |kind| names::kind(kind))?,
            grace: grace(matches)?,
            registry: registries::named(matches)?,
            registry_optional: matches.get_flag("registry-optional"),
            stdin_null: one("stdin").map_or(Ok(false), |what| is_null(what))?,
            ready_fd: ready_fd(one("ready-fd"), &pass_fds)?,
            pass_fds,
            user: one("user").map(|user| users::user(user)).transpose()?,
            group: one("group").map(|group| users::group(group)).transpose()?,
            chdir: one("chdir").map(|dir| directory(dir)).transpose()?,
            env: many("env").map(|entry| variable(entry)).collect::<Result<_, _>>()?,
            clear_env: matches.get_flag("clear-env"),
            no_new_privs: matches.get_flag("no-new-privs"),
            guard: !matches.get_flag("no-guard"),
            cgroup: one("cgroup").map_or(Ok(CgroupPlace::Auto), |place| cgroup(place))?,
            memory: one("memory").map(|value| size(value, "--memory")).transpose()?,
            pids: one("pids").map(|value| count(value)).transpose()?,
            timeout: one("timeout").map(|value| duration(value, "--timeout")).transpose()?,
            restart: one("restart").map_or(Ok(false), |when| is_on_failure(when))?,
            args: words.collect(),
            program,
        })
    }

    /// The group id: the one that was asked for, or the user's own.
    pub(super) fn gid(&self) -> Option<u32> {
        self.group.or_else(|| self.user.as_ref()?.gid)
    }
}

fn is_null(value: &OsStr) -> Result<bool, String> {
    match value.to_str() {
        Some("inherit") => Ok(false),
        Some("null") => Ok(true),
        _ => Err(invalid(value, "--stdin", "inherit or null")),
    }
}

fn is_on_failure(value: &OsStr) -> Result<bool, String> {
    match value.to_str() {
        Some("no") => Ok(false),
        Some("on-failure") => Ok(true),
        _ => Err(invalid(value, "--restart", "no or on-failure")),
    }
}

fn descriptor(value: &OsStr, option: &str, expected: &str) -> Result<u32, String> {
    let number = value.to_str().and_then(|text| text.parse().ok());
    let number = number.filter(|number| (3..i32::MAX as u32).contains(number));
    number.ok_or_else(|| invalid(value, option, expected))
}

fn ready_fd(value: Option<&OsString>, passed: &[u32]) -> Result<Option<u32>, String> {
    let Some(value) = value else { return Ok(None) };
    let expected = "a number, 3 or higher, that --pass-fd does not name";
    let number = descriptor(value, "--ready-fd", expected)?;
    if passed.contains(&number) { Err(invalid(value, "--ready-fd", expected)) } else { Ok(Some(number)) }
}

fn cgroup(value: &OsStr) -> Result<CgroupPlace, String> {
    match value.to_str() {
        Some("auto") => Ok(CgroupPlace::Auto),
        Some("off") => Ok(CgroupPlace::Off),
        _ if Path::new(value).is_absolute() => Ok(CgroupPlace::At(value.into())),
        _ => Err(invalid(value, "--cgroup", "auto, off or an absolute path")),
    }
}

fn count(value: &OsStr) -> Result<u64, String> {
    let number = value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| invalid(value, "--pids", "a number, 1 or higher"))
}

fn directory(value: &OsStr) -> Result<PathBuf, String> {
    if value.is_empty() { Err(invalid(value, "--chdir", "a directory")) } else { Ok(value.into()) }
}

fn variable(value: &OsStr) -> Result<(OsString, OsString), String> {
    let bytes = value.as_bytes();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at @ 1..) => {
            let (name, rest) = bytes.split_at(at);
            Ok((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(&rest[1..]).to_owned()))
        }
        // The rest may be a secret that was meant to be a value.
        _ => Err("invalid value for --env: expected NAME=VALUE".to_owned()),
    }
}
