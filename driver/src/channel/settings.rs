//! How a command asks for a channel.

use std::time::Duration;

use pidward_core::frame::DEFAULT_CAP;

use super::{alive::Liveness, start::Ready};
use crate::command::Command;

/// What a channel goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// A stream socket at a descriptor of its own, 3 or higher, whose number the child finds in the variable
    /// [`CHANNEL_ENV`](crate::CHANNEL_ENV), or the [channel](crate::MarkerNames::channel) name of the spawner. Standard streams stay free.
    Socket,
    /// Frames on the child's standard input and output, two pipes. Whatever else the child prints breaks the channel.
    Stdio,
    /// One line for a frame on standard input and output, as MCP servers speak: the newline ends the frame and is no part of it.
    Lines,
}

/// How much a channel holds, and how long it is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelLimits {
    /// The longest frame, in both directions: 16 MiB.
    pub frame: u32,
    /// How many frames wait to be written: 64.
    pub queue_frames: usize,
    /// How many bytes of them: 4 MiB. A frame that nobody waits before may be longer.
    pub queue_bytes: usize,
    /// How long after the child's end the rest of a frame is waited for where somebody else has the channel open: 1 s.
    pub drain: Duration,
    /// The longest line of standard error that is one event: 8 KiB.
    pub stderr_line: usize,
}

impl Default for ChannelLimits {
    fn default() -> ChannelLimits {
        ChannelLimits {
            frame: DEFAULT_CAP,
            queue_frames: 64,
            queue_bytes: 4 << 20,
            drain: Duration::from_secs(1),
            stderr_line: 8 << 10,
        }
    }
}

/// What becomes of a child that sends what is no frame, gives no sign of life, or whose time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFault {
    /// It is stopped with its tree, in the background, with the grace of its spawner.
    #[default]
    Stop,
    /// The event is all.
    Tell,
}

/// What a command says about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) transport: Option<Transport>,
    pub(crate) limits: ChannelLimits,
    pub(crate) stderr: bool,
    pub(crate) on_fault: OnFault,
    pub(crate) ready: Option<(Ready, Duration)>,
    pub(crate) liveness: Option<Liveness>,
}

/// For [`Events::spawn`](crate::Events::spawn); any other spawn of such a command is refused.
impl Command {
    /// Gives the child a channel to the receiver of its events.
    pub fn channel(&mut self, transport: Transport) -> &mut Command {
        self.channel.transport = Some(transport);
        self
    }

    /// Other limits for its channel.
    pub fn channel_limits(&mut self, limits: ChannelLimits) -> &mut Command {
        self.channel.limits = limits;
        self
    }

    /// Whether the lines of its standard error are events.
    pub fn stderr_events(&mut self, on: bool) -> &mut Command {
        self.channel.stderr = on;
        self
    }

    /// What becomes of it when its channel or its liveness tells of a fault. Default: it is stopped.
    pub fn on_fault(&mut self, what: OnFault) -> &mut Command {
        self.channel.on_fault = what;
        self
    }

    /// It is to say that it is ready, and may take so long for it. Then [`Event::Ready`](crate::Event::Ready) comes; else
    /// [`Event::FailedToStart`](crate::Event::FailedToStart), and it is stopped with its tree.
    pub fn ready(&mut self, by: Ready, limit: Duration) -> &mut Command {
        self.channel.ready = Some((by, limit));
        self
    }

    /// How it is told that it still works.
    pub fn liveness(&mut self, terms: Liveness) -> &mut Command {
        self.channel.liveness = Some(terms);
        self
    }
}

impl Settings {
    /// What cannot be meant, as words for the error. `received`: there is somebody for our end.
    pub(super) fn check(&self, cmd: &Command, received: bool) -> Result<(), &'static str> {
        let asks = self.stderr || self.ready.is_some() || self.liveness.is_some();
        if !received && (self.transport.is_some() || asks) {
            return Err("what a command says of its events needs `Events::spawn`");
        }
        match self.ready {
            Some((Ready::Fd(number), _)) => {
                let taken = cmd.settings.passed.iter().any(|(passed, _)| *passed == number);
                if number < 3 || number >= i32::MAX as u32 || taken {
                    return Err("the descriptor to become ready by has a free number, 3 or higher");
                }
            }
            Some((Ready::Port(0), _)) => return Err("port 0 is no port"),
            Some((Ready::Frame(_), _)) if self.transport.is_none() => {
                return Err("a frame to become ready by needs a channel");
            }
            _ => {}
        }
        if self.transport.is_none() && self.liveness.is_some() {
            return Err("liveness needs a channel");
        }
        let is_stdio = matches!(self.transport, Some(Transport::Stdio | Transport::Lines));
        if is_stdio && (cmd.stdin.is_some() || cmd.stdout.is_some()) {
            return Err("standard input and output are the channel");
        }
        if self.stderr && cmd.stderr.is_some() {
            return Err("standard error is for events");
        }
        Ok(())
    }
}
