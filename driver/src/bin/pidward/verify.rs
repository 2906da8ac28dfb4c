//! `pidward verify`: whether a number is the process that it is said to be.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write,
};

use clap::ArgMatches;
use pidward::{ChildKind, Field, Identity, ServiceName, Verdict, Why};
use serde::Serialize;

use crate::{
    environ::{self, invalid},
    fault::Fault,
    names, output,
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
        Claim::Named(kind, name) => pidward::verify(pid, *kind, name),
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
        serde_json::to_string(&answer).map_err(|e| Fault::with(125, e))? + "\n"
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

/// The verdict as one word, and the exit code.
const fn word(verdict: Verdict) -> (&'static str, u8) {
    match verdict {
        Verdict::Same => ("same", 0),
        Verdict::Recycled(_) => ("recycled", 1),
        Verdict::Gone => ("gone", 1),
        Verdict::NotOurs(_) => ("not-ours", 1),
        _ => ("unknown", 5),
    }
}

/// Why, for programs and for people.
fn reason(verdict: Verdict) -> (String, String) {
    let (word, words) = match verdict {
        Verdict::Same => ("", ""),
        Verdict::Gone => ("", "it has ended, or nobody has the number"),
        Verdict::Recycled(field) => match field {
            Field::Inode => ("inode", "the number is another process's now: its pidfd has another inode"),
            Field::StartTime => {
                ("start-time", "the number is another process's now: it started at another time")
            }
            Field::Nonce => ("nonce", "the number is another process's now: it is of another spawn"),
            _ => ("other", "the number is another process's now"),
        },
        Verdict::NotOurs(why) | Verdict::Unknown(why) => match why {
            Why::Errno(e) => {
                let name = e.name().map_or_else(|| e.raw().to_string(), str::to_owned);
                let words = format!("it cannot be looked at: {name}");
                return (name, words);
            }
            Why::NoMarker => ("no-marker", "it does not show what was looked for, which proves nothing"),
            Why::Inherited => ("inherited", "it has its markers from another process"),
            Why::NotYetExec => {
                ("not-yet-exec", "it shows its parent's environment or none: it may be in exec")
            }
            Why::ThreadId => ("thread-id", "the number is a thread's"),
            Why::KernelThread => ("kernel-thread", "it is a thread of the kernel"),
            Why::Us => ("us", "it is the process that asks"),
            Why::OtherTree => ("other-tree", "it descends from another supervisor, or from nobody"),
            Why::OtherBoot => ("other-boot", "the identity was written down in another boot"),
            Why::OtherPidNamespace => ("other-pid-namespace", "it belongs to another pid namespace"),
            Why::NoProc => ("no-proc", "there is no /proc"),
            Why::Unsupported => ("unsupported", "this system cannot tell"),
            _ => ("other", "the reason is one that this command does not know"),
        },
        _ => ("other", "the verdict is one that this command does not know"),
    };
    (word.to_owned(), words.to_owned())
}
