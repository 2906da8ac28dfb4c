//! Talks to a server that reads and writes JSON lines, and shows what happens to it.
//!
//! `cargo run --example events -- cat`

use std::{env, error::Error, time::Duration};

use pidward::{Command, Event, Events, Spawner, Transport};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let mut cmd = Command::new(args.next().unwrap_or_else(|| "cat".into()));
    cmd.args(args).channel(Transport::Lines).stderr_events(true);
    let (spawner, events) = (Spawner::new()?, Events::new()?);
    let mut node = events.spawn(&spawner, &cmd)?;
    node.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)?;
    // The end of its input is how such a server is told to end.
    node.close();
    // Ends with the exit; a server that stays is stopped.
    loop {
        match events.recv(Some(Duration::from_secs(5))) {
            Some((id, Event::Frame(line))) => println!("{id}: {}", line.escape_ascii()),
            Some((id, Event::Protocol(error))) => println!("{id}: {error}"),
            Some((id, Event::Exit { status, .. })) => {
                println!("{id}: {status:?}");
                return Ok(());
            }
            Some((id, other)) => println!("{id}: {other:?}"),
            None => println!("{:?}", node.child().stop(Duration::from_secs(5))),
        }
    }
}
