//! Agents by their messages: ready, alive, and why they ended.

use std::time::Duration;

use pidward::{
    Cause, Command, Events, Liveness, NodeId, Ready, Rung, Signal, SpawnPayload, Spawner, Subagent,
};
use pidward_tests::{
    channel::{LIMIT, exit_of, next, word},
    fixture,
    leftovers::NoLeftovers,
};

/// Starts an agent that is to become ready, and is pinged.
fn start(guard: &NoLeftovers, events: &Events, spawner: &Spawner, role: &str, task: u64) -> Subagent {
    let mut cmd = Command::new(fixture!("agent"));
    let (key, value) = guard.token();
    let window = Duration::from_secs(1);
    cmd.env(key, value).ready(Ready::message(), LIMIT);
    cmd.liveness(Liveness::new().frames(window).pongs(window).messages());
    let payload = SpawnPayload::new(role, task);
    let agent = Subagent::spawn(&mut cmd, &payload, NodeId(7), events, spawner).unwrap();
    assert_eq!(word(&next(events).1), "ready");
    assert!(word(&next(events).1).starts_with("frame "), "the message itself comes too");
    agent
}

#[test]
fn agent_that_computes_is_alive_and_one_that_is_stopped_is_not() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::builder().grace(Duration::from_secs(1)).build().unwrap();
    let events = Events::new().unwrap();
    let _agent = start(&guard, &events, &spawner, "compute", 4_000);
    // Its pongs are no events.
    assert!(word(&next(&events).1).contains("computed"));
    assert_eq!(word(&next(&events).1), "closed");
    assert_eq!(exit_of(&events), (Cause::Itself, None, None));
    let mut agent = start(&guard, &events, &spawner, "compute", 600_000);
    agent.child().signal(Signal::STOP).unwrap();
    assert_eq!(word(&next(&events).1), "stuck");
    assert_eq!(word(&next(&events).1), "closed");
    assert_eq!(exit_of(&events), (Cause::Stuck, Some(Rung::Term), Some(15)));
}

#[test]
fn end_in_the_middle_of_a_turn_is_one_exit_with_its_cause() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let mut agent = start(&guard, &events, &spawner, "compute", 600_000);
    agent.child().kill().unwrap();
    assert_eq!(word(&next(&events).1), "closed");
    assert_eq!(exit_of(&events), (Cause::Itself, None, Some(9)), "somebody else did it, for all we know");
    agent.mark_reaped();
    drop(agent);
    let agent = start(&guard, &events, &spawner, "compute", 600_000);
    agent.kill();
    assert_eq!(word(&next(&events).1), "closed");
    assert_eq!(exit_of(&events), (Cause::Stopped, Some(Rung::Kill), Some(9)));
    assert!(events.recv(Some(Duration::from_millis(100))).is_none(), "one exit");
}
