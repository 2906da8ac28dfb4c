//! What the variables of the command say where a flag does not: flag, then variable, then default.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use clap::ArgMatches;
use log::LevelFilter;

use crate::{
    amount::{AmountError, parse_duration, parse_size},
    output,
};

/// The value of an option, with what the person called it.
pub(crate) fn given(matches: &ArgMatches, option: &str, variable: &str) -> Option<(OsString, String)> {
    match matches.get_one::<OsString>(option) {
        Some(value) => Some((value.clone(), format!("--{option}"))),
        None => Some((std::env::var_os(variable)?, variable.to_owned())),
    }
}

/// The line for a value that cannot be meant.
pub(crate) fn invalid(value: &OsStr, of: &str, expected: &str) -> String {
    format!("invalid value '{}' for {of}: expected {expected}", value.display())
}

/// A duration as the command takes them.
pub(crate) fn duration(value: &OsStr, of: &str) -> Result<Duration, String> {
    parse_duration(value.as_bytes()).map_err(|e| match e {
        AmountError::TooLarge => invalid(value, of, "less: it does not fit"),
        _ => invalid(value, of, "a duration as 250ms, 5s, 2m or 1h"),
    })
}

const GRACE: Duration = Duration::from_secs(5);
const GRACE_VARIABLE: &str = "PIDWARD_GRACE";

/// From SIGTERM to SIGKILL.
pub(crate) fn grace(matches: &ArgMatches) -> Result<Duration, String> {
    given(matches, "grace", GRACE_VARIABLE).map_or(Ok(GRACE), |(value, of)| duration(&value, &of))
}

/// The same of a command that has no option for it.
pub(crate) fn usual_grace() -> Result<Duration, String> {
    std::env::var_os(GRACE_VARIABLE).map_or(Ok(GRACE), |value| duration(&value, GRACE_VARIABLE))
}

/// A size as the command takes them, in bytes.
pub(crate) fn size(value: &OsStr, of: &str) -> Result<u64, String> {
    parse_size(value.as_bytes()).map_err(|e| match e {
        AmountError::TooLarge => invalid(value, of, "less: it does not fit"),
        _ => invalid(value, of, "a size as 64K, 512M or 2G"),
    })
}

/// Starts the log: lines on standard error, from this level on.
pub(crate) fn start_log(matches: &ArgMatches) -> Result<(), String> {
    let level = match given(matches, "log", "PIDWARD_LOG") {
        None => LevelFilter::Warn,
        Some((value, of)) => match value.to_str().and_then(|text| text.parse().ok()) {
            Some(level) => level,
            None => return Err(invalid(&value, &of, "off, error, warn, info, debug or trace")),
        },
    };
    let line = |_: &mut env_logger::fmt::Formatter, record: &log::Record<'_>| {
        let level = record.level().as_str().to_ascii_lowercase();
        output::complain(&format!("{level}: {}", record.args()));
        Ok(())
    };
    // It is started once only.
    let _ = env_logger::Builder::new().filter_level(level).format(line).try_init();
    Ok(())
}
