//! Users and groups by number or by name, from `/etc/passwd` and `/etc/group` (passwd(5), group(5)).

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

use crate::environ::invalid;

/// Who the program is to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    /// The primary group and all groups, where the user was named.
    pub(super) gid: Option<u32>,
    pub(super) groups: Option<Vec<u32>>,
}

/// The user that is meant.
pub(super) fn user(value: &OsStr) -> Result<User, String> {
    if let Some(uid) = number(value.as_bytes()) {
        return Ok(User { uid, gid: None, groups: None });
    }
    let found = user_named(value.as_bytes(), &read("/etc/passwd")?, &read("/etc/group")?);
    found.ok_or_else(|| invalid(value, "--user", "a user id or a name in /etc/passwd"))
}

/// The group that is meant.
pub(super) fn group(value: &OsStr) -> Result<u32, String> {
    if let Some(gid) = number(value.as_bytes()) {
        return Ok(gid);
    }
    let found = group_named(value.as_bytes(), &read("/etc/group")?);
    found.ok_or_else(|| invalid(value, "--group", "a group id or a name in /etc/group"))
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{path}: {e}"))
}

/// An id; the highest number stands for "leave as it is" and is none.
fn number(text: &[u8]) -> Option<u32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let id = std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()?;
    (id != u32::MAX).then_some(id)
}

/// The fields of each line.
fn records(file: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    file.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b':').collect())
}

fn user_named(name: &[u8], passwd: &[u8], group: &[u8]) -> Option<User> {
    let (uid, gid) = records(passwd).find_map(|fields| match fields[..] {
        [user, _, uid, gid, ..] if user == name && !name.is_empty() => Some((number(uid)?, number(gid)?)),
        _ => None,
    })?;
    let mut groups = vec![gid];
    groups.extend(records(group).filter_map(|fields| match fields[..] {
        [_, _, gid, members, ..] if members.split(|&byte| byte == b',').any(|member| member == name) => {
            number(gid)
        }
        _ => None,
    }));
    groups.sort_unstable();
    groups.dedup();
    Some(User { uid, gid: Some(gid), groups: Some(groups) })
}

fn group_named(name: &[u8], group: &[u8]) -> Option<u32> {
    records(group).find_map(|fields| match fields[..] {
        [group, _, gid, ..] if group == name && !name.is_empty() => number(gid),
        _ => None,
    })
}
