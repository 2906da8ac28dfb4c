//! A child that is an agent: it got its payload as the first frame, and goes down with its handle.

use std::{
    ffi::OsStr,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::{
    channel::{Events, Liveness, Node, Ready, SendError, Transport},
    child::Child,
    command::Command,
    error::SpawnError,
    message::{AgentMsg, ControlMsg, SpawnPayload},
    reaper::NodeId,
    say::say,
    spawner::{Entry, Shared, Spawner, end_carriers, end_members},
};

/// An agent, owned by its supervisor. What it says comes through the [`Events`] that it was spawned with, under
/// [`node`](Self::node), and [`AgentMsg::parse`](crate::AgentMsg::parse) reads it.
///
/// Dropping it is [`kill`](Self::kill); the agent is reaped as soon as the kernel lets it go, without another call. Once
/// [marked](Self::mark_reaped) nothing is sent.
#[must_use = "a dropped agent is ended"]
pub struct Subagent {
    /// Under which its events come.
    pub node: NodeId,
    inner: Node,
    entry: Arc<Entry>,
    shared: Arc<Shared>,
    reaped: AtomicBool,
    searched: AtomicBool,
}

/// Starts an agent: the program `exe` without arguments, in a process group of its own, with a channel at a descriptor of its own. Its
/// events come through `events`, under the number `node`; there is no hidden spawner, so it is the caller's too.
///
/// The payload is the first frame of the channel: sent, or queued whole, before this returns. What was queued is written when the receiver
/// of `events` is at work, however late the agent reads. It is neither among the arguments nor in the environ of the agent; its role is
/// the value of the role variable ([`SUBAGENT_ENV`](crate::SUBAGENT_ENV)).
///
/// # Errors
/// As [`Subagent::spawn`].
pub fn spawn(
    exe: impl AsRef<OsStr>,
    payload: &SpawnPayload,
    node: NodeId,
    events: &Events,
    spawner: &Spawner,
) -> Result<Subagent, SpawnError> {
    Subagent::spawn(&mut Command::new(exe), payload, node, events, spawner)
}

impl Subagent {
    /// As [`spawn`](fn@spawn), for a command with arguments, variables, limits. Its channel becomes [`Transport::Socket`]; the role variable
    /// is set.
    ///
    /// # Errors
    /// [`SpawnError`]; every one says that no child exists. [`InvalidInput`](crate::SpawnErrorKind::InvalidInput): the payload is longer than
    /// a frame may be, the role is empty, or the command has no group of its own. [`NodeInUse`](crate::SpawnErrorKind::NodeInUse), as
    /// [`Events::spawn_as`].
    pub fn spawn(
        cmd: &mut Command,
        payload: &SpawnPayload,
        node: NodeId,
        events: &Events,
        spawner: &Spawner,
    ) -> Result<Subagent, SpawnError> {
        let frame = payload.to_frame();
        let invalid = |cmd: &Command, words| Err(SpawnError::invalid(cmd.get_program(), words));
        if frame.len() as u64 > u64::from(cmd.channel.limits.frame) {
            return invalid(cmd, "the payload is longer than a frame may be");
        }
        if payload.role.is_empty() {
            return invalid(cmd, "the role has no name");
        }
        if !cmd.settings.leads_a_group() {
            return invalid(cmd, "an agent needs a process group of its own");
        }
        cmd.channel(Transport::Socket).env(spawner.names().role, &payload.role);
        let mut inner = events.spawn_as(node, spawner, cmd)?;
        let (entry, shared) = inner.child().parts();
        // Nobody can have sent anything before, so it is not full. Closed: the agent has ended or will not listen, which is an event.
        if let Err(e) = inner.send(&frame).or_else(|e| if e == SendError::Closed { Ok(()) } else { Err(e) }) {
            say!(error, "the payload of process {} was not taken: {e}", entry.pid());
        }
        let (reaped, searched) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Subagent { node, inner, entry, shared, reaped, searched })
    }

    /// Its pid. Only a number: after the end it may be somebody else's.
    pub fn pid(&self) -> u32 {
        self.entry.pid().get()
    }

    /// Its process group, which it leads. Only a number, too.
    pub fn pgid(&self) -> u32 {
        self.pid()
    }

    /// The child, to wait for it or to stop it with a grace.
    pub fn child(&mut self) -> &mut Child {
        self.inner.child()
    }

    /// Sends a message: at once as far as the agent takes it, and the rest when the receiver is at work. Never waits for the agent.
    ///
    /// # Errors
    /// As [`Node::send`]: nothing of it was sent.
    pub fn send(&self, message: &ControlMsg) -> Result<(), SendError> {
        self.inner.send(&message.to_bytes())
    }

    /// Ends what is sent: after what waits, the agent reads the end, and has five seconds to end.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Its exit was taken in, and whatever is left of its group may live on: from now on nothing is sent to anybody, by
    /// [`kill`](Self::kill) or by the drop.
    pub fn mark_reaped(&self) {
        self.reaped.store(true, Ordering::Release);
    }

    /// SIGKILL to its process group and to its cgroup leaf. Waits for nobody: it takes less than 100 ms, whatever state the agent and the
    /// spawner are in. Where it has no leaf, a thread then looks for those that have left the group.
    ///
    /// Again is as good as once, also after the agent's end: nothing is sent to a number that somebody else may have by now, and nothing at
    /// all once it is [marked](Self::mark_reaped). In a forked copy of the program nothing is sent.
    pub fn kill(&self) {
        if self.reaped.load(Ordering::Acquire) || !self.shared.is_ours() {
            return;
        }
        end_members(&self.entry);
        if self.entry.about.leaf.is_none() && !self.searched.swap(true, Ordering::AcqRel) {
            let entry = Arc::clone(&self.entry);
            let search =
                thread::Builder::new().name("pidward-stop".to_owned()).spawn(move || end_carriers(&entry));
            if let Err(e) = search {
                say!(warn, "whoever has left the group of process {} may live on: {e}", self.entry.pid());
            }
        }
    }
}

impl Ready {
    /// By the `ready` message of an [agent](crate::agent).
    pub fn message() -> Ready {
        Ready::Frame(|frame| matches!(AgentMsg::parse(frame), Ok(AgentMsg::Ready)))
    }
}

impl Liveness {
    /// Pings an [agent](crate::agent) by messages; its pongs are no events.
    pub fn messages(self) -> Liveness {
        let is_pong = |frame: &[u8]| matches!(AgentMsg::parse(frame), Ok(AgentMsg::Pong { .. }));
        self.ping(ControlMsg::ping(None).to_bytes(), is_pong)
    }
}

impl Drop for Subagent {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for Subagent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subagent").field("node", &self.node).field("pid", &self.pid()).finish_non_exhaustive()
    }
}
