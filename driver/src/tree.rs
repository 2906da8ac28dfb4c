//! Who descends from whom below one supervisor, and how many more may: numbers, paths and caps. Decisions alone: the clock is the caller's.

use std::{collections::BTreeMap, error, fmt, time::Duration};

use crate::reaper::NodeId;

#[cfg(test)]
mod tests;

/// How large a tree may be. Only nodes that live count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeLimits {
    /// How deep below the root: 4.
    pub depth: u32,
    /// Of one node: 8.
    pub children: usize,
    /// Of all together, without the root: 64.
    pub total: usize,
    /// How many may be added at one moment: 8.
    pub burst: u32,
    /// How many of these are given back in a second: 2.
    pub per_second: u32,
}

impl Default for TreeLimits {
    fn default() -> TreeLimits {
        TreeLimits { depth: 4, children: 8, total: 64, burst: 8, per_second: 2 }
    }
}

/// Why nothing is added. It changes nothing: also the rate is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TreeRefusal {
    /// The tree is being taken down.
    Draining,
    /// So many live as may.
    Total(usize),
    /// No such node, or it was removed.
    NoParent(NodeId),
    /// The parent is as deep as a node may be.
    Depth(u32),
    /// The parent has as many children that live as it may.
    Children(usize),
    /// Too many in a short time; the next may come after this long. `None`: never.
    Rate(Option<Duration>),
}

impl fmt::Display for TreeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeRefusal::Draining => f.write_str("the tree is being taken down"),
            TreeRefusal::Total(most) => write!(f, "the tree has {most} nodes, which is its limit"),
            TreeRefusal::NoParent(node) => write!(f, "there is no node {node} to be a parent"),
            TreeRefusal::Depth(most) => write!(f, "the parent is {most} deep, which is the limit"),
            TreeRefusal::Children(most) => write!(f, "the parent has {most} children, which is its limit"),
            TreeRefusal::Rate(Some(wait)) => write!(f, "too many in a short time; the next in {wait:?}"),
            TreeRefusal::Rate(None) => f.write_str("too many, and the rate gives none back"),
        }
    }
}

impl error::Error for TreeRefusal {}

/// The nodes below one supervisor, which is the root.
///
/// A number is given once, and so is a path: `0` is the root, `0.2.1` the second child that the third child of the root ever had. Depth and
/// path are made here, from the parent's; no request sets them.
#[derive(Clone, Debug)]
pub struct Tree {
    limits: TreeLimits,
    nodes: BTreeMap<NodeId, Place>,
    next: u64,
    draining: bool,
    bucket: Bucket,
}

#[derive(Clone, Debug)]
struct Place {
    parent: NodeId,
    /// The index in each parent, from the root's child on.
    path: Vec<u64>,
    /// How many it ever had.
    born: u64,
    /// How many of these live.
    living: usize,
}

/// The root of every tree.
const ROOT: NodeId = NodeId(0);

impl Tree {
    /// The root alone, with a full bucket. `now` is the caller's time, from any fixed moment on.
    pub fn new(limits: TreeLimits, now: Duration) -> Tree {
        let root = Place { parent: ROOT, path: Vec::new(), born: 0, living: 0 };
        let bucket = Bucket { left: u64::from(limits.burst) * NANOS, at: now };
        Tree { limits, nodes: BTreeMap::from([(ROOT, root)]), next: 1, draining: false, bucket }
    }

    /// The supervisor's own node, number 0.
    pub fn root(&self) -> NodeId {
        ROOT
    }

    /// One more child of `parent`. Whoever cannot start it then removes it again.
    ///
    /// # Errors
    /// The first of these that holds, asked in the order of [`TreeRefusal`]; the rate last, so that no other refusal takes from it.
    pub fn add(&mut self, parent: NodeId, now: Duration) -> Result<NodeId, TreeRefusal> {
        let limits = self.limits;
        if self.draining {
            return Err(TreeRefusal::Draining);
        }
        if self.len() >= limits.total {
            return Err(TreeRefusal::Total(limits.total));
        }
        let above = self.nodes.get_mut(&parent).ok_or(TreeRefusal::NoParent(parent))?;
        if above.path.len() >= limits.depth as usize {
            return Err(TreeRefusal::Depth(limits.depth));
        }
        if above.living >= limits.children {
            return Err(TreeRefusal::Children(limits.children));
        }
        self.bucket.take(limits, now)?;
        let path = [&above.path[..], &[above.born]].concat();
        above.born += 1;
        above.living += 1;
        let node = NodeId(self.next);
        self.next += 1;
        self.nodes.insert(node, Place { parent, path, born: 0, living: 0 });
        Ok(node)
    }

    /// Takes a node out that has ended: it counts no more, and nothing is added below it. Its descendants stay, count, and keep their paths
    /// until they are removed themselves; they are given back, deepest first, since nobody is left to supervise them.
    ///
    /// `None`: no such node, or the root, which is never removed.
    pub fn remove(&mut self, node: NodeId) -> Option<Vec<NodeId>> {
        if node == ROOT {
            return None;
        }
        let gone = self.nodes.remove(&node)?;
        if let Some(parent) = self.nodes.get_mut(&gone.parent) {
            parent.living -= 1;
        }
        let is_below = |id: &NodeId| self.nodes[id].path.starts_with(&gone.path);
        Some(self.deepest_first().into_iter().filter(is_below).collect())
    }

    /// From now on nothing is added. There is no way back.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether it is being taken down.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// How many live, without the root.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Whether only the root lives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How deep a node is: 0 is the root.
    pub fn depth(&self, node: NodeId) -> Option<u32> {
        self.nodes.get(&node).and_then(|place| u32::try_from(place.path.len()).ok())
    }

    /// Its path, as `0.2.1`.
    pub fn path(&self, node: NodeId) -> Option<String> {
        let place = self.nodes.get(&node)?;
        Some(place.path.iter().fold("0".to_owned(), |path, index| format!("{path}.{index}")))
    }

    /// Whom it was added below, who may be removed by now. The root has nobody.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes.get(&node).filter(|_| node != ROOT).map(|place| place.parent)
    }

    /// All but the root in the order in which they are stopped: the deepest first, of these the youngest.
    pub fn deepest_first(&self) -> Vec<NodeId> {
        let mut nodes: Vec<_> =
            self.nodes.iter().skip(1).map(|(id, place)| (place.path.len(), *id)).collect();
        nodes.sort_unstable();
        nodes.into_iter().rev().map(|(_, id)| id).collect()
    }
}

/// In this many parts one addition is counted: at n a second, a nanosecond gives n of them.
const NANOS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u64,
    at: Duration,
}

impl Bucket {
    fn take(&mut self, limits: TreeLimits, now: Duration) -> Result<(), TreeRefusal> {
        let (full, rate) = (u64::from(limits.burst) * NANOS, u64::from(limits.per_second));
        // Time that goes back gives nothing, and is not counted twice when it goes on.
        let passed = u64::try_from(now.saturating_sub(self.at).as_nanos()).unwrap_or(u64::MAX);
        self.left = self.left.saturating_add(passed.saturating_mul(rate)).min(full);
        self.at = self.at.max(now);
        match self.left.checked_sub(NANOS) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None if rate == 0 || full == 0 => Err(TreeRefusal::Rate(None)),
            None => Err(TreeRefusal::Rate(Some(Duration::from_nanos((NANOS - self.left).div_ceil(rate))))),
        }
    }
}
