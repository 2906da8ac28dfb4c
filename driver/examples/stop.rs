//! Starts a program, lets it run for a second, then stops it and its group.
//!
//! `cargo run --example stop -- sleep 60`

use std::{env, error::Error, thread, time::Duration};

use pidward::{Command, Spawner};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let program = args.next().unwrap_or_else(|| "sleep".into());
    let spawner = Spawner::new()?;
    let mut cmd = Command::new(program);
    cmd.args(args);
    let mut child = spawner.spawn_owned_supervised(cmd)?;
    thread::sleep(Duration::from_secs(1));
    let report = child.stop(Duration::from_secs(5));
    println!("{report:?}");
    assert!(report.is_complete());
    Ok(())
}
