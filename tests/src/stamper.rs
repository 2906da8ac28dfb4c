//! What the fixture `stamper` writes of each of its starts.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use pidward::{API_SERVER_ENV, API_SERVER_STAMP_ENV};

use crate::leftovers::NoLeftovers;

/// What one start of the program has written.
#[derive(Debug, Default)]
pub struct Start {
    /// Who it was.
    pub pid: u32,
    /// Its state before the stamp, as keys and values in the order it was written.
    pub state: Vec<(String, String)>,
    /// What it said afterwards, line by line.
    pub said: Vec<String>,
}

/// All starts that a file tells of.
pub fn starts(file: &Path) -> Vec<Start> {
    let mut all: Vec<Start> = Vec::new();
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        if let Some(pid) = line.strip_prefix("start ") {
            all.push(Start { pid: pid.parse().expect("a pid"), ..Start::default() });
            continue;
        }
        let start = all.last_mut().expect("a start");
        match line.split_once('=') {
            Some((key, value)) if !line.starts_with("stamp ") && !line.starts_with("child ") => {
                start.state.push((key.to_owned(), value.to_owned()));
            }
            _ if line != "state-end" => start.said.push(line.to_owned()),
            _ => {}
        }
    }
    all
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).expect("hex"), 16).expect("hex")).collect()
}

impl Start {
    /// The values of a variable.
    pub fn env(&self, name: &str) -> Vec<String> {
        let entries = self.state.iter().filter(|(key, _)| key == "env").map(|(_, value)| bytes(value));
        let prefix = format!("{name}=");
        entries
            .filter_map(|entry| {
                Some(String::from_utf8_lossy(entry.strip_prefix(prefix.as_bytes())?).into_owned())
            })
            .collect()
    }

    /// Everything but the two entries, in an order of its own.
    pub fn rest(&self) -> Vec<(String, String)> {
        let stamped = |value: &str| {
            let entry = bytes(value);
            [API_SERVER_ENV, API_SERVER_STAMP_ENV]
                .iter()
                .any(|name| entry.starts_with(format!("{name}=").as_bytes()))
        };
        let mut rest: Vec<_> =
            self.state.iter().filter(|(key, value)| key != "env" || !stamped(value)).cloned().collect();
        rest.sort();
        rest
    }

    /// Whether the environ had both entries, once, and they name this very process.
    pub fn is_stamped(&self) -> bool {
        let ticks = proc_ticks(&self.state);
        self.env(API_SERVER_ENV) == ["api"]
            && self.env(API_SERVER_STAMP_ENV) == [format!("{}:{ticks}", self.pid)]
    }
}

fn proc_ticks(state: &[(String, String)]) -> String {
    let ticks = state.iter().find(|(key, _)| key == "ticks").expect("its ticks");
    ticks.1.trim_start_matches("Some(").trim_end_matches(')').to_owned()
}

/// The fixture, without a stamp in its environ.
pub fn stamper(guard: &NoLeftovers, program: &Path, file: &Path, words: &[&OsStr]) -> Command {
    let mut cmd = guard.command(program);
    cmd.env_remove(API_SERVER_ENV).env_remove(API_SERVER_STAMP_ENV).arg(file).args(words);
    cmd
}

/// Runs it to its end, which must be a good one.
#[track_caller]
pub fn run(mut cmd: Command, file: &Path) -> Vec<Start> {
    let status = cmd.status().expect("the fixture");
    assert!(status.success(), "{status}: {:?}", starts(file));
    starts(file)
}
