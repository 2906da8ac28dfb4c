//! Children of a shell that speak through a channel, and what a receiver gets of them.

use std::{
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use pidward::{Cause, Event, Events, NodeId, Rung};

/// No test waits longer for an event.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A payload with its length before it.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length");
    [&length.to_be_bytes(), payload].concat()
}

/// A command of the shell that writes these bytes to its standard output.
pub fn print(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{escaped}'")
}

/// A command of the shell that writes a frame of so many zeros to its standard output.
pub fn zeros(length: u32) -> String {
    format!("{}; head -c {length} /dev/zero", print(&length.to_be_bytes()))
}

/// The next event. Fails the test where none comes.
#[track_caller]
pub fn next(events: &Events) -> (NodeId, Event) {
    events.recv(Some(LIMIT)).expect("an event")
}

/// An event as one word: a short frame with its text, a long one with its length.
pub fn word(event: &Event) -> String {
    match event {
        Event::Frame(bytes) if bytes.len() > 100 => format!("frame of {}", bytes.len()),
        Event::Frame(bytes) => format!("frame {}", String::from_utf8_lossy(bytes)),
        Event::Stderr(bytes) => format!("stderr {}", String::from_utf8_lossy(bytes)),
        Event::Closed => "closed".to_string(),
        Event::Protocol(error) => format!("protocol {:?}", error.kind()),
        Event::Exit { status, .. } => {
            format!("exit {}", status.and_then(|status| status.code()).unwrap_or(-1))
        }
        Event::FailedToStart(why) => format!("failed {why:?}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Why a child ended and the last rung, of its exit, which is the next event; and whether it ended by this signal.
#[track_caller]
pub fn exit_of(events: &Events) -> (Cause, Option<Rung>, Option<i32>) {
    match next(events).1 {
        Event::Exit { cause, rung, status, .. } => (cause, rung, status.and_then(|status| status.signal())),
        event => panic!("{event:?}"),
    }
}

/// All events of the one child, as words, to its exit; and that nothing comes after.
#[track_caller]
pub fn to_exit(events: &Events) -> Vec<String> {
    to_exit_of(events).0
}

/// The same, and whether somebody else had the channel open.
#[track_caller]
pub fn to_exit_of(events: &Events) -> (Vec<String>, bool) {
    let began = Instant::now();
    let mut words = Vec::new();
    // Ends with the exit; every event comes within the limit.
    loop {
        let (_, event) = next(events);
        words.push(word(&event));
        assert!(began.elapsed() < LIMIT, "{words:?}");
        if let Event::Exit { held, .. } = event {
            assert!(events.try_recv().is_none(), "something after {words:?}");
            return (words, held);
        }
    }
}
