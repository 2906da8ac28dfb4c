//! Pongs: bounded, and before everything else.

use std::{io::Read, os::unix::net::UnixStream};

use super::*;
use crate::message::AgentMsg;

fn pair() -> (Shared, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Shared::new(Wire::new(ours.into(), 1 << 20)), theirs)
}

#[test]
fn pongs_that_nobody_reads_are_bounded_and_the_latest_stay() {
    let (shared, _theirs) = pair();
    for id in 0..=PONGS as u64 {
        shared.take(&ControlMsg::ping(id).to_bytes());
    }
    let state = lock(&shared.state);
    assert_eq!(
        (state.pongs.len(), state.pongs.front(), state.pongs.back()),
        (PONGS, Some(&Some(1)), Some(&Some(PONGS as u64)))
    );
}

#[test]
fn pongs_that_are_due_go_before_any_other_frame() {
    let (shared, mut theirs) = pair();
    shared.take(&ControlMsg::ping(1).to_bytes());
    shared.take(&ControlMsg::ping(2).to_bytes());
    shared.wire.send(&shared, &AgentMsg::Ready.to_bytes()).unwrap();
    shared.wire.end();
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).unwrap();
    let expected = [AgentMsg::pong(1), AgentMsg::pong(2), AgentMsg::Ready].map(|message| {
        let payload = message.to_bytes();
        [&(payload.len() as u32).to_be_bytes()[..], &payload].concat()
    });
    assert_eq!(all, expected.concat());
}
