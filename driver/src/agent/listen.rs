//! The two threads of an agent: one reads, and never waits for the supervisor to do so; one writes pongs.

use std::{
    process,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::{self, Errno},
};

use super::{AgentError, CLOSED_EXIT_CODE, GRACE, state::Shared};
use crate::{
    channel::{ProtocolError, Reader},
    message::{ControlMsg, SpawnPayload},
    say::say,
};

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// Reads the payload, and whatever comes with it.
pub(super) fn payload(
    fd: &OwnedFd,
    reader: &mut Reader,
    wait: Duration,
) -> Result<(SpawnPayload, Vec<Vec<u8>>), AgentError> {
    // So long that it cannot be said when it is over.
    let until = Instant::now().checked_add(wait);
    let (mut chunk, mut frames) = (vec![0; CHUNK], Vec::new());
    // Ends with a frame, at the deadline or with the channel.
    while frames.is_empty() {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let time = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], time.as_ref()) {
            Ok(0) => return Err(AgentError::Late),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return Err(AgentError::Resources(e.into())),
        }
        match io::read(fd, &mut chunk) {
            Ok(0) => return Err(AgentError::Closed),
            Ok(n) => reader
                .feed(chunk.get(..n).unwrap_or_default(), |frame| frames.push(frame))
                .map_err(|e| AgentError::protocol(&e))?,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Err(AgentError::Closed),
        }
    }
    let rest = frames.split_off(1);
    let first = frames.pop().unwrap_or_default();
    match ControlMsg::parse(&first) {
        Ok(ControlMsg::Spawn(payload)) => Ok((payload, rest)),
        Ok(_) => Err(AgentError::NotSpawn),
        Err(e) => Err(AgentError::Payload(e)),
    }
}

/// Reads until the end of the channel, and then sees to it that the process ends.
pub(super) fn listen(shared: &Arc<Shared>, mut reader: Reader, rest: &[Vec<u8>]) {
    rest.iter().for_each(|frame| shared.take(frame));
    if let Err(e) = read(shared, &mut reader) {
        say!(error, "the channel of the supervisor is closed: {}", AgentError::protocol(&e));
    }
    shared.change(|state| state.closed = true);
    let until = Instant::now() + GRACE;
    if shared.wait(Some(until), |state| state.dropped.then_some(())).is_none() {
        process::exit(CLOSED_EXIT_CODE);
    }
}

fn read(shared: &Shared, reader: &mut Reader) -> Result<(), ProtocolError> {
    let fd = &shared.wire.fd;
    let mut chunk = vec![0; CHUNK];
    // Ends with the channel.
    loop {
        match io::read(fd, &mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => reader.feed(chunk.get(..n).unwrap_or_default(), |frame| shared.take(&frame))?,
            Err(Errno::INTR) => {}
            // The program has made it so.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(fd, PollFlags::IN)], None)),
            Err(_) => return Ok(()),
        }
    }
}

/// Answers pings. It may have to wait for the supervisor to read, as the thread that hears them must not.
pub(super) fn answer(shared: &Shared) {
    // Ends with the channel, or with the agent.
    loop {
        let due = shared.wait(None, |state| {
            let over = state.closed || state.dropped;
            (over || !state.pongs.is_empty()).then_some(!over)
        });
        if due != Some(true) || shared.wire.send_pongs(shared).is_err() {
            return;
        }
    }
}
