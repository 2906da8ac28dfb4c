//! The agent's side: what the work loop is told, and that pings are answered whatever it does.

use std::{
    os::unix::process::ExitStatusExt,
    thread,
    time::{Duration, Instant},
};

use pidward::{
    ControlMsg, MarkerNames, MessageError, SpawnPayload, Stdio,
    agent::{self, AgentError, Refused},
};

mod agents;

use agents::{SECOND, Stage};

#[test]
fn agent_without_a_model_is_ready_and_fails() {
    let stage = Stage::new();
    let _agent = stage.start("fail", "anything");
    assert_eq!(stage.to_exit(), ["ready", "failed no model answers", "closed", "exit 1"]);
}

#[test]
fn warm_agent_takes_turns_until_it_is_cancelled() {
    let stage = Stage::new();
    for (cancel, expected) in [
        (ControlMsg::cancel_because("enough"), "result \"enough\""),
        (ControlMsg::cancel(), "result \"no reason\""),
    ] {
        let agent = stage.start("warm", "first");
        assert_eq!([stage.next(), stage.next()], ["ready", "turn \"first\""]);
        agent.send(&ControlMsg::inject(2)).unwrap();
        assert_eq!(stage.next(), "turn 2");
        agent.send(&cancel).unwrap();
        // Cancelled is cancelled.
        let _ = agent.send(&ControlMsg::inject(3));
        assert_eq!(stage.to_exit(), [expected, "closed", "exit 0"]);
    }
}

#[test]
fn ping_is_answered_while_the_loop_computes() {
    let stage = Stage::new();
    let agent = stage.start("compute", 5_000);
    assert_eq!(stage.next(), "ready");
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    for id in 0..20 {
        let sent = Instant::now();
        agent.send(&ControlMsg::ping(id)).unwrap();
        assert_eq!(stage.next(), format!("pong {id}"));
        slowest = slowest.max(sent.elapsed());
        thread::sleep(SECOND / 20);
    }
    assert!(began.elapsed() < SECOND * 5, "it has computed all the time: {:?}", began.elapsed());
    println!("the slowest of 20 pongs: {slowest:?}");
    agent.send(&ControlMsg::ping(None)).unwrap();
    assert_eq!(stage.next(), "pong -1");
    assert_eq!(stage.to_exit(), ["result \"computed\"", "closed", "exit 0"]);
}

#[test]
fn paused_agent_is_silent_and_loses_nothing() {
    let stage = Stage::new();
    let agent = stage.start("talk", "");
    assert_eq!(stage.next(), "ready");
    let mut expected = 0;
    let mut take = |word: String| {
        assert_eq!(word, format!("event talk {expected}"));
        expected += 1;
    };
    for round in 0..5 {
        (0..100).for_each(|_| take(stage.next()));
        // What follows the pong was said after the pause: one event, that was under way, at most.
        agent.send(&ControlMsg::Pause).unwrap();
        agent.send(&ControlMsg::ping(round)).unwrap();
        // Ends with the pong.
        loop {
            match stage.next() {
                word if word == format!("pong {round}") => break,
                word => take(word),
            }
        }
        let after = std::iter::from_fn(|| stage.events.recv(Some(SECOND / 5)));
        let after: Vec<_> = after.map(|(_, event)| agents::word(&event)).collect();
        assert!(after.len() <= 1, "{after:?}");
        after.into_iter().for_each(&mut take);
        agent.send(&ControlMsg::Resume).unwrap();
    }
    // A cancel wins over a pause.
    agent.send(&ControlMsg::Pause).unwrap();
    agent.send(&ControlMsg::cancel()).unwrap();
    let mut words = stage.to_exit();
    let end = words.split_off(words.len() - 3);
    words.into_iter().for_each(&mut take);
    assert_eq!(end, [format!("result {expected}"), "closed".into(), "exit 0".into()]);
}

#[test]
fn paused_agent_takes_no_input_until_it_goes_on() {
    let stage = Stage::new();
    let agent = stage.start("warm", 1);
    assert_eq!([stage.next(), stage.next()], ["ready", "turn 1"]);
    for message in [ControlMsg::Pause, ControlMsg::inject(2), ControlMsg::inject(3), ControlMsg::ping(7)] {
        agent.send(&message).unwrap();
    }
    assert_eq!(stage.next(), "pong 7");
    assert!(stage.events.recv(Some(SECOND / 2)).is_none(), "it is paused");
    agent.send(&ControlMsg::Resume).unwrap();
    assert_eq!([stage.next(), stage.next()], ["turn 2", "turn 3"]);
    agent.send(&ControlMsg::Pause).unwrap();
    agent.send(&ControlMsg::inject(4)).unwrap();
    // What is taken becomes a turn, also after a cancel.
    assert!(stage.events.recv(Some(SECOND / 2)).is_none());
    agent.send(&ControlMsg::cancel()).unwrap();
    assert_eq!(stage.to_exit(), ["result \"no reason\"", "closed", "exit 0"]);
}

