//! The way up. Whoever writes may wait for the supervisor; whoever reads never does.

use std::{
    io::IoSlice,
    mem,
    sync::{Mutex, MutexGuard},
};

use pidward_core::frame;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::OwnedFd,
    io::Errno,
    net::{self, SendAncillaryBuffer, SendFlags},
};

use super::{Refused, state::Shared};
use crate::{message::AgentMsg, spawner::lock};

/// The socket, and whose turn it is to write.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) fd: OwnedFd,
    cap: u32,
    turn: Mutex<()>,
}

impl Wire {
    pub(super) fn new(fd: OwnedFd, cap: u32) -> Wire {
        Wire { fd, cap, turn: Mutex::default() }
    }

    /// Writes the whole frame; before it the pongs that are due, so that no stream of events keeps them back.
    pub(super) fn send(&self, shared: &Shared, payload: &[u8]) -> Result<(), Refused> {
        let header = frame::header(payload.len(), self.cap).map_err(|_| Refused::TooLarge)?;
        let turn = lock(&self.turn);
        self.write_pongs(shared, &turn)?;
        self.write_all(&header, payload, &turn)
    }

    /// Writes the pongs that are due.
    pub(super) fn send_pongs(&self, shared: &Shared) -> Result<(), Refused> {
        self.write_pongs(shared, &lock(&self.turn))
    }

    fn write_pongs(&self, shared: &Shared, turn: &MutexGuard<'_, ()>) -> Result<(), Refused> {
        let due = mem::take(&mut lock(&shared.state).pongs);
        due.into_iter().try_for_each(|id| {
            let payload = AgentMsg::pong(id).to_bytes();
            let header = frame::header(payload.len(), self.cap).map_err(|_| Refused::TooLarge)?;
            self.write_all(&header, &payload, turn)
        })
    }

    fn write_all(&self, header: &[u8], payload: &[u8], _turn: &MutexGuard<'_, ()>) -> Result<(), Refused> {
        let (mut header, mut payload) = (header, payload);
        // Ends when all is written, or with the channel.
        while !(header.is_empty() && payload.is_empty()) {
            let parts = [IoSlice::new(header), IoSlice::new(payload)];
            match net::sendmsg(&self.fd, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(n) => {
                    let of_payload = n.saturating_sub(header.len());
                    header = header.get(n..).unwrap_or_default();
                    payload = payload.get(of_payload..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                // The program has made it so.
                Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&self.fd, PollFlags::OUT)], None)),
                Err(_) => return Err(Refused::Closed),
            }
        }
        Ok(())
    }

    /// Ends it in both directions: the supervisor reads what was sent, then the end.
    pub(super) fn end(&self) {
        // Where the supervisor has gone, there is nobody to tell.
        let _ = net::shutdown(&self.fd, net::Shutdown::Both);
    }
}
