//! The tree of one record: what it is found by, and its stop.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, time::Duration};

use pidward_core::{
    Id128, Pid,
    cgroup::Cgroup,
    identity::Verdict,
    record::Record,
    signal::{self, GroupMeans},
    sweep::Proof,
};

use crate::{
    carriers::Kin,
    identity::{Found, StopOwned, untouched},
    leaves,
    spawner::Ground,
};

/// The tree of a record by what it carries.
pub(super) fn kin<'a>(ground: &'a Ground, record: &Record) -> Kin<'a> {
    let nonce = record.nonce;
    Kin {
        ground,
        nonce,
        // Before there was a child its number is nobody's.
        pid: record.born.map_or(Pid::INIT, |born| born.pid),
        group: record.born.and_then(|born| born.pgid),
        since: 0,
        by: Proof::Nonce(nonce),
    }
}

/// The same for many of one installation, who share each look. Its group is signalled as one where its leader lives and the kernel can
/// do that, and else one by one.
pub(super) fn one_of_many<'a>(
    ground: &'a Ground,
    record: &Record,
    installation: Id128,
    leads: bool,
) -> Kin<'a> {
    let kin = kin(ground, record);
    let group = kin.group.filter(|_| leads && signal::group_means() == GroupMeans::Pidfd);
    Kin { group, by: Proof::Installation(installation), ..kin }
}

/// The leaf of a record, if it is one: its name is the nonce.
pub(super) fn leaf_of(record: &Record) -> Option<Cgroup> {
    let path = Path::new(OsStr::from_bytes(record.leaf.as_ref()?));
    let is_its = path.file_name().is_some_and(|name| *name == *record.nonce.to_string());
    is_its.then(|| leaves::open(path).ok()).flatten()
}

/// Stops the child of a record with its tree, from whatever process.
pub(super) fn stop(ground: &Ground, record: &Record, grace: Duration) -> StopOwned {
    let found = |process| Found::of_record(kin(ground, record), process, leaf_of(record), false);
    match record.identity().map(|identity| ground.verify(&identity)) {
        Some(Ok(process)) => found(Some(process)).stop(grace),
        None | Some(Err(Verdict::Gone)) => found(None).stop(grace),
        Some(Err(verdict)) => match (verdict, found(None).stop(grace)) {
            // The number is a stranger's, and somebody of the tree was left.
            (Verdict::Recycled(_), stopped @ (StopOwned::Stopped(_) | StopOwned::Survived(_))) => stopped,
            _ => untouched(verdict),
        },
    }
}
