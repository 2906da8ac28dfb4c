//! The record of one child, from the intent to its removal.

use std::{
    fmt,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, Mutex},
};

use pidward_core::{
    Errno, Id128,
    identity::Identity,
    marker::Run,
    record::{Born, Record, State},
};

use super::{Inner, RECORD, Registry, place::errno_of};
use crate::{
    names::{ChildKind, ServiceName},
    say::say,
    spawner::lock,
};

/// What is written down before the child is made.
pub(crate) struct About<'a> {
    pub(crate) kind: ChildKind,
    pub(crate) name: &'a ServiceName,
    pub(crate) nonce: Id128,
    /// `None`: it carries no run entry.
    pub(crate) cookie: Option<Run>,
    pub(crate) boot: Id128,
    pub(crate) pid_ns: u64,
    pub(crate) leaf: Option<&'a Path>,
}

/// A record that is in use. Dropped before there was a child, it removes itself; later it stays, for the next owner, until it is
/// [removed](Written::remove).
pub(crate) struct Written {
    registry: Arc<Inner>,
    /// What the file holds, but for changes that could not be written. `None`: it was removed.
    record: Mutex<Option<Box<Record>>>,
    nonce: Id128,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Written").field(&self.nonce).finish()
    }
}

/// The file of a record.
pub(super) fn file_name(nonce: Id128) -> String {
    format!("{nonce}{RECORD}")
}

impl Written {
    /// Writes down that there will be a child.
    ///
    /// # Errors
    /// What the file system answers: then there may be no child.
    pub(crate) fn intend(registry: &Registry, about: &About<'_>) -> Result<Written, Errno> {
        let inner = &registry.inner;
        if !inner.is_ours() {
            return Err(Errno::EPERM);
        }
        let record = Record {
            state: State::Intent,
            kind: about.kind.core(),
            // A name has no more bytes than fit.
            name: about.name.as_str().try_into().map_err(|_| Errno::EINVAL)?,
            nonce: about.nonce,
            cookie: about.cookie,
            boot: about.boot,
            pid_ns: about.pid_ns,
            born: None,
            // One with a longer path is found by what its members carry.
            leaf: about.leaf.and_then(|leaf| leaf.as_os_str().as_bytes().try_into().ok()),
            status: None,
        };
        inner.save(&record).map_err(|e| errno_of(&e))?;
        Ok(Written::of(inner, Box::new(record)))
    }

    /// A record of an earlier owner, which is used from now on.
    pub(super) fn of(inner: &Arc<Inner>, record: Box<Record>) -> Written {
        lock(&inner.used).insert(record.nonce);
        Written { registry: Arc::clone(inner), nonce: record.nonce, record: Mutex::new(Some(record)) }
    }

    /// The child is there.
    pub(crate) fn born(&self, identity: &Identity) {
        let Identity { pid, start_ticks, inode, pgid, .. } = *identity;
        self.change(|record| {
            record.state = State::Running;
            record.born = Some(Born { pid, start_ticks, inode, pgid });
        });
    }

    /// Its stop begins.
    pub(crate) fn stopping(&self) {
        if lock(&self.record).as_ref().is_some_and(|record| record.state == State::Running) {
            self.change(|record| record.state = State::Stopping);
        }
    }

    /// It has ended, and somebody of its tree has not.
    pub(crate) fn ended(&self, status: Option<i32>) {
        // Of whom nobody has seen who it is there is nothing to say, and all is said once.
        let is_news = |record: &Record| record.born.is_some() && record.state != State::Ended;
        if lock(&self.record).as_deref().is_some_and(is_news) {
            self.change(|record| (record.state, record.status) = (State::Ended, status));
        }
    }

    /// The same; and the record stays, with its status, until that is asked for by the name of the child.
    pub(crate) fn keep(&self, name: (ChildKind, ServiceName), status: Option<i32>) {
        // Whoever asks meanwhile waits for it.
        let mut kept = lock(&self.registry.kept);
        self.ended(status);
        // There may have been two of one name.
        kept.retain(|(other, nonce, _)| {
            let stays = *other != name;
            if !stays {
                self.registry.remove(*nonce);
            }
            stays
        });
        kept.push((name, self.nonce, status));
    }

    /// Nobody is left of the child's tree.
    pub(crate) fn remove(&self) {
        if self.registry.is_ours() && lock(&self.record).take().is_some() {
            self.registry.remove(self.nonce);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Record)) {
        if !self.registry.is_ours() {
            return;
        }
        let mut record = lock(&self.record);
        let Some(record) = record.as_mut() else { return };
        change(record);
        // What stands there finds the child all the same, by its nonce.
        if let Err(e) = self.registry.save(record) {
            say!(warn, "the record {} is not up to date: {e}", self.nonce);
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let intent = lock(&self.record).as_ref().is_some_and(|record| record.state == State::Intent);
        if intent {
            self.remove();
        }
        lock(&self.registry.used).remove(&self.nonce);
    }
}
