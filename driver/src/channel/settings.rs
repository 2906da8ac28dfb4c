//! How a command asks for a channel.

use std::time::Duration;

use pidward_core::frame::DEFAULT_CAP;

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

/// What a command says about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) transport: Option<Transport>,
    pub(crate) limits: ChannelLimits,
    pub(crate) stderr: bool,
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
}

impl Settings {
    /// What cannot be meant, as words for the error. `received`: there is somebody for our end.
    pub(super) fn check(&self, cmd: &Command, received: bool) -> Result<(), &'static str> {
        if !received && (self.transport.is_some() || self.stderr) {
            return Err("a channel, or standard error as events, needs `Events::spawn`");
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
