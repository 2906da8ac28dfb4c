//! What an agent makes of its channel at its start, whoever is at the other end, and that neither side stands still.

use std::{
    fs::File,
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::net::{UnixDatagram, UnixStream},
    },
    time::Duration,
};

use pidward::{AgentMsg, Child, Command, ControlMsg, SpawnPayload, Spawner, Stdio};
use pidward_tests::{channel::frame, fixture, leftovers::NoLeftovers};

const LIMIT: Duration = Duration::from_secs(60);

/// The fixture with this at number 9, and so told. `wait`: how long it waits for its payload, in ms.
fn start(guard: &NoLeftovers, spawner: &Spawner, fd: impl Into<OwnedFd>, number: &str, wait: &str) -> Child {
    let mut cmd = Command::new(fixture!("agent"));
    cmd.arg(wait).env(guard.token().0, guard.token().1).stdout(Stdio::piped());
    cmd.env("PIDWARD_ROLE", "any").env("PIDWARD_CHANNEL", number).pass_fd(fd, 9);
    spawner.spawn(&cmd).unwrap()
}

fn said(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_string()
}

/// What the fixture says when this is all that comes; `close`: and the end.
fn said_of(guard: &NoLeftovers, spawner: &Spawner, bytes: &[u8], close: bool) -> String {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let child = start(guard, spawner, theirs, "9", if close { "60000" } else { "300" });
    ours.write_all(bytes).unwrap();
    if close {
        ours.shutdown(std::net::Shutdown::Write).unwrap();
    }
    said(child)
}

#[test]
fn each_wrong_start_has_its_error() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let payload = frame(&ControlMsg::Spawn(SpawnPayload::new("fail", "")).to_bytes());
    let later = br#"{"type":"spawn","payload":{"v":2}}"#;
    for (bytes, close, expected) in [
        (&b""[..], true, "Closed"),
        (&payload[..payload.len() - 1], true, "Closed"),
        (&payload[..2], true, "Closed"),
        (&payload[..payload.len() - 1], false, "Late"),
        (b"", false, "Late"),
        (&frame(&ControlMsg::Pause.to_bytes()), false, "NotSpawn"),
        (&frame(br#"{"type":"other"}"#), false, "NotSpawn"),
        (&frame(b"secret"), false, "Payload(NotAMessage)"),
        (&frame(later), false, "Payload(Version { v: 2 })"),
        (b"secret text", false, "Protocol(NotAFrame)"),
        (&[1, 0, 0, 1], false, "Protocol(TooLarge { length: 16777217, cap: 16777216 })"),
    ] {
        assert_eq!(said_of(&guard, &spawner, bytes, close), expected, "{}", bytes.escape_ascii());
    }
    assert_eq!(said_of(&guard, &spawner, &payload, false), "");
}

#[test]
fn what_is_no_channel_is_not_taken() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    let no_socket = |number| said(start(&guard, &spawner, null(), number, "300"));
    assert_eq!(no_socket("9"), format!("BadChannel(errno {})", libc::ENOTSOCK));
    for number in ["", "x", "-1", "1", "8", "4294967295", "99999999999", " 9"] {
        assert_eq!(no_socket(number), "BadChannel(EBADF)", "{number}");
    }
    let (datagrams, _other) = UnixDatagram::pair().unwrap();
    assert_eq!(
        said(start(&guard, &spawner, datagrams, "9", "300")),
        format!("BadChannel(errno {})", libc::EPROTOTYPE)
    );
}

/// A supervisor that does not read until all is written, and waits for the agent to take it.
#[test]
fn agent_reads_on_while_nobody_reads_what_it_writes() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let child = start(&guard, &spawner, theirs, "9", "60000");
    for timeout in [UnixStream::set_write_timeout, UnixStream::set_read_timeout] {
        timeout(&ours, Some(LIMIT)).unwrap();
    }
    let count = 48;
    let mut send = |message: &ControlMsg| ours.write_all(&frame(&message.to_bytes())).expect("it reads");
    send(&ControlMsg::Spawn(SpawnPayload::new("much", count)));
    for id in 0..count {
        send(&ControlMsg::ping(id));
        send(&ControlMsg::inject("y".repeat(64 << 10)));
    }
    let mut seen = (0, 0);
    // Ends with the result.
    loop {
        let mut length = [0; 4];
        ours.read_exact(&mut length).unwrap();
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        ours.read_exact(&mut payload).unwrap();
        match AgentMsg::parse(&payload).unwrap() {
            AgentMsg::Pong { id, .. } => {
                assert_eq!(id, Some(seen.0));
                seen.0 += 1;
            }
            AgentMsg::Event { name, .. } => {
                assert_eq!(name.len(), 64 << 10);
                seen.1 += 1;
            }
            AgentMsg::Result { outcome, .. } => {
                assert_eq!(outcome, count);
                break;
            }
            AgentMsg::Ready => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, (count, count));
    assert_eq!(said(child), "");
}
