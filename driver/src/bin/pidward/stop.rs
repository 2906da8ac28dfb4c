//! `pidward stop`: stops children by name, from whatever process.

use std::{collections::HashSet, ffi::OsString, time::Duration};

use clap::ArgMatches;
use pidward::{
    ChildKind, Listing, Registry, Rung, ServiceName, StopOwned, Stopped, Survivor, Verdict, Why,
    registry::{Listed, Policy},
};
use pidward_core::procfs;
use serde::Serialize;

use crate::{
    environ::{self, grace},
    fault::Fault,
    ls::lossy,
    names, output,
    registries::{self, Looked},
    verdict,
};

struct Options {
    names: Vec<ServiceName>,
    kind: Option<ChildKind>,
    grace: Duration,
}

/// How it ended; the later one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done,
    NoSuchName,
    NotOurs,
    Unverifiable,
    Survived,
}

impl Outcome {
    const fn code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::NoSuchName => 1,
            Outcome::NotOurs => 3,
            Outcome::Unverifiable => 5,
            Outcome::Survived => 4,
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    v: u8,
    name: &'a str,
    kind: &'static str,
    pid: Option<u32>,
    outcome: &'static str,
    reason: String,
    rung: Option<&'static str>,
    survivors: Vec<Left>,
    registry: String,
}

/// Somebody who is left.
#[derive(Serialize)]
pub(crate) struct Left {
    pid: u32,
    state: char,
}

pub(crate) fn left(survivors: &[Survivor]) -> Vec<Left> {
    survivors.iter().map(|survivor| Left { pid: survivor.pid, state: survivor.state }).collect()
}

/// Stops every child of these names and gives the exit code.
pub(crate) fn main(matches: &ArgMatches) -> Result<u8, Fault> {
    environ::start_log(matches).map_err(Fault::usage)?;
    let options = Options::read(matches).map_err(Fault::usage)?;
    let named = registries::named(matches).map_err(Fault::usage)?;
    let looked = Looked::at(named.as_deref())?;
    // What is no record may not be a reason for silence where the name is not found.
    looked.tell_odd();
    let mut records = looked.records();
    records.retain(|(_, listed)| {
        options.names.contains(&listed.name()) && options.kind.is_none_or(|kind| kind == listed.kind())
    });
    let missing = |name: &&ServiceName| !records.iter().any(|(_, listed)| listed.name() == **name);
    let mut worst = Outcome::Done;
    for name in options.names.iter().filter(missing) {
        output::complain(&format!(
            "no child is written down by the name '{}'",
            output::one_line(name.as_str())
        ));
        worst = Outcome::NoSuchName;
    }
    let stops = registries::each_at_once(&records, |(_, listed)| stop(listed, options.grace));
    let mut text = String::new();
    for ((listing, listed), stop) in records.iter().zip(&stops) {
        worst = worst.max(tell(listed, stop));
        text += &line(listing, listed, stop)?;
    }
    let touched = |listing: &&Listing| records.iter().any(|(of, _)| of.path == listing.path);
    let touched: Vec<_> = looked.listings.iter().filter(touched).collect();
    registries::each_at_once(&touched, |listing| clear(listing, options.grace));
    let text = if matches.get_flag("json") { text } else { String::new() };
    Ok(output::print_code(&text, worst.code()))
}

impl Options {
    fn read(matches: &ArgMatches) -> Result<Options, String> {
        let words = matches.get_many::<OsString>("names").unwrap_or_default();
        let kind = matches.get_one::<OsString>("kind");
        Ok(Options {
            names: words.map(|name| names::of(name, "NAME")).collect::<Result<_, _>>()?,
            kind: kind.map(|kind| names::kind(kind)).transpose()?,
            grace: if matches.get_flag("force") { Duration::ZERO } else { grace(matches)? },
        })
    }
}

/// Stops it, unless this process runs below it: then it would not see the end.
fn stop(listed: &Listed, grace: Duration) -> StopOwned {
    let is_above = |pid: u32| pidward_core::Pid::new(pid).is_some_and(|pid| above().contains(&pid));
    match listed.identity() {
        Some(identity) if is_above(identity.pid()) && identity.verify() == Verdict::Same => {
            StopOwned::NotOurs(Verdict::NotOurs(Why::Us))
        }
        _ => listed.stop(grace),
    }
}

