//! Starts a program, waits for it, and shows by which mechanisms the kernel kept each promise.
//!
//! `cargo run --example spawn -- ls -l`

use std::{env, error::Error, process::ExitCode};

use pidward::{Command, Spawner};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let program = args.next().unwrap_or_else(|| "true".into());
    let spawner = Spawner::new()?;
    let mut cmd = Command::new(program);
    cmd.args(args);
    let mut child = spawner.spawn(&cmd)?;
    eprintln!("pid {}: {:?}", child.id(), child.mechanism());
    let status = child.wait()?;
    eprintln!("{status}, {:?}", child.usage());
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
