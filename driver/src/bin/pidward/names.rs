//! Names and kinds as the command line has them.

use std::ffi::OsStr;

use pidward::{ChildKind, ServiceName};

use crate::environ::invalid;

/// The value of `--name`.
pub(crate) fn name(value: &OsStr) -> Result<ServiceName, String> {
    of(value, "--name")
}

/// A name, with what the person called it.
pub(crate) fn of(value: &OsStr, option: &str) -> Result<ServiceName, String> {
    let name = value.to_str().and_then(|text| ServiceName::try_new(text).ok());
    name.ok_or_else(|| {
        let rule = "1 to 128 bytes of UTF-8 without NUL, '=', '/' and control characters, not '.' or '..'";
        invalid(value, option, rule)
    })
}

/// The value of `--kind`.
pub(crate) fn kind(value: &OsStr) -> Result<ChildKind, String> {
    let kinds = [ChildKind::Agent, ChildKind::Mcp, ChildKind::Api, ChildKind::Task];
    let kind = kinds.into_iter().find(|kind| value == of_kind(*kind));
    kind.ok_or_else(|| invalid(value, "--kind", "agent, mcp, api or task"))
}

/// The word for a kind.
pub(crate) const fn of_kind(kind: ChildKind) -> &'static str {
    match kind {
        ChildKind::Agent => "agent",
        ChildKind::Mcp => "mcp",
        ChildKind::Api => "api",
        _ => "task",
    }
}
