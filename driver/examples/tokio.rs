//! Children in a loop of tokio's: their events, and the end of one more, are awaited; no thread waits for them.
//!
//! `cargo run --example tokio`, or with a thread of the receiver's own `cargo run --example tokio -- thread`

use std::{
    env,
    error::Error,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Duration,
};

use pidward::{Command, Event, Events, Node, NodeId, Spawner, Stdio, Transport};
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::Builder,
};

fn main() -> Result<(), Box<dyn Error>> {
    let events = Events::new()?;
    let events = if env::args().any(|arg| arg == "thread") { events.on_thread()? } else { events };
    // What is awaited are descriptors, so one thread does.
    Builder::new_current_thread().enable_io().build()?.block_on(talk(events))
}

/// The descriptor of one of ours, to be awaited.
fn awaited<T: AsRawFd>(of: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: a receiver and a copy of a pidfd each keep their descriptor, and it stays the same, until they are dropped.
    let registered = unsafe { AsyncFd::register_with_interest(of, Interest::READABLE) };
    Ok(registered?)
}

/// The next event. The descriptor counts as not readable before what there is is taken, until nothing is left: what comes meanwhile makes it
/// readable again.
async fn next(events: &AsyncFd<Events>) -> io::Result<(NodeId, Event)> {
    // Ends with an event.
    loop {
        if let Some(event) = events.get_ref().try_recv() {
            return Ok(event);
        }
        events.readable().await?.clear_ready();
    }
}

/// Until the process has ended: then its pidfd is readable, and stays so.
async fn ended(pidfd: OwnedFd) -> io::Result<()> {
    awaited(pidfd)?.readable().await.map(drop)
}

/// A shell that becomes `cat`, which sends back what it gets.
fn echo(before: &str) -> Command {
    let mut cmd = Command::new("sh");
    cmd.args(["-c", &format!("{before} exec cat")]).channel(Transport::Stdio);
    cmd
}

async fn talk(events: Events) -> Result<(), Box<dyn Error>> {
    let spawner = Spawner::builder().grace(Duration::from_millis(200)).build()?;
    let events = awaited(events)?;

    // Nobody but the pidfd tells of this one.
    let mut cmd = Command::new("sh");
    let mut quiet = spawner.spawn(cmd.args(["-c", "read line; exit 3"]).stdin(Stdio::piped()))?;
    let end = tokio::spawn(ended(quiet.as_fd().try_clone_to_owned()?));

    let mut nodes: Vec<Node> = Vec::new();
    for before in ["", "", "trap '' TERM;"] {
        nodes.push(events.get_ref().spawn(&spawner, &echo(before))?);
    }
    nodes.iter().try_for_each(|node| node.send(format!("hello {}", node.id()).as_bytes()))?;
    let mut left = nodes.len();
    // Ends with the last exit: each echo is answered by something that ends its sender.
    while left > 0 {
        let (id, event) = next(&events).await?;
        match event {
            Event::Frame(frame) => {
                println!("{id}: {}", frame.escape_ascii());
                match nodes.iter().position(|node| node.id() == id) {
                    // The end of its input is how it is asked to end.
                    Some(0) => nodes[0].close(),
                    // SIGTERM, and after the grace SIGKILL, which the last one needs.
                    Some(at) => nodes[at].begin_stop(),
                    None => {}
                }
            }
            Event::Exit { status, cause, rung, .. } => {
                println!("{id}: {status:?}, {cause:?}, {rung:?}");
                left -= 1;
            }
            other => println!("{id}: {other:?}"),
        }
    }

    drop(quiet.stdin.take());
    end.await??;
    println!("by its pidfd: {:?}", quiet.wait()?);
    Ok(())
}