/// All processes above this one.
pub(crate) fn above() -> HashSet<pidward_core::Pid> {
    let mut above = HashSet::new();
    let mut next = pidward_core::Pid::new(std::os::unix::process::parent_id());
    // Ends at the first process, or where a number has come back.
    while let Some(pid) = next.filter(|pid| above.insert(*pid)) {
        next = procfs::stat(pid).ok().and_then(|stat| pidward_core::Pid::new(stat.ppid));
    }
    above
}

/// What to call it in a line about it.
pub(crate) fn called(listed: &Listed) -> String {
    let name = format!("{} '{}'", names::of_kind(listed.kind()), output::one_line(listed.name().as_str()));
    match listed.identity() {
        Some(identity) => format!("{name} (process {})", identity.pid()),
        None => name,
    }
}

pub(crate) fn tell_survivors(survivors: &[Survivor]) {
    for survivor in survivors {
        output::complain(&format!("process {} (state {}) survived the stop", survivor.pid, survivor.state));
    }
}

/// Says what is not as it should be.
fn tell(listed: &Listed, stop: &StopOwned) -> Outcome {
    match stop {
        StopOwned::NotRunning | StopOwned::Stopped(_) => Outcome::Done,
        StopOwned::NotOurs(Verdict::NotOurs(Why::Us)) => {
            output::complain(&format!(
                "{} is left alone: this command is it, or runs below it",
                called(listed)
            ));
            Outcome::NotOurs
        }
        StopOwned::NotOurs(verdict) => {
            output::complain(&format!("{} is left alone: {}", called(listed), verdict::reason(*verdict).1));
            Outcome::NotOurs
        }
        StopOwned::Survived(stopped) => {
            tell_survivors(&stopped.survivors);
            Outcome::Survived
        }
        StopOwned::Unverifiable(verdict) => {
            output::complain(&format!("{} is left alone: {}", called(listed), verdict::reason(*verdict).1));
            Outcome::Unverifiable
        }
        _ => Outcome::Unverifiable,
    }
}

const fn rung_word(rung: Rung) -> &'static str {
    match rung {
        Rung::Ask => "ask",
        Rung::Term => "term",
        Rung::Kill => "kill",
        Rung::Sweep => "sweep",
    }
}

/// The last thing that had to be done, as one word.
pub(crate) fn rung(stopped: &Stopped) -> Option<&'static str> {
    stopped.rung.map(rung_word)
}

fn line(listing: &Listing, listed: &Listed, stop: &StopOwned) -> Result<String, Fault> {
    let (outcome, verdict, stopped) = match stop {
        StopOwned::NotRunning => ("not-running", None, None),
        StopOwned::NotOurs(verdict) => ("not-ours", Some(*verdict), None),
        StopOwned::Stopped(stopped) => ("stopped", None, Some(stopped)),
        StopOwned::Survived(stopped) => ("survived", None, Some(stopped)),
        StopOwned::Unverifiable(verdict) => ("unverifiable", Some(*verdict), None),
        _ => ("unverifiable", None, None),
    };
    output::json(&Line {
        v: 1,
        name: listed.name().as_str(),
        kind: names::of_kind(listed.kind()),
        pid: listed.identity().map(|identity| identity.pid()),
        outcome,
        reason: verdict.map_or_else(String::new, |verdict| verdict::reason(verdict).0),
        rung: stopped.and_then(rung),
        survivors: stopped.map_or_else(Vec::new, |stopped| left(&stopped.survivors)),
        registry: lossy(&listing.path),
    })
}

/// Removes the records of those that have ended, and the directory with the last of them, where nobody does that: its owner has ended.
fn clear(listing: &Listing, grace: Duration) {
    if listing.is_owned {
        return;
    }
    let cleared = Registry::open_existing(&listing.path)
        .and_then(|registry| registry.reconcile(grace, |_| Policy::Report).map(drop));
    if let Err(e) = cleared {
        log::debug!("{e}");
    }
}
