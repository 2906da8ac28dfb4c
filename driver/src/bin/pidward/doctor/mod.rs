//! `pidward doctor`: starts a program and says by which mechanism each promise was kept.

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal},
};

use clap::ArgMatches;
use pidward::{CgroupPlace, Command, Mechanism, Spawner, Stdio};
use pidward_core::{
    identity::Host,
    marker::Names,
    probe::{Pidfds, pidfds},
    procfs::ProcError,
    sweep::{self, Proof, Scope},
};

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
        print::table(&rows, !plain && io::stdout().is_terminal())
    };
    Ok(output::print_code(&text, worst.code()))
}

/// What the rows are made of.
struct Found {
    mechanism: Mechanism,
    /// There is a guard.
    guard: bool,
    /// The program had a cgroup leaf.
    leaf: bool,
    pidfds: Pidfds,
    /// Why processes cannot be known by what `/proc` says of them; `None` where they can.
    here: Option<ProcError>,
    /// Why processes cannot be looked for; `None` where they can.
    scan: Option<ProcError>,
}

/// One row for each promise, from a spawn of this very program.
fn examine() -> Vec<Row> {
    // Without /proc nobody tells the path of the executable; then what it was called by is looked for.
    let own = env::current_exe().ok().map(OsString::from).or_else(|| env::args_os().next());
    let spawned =
        own.ok_or_else(|| io::Error::other("this program does not know its own path")).and_then(|own| {
            let mut command = Command::new(own);
            command.args([args::DOCTOR, "--version"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let spawner = Spawner::builder().cgroup(CgroupPlace::Auto).build()?;
            let mut child = spawner.spawn(&command)?;
            child.wait()?;
            Ok((child.mechanism(), spawner.guard_pid().is_some(), child.cgroup().is_some()))
        });
    match spawned {
        Ok((mechanism, guard, leaf)) => {
            let host = Host::look();
            let scanned = sweep::each(&host, &Names::DEFAULT, Scope::Since(0), Proof::Child, |_| {});
            let scan = scanned.err();
            rows::of(&Found { mechanism, guard, leaf, pidfds: pidfds(), here: host.here().err(), scan })
        }
        Err(error) => vec![rows::no_spawn(&error)],
    }
}
