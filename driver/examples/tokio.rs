//! pidward in a loop of tokio's: the events of all children, and the end of one by its pidfd, each awaited through `AsyncFd`.
//!
//! `cargo run -q -p pidward --example tokio`

use std::{error::Error, time::Duration};

use pidward::{Command, Event, Events, Node, NodeId, Spawner, Transport};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

/// No event takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// The next event; other tasks run meanwhile.
async fn next(events: &AsyncFd<Events>) -> Result<(NodeId, Event), Box<dyn Error>> {
    // Ends with an event, or at the limit.
    loop {
        if let Some(event) = events.get_ref().try_recv() {
            return Ok(event);
        }
        // Cleared only when there was none: until then it is readable.
        let mut ready = timeout(LIMIT, events.readable()).await??;
        if let Some(event) = events.get_ref().try_recv() {
            return Ok(event);
        }
        ready.clear_ready();
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let spawner = Spawner::new()?;
    // SAFETY: a receiver keeps its descriptor until it is dropped, and always gives the same.
    let events = unsafe { AsyncFd::register_with_interest(Events::new()?, Interest::READABLE) }?;

    let mut echo = Command::new("cat");
    echo.channel(Transport::Stdio);
    let nodes: Vec<_> = (0..3).map(|_| events.get_ref().spawn(&spawner, &echo)).collect::<Result<_, _>>()?;
    for node in &nodes {
        node.send(format!("hello, {}", node.id()).as_bytes())?;
    }
    let mut frames = 0;
    while frames < nodes.len() {
        if let (id, Event::Frame(frame)) = next(&events).await? {
            println!("{id}: {}", String::from_utf8_lossy(&frame));
            frames += 1;
        }
    }
    nodes.iter().for_each(Node::begin_stop);
    let mut exits = 0;
    while exits < nodes.len() {
        if let (id, Event::Exit { cause, rung, .. }) = next(&events).await? {
            println!("{id}: ended, {cause:?} by {rung:?}");
            exits += 1;
        }
    }

    // A child alone needs no receiver: its pidfd becomes readable.
    let mut sleep = Command::new("sleep");
    let child = spawner.spawn(sleep.arg("0.1"))?;
    // SAFETY: so does a child.
    let mut child = unsafe { AsyncFd::register_with_interest(child, Interest::READABLE) }?;
    drop(timeout(LIMIT, child.readable()).await??);
    println!("sleep: {}", child.get_mut().wait()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}
