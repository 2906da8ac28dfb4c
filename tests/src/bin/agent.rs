//! `agent [MS]`: an agent whose role says how it behaves; waits so long for its payload. Where it is none it says why, and ends.
//!
//! - `fail`: ready, then failed; `warm`: a turn for its task and for each input, and a result when it is cancelled;
//! - `compute MS`: so long without a call; `talk`: events without end; `deaf`: nothing, for ever;
//! - `digest`: the length of its task; `much N`: so many large events before it takes as many inputs;
//! - `echo`: sends back what it does not know; `apart`: lets go of the agent, and ends with 3 after 6 s;
//! - `below`: what others see of it who are started as it was; `show`: what its Debug shows; `last`: a result, then
//!   more, and it ends with its standard input; `aside`: waits for input, and another thread has the result.

use std::{
    io::Read,
    process::{self, Command},
    thread,
    time::{Duration, Instant},
};

use pidward::{
    AgentMsg,
    agent::{self, Agent, AgentSettings, Input, Refused},
    message::{Map, Value},
};

fn number(n: u64) -> Map<String, Value> {
    Map::from_iter([("n".to_string(), n.into())])
}

fn warm(agent: &Agent) -> Result<(), Refused> {
    agent.turn(agent.payload().task.clone())?;
    // Ends with a cancel.
    loop {
        match agent.next(None) {
            Ok(Some(Input::Message(input))) => agent.turn(input)?,
            Ok(_) => {}
            Err(Refused::Cancelled) => {
                return agent.result(agent.cancel_reason().unwrap_or_else(|| "no reason".into()));
            }
            Err(refused) => return agent.result(refused.to_string()),
        }
    }
}

fn talk(agent: &Agent) -> Result<(), Refused> {
    let mut n = 0;
    // Ends with a cancel.
    while agent.event("talk", number(n)).is_ok() {
        n += 1;
    }
    assert!(agent.is_cancelled() && agent.checkpoint().is_err());
    agent.result(n)
}

fn much(agent: &Agent) -> Result<(), Refused> {
    let count = agent.payload().task.as_u64().expect("a number");
    for _ in 0..count {
        agent.send(&AgentMsg::event("x".repeat(64 << 10), Map::new()))?;
    }
    for _ in 0..count {
        agent.next(None)?;
    }
    agent.result(count)
}

fn compute(agent: &Agent) -> Result<(), Refused> {
    let end = Instant::now() + Duration::from_millis(agent.payload().task.as_u64().expect("a number"));
    // Ends as the clock runs on.
    while Instant::now() < end {
        std::hint::black_box((0..1000_u64).sum::<u64>());
    }
    agent.result("computed")
}

/// What the same program says that is started by std, with all variables, and by pidward.
fn below(agent: &Agent) -> Result<(), Refused> {
    let own = std::env::current_exe().expect("its path");
    let by_std = Command::new(&own).output().expect("a program").stdout;
    let ours = pidward::Command::new(&own).output().expect("a program").stdout;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    let again = format!("{:?}", agent::connect().map(drop));
    agent.result(vec![text(&by_std), text(&ours), again])
}

fn last(agent: &Agent) -> Result<(), Refused> {
    agent.result("x".repeat(16 << 20)).expect_err("longer than the cap");
    agent.result("first")?;
    let more = [agent.event("more", Map::new()), agent.turn(1), agent.failed("no"), agent.ready()];
    assert_eq!(more, [Err(Refused::Ended); 4]);
    assert_eq!(agent.next(None), Err(Refused::Ended));
    // Ends when the other end is closed.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("an input");
    Ok(())
}

fn aside(agent: &Agent) -> Result<(), Refused> {
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            // By then the first thread waits.
            thread::sleep(Duration::from_millis(200));
            agent.result("aside")
        });
        assert_eq!(agent.next(None), Err(Refused::Ended));
        other.join().expect("no panic")
    })
}

fn work(agent: Agent) -> Result<(), Refused> {
    let role = agent.payload().role.clone();
    if role != "below" {
        agent.ready()?;
    }
    match role.as_str() {
        "fail" => agent.failed("no model answers"),
        "warm" => warm(&agent),
        "compute" => compute(&agent),
        "talk" => talk(&agent),
        "digest" => agent.result(agent.payload().task.as_str().map_or(0, str::len)),
        "much" => much(&agent),
        "below" => below(&agent),
        "last" => last(&agent),
        "aside" => aside(&agent),
        "show" => agent.result(format!("{agent:?} {:?}", agent.next(Some(Duration::from_secs(30))))),
        "echo" => match agent.next(None)? {
            Some(Input::Unknown(message)) => {
                agent.send(&AgentMsg::parse(message.as_bytes()).expect("a message"))
            }
            other => panic!("{other:?}"),
        },
        "apart" => {
            drop(agent);
            thread::sleep(Duration::from_secs(6));
            process::exit(3);
        }
        // Ends with the process.
        "deaf" => loop {
            thread::park();
        },
        other => panic!("no role {other}"),
    }
}

fn main() {
    let mut settings = AgentSettings::default();
    if let Some(wait) = std::env::args().nth(1) {
        settings.payload_wait = Duration::from_millis(wait.parse().expect("a number"));
    }
    match agent::connect_with(&settings) {
        Ok(agent) => {
            let failed = agent.payload().role == "fail";
            work(agent).expect("a supervisor");
            process::exit(failed.into());
        }
        Err(e) => println!("{e:?}"),
    }
}
