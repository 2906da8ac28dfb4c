//! `pidward reconcile`: takes care of what supervisors that have ended left behind.

use std::{path::Path, time::Duration};

use clap::ArgMatches;
use pidward::{
    Listing, Registry, RegistryError, Survivor, Verdict,
    registry::{Action, Listed, Policy, Reconciled, Reconciliation, RegistryErrorKind},
};
use serde::Serialize;

use crate::{
    environ,
    fault::Fault,
    ls::lossy,
    names, output,
    registries::{self, Looked, tell_odd},
    stop::{Left, called, left, rung, tell_survivors},
    verdict,
};

mod plan;

const SURVIVED: u8 = 4;
const KEPT: u8 = 5;

/// What is said of one record, of those without one (no name), or of a whole directory.
#[derive(Serialize)]
struct Line {
    v: u8,
    name: Option<String>,
    kind: Option<&'static str>,
    /// Of the child; with `owned` that of the owner.
    pid: Option<u32>,
    verdict: Option<&'static str>,
    reason: String,
    action: &'static str,
    rung: Option<&'static str>,
    /// How many were stopped of those without a record.
    strays: Option<usize>,
    survivors: Vec<Left>,
    /// `ADDRESS:PORT` of each TCP socket that it and its tree listened on when they were found.
    ports: Vec<String>,
    registry: String,
    #[serde(skip)]
    text: Option<String>,
}

/// What came of one directory.
#[derive(Default)]
struct Done {
    lines: Vec<Line>,
    kept: bool,
    survived: bool,
}

/// Goes through every directory and gives the exit code.
pub(crate) fn main(matches: &ArgMatches) -> Result<u8, Fault> {
    environ::start_log(matches).map_err(Fault::usage)?;
    let grace = environ::usual_grace().map_err(Fault::usage)?;
    let named = registries::named(matches).map_err(Fault::usage)?;
    let looked = Looked::at(named.as_deref())?;
    looked.unusable.iter().for_each(|e| output::complain(&e.to_string()));
    let dry = matches.get_flag("dry-run");
    let done = registries::each_at_once(&looked.listings, |listing| {
        if dry { Ok(plan::of(listing)) } else { reconcile(listing, grace) }
    });
    let (mut lines, mut kept, mut survived) = (Vec::new(), !looked.unusable.is_empty(), false);
    for (done, listing) in done.into_iter().zip(&looked.listings) {
        match done {
            Ok(done) => {
                lines.extend(done.lines);
                kept |= done.kept;
                survived |= done.survived;
            }
            Err(e) if named.as_ref() == Some(&listing.path) => return Err(registries::unusable(e)),
            Err(e) if registries::is_gone(&e) => {}
            Err(e) => {
                output::complain(&e.to_string());
                kept = true;
            }
        }
    }
    let mut text = String::new();
    for line in lines {
        match line.text {
            _ if matches.get_flag("json") => text += &output::json(&line)?,
            Some(words) => text = text + &words + "\n",
            None => {}
        }
    }
    let code = match (survived, kept) {
        (true, _) => SURVIVED,
        (_, true) => KEPT,
        _ => 0,
    };
    Ok(output::print_code(&text, code))
}

fn reconcile(listing: &Listing, grace: Duration) -> Result<Done, RegistryError> {
    let opened = match Registry::open_existing(&listing.path) {
        // There is no lock: nobody has ever owned it, but records stand there.
        Err(e) if registries::is_gone(&e) && !listing.children.is_empty() => Registry::open(&listing.path),
        Err(e) if registries::is_gone(&e) => return Ok(Done::odd(&listing.odd)),
        opened => opened,
    };
    let registry = match opened {
        Ok(registry) => registry,
        Err(e) => match e.kind() {
            RegistryErrorKind::AlreadyRunning(pid) => return Ok(Done::owned(&listing.path, pid)),
            _ => return Err(e),
        },
    };
    let reconciliation = registry.reconcile(grace, |_| Policy::Stop)?;
    Ok(Done::of(registry.path(), &reconciliation))
}

impl Done {
    fn odd(odd: &[(std::path::PathBuf, String)]) -> Done {
        odd.iter().for_each(|(path, why)| tell_odd(path, why));
        Done { kept: !odd.is_empty(), ..Done::default() }
    }

    /// A supervisor lives there.
    fn owned(dir: &Path, pid: Option<u32>) -> Done {
        let owner = pid.map_or_else(|| "a supervisor".to_owned(), |pid| format!("process {pid}"));
        let text = format!("untouched: {dir:?}, where {owner} supervises");
        let line = Line { pid, text: Some(text), ..Line::new(dir, "owned") };
        Done { lines: vec![line], ..Done::default() }
    }

    fn of(dir: &Path, reconciliation: &Reconciliation) -> Done {
        let mut done = Done::odd(&reconciliation.odd);
        for child in &reconciliation.children {
            done.kept |= matches!(child.action, Action::Kept | Action::Reported);
            done.lines.push(Line::of_child(dir, child));
            if let Action::Stopped(stopped) = &child.action {
                tell_survivors(&stopped.survivors);
            }
        }
        let (stopped, strays) = (reconciliation.strays_stopped, &reconciliation.strays);
        if stopped > 0 || !strays.is_empty() {
            tell_survivors(strays);
            done.lines.push(Line::of_strays(dir, stopped, strays));
        }
        done.survived = reconciliation.has_survivors();
        done
    }
}

impl Line {
    fn new(dir: &Path, action: &'static str) -> Line {
        Line {
            v: 1,
            name: None,
            kind: None,
            pid: None,
            verdict: None,
            reason: String::new(),
            action,
            rung: None,
            strays: None,
            survivors: Vec::new(),
            ports: Vec::new(),
            registry: lossy(dir),
            text: None,
        }
    }

    fn of_record(dir: &Path, listed: &Listed, verdict: Verdict, action: &'static str) -> Line {
        Line {
            name: Some(listed.name().as_str().to_owned()),
            kind: Some(names::of_kind(listed.kind())),
            pid: listed.identity().map(|identity| identity.pid()),
            verdict: Some(verdict::word(verdict).0),
            reason: verdict::reason(verdict).0,
            ..Line::new(dir, action)
        }
    }

    fn of_child(dir: &Path, child: &Reconciled) -> Line {
        let (action, stopped) = match &child.action {
            Action::Stopped(stopped) if stopped.survivors.is_empty() => ("stopped", Some(stopped)),
            Action::Stopped(stopped) => ("survived", Some(stopped)),
            Action::Cleared(_) => ("cleared", None),
            Action::Kept => ("kept", None),
            _ => ("reported", None),
        };
        let mut line = Line::of_record(dir, &child.record, child.verdict, action);
        let name = called(&child.record);
        line.text = match action {
            "cleared" => None,
            "kept" => Some(format!("kept: {name}: {}", verdict::kept(child.verdict))),
            action => Some(format!("{action}: {name}")),
        };
        line.ports = child.ports.iter().map(ToString::to_string).collect();
        line.rung = stopped.and_then(rung);
        line.survivors = stopped.map_or_else(Vec::new, |stopped| left(&stopped.survivors));
        line
    }

    fn of_strays(dir: &Path, stopped: usize, survivors: &[Survivor]) -> Line {
        let (action, survived) = match survivors.len() {
            0 => ("stopped", String::new()),
            count => ("survived", format!(", and {count} survived")),
        };
        Line {
            strays: Some(stopped),
            survivors: left(survivors),
            text: Some(format!("stopped: processes without a record in {dir:?}: {stopped}{survived}")),
            ..Line::new(dir, action)
        }
    }
}
