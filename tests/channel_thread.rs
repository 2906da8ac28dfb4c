//! A receiver with a thread of its own: the same events, and work that goes on while nobody receives.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd},
    thread,
    time::{Duration, Instant},
};

use pidward::{Cause, Event, Events, Liveness, OnFault, Ready, Spawner, Transport};
use pidward_tests::{
    channel::{LIMIT, exit_of, frame, next, print, to_exit, word},
    in_child,
    leftovers::NoLeftovers,
    proc,
    rounds::rounds,
};

fn threaded() -> Events {
    Events::new().unwrap().on_thread().unwrap()
}

/// Whether the receiver's descriptor is readable within the time.
fn is_readable(events: &Events, limit: Duration) -> bool {
    let mut polled = libc::pollfd { fd: events.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = i32::try_from(limit.as_millis()).unwrap();
    // SAFETY: reads and writes one struct.
    unsafe { libc::poll(&raw mut polled, 1, limit) == 1 }
}

/// So much time of the processor has this process used.
fn used() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn last_frame_comes_before_the_exit() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = threaded();
    let script = format!("exec >&$PIDWARD_CHANNEL; {}; exit 7", print(&frame(b"last words")));
    let mut cmd = guard.shell(&script);
    cmd.channel(Transport::Socket);
    for round in 0..rounds(100, 2_000) {
        let _node = events.spawn(&spawner, &cmd).unwrap();
        assert_eq!(to_exit(&events), ["frame last words", "closed", "exit 7"], "round {round}");
    }
}

#[test]
fn work_goes_on_while_nobody_receives() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = threaded();
    // Answered though nobody receives; and one that is silent is found.
    let terms = || {
        let window = Duration::from_millis(800);
        Liveness::new().frames(window).pongs(window).ping("ping", |frame| frame == b"ping")
    };
    let mut echo = guard.shell("exec cat <&$PIDWARD_CHANNEL >&$PIDWARD_CHANNEL");
    let echo = events.spawn(&spawner, echo.channel(Transport::Socket).liveness(terms())).unwrap();
    thread::sleep(Duration::from_millis(2_500));
    assert!(events.try_recv().is_none());
    let mut silent = guard.shell("exec sleep 1000");
    let silent = events.spawn(&spawner, silent.channel(Transport::Socket).liveness(terms())).unwrap();
    proc::eventually("it has ended", || guard.left().len() == 1);
    assert_eq!((next(&events), silent.id()).0.0, silent.id());
    assert_eq!(word(&next(&events).1), "closed");
    assert_eq!(exit_of(&events).0, Cause::Stuck);
    echo.close();
    assert_eq!(to_exit(&events), ["closed", "exit 0"]);
}

#[test]
fn descriptor_tells_whether_there_is_an_event() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = threaded();
    assert!(!is_readable(&events, Duration::from_millis(50)));
    let mut cmd = guard.shell(&format!("exec >&$PIDWARD_CHANNEL; {}", print(&frame(b"x").repeat(3))));
    let _node = events.spawn(&spawner, cmd.channel(Transport::Socket)).unwrap();
    let mut words = Vec::new();
    // Ends with the exit.
    while words.last().is_none_or(|word: &String| !word.starts_with("exit")) {
        assert!(is_readable(&events, Duration::from_secs(60)), "{words:?}");
        words.push(word(&events.try_recv().expect("it was readable").1));
    }
    assert_eq!(words, ["frame x", "frame x", "frame x", "closed", "exit 0"]);
    assert!(!is_readable(&events, Duration::from_millis(50)));
}

#[test]
fn child_that_nobody_takes_from_waits_and_costs_nothing() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::builder().guard(false).build().unwrap();
    let events = threaded();
    // Frames without a payload, for ever.
    let mut cmd = guard.shell("exec cat /dev/zero >&$PIDWARD_CHANNEL");
    cmd.channel(Transport::Socket).on_fault(OnFault::Tell);
    let mut node = events.spawn(&spawner, &cmd).unwrap();
    // Until it is full.
    thread::sleep(Duration::from_millis(500));
    let before = used();
    thread::sleep(Duration::from_secs(1));
    let busy = used().saturating_sub(before);
    assert!(busy < Duration::from_millis(300), "{busy:?} of a second");
    let began = Instant::now();
    let taken = (0..200_000).filter(|_| matches!(next(&events).1, Event::Frame(_))).count();
    assert_eq!(taken, 200_000, "{:?}", began.elapsed());
    node.child().kill().unwrap();
    // What was written before is read first.
    while !matches!(next(&events).1, Event::Exit { .. }) {}
}

#[test]
fn two_receivers_share_the_events() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = threaded();
    let count = 500;
    let script =
        format!("exec >&$PIDWARD_CHANNEL; for i in $(seq {count}); do {}; done", print(&frame(b"x")));
    let mut cmd = guard.shell(&script);
    let _node = events.spawn(&spawner, cmd.channel(Transport::Socket)).unwrap();
    let receive = || {
        let mut frames = 0;
        // Ends when nothing comes for a while after the end.
        while let Some((_, event)) = events.recv(Some(Duration::from_secs(2))) {
            frames += usize::from(matches!(event, Event::Frame(_)));
        }
        frames
    };
    let (one, two) = thread::scope(|scope| {
        let other = scope.spawn(receive);
        (receive(), other.join().unwrap())
    });
    assert_eq!(one + two, count);
}

#[test]
fn panic_of_a_function_that_is_asked_about_frames_ends_nothing() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    for events in [Events::new().unwrap(), threaded()] {
        let mut cmd = guard.shell(&format!("exec >&$PIDWARD_CHANNEL; {}; exit 7", print(&frame(b"one"))));
        cmd.channel(Transport::Socket).ready(Ready::Frame(|_| panic!("on purpose")), LIMIT);
        cmd.liveness(Liveness::new().ping("ping", |_| panic!("on purpose")));
        let _node = events.spawn(&spawner, &cmd).unwrap();
        assert_eq!(to_exit(&events), ["frame one", "closed", "failed Ended", "exit 7"]);
    }
}
