//! Frames come whole and in order, each channel ends once, and the exit is the last event.

use std::{
    fs,
    io::Write,
    time::{Duration, Instant},
};

use pidward::{
    Command, Event, Events, OnFault, ProtocolErrorKind, SpawnErrorKind, Spawner, Stdio, Transport,
};
use pidward_tests::{
    channel::{frame, next, print, to_exit, to_exit_of, word, zeros},
    leftovers::NoLeftovers,
    rounds::rounds,
};

/// A script whose standard output is the channel.
fn speaking(guard: &NoLeftovers, transport: Transport, script: &str) -> Command {
    let mut cmd = match transport {
        Transport::Socket => guard.shell(&format!("exec >&$PIDWARD_CHANNEL; {script}")),
        _ => guard.shell(script),
    };
    // It ends by itself, whatever it has sent.
    cmd.channel(transport).on_fault(OnFault::Tell);
    cmd
}

/// What comes of it.
fn events_of(guard: &NoLeftovers, spawner: &Spawner, transport: Transport, script: &str) -> Vec<String> {
    let events = Events::new().unwrap();
    let _node = events.spawn(spawner, &speaking(guard, transport, script)).unwrap();
    to_exit(&events)
}

#[test]
fn last_frame_comes_before_the_exit_every_time() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let script = format!("{}; exit 7", print(&frame(b"last words")));
    for transport in [Transport::Socket, Transport::Stdio] {
        let cmd = speaking(&guard, transport, &script);
        for round in 0..rounds(200, 2_000) / 2 {
            let node = events.spawn(&spawner, &cmd).unwrap();
            let expected = ["frame last words", "closed", "exit 7"];
            assert_eq!(to_exit(&events), expected, "{transport:?}, round {round}");
            drop(node);
        }
    }
}

#[test]
fn grandchild_that_keeps_the_channel_does_not_hold_up_the_exit() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let whole = print(&frame(b"whole"));
    let held = |transport, script: &str| {
        let events = Events::new().unwrap();
        let _node = events.spawn(&spawner, &speaking(&guard, transport, script)).unwrap();
        let (words, held) = to_exit_of(&events);
        assert!(held, "{words:?}");
        words
    };
    for transport in [Transport::Socket, Transport::Stdio] {
        let began = Instant::now();
        let script = format!("{whole}; sleep 60 & exit 3");
        assert_eq!(held(transport, &script), ["frame whole", "closed", "exit 3"]);
        assert!(began.elapsed() < Duration::from_secs(1), "{transport:?} {:?}", began.elapsed());
        let script = format!("{whole}; printf '\\0\\0'; sleep 60 & exit 3");
        let began = Instant::now();
        assert_eq!(held(transport, &script), ["frame whole", "protocol Cut", "exit 3"]);
        let took = began.elapsed();
        assert!(Duration::from_secs(1) <= took && took < Duration::from_secs(10), "{transport:?} {took:?}");
        assert_eq!(guard.end_all().len(), 2);
    }
    // What the grandchild adds to the frame in time counts, and what is behind it does not.
    let rest = print(&[&frame(b"12345")[6..], &frame(b"its own")[..]].concat());
    let script = format!("{}; {{ sleep 0.2; {rest}; sleep 60; }} & exit 3", print(&frame(b"12345")[..6]));
    assert_eq!(held(Transport::Socket, &script), ["frame 12345", "closed", "exit 3"]);
    let script = "printf 'ha'; { sleep 0.2; printf 'lf\\nnext\\n'; sleep 60; } & exit 3";
    assert_eq!(held(Transport::Lines, script), ["frame half", "closed", "exit 3"]);
    guard.end_all();
}

