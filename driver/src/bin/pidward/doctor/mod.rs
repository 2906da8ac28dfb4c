//! `pidward doctor`: starts a program and says by which mechanism each promise was kept.

use std::{env, io::IsTerminal};

use clap::ArgMatches;
use pidward::{Command, Spawner, Stdio};
use pidward_core::signal::group_means;

mod print;
mod rows;

use crate::{args, environ, fault::Fault, output};
use rows::{Rank, Row};

/// Prints the rows and gives the exit code.
pub(crate) fn main(matches: &ArgMatches) -> Result<u8, Fault> {
    environ::start_log(matches).map_err(Fault::usage)?;
    let rows = examine();
    let worst = rows.iter().map(|row| row.rank).max().unwrap_or(Rank::NotKept);
    let text = if matches.get_flag("json") {
        print::json(&rows).map_err(|e| Fault::with(125, e))?
    } else {
        let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        print::table(&rows, !plain && std::io::stdout().is_terminal())
    };
    Ok(output::print_code(&text, worst.code()))
}

/// One row for each promise, from a spawn of this very program.
fn examine() -> Vec<Row> {
    let spawned = env::current_exe().and_then(|own| {
        let mut command = Command::new(own);
        command.args([args::DOCTOR, "--version"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Spawner::new()?.spawn(&command)?;
        child.wait()?;
        Ok(child.mechanism())
    });
    match spawned {
        Ok(mechanism) => rows::of(&mechanism, group_means()),
        Err(error) => vec![rows::no_spawn(&error)],
    }
}
