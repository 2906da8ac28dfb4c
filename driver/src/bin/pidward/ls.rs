//! `pidward ls`: the children that are written down, and who of them lives.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt::Write, net::SocketAddr, path::Path, time::Duration};

use clap::ArgMatches;
use pidward::{Listing, Verdict, registry::Listed};
use serde::Serialize;

use crate::{
    environ,
    fault::Fault,
    names, output,
    registries::{self, Looked},
    verdict,
};

/// The columns.
const HEAD: [&str; 8] = ["NAME", "KIND", "PID", "VERDICT", "AGE", "STATE", "PORTS", "CGROUP"];

/// One record, looked at.
struct Row<'a> {
    listing: &'a Listing,
    record: &'a Listed,
    verdict: Verdict,
    ports: Vec<SocketAddr>,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u8,
    name: &'a str,
    kind: &'static str,
    pid: Option<u32>,
    verdict: &'static str,
    reason: String,
    /// In seconds.
    age: Option<u64>,
    cgroup: Option<String>,
    state: &'static str,
    /// `ADDRESS:PORT` of each TCP socket that it or its tree listens on.
    ports: Vec<String>,
    registry: String,
    /// The line that `verify --identity` takes.
    identity: Option<String>,
}

/// Prints one line for each record.
pub(crate) fn main(matches: &ArgMatches) -> Result<u8, Fault> {
    environ::start_log(matches).map_err(Fault::usage)?;
    let named = registries::named(matches).map_err(Fault::usage)?;
    let looked = Looked::at(named.as_deref())?;
    let records = looked.records();
    let verdicts = registries::each_at_once(&records, |(_, record)| record.verify());
    let ports = pidward::registry::ports(records.iter().map(|(_, record)| *record));
    let answers = verdicts.into_iter().zip(ports);
    let row = |(&(listing, record), (verdict, ports))| Row { listing, record, verdict, ports };
    let rows: Vec<_> = records.iter().zip(answers).map(row).collect();
    let text = if matches.get_flag("json") { json(&rows)? } else { table(&rows) };
    let code = output::print_code(&text, 0);
    looked.tell_odd();
    Ok(code)
}

fn json(rows: &[Row<'_>]) -> Result<String, Fault> {
    let mut text = String::new();
    for row in rows {
        let (name, identity) = (row.record.name(), row.record.identity());
        let line = Line {
            v: 1,
            name: name.as_str(),
            kind: names::of_kind(row.record.kind()),
            pid: identity.map(|identity| identity.pid()),
            verdict: verdict::word(row.verdict).0,
            reason: verdict::reason(row.verdict).0,
            age: row.record.age().map(|age| age.as_secs()),
            cgroup: row.record.cgroup().map(|path| lossy(&path)),
            state: row.record.state().as_str(),
            ports: row.ports.iter().map(SocketAddr::to_string).collect(),
            registry: lossy(&row.listing.path),
            identity: identity.map(|identity| identity.to_string()),
        };
        text += &output::json(&line)?;
    }
    Ok(text)
}

pub(crate) fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Row<'_> {
    fn cells(&self) -> [String; HEAD.len()] {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            output::one_line(self.record.name().as_str()),
            names::of_kind(self.record.kind()).to_owned(),
            or_none(self.record.identity().map(|identity| identity.pid().to_string())),
            verdict::word(self.verdict).0.to_owned(),
            or_none(self.record.age().map(age)),
            self.record.state().as_str().to_owned(),
            or_none((!self.ports.is_empty()).then(|| numbers(&self.ports))),
            or_none(self.record.cgroup().map(|path| output::one_line(&path.to_string_lossy()))),
        ]
    }
}

/// Aligned columns under their names; nothing where there is no record.
fn table(rows: &[Row<'_>]) -> String {
    let mut lines: Vec<_> = rows.iter().map(Row::cells).collect();
    if lines.is_empty() {
        return String::new();
    }
    lines.insert(0, HEAD.map(str::to_owned));
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; HEAD.len()] = std::array::from_fn(width);
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(padded, "{cell:width$}  ");
        }
        text += padded.trim_end();
        text.push('\n');
    }
    text
}

/// The port numbers, each once.
fn numbers(ports: &[SocketAddr]) -> String {
    let numbers: BTreeSet<u16> = ports.iter().map(SocketAddr::port).collect();
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// In the largest unit that leaves a number.
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}
