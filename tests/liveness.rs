//! A child that gives no sign of life is found in time, and one that does is left alone.

use std::{
    thread,
    time::{Duration, Instant},
};

use pidward::{
    Cause, Command, Event, Events, Health, Liveness, OnFault, Ready, Rung, Signal, SpawnErrorKind, Spawner,
    Transport,
};
use pidward_tests::{
    channel::{LIMIT, exit_of, frame, next, print, word},
    fixture,
    leftovers::NoLeftovers,
    proc,
};

const PONG: Duration = Duration::from_millis(800);

/// Pings that an echo answers.
fn pinged() -> Liveness {
    Liveness::new().frames(Duration::from_secs(3)).pongs(PONG).ping("ping", |frame| frame == b"ping")
}

/// Sends back what it gets.
const ECHO: &str = "exec cat <&$PIDWARD_CHANNEL >&$PIDWARD_CHANNEL";

fn spawner() -> Spawner {
    Spawner::builder().grace(Duration::from_millis(300)).build().unwrap()
}

fn with(guard: &NoLeftovers, script: &str, terms: Liveness) -> Command {
    let mut cmd = guard.shell(script);
    cmd.channel(Transport::Socket).liveness(terms);
    cmd
}

/// The events that are not of the channel, to the exit: their words, and the exit.
#[track_caller]
fn to_the_end(events: &Events) -> (Vec<String>, Cause, Option<Rung>) {
    let mut words = Vec::new();
    // Ends with the exit; every event comes within the limit.
    loop {
        match next(events).1 {
            Event::Exit { cause, rung, .. } => return (words, cause, rung),
            Event::Closed => {}
            event => words.push(word(&event)),
        }
    }
}

#[test]
fn child_that_answers_is_left_alone_and_its_pongs_are_no_events() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let node = events.spawn(&spawner, &with(&guard, ECHO, pinged().frames(Duration::from_secs(1)))).unwrap();
    let until = Instant::now() + Duration::from_secs(4);
    let mut busy = false;
    while Instant::now() < until {
        assert!(events.recv(Some(Duration::from_millis(50))).is_none());
        let health = events.health(node.id()).unwrap();
        assert!(matches!(health, Health::Healthy | Health::Busy), "{health:?}");
        busy |= health == Health::Busy;
    }
    assert!(busy, "without a frame it is not healthy for ever");
    node.send(b"work").unwrap();
    assert_eq!(word(&next(&events).1), "frame work");
    assert_eq!(events.health(node.id()), Some(Health::Healthy));
    node.close();
    assert_eq!(to_the_end(&events), (vec![], Cause::Itself, None));
    assert_eq!(events.health(node.id()), None);
}

#[test]
fn child_that_hangs_is_stopped_with_its_tree() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let deaf = fixture!("termdeaf").display();
    let stopped = format!("kill -STOP $$; {ECHO}");
    let stubborn = format!("exec {deaf} --ready-fd 4");
    let closed = "eval \"exec $PIDWARD_CHANNEL>&-\"; exec sleep 1000";
    // Stopped, without an answer, deaf to SIGTERM, and with its channel closed.
    for (script, rung) in [
        (stopped.as_str(), Rung::Term),
        ("exec sleep 1000", Rung::Term),
        (&stubborn, Rung::Kill),
        (closed, Rung::Term),
    ] {
        let began = Instant::now();
        let mut cmd = with(&guard, script, pinged());
        if rung == Rung::Kill {
            cmd.ready(Ready::Fd(4), LIMIT);
        }
        let _node = events.spawn(&spawner, &cmd).unwrap();
        let (mut words, cause, last) = to_the_end(&events);
        words.retain(|word| word != "ready");
        assert_eq!((words, cause, last), (vec!["stuck".to_string()], Cause::Stuck, Some(rung)), "{script}");
        assert!(began.elapsed() >= PONG, "{script}");
    }
    // One that never reads fills its queue, and is found by that its pings cannot even be sent.
    let node = events.spawn(&spawner, &with(&guard, "exec sleep 1000", pinged())).unwrap();
    while node.send(&[0; 60_000]).is_ok() {}
    assert_eq!(to_the_end(&events), (vec!["stuck".to_string()], Cause::Stuck, Some(Rung::Term)));
}

#[test]
fn its_time_is_over_whatever_it_does() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let limit = Duration::from_millis(400);
    let cmd = with(&guard, ECHO, pinged().deadline(limit));
    let began = Instant::now();
    let _node = events.spawn(&spawner, &cmd).unwrap();
    assert_eq!(
        to_the_end(&events),
        (vec!["pastdeadline".to_string()], Cause::PastDeadline, Some(Rung::Term))
    );
    assert!(began.elapsed() >= limit);
    // A new one for each turn.
    let node = events.spawn(&spawner, &cmd).unwrap();
    assert!(events.set_deadline(node.id(), None));
    assert!(events.recv(Some(limit * 2)).is_none());
    assert!(events.set_deadline(node.id(), Some(limit)));
    assert_eq!(
        to_the_end(&events),
        (vec!["pastdeadline".to_string()], Cause::PastDeadline, Some(Rung::Term))
    );
    assert!(!events.set_deadline(node.id(), None));
}

