//! `--ready-fd`: the program says that it is ready by a newline, and whoever waits for that is told.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::{Duration, Instant},
};

use pidward::Command;
use rustix::{
    io::{Errno, ioctl_fionbio, read},
    pipe::{PipeFlags, pipe_with},
};

use crate::{fault::Fault, output};

/// How long after the descriptor was closed the program's end may show.
const CLOSED: Duration = Duration::from_millis(100);

/// The read end, until nobody can write to it any more: who writes after the newline is not to be ended by SIGPIPE.
#[derive(Debug)]
pub(super) struct Readiness {
    fd: Option<OwnedFd>,
    is_ready: bool,
    /// It was closed without a word, which counts from then on: a program that ends closes it first.
    closed: Option<Instant>,
}

impl Readiness {
    /// The program gets the other end under this number, if it is to have one.
    pub(super) fn of(number: Option<u32>, program: &mut Command) -> Result<Readiness, Fault> {
        let Some(number) = number else { return Ok(Readiness { fd: None, is_ready: true, closed: None }) };
        let made = pipe_with(PipeFlags::CLOEXEC).and_then(|(ours, theirs)| {
            ioctl_fionbio(&ours, true)?;
            Ok((ours, theirs))
        });
        let (ours, theirs) = made.map_err(|e| Fault::run(format!("no pipe for --ready-fd: {e}")))?;
        program.pass_fd(theirs, number);
        Ok(Readiness { fd: Some(ours), is_ready: false, closed: None })
    }

    pub(super) fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// Takes what was said. Whether it is known by now that the program will not become ready; says so, once.
    pub(super) fn has_failed(&mut self, ended: bool) -> bool {
        let mut space = [0; 256];
        // Ends when nothing more is there.
        while let Some(fd) = &self.fd {
            match read(fd, &mut space) {
                Ok(n @ 1..) => {
                    if space[..n].contains(&b'\n') && !self.is_ready {
                        self.is_ready = true;
                        tell();
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !ended => return false,
                _ => {
                    self.fd = None;
                    self.closed = Some(Instant::now() + CLOSED);
                }
            }
        }
        let late = self.closed.is_some_and(|closed| closed <= Instant::now());
        if self.is_ready || !late && (!ended || self.closed.is_none()) {
            return false;
        }
        (self.closed, self.is_ready) = (None, true);
        let how = if ended { "ended" } else { "closed the descriptor of --ready-fd" };
        output::complain(&format!("the program {how} before it was ready"));
        true
    }

    /// When it is to be asked again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.closed.filter(|_| !self.is_ready)
    }
}

/// The service manager, if one waits for us: sd_notify(3).
fn tell() {
    log::info!("the program is ready");
    let Some(address) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(e) = send(&address) {
        log::warn!("{} is not told that the program is ready: {e}", address.display());
    }
}

fn send(address: &OsStr) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    socket.set_nonblocking(true)?;
    socket.send_to_addr(b"READY=1", &address).map(drop)
}
