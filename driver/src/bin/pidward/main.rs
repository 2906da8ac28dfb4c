//! The command `pidward`: runs a program that cannot outlive it, lists and stops what runs, takes care of what a crash has left, says
//! who a process is and what this system keeps of the promises.
//!
//! Results go to standard output; everything else is one line on standard error that begins with `pidward: `. A
//! reader that goes away (`pidward doctor | head -1`) ends it quietly.
#![forbid(unsafe_code)]

use std::{ffi::OsString, process::ExitCode};

mod amount;
mod args;
mod doctor;
mod environ;
mod fault;
mod ls;
mod names;
mod output;
mod reconcile;
mod registries;
mod run;
mod stop;
mod verdict;
mod verify;

use fault::Fault;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = match args::command().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return fault::of_words(&error, &words),
    };
    let result = match matches.subcommand() {
        Some((args::RUN, matches)) => run::main(matches),
        Some((args::DOCTOR, matches)) => doctor::main(matches),
        Some((args::VERIFY, matches)) => verify::main(matches),
        Some((args::LS, matches)) => ls::main(matches),
        Some((args::STOP, matches)) => stop::main(matches),
        Some((args::RECONCILE, matches)) => reconcile::main(matches),
        // Not reached: the parser asks for one of them.
        _ => Err(Fault::usage(format!("no command: expected {}", args::COMMANDS))),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(fault) => fault.report(),
    }
}
