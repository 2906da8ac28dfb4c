//! Sending never waits for a child, and no child delays another.

use std::{
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use pidward::{ChannelLimits, Command, Event, Events, Node, SendError, Spawner, Transport};
use pidward_tests::{
    channel::{frame, next, print, to_exit, word, zeros},
    leftovers::NoLeftovers,
    rounds::{median, rounds},
};

/// A child that sends back what it gets.
fn echo(guard: &NoLeftovers, transport: Transport) -> Command {
    let mut cmd = match transport {
        Transport::Socket => guard.shell("exec cat <&$PIDWARD_CHANNEL >&$PIDWARD_CHANNEL"),
        _ => guard.shell("exec cat"),
    };
    cmd.channel(transport);
    cmd
}

/// Sends until it is refused: why, how many were taken, and how long each call took.
fn fill(node: &Node, payload: &[u8]) -> (SendError, usize, Vec<Duration>) {
    let mut took = Vec::new();
    // Ends with the refusal: what is taken is bounded.
    loop {
        let began = Instant::now();
        let sent = node.send(payload);
        took.push(began.elapsed());
        match sent {
            Ok(()) => assert!(took.len() < 1_000_000, "the queue is never full"),
            Err(error) => return (error, took.len() - 1, took),
        }
    }
}

/// How long a frame takes to the child and back.
fn round_trip(events: &Events, node: &Node) -> Duration {
    let began = Instant::now();
    node.send(b"there and back").unwrap();
    let (id, event) = next(events);
    assert_eq!((id, &*word(&event)), (node.id(), "frame there and back"));
    began.elapsed()
}

#[test]
fn child_that_never_reads_fills_its_queue_and_delays_nobody() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let other = events.spawn(&spawner, &echo(&guard, Transport::Socket)).unwrap();
    let count = rounds(200, 2_000);
    let alone = median((0..count).map(|_| round_trip(&events, &other)).collect());
    let mut deaf = Vec::new();
    for transport in [Transport::Socket, Transport::Stdio, Transport::Lines] {
        let mut cmd = guard.shell("exec sleep 1000");
        let node = events.spawn(&spawner, cmd.channel(transport)).unwrap();
        let (error, taken, took) = fill(&node, &[b'x'; 60_000]);
        assert_eq!(error, SendError::Full);
        assert!((64..80).contains(&taken), "64 wait, some are on their way: {taken}");
        let median = median(took);
        assert!(median < Duration::from_millis(1), "{transport:?} {median:?}");
        deaf.push(node);
    }
    let refused = (0..count).map(|_| {
        let began = Instant::now();
        assert_eq!(deaf[0].send(b"more"), Err(SendError::Full));
        began.elapsed()
    });
    assert!(median(refused.collect()) < Duration::from_millis(1));
    let beside = median((0..count).map(|_| round_trip(&events, &other)).collect());
    assert!(beside < alone * 2 + Duration::from_millis(1), "{alone:?} alone, {beside:?} beside");
    for mut node in deaf {
        assert!(node.child().stop(Duration::from_secs(5)).is_complete());
        assert!(matches!(next(&events).1, Event::Closed));
        assert!(matches!(next(&events).1, Event::Exit { .. }));
        assert_eq!(node.send(b"more"), Err(SendError::Closed));
    }
    other.close();
    assert_eq!(to_exit(&events), ["closed", "exit 0"]);
}

#[test]
fn queue_is_bounded_in_frames_and_in_bytes() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let mut limits = ChannelLimits::default();
    (limits.queue_frames, limits.queue_bytes, limits.frame) = (5, 1 << 20, 8 << 20);
    let deaf = || {
        let mut cmd = guard.shell("exec sleep 1000");
        let mut node = events.spawn(&spawner, cmd.channel(Transport::Socket).channel_limits(limits)).unwrap();
        // One frame that nobody waits before may be longer than all that may wait.
        assert_eq!(node.send(&vec![0; (8 << 20) + 1]), Err(SendError::TooLarge));
        let first = node.send(&vec![0; 8 << 20]);
        assert_eq!((first, node.send(b"")), (Ok(()), Err(SendError::Full)));
        node.child().kill().unwrap();
        assert_eq!(to_exit(&events), ["closed", "exit -1"]);
        events.spawn(&spawner, &cmd).unwrap()
    };
    let mut node = deaf();
    let (error, taken, _) = fill(&node, &[0; 300_000]);
    assert_eq!((error, taken), (SendError::Full, 4), "the first is partly on its way");
    node.child().kill().unwrap();
    assert_eq!(to_exit(&events), ["closed", "exit -1"]);
    let mut node = deaf();
    node.send(&[0; 400_000]).unwrap();
    let (error, taken, _) = fill(&node, b"small");
    assert_eq!((error, taken), (SendError::Full, 4));
    node.child().kill().unwrap();
    assert_eq!(to_exit(&events), ["closed", "exit -1"]);
}

