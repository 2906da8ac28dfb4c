//! `pidward verify`: whether a number is the process that it is said to be.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write,
};

use clap::ArgMatches;
use pidward::{ChildKind, Identity, ServiceName, Verdict};
use serde::Serialize;

use crate::{
    environ::{self, invalid},
    fault::Fault,
    names, output,
    registries::{self, Looked},
    verdict::{reason, word},
};

/// What is claimed about the number.
enum Claim {
    Named(ChildKind, ServiceName),
    Identity(Box<Identity>),
}

#[derive(Serialize)]
struct Answer<'a> {
    v: u8,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    verdict: &'static str,
    /// What a program goes by; empty where there is nothing to add.
    reason: String,
    why: String,
}

/// Prints the verdict and gives the exit code.
pub(crate) fn main(matches: &ArgMatches) -> Result<u8, Fault> {
    environ::start_log(matches).map_err(Fault::usage)?;
    let (pid, claim) = read(matches).map_err(Fault::usage)?;
    let verdict = match &claim {
        Claim::Named(kind, name) => of_named(pid, *kind, name, matches)?,
        Claim::Identity(identity) => identity.verify(),
    };
    let (word, code) = word(verdict);
    let (reason, why) = reason(verdict);
    let text = if matches.get_flag("json") {
        let (name, kind) = match &claim {
            Claim::Named(kind, name) => (Some(name.as_str()), Some(names::of_kind(*kind))),
            Claim::Identity(_) => (None, None),
        };
        let answer = Answer { v: 1, pid, name, kind, verdict: word, reason, why };
        output::json(&answer)?
    } else {
        let mut line = format!("{pid} {word}");
        if !why.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(line, ": {why}");
        }
        line + "\n"
    };
    Ok(output::print_code(&text, code))
}

/// What the records say; where none is of this number, what the process shows.
fn of_named(pid: u32, kind: ChildKind, name: &ServiceName, matches: &ArgMatches) -> Result<Verdict, Fault> {
    let named = registries::named(matches).map_err(Fault::usage)?;
    let looked = Looked::at(named.as_deref())?;
    let merged = looked.listings.into_iter().reduce(|mut all, listing| {
        all.children.extend(listing.children);
        all
    });
    Ok(merged.map_or_else(|| pidward::verify(pid, kind, name), |all| all.verify(pid, kind, name)))
}

fn read(matches: &ArgMatches) -> Result<(u32, Claim), String> {
    let one = |name: &str| matches.get_one::<OsString>(name);
    let word = one("pid").ok_or("no process: expected 'PID'")?;
    let pid = pid(word)?;
    let claim = match (one("name"), one("identity")) {
        (Some(name), None) => {
            let kind = one("kind").map_or(Ok(ChildKind::Task), |kind| names::kind(kind))?;
            Claim::Named(kind, names::name(name)?)
        }
        (None, Some(line)) => Claim::Identity(Box::new(identity(line, pid)?)),
        _ => return Err("no claim: expected --name NAME or --identity LINE".to_owned()),
    };
    Ok((pid, claim))
}

fn pid(word: &OsStr) -> Result<u32, String> {
    let number = word.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let number = number.and_then(|text| text.parse().ok());
    let known = number.filter(|number| pidward::signalable_pid(*number).is_some());
    known.ok_or_else(|| invalid(word, "PID", "the number of a process, from 1 to 2147483647"))
}

fn identity(line: &OsStr, pid: u32) -> Result<Identity, String> {
    let text = line.to_str().unwrap_or_default();
    let identity: Identity = text.parse().map_err(|e| format!("invalid value for --identity: {e}"))?;
    if identity.pid() == pid {
        Ok(identity)
    } else {
        Err(format!("PID {pid} is not that of --identity: expected {}", identity.pid()))
    }
}