#[test]
fn who_is_only_told_hears_of_each_trouble_once() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let mut node = events.spawn(&spawner, with(&guard, ECHO, pinged()).on_fault(OnFault::Tell)).unwrap();
    for _ in 0..2 {
        node.child().signal(Signal::STOP).unwrap();
        assert_eq!(word(&next(&events).1), "stuck");
        assert!(events.recv(Some(PONG * 3)).is_none(), "told twice");
        node.child().signal(Signal::CONT).unwrap();
        proc::eventually("it answers again", || {
            assert!(events.recv(Some(Duration::from_millis(20))).is_none());
            events.health(node.id()) != Some(Health::Stuck)
        });
    }
    node.close();
    assert_eq!(to_the_end(&events), (vec![], Cause::Itself, None));
}

#[test]
fn receiver_that_was_away_holds_nothing_against_the_child() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let terms = pinged().frames(Duration::from_secs(1));
    let node = events.spawn(&spawner, &with(&guard, ECHO, terms)).unwrap();
    for _ in 0..3 {
        // A ping may be under way now; its pong is not read, and no other is sent.
        assert!(events.recv(Some(Duration::from_millis(150))).is_none());
        thread::sleep(PONG * 2);
    }
    assert!(events.recv(Some(PONG * 2)).is_none());
    node.close();
    assert_eq!(to_the_end(&events), (vec![], Cause::Itself, None));
}

#[test]
fn long_frame_that_came_meanwhile_speaks_for_the_child_before_it_is_read_whole() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let terms = Liveness::new().frames(Duration::from_secs(1)).pongs(PONG);
    // Its head, and eight megabytes.
    let script = "exec >&$PIDWARD_CHANNEL; printf '\\0\\200\\0\\0'; head -c 8388608 /dev/zero; exec cat <&$PIDWARD_CHANNEL";
    let node = events.spawn(&spawner, &with(&guard, script, terms)).unwrap();
    assert!(events.recv(Some(Duration::ZERO)).is_none());
    thread::sleep(PONG * 3);
    assert!(matches!(next(&events).1, Event::Frame(frame) if frame.len() == 8 << 20));
    node.close();
    assert_eq!(to_the_end(&events), (vec![], Cause::Itself, None));
}

#[test]
fn pongs_that_wait_because_nobody_takes_events_are_not_missed() {
    let guard = NoLeftovers::new();
    let spawner = spawner();
    let events = Events::new().unwrap().on_thread().unwrap();
    // More frames without a payload than are taken in for a receiver that takes none.
    let script = format!("head -c 1200000 /dev/zero >&$PIDWARD_CHANNEL; {ECHO}");
    let node = events.spawn(&spawner, &with(&guard, &script, pinged().frames(PONG))).unwrap();
    thread::sleep(PONG * 4);
    for _ in 0..300_000 {
        assert_eq!(word(&next(&events).1), "frame ");
    }
    node.close();
    assert_eq!(to_the_end(&events), (vec![], Cause::Itself, None));
}

#[test]
fn child_that_only_talks_is_healthy_without_pings() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let terms = Liveness::new().frames(Duration::from_secs(1)).pongs(PONG);
    let say = print(&frame(b"on it"));
    let script = format!(
        "exec >&$PIDWARD_CHANNEL; for i in 1 2 3 4 5 6 7 8; do {say}; sleep 0.2; done; exec sleep 1000"
    );
    let _node = events.spawn(&spawner, &with(&guard, &script, terms)).unwrap();
    let (words, cause, rung) = to_the_end(&events);
    let talk = words.iter().filter(|word| *word == "frame on it").count();
    assert_eq!((talk, words.last().map(String::as_str)), (8, Some("stuck")), "{words:?}");
    assert_eq!((cause, rung), (Cause::Stuck, Some(Rung::Term)));
}

#[test]
fn liveness_without_a_channel_is_refused() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (spawner(), Events::new().unwrap());
    let error = events.spawn(&spawner, guard.shell("true").liveness(pinged())).unwrap_err();
    assert_eq!(error.kind(), SpawnErrorKind::InvalidInput, "{error}");
    let mut cmd = guard.shell("exit 9");
    let _node =
        events.spawn(&spawner, cmd.channel(Transport::Socket).liveness(pinged().deadline(LIMIT))).unwrap();
    assert!(matches!(next(&events).1, Event::Closed));
    assert_eq!(exit_of(&events), (Cause::Itself, None, None));
}