#[test]
fn grandchild_that_writes_for_ever_does_not_hold_up_the_exit() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let script = "{ while :; do cat /dev/zero; done; } & sleep 0.2; exit 4";
    let _node = events.spawn(&spawner, &speaking(&guard, Transport::Socket, script)).unwrap();
    let began = Instant::now();
    // Zeros are frames without a payload. Ends with the first event that is none.
    let end = loop {
        match next(&events).1 {
            Event::Frame(bytes) => assert!(bytes.is_empty()),
            event => break event,
        }
    };
    let first = word(&end);
    // The bytes of the last frame may be cut at the bound of the drain.
    assert!(first == "closed" || first == "protocol Cut", "{first}");
    assert_eq!(to_exit_of(&events), (vec!["exit 4".to_string()], true));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    guard.end_all();
}

#[test]
fn frames_of_every_size_up_to_the_cap() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let cap = 16 << 20;
    for transport in [Transport::Socket, Transport::Stdio] {
        let sizes = [0, 1, 65_535, 65_536, cap];
        let script = sizes.map(zeros).join("; ");
        let events = Events::new().unwrap();
        let _node = events.spawn(&spawner, &speaking(&guard, transport, &script)).unwrap();
        for size in sizes {
            let (_, event) = next(&events);
            let Event::Frame(bytes) = event else { panic!("{event:?}") };
            assert!(bytes.len() == size as usize && bytes.iter().all(|byte| *byte == 0), "{size}");
        }
        assert_eq!(to_exit(&events), ["closed", "exit 0"]);
        let over =
            events_of(&guard, &spawner, transport, &format!("{}; exit 1", print(&(cap + 1).to_be_bytes())));
        let kind = ProtocolErrorKind::TooLarge { length: u64::from(cap) + 1, cap };
        assert_eq!(over, [format!("protocol {kind:?}"), "exit 1".into()]);
    }
}

#[test]
fn every_cut_of_a_stream_is_told_from_an_end() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let stream = [frame(b"one"), frame(b""), frame(b"two")].concat();
    for transport in [Transport::Socket, Transport::Stdio] {
        for cut in 0..=stream.len() {
            let mut expected: Vec<_> = [("frame one", 7), ("frame ", 11), ("frame two", 18)]
                .iter()
                .filter(|f| f.1 <= cut)
                .map(|f| f.0)
                .collect();
            expected.push(if [0, 7, 11, 18].contains(&cut) { "closed" } else { "protocol Cut" });
            expected.push("exit 5");
            let script = format!("{}; exit 5", print(&stream[..cut]));
            assert_eq!(
                events_of(&guard, &spawner, transport, &script),
                expected,
                "{transport:?}, cut at {cut}"
            );
        }
    }
}

#[test]
fn text_on_standard_output_is_told_and_no_hang() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    // It writes on, and then waits for its end: nobody reads, and it must learn so.
    let script = "echo Loading...; trap 'exit 6' PIPE; while :; do echo more 2>/dev/null || exit 6; done";
    let node = events.spawn(&spawner, &speaking(&guard, Transport::Stdio, script)).unwrap();
    let (id, event) = next(&events);
    let Event::Protocol(error) = event else { panic!("{event:?}") };
    assert_eq!((id, error.kind()), (node.id(), ProtocolErrorKind::NotAFrame));
    assert!(error.to_string().starts_with("not a frame: \"Loading...\\n"), "{error}");
    assert!(!format!("{error:?}").contains("Loading"));
    assert_eq!(node.send(b"x"), Err(pidward::SendError::Closed));
    assert_eq!(to_exit(&events), ["exit 6"]);
}

