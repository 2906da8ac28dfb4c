//! One place where a host with a loop of its own takes the ends of its children, each once.

use std::{
    collections::BTreeMap,
    fmt,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::{Arc, Mutex},
};

use crate::{
    child::Child,
    spawner::{Entry, Shared, lock},
};

/// The host's own number for a child: unlike a pid never given twice, unless the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a registered child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reaped {
    /// With this status.
    Status(ExitStatus),
    /// Somebody else took the status (a `waitpid(-1)` in this program), and the kernel does not remember it (Linux < 6.15).
    StatusLost,
}

type Watched = (Arc<Entry>, Arc<Shared>);

/// Gives the ends of registered children, each once. A child that is not registered is left to its owner: nothing here waits for
/// "any child".
#[derive(Debug, Default)]
pub struct Reaper {
    children: Mutex<BTreeMap<NodeId, Watched>>,
}

impl Reaper {
    /// With nobody registered.
    pub fn new() -> Reaper {
        Reaper::default()
    }

    /// From now on the child's end is given under this number; the handle stays as it is. One that had the number before is no longer
    /// registered.
    pub fn register(&self, child: &Child, node: NodeId) {
        lock(&self.children).insert(node, child.parts());
    }

    /// Its end is not given any more: whether it was registered.
    pub fn deregister(&self, node: NodeId) -> bool {
        lock(&self.children).remove(&node).is_some()
    }

    /// The ends since the last call, in the order of the numbers. Never blocks.
    pub fn reap_all(&self) -> Vec<(NodeId, Reaped)> {
        let mut ends = Vec::new();
        lock(&self.children).retain(|node, (entry, shared)| {
            // A forked copy of the program has no children.
            let ended = if shared.is_ours() { shared.look(entry) } else { None };
            let status = |raw| Reaped::Status(ExitStatus::from_raw(raw));
            ends.extend(
                ended.map(|exit| (*node, exit.map_or(Reaped::StatusLost, |exit| status(exit.status.raw())))),
            );
            ended.is_none()
        });
        ends
    }
}