#[test]
fn both_write_much_before_they_read_and_do_not_stand_still() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    for transport in [Transport::Socket, Transport::Stdio] {
        let streams = match transport {
            Transport::Socket => "exec <&$PIDWARD_CHANNEL >&$PIDWARD_CHANNEL;",
            _ => "",
        };
        // It writes 4 MiB, then reads 2.5 MiB, then says so.
        let write = format!("for i in 1 2 3 4; do {}; done", zeros(1 << 20));
        let script = format!("{streams} {write}; head -c 2621600 | wc -c >&2; {}", print(&frame(b"done")));
        let mut cmd = guard.shell(&script);
        let node = events.spawn(&spawner, cmd.channel(transport).stderr_events(true)).unwrap();
        for _ in 0..40 {
            node.send(&[1; 65_536]).unwrap();
        }
        let big = "frame of 1048576";
        let mut words = to_exit(&events);
        let stderr = words.iter().position(|word| word.starts_with("stderr")).expect("a count");
        assert_eq!(words.remove(stderr), "stderr 2621600");
        assert_eq!(words, [big, big, big, big, "frame done", "closed", "exit 0"], "{transport:?}");
    }
}

#[test]
fn what_waits_is_written_in_order_and_whole() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    for transport in [Transport::Socket, Transport::Stdio, Transport::Lines] {
        let events = Events::new().unwrap();
        let node = events.spawn(&spawner, &echo(&guard, transport)).unwrap();
        let payload = |n: usize| vec![b'a' + (n % 26) as u8; (n * 7_919) % 200_000];
        let count = rounds(200, 2_000);
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..count {
                    // Ends when the receiver has made room.
                    while node.send(&payload(n)) == Err(SendError::Full) {
                        thread::yield_now();
                    }
                }
                node.close();
            });
            for n in 0..count {
                let (_, event) = next(&events);
                let Event::Frame(bytes) = event else { panic!("{transport:?} {n}: {event:?}") };
                assert!(bytes == payload(n), "{transport:?} {n}");
            }
        });
        assert_eq!(to_exit(&events), ["closed", "exit 0"], "{transport:?}");
    }
}

#[test]
fn child_that_closes_its_side_makes_sends_fail_without_a_signal() {
    pidward_tests::in_child!();
    let guard = NoLeftovers::alone();
    // As in a program without Rust's start-up code, which ignores it.
    // SAFETY: the default runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    for (transport, close) in [
        (Transport::Socket, "exec 3>&-"),
        (Transport::Stdio, "exec <&- >&-"),
        (Transport::Lines, "exec <&- >&-"),
    ] {
        let mut cmd = guard.shell(&format!("{close}; exec sleep 1000"));
        let mut node = events.spawn(&spawner, cmd.channel(transport)).unwrap();
        assert_eq!(word(&next(&events).1), "closed");
        assert_eq!([node.send(b"x"), node.send(b"x")], [Err(SendError::Closed); 2]);
        assert!(events.recv(Some(Duration::from_millis(100))).is_none(), "it is said once");
        node.child().kill().unwrap();
        assert_eq!(to_exit(&events), ["exit -1"]);
    }
}

#[test]
fn descriptor_is_readable_while_there_is_something_to_take() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let readable = |wait: i32| {
        let raw = std::os::fd::AsRawFd::as_raw_fd(&events.as_fd());
        let mut polled = libc::pollfd { fd: raw, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor and its answer.
        unsafe { libc::poll(&raw mut polled, 1, wait) == 1 }
    };
    assert!(!readable(0) && events.try_recv().is_none());
    let two = [frame(b"one"), frame(b"two"), vec![0, 0]].concat();
    let mut cmd = guard.shell(&format!("exec >&$PIDWARD_CHANNEL; {}; sleep 60 & exit 1", print(&two)));
    let mut limits = ChannelLimits::default();
    limits.drain = Duration::from_millis(300);
    let _node = events.spawn(&spawner, cmd.channel(Transport::Socket).channel_limits(limits)).unwrap();
    let mut words = Vec::new();
    while words.len() < 4 {
        // Also for the end of the bounded wait, which no descriptor of the child tells.
        assert!(readable(10_000), "{words:?}");
        words.extend(events.try_recv().map(|(_, event)| word(&event)));
    }
    assert_eq!(words, ["frame one", "frame two", "protocol Cut", "exit 1"]);
    assert!(!readable(0));
    guard.end_all();
}