#[test]
fn agent_of_a_supervisor_that_has_gone_ends_though_its_loop_is_deaf() {
    let stage = Stage::new();
    let mut agent = stage.start("deaf", "");
    assert_eq!(stage.next(), "ready");
    let began = Instant::now();
    agent.close();
    assert_eq!(stage.to_exit(), ["closed", "exit 69"]);
    let took = began.elapsed();
    assert!(SECOND * 4 < took && took < SECOND * 15, "{took:?}");
    assert_eq!(agent.child().wait().unwrap().code(), Some(agent::CLOSED_EXIT_CODE));
    // The receiver goes, and takes the agents with it.
    let mut agent = stage.start("deaf", "");
    assert_eq!(stage.next(), "ready");
    let Stage { events, spawner, guard } = stage;
    drop(events);
    let status = agent.child().wait_timeout(SECOND * 15).unwrap();
    assert_eq!(status.and_then(|status| status.signal()), Some(15));
    drop((agent, spawner, guard));
}

#[test]
fn closed_channel_ends_the_work_and_the_result_is_still_read() {
    let stage = Stage::new();
    let agent = stage.start("warm", 1);
    assert_eq!([stage.next(), stage.next()], ["ready", "turn 1"]);
    agent.close();
    assert_eq!(stage.to_exit(), ["result \"the channel is closed\"", "closed", "exit 0"]);
}

#[test]
fn program_that_has_let_go_of_the_agent_is_not_ended() {
    let stage = Stage::new();
    let _agent = stage.start("apart", "");
    assert_eq!(stage.to_exit(), ["ready", "closed", "exit 3"]);
}

#[test]
fn nothing_but_pongs_follows_a_result() {
    let stage = Stage::new();
    let mut cmd = stage.command();
    let mut agent = stage.start_as(cmd.stdin(Stdio::piped()), &SpawnPayload::new("last", ""));
    assert_eq!([stage.next(), stage.next()], ["ready", "result \"first\""]);
    agent.send(&ControlMsg::ping(1)).unwrap();
    assert_eq!(stage.next(), "pong 1");
    drop(agent.child().stdin.take());
    assert_eq!(stage.to_exit(), ["closed", "exit 0"]);
}

#[test]
fn whoever_waits_for_input_is_woken_by_the_result_of_another_thread() {
    let stage = Stage::new();
    let _agent = stage.start("aside", "");
    assert_eq!(stage.to_exit(), ["ready", "result \"aside\"", "closed", "exit 0"]);
}

#[test]
fn types_of_the_callers_own_pass_both_ways_byte_for_byte() {
    let stage = Stage::new();
    let agent = stage.start("echo", "");
    assert_eq!(stage.next(), "ready");
    let own = b"{ \"type\":\"tool_request\", \"id\": 7.0e2 }";
    agent.send(&ControlMsg::parse(own).unwrap()).unwrap();
    let (_, event) = pidward_tests::channel::next(&stage.events);
    let pidward::Event::Frame(bytes) = event else { panic!("{event:?}") };
    assert_eq!(bytes, own);
    assert_eq!(stage.to_exit(), ["closed", "exit 0"]);
}

#[test]
fn debug_of_an_agent_shows_nothing_of_its_payload() {
    let stage = Stage::new();
    let agent = stage.start("show", "secret task");
    agent.send(&ControlMsg::inject("secret input")).unwrap();
    assert_eq!(stage.next(), "ready");
    let shown = stage.next();
    assert!(shown.contains("Agent { payload: SpawnPayload { v: 1, depth: 0, .. }"), "{shown}");
    assert!(shown.contains("Ok(Some(Message))") && !shown.contains("secret"), "{shown}");
}

#[test]
fn whoever_inherits_the_variables_is_no_agent() {
    let stage = Stage::new();
    let _agent = stage.start("below", "");
    // Its number is free there; there is no variable; and it is taken already.
    assert_eq!(stage.next(), r#"result ["BadChannel(EBADF)","NotAnAgent","Err(BadChannel(EBADF))"]"#);
    assert_eq!(agent::connect().err(), Some(AgentError::NotAnAgent));
    let mut settings = agent::AgentSettings::default();
    // Whatever these hold, it is no number of a socket that came through exec.
    settings.names = MarkerNames::default().role("PATH").channel("CARGO_PKG_NAME");
    assert!(matches!(agent::connect_with(&settings).err(), Some(AgentError::BadChannel(_))));
    assert_eq!(stage.to_exit(), ["closed", "exit 0"]);
}

#[test]
fn errors_are_one_line_each() {
    let errors: [std::io::Error; 5] = [
        AgentError::NotAnAgent.into(),
        AgentError::Payload(MessageError::NotAMessage).into(),
        AgentError::Late.into(),
        Refused::Cancelled.into(),
        Refused::Closed.into(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
    }
}