#[test]
fn lines_are_messages_as_mcp_servers_speak_them() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let script = "while read -r line; do echo noise >&2; printf '{\"got\":%s}\\n' \"$line\"; done; exit 2";
    let mut cmd = speaking(&guard, Transport::Lines, script);
    let node = events.spawn(&spawner, cmd.stderr_events(true)).unwrap();
    node.send(b"{\"id\":1}").unwrap();
    node.send(b"{\"id\":2}").unwrap();
    assert_eq!(node.send(b"{\n}"), Err(pidward::SendError::Newline));
    node.close();
    assert_eq!(node.send(b"{}"), Err(pidward::SendError::Closed));
    let (stderr, rest): (Vec<_>, Vec<_>) =
        to_exit(&events).into_iter().partition(|word| word.starts_with("stderr"));
    assert_eq!(rest, ["frame {\"got\":{\"id\":1}}", "frame {\"got\":{\"id\":2}}", "closed", "exit 2"]);
    assert_eq!(stderr, ["stderr noise", "stderr noise"]);
    let mut cmd = speaking(&guard, Transport::Lines, "echo 123456; echo 1234567; sleep 60");
    let mut limits = pidward::ChannelLimits::default();
    limits.frame = 6;
    let mut node = events.spawn(&spawner, cmd.channel_limits(limits)).unwrap();
    assert_eq!(word(&next(&events).1), "frame 123456");
    let over = word(&next(&events).1);
    assert!(over.starts_with("protocol TooLarge { length: ") && over.ends_with("cap: 6 }"), "{over}");
    assert!(node.child().stop(Duration::from_secs(5)).is_complete());
}

#[test]
fn standard_error_comes_in_lines_of_a_bounded_length() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let mut cmd = guard.shell("printf 'one\\n\\n123456789\\nrest' >&2; sleep 60 & exit 1");
    let mut limits = pidward::ChannelLimits::default();
    limits.stderr_line = 4;
    let _node = events.spawn(&spawner, cmd.stderr_events(true).channel_limits(limits)).unwrap();
    let expected = ["one", "", "1234", "5678", "9", "rest"].map(|line| format!("stderr {line}"));
    let words = to_exit(&events);
    assert_eq!(words[..6], expected);
    assert_eq!(words[6..], ["exit 1"]);
    guard.end_all();
}

#[test]
fn data_comes_before_a_reset() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let script = format!("read go; {}; exit 8", print(&frame(b"before")));
    for _ in 0..rounds(20, 200) {
        let mut cmd = speaking(&guard, Transport::Socket, &script);
        let mut node = events.spawn(&spawner, cmd.stdin(Stdio::piped())).unwrap();
        // Frames that the child never reads: its end is then a reset.
        node.send(b"unread").unwrap();
        node.child().stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert_eq!(to_exit(&events), ["frame before", "closed", "exit 8"]);
    }
}

#[test]
fn commands_that_cannot_be_meant_are_refused() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let mut cmd = guard.shell("exit");
    let refused =
        |error: pidward::SpawnError| assert_eq!(error.kind(), SpawnErrorKind::InvalidInput, "{error}");
    refused(spawner.spawn(cmd.channel(Transport::Socket)).unwrap_err());
    refused(spawner.spawn_on_this_thread(&cmd).unwrap_err());
    refused(spawner.spawn(guard.shell("exit").stderr_events(true)).unwrap_err());
    for transport in [Transport::Stdio, Transport::Lines] {
        refused(events.spawn(&spawner, cmd.channel(transport).stdout(Stdio::null())).unwrap_err());
    }
    refused(
        events.spawn(&spawner, guard.shell("exit").stderr(Stdio::null()).stderr_events(true)).unwrap_err(),
    );
    // Without a channel there is an exit, and nothing can be sent.
    let node = events.spawn(&spawner, &guard.shell("exit 9")).unwrap();
    assert_eq!(node.send(b"x"), Err(pidward::SendError::Closed));
    assert_eq!(to_exit(&events), ["exit 9"]);
}

#[test]
fn number_of_the_channel_is_free_and_under_the_name_of_the_spawner() {
    let guard = NoLeftovers::new();
    let names = pidward::MarkerNames::default().channel("ACME_FD");
    let spawner = Spawner::builder().markers(names).build().unwrap();
    let events = Events::new().unwrap();
    let null = || fs::File::open("/dev/null").unwrap();
    let mut cmd = guard.shell("printf '\\0\\0\\0\\1%s' $ACME_FD >&$ACME_FD");
    cmd.pass_fd(null(), 3).pass_fd(null(), 4).pass_fd(null(), 6).channel(Transport::Socket);
    let _node = events.spawn(&spawner, cmd.env("ACME_FD", "17")).unwrap();
    assert_eq!(to_exit(&events), ["frame 5", "closed", "exit 0"]);
}
