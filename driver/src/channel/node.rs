//! A child whose events come through a merged channel.

use std::{fmt, sync::Arc};

use super::{
    hub::Hub,
    out::{Link, SendError},
};
use crate::{child::Child, reaper::NodeId, report::Cause, spawner::Asks};

/// A child whose events come through the [`Events`](super::Events) it was spawned with.
///
/// Dropping it lets the child go on, and its events still come.
pub struct Node {
    pub(super) id: NodeId,
    pub(super) child: Child,
    pub(super) link: Option<Arc<Link>>,
    pub(super) hub: Arc<Hub>,
}

impl Node {
    /// Under which its events come.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The child. Its standard streams, as far as they are the channel or events, are not in it.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Stops it with its tree, in the background, with the grace of its spawner; asks first where there is [a way](crate::Command::ask_grace). Its events
    /// still come; [`Child::stop`] waits, and reports.
    pub fn begin_stop(&self) {
        let (entry, shared) = self.child.parts();
        if shared.is_ours() {
            shared.stop_later(&entry, Cause::Stopped);
        }
    }

    /// The child alone; its events still come.
    pub fn into_child(self) -> Child {
        self.child
    }

    /// Sends a frame: at once as far as the child takes it, and the rest when the receiver is at work. From any thread; never waits
    /// for the child.
    ///
    /// # Errors
    /// Nothing of it was sent. [`SendError::Full`] is how a child is found that does not read.
    pub fn send(&self, payload: &[u8]) -> Result<(), SendError> {
        match &self.link {
            Some(link) if self.hub.is_ours() => link.send(&self.hub, payload),
            _ => Err(SendError::Closed),
        }
    }

    /// Ends what is sent: after what waits, the child reads the end. It is how servers that speak over standard input, as MCP's, are told
    /// to end. The child's own frames still come.
    pub fn close(&self) {
        if let Some(link) = self.link.as_ref().filter(|_| self.hub.is_ours()) {
            link.close(&self.hub);
        }
    }
}

/// How a child is asked to end: its channel is closed.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) link: Arc<Link>,
    pub(super) hub: Arc<Hub>,
}

impl Asks for Channel {
    fn ask(&self) {
        self.link.close(&self.hub);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.id).field("child", &self.child).finish_non_exhaustive()
    }
}
