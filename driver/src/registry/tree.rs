//! The tree of one record: what it is found by, and its stop.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    net::SocketAddr,
    os::unix::ffi::OsStrExt,
    path::Path,
    process,
    time::Duration,
};

use pidward_core::{
    Id128, Pid,
    cgroup::Cgroup,
    identity::{Field, Process, Verdict, Why},
    marker::{Carried, ChildKind, Cookie, Markers, Scan},
    procfs,
    record::Record,
    signal::{self, GroupMeans},
    sweep::{self, Member, Proof, Scope},
};

use crate::{
    carriers::Kin,
    identity::{Found, StopOwned, untouched},
    leaves, ports,
    say::say,
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

/// The directory of a record's leaf, if it is one: its name is the nonce.
pub(super) fn leaf_path(record: &Record) -> Option<&Path> {
    let path = Path::new(OsStr::from_bytes(record.leaf.as_ref()?));
    path.file_name().is_some_and(|name| *name == *record.nonce.to_string()).then_some(path)
}

/// The TCP addresses that the child of each of these records and its tree listen on: whoever is verified, or carries the nonce.
pub(super) fn ports<'a>(
    ground: &Ground,
    records: impl Iterator<Item = &'a Record> + Clone,
) -> Vec<Vec<SocketAddr>> {
    let (host, names) = (ground.host(), ground.names());
    let place = |(at, record): (usize, &Record)| (record.nonce, (at, record.born.map(|born| born.pid)));
    let places: HashMap<Id128, (usize, Option<Pid>)> = records.clone().enumerate().map(place).collect();
    let mut found: Vec<Vec<SocketAddr>> = vec![Vec::new(); places.len()];
    if places.is_empty() {
        return found;
    }
    let mut carriers = Vec::new();
    let seen = sweep::each(&host, &names, Scope::Since(0), Proof::Spawned, |member| {
        if let Member::Ours(process, _, Carried { nonce: Some(nonce), .. }) = member {
            // The child itself is verified below.
            let other = places.get(&nonce).filter(|(_, child)| *child != Some(process.pid()));
            carriers.extend(other.map(|(at, _)| (*at, process.pid(), nonce)));
        }
    });
    if let Err(e) = seen {
        say!(debug, "who listens cannot be seen: {e:?}");
    }
    // Held one after the other: there may be more of them than descriptors.
    let children =
        records.enumerate().filter_map(|(at, record)| Some((at, ground.verify(&record.identity()?).ok()?)));
    let carriers = carriers
        .iter()
        .filter_map(|(at, pid, nonce)| Some((*at, sweep::one(&host, &names, *pid, Proof::Nonce(*nonce))?)));
    let mut order = Vec::new();
    let listed = ports::of_processes(children.chain(carriers).map(|(at, process)| {
        order.push(at);
        process
    }));
    for (at, addresses) in order.into_iter().zip(listed) {
        found[at].extend(addresses);
    }
    for addresses in &mut found {
        addresses.sort_unstable();
        addresses.dedup();
    }
    found
}

/// The leaf of a record, if it is one.
pub(super) fn leaf_of(record: &Record) -> Option<Cgroup> {
    leaves::open(leaf_path(record)?).ok()
}

/// What is said of a record that the caller is in the tree of.
pub(super) const US: Verdict = Verdict::NotOurs(Why::Us);

/// The caller and all processes above it, who are never signalled; with what they carry.
#[derive(Debug)]
pub(super) struct Above {
    pids: HashSet<Pid>,
    nonces: HashSet<Id128>,
}

impl Above {
    pub(super) fn look(ground: &Ground) -> Above {
        let mut pids = HashSet::new();
        let mut next = Pid::new(process::id());
        // Ends at the first process, or where a number has come back.
        while let Some(pid) = next.filter(|pid| pids.insert(*pid)) {
            next = procfs::stat(pid).ok().and_then(|stat| Pid::new(stat.ppid));
        }
        let nonces = pids.iter().filter_map(|pid| nonce_of(ground, *pid)).collect();
        Above { pids, nonces }
    }

    pub(super) fn has(&self, pid: Pid) -> bool {
        self.pids.contains(&pid)
    }

    /// Whether the caller is in the tree of a record.
    pub(super) fn is_of(&self, record: &Record) -> bool {
        self.nonces.contains(&record.nonce)
    }
}

/// The groups that somebody is in.
pub(super) fn groups(ground: &Ground) -> HashSet<Pid> {
    let (host, mut groups) = (ground.host(), HashSet::new());
    let Ok(proc) = host.proc() else { return groups };
    let _ = proc.pids(|pid| {
        let stat = proc.listed(pid).and_then(|process| process.stat());
        groups.extend(stat.ok().and_then(|stat| Pid::from_raw(stat.pgrp)));
        true
    });
    groups
}

fn nonce_of(ground: &Ground, pid: Pid) -> Option<Id128> {
    let (host, names) = (ground.host(), ground.names());
    let mut scan = Scan::new(&names, Markers::new(&names, ChildKind::Task, ""), Cookie::Any);
    host.proc().ok()?.process(pid).ok()?.environ(|piece| scan.feed(piece)).ok()?;
    scan.carried().nonce
}

/// The child of a record, if it lives and is not above the caller.
pub(super) fn verify(ground: &Ground, above: &Above, record: &Record) -> Result<Process, Verdict> {
    if above.is_of(record) {
        return Err(US);
    }
    let identity = record.identity().ok_or(Verdict::Gone)?;
    match ground.verify(&identity) {
        Ok(process) if above.has(process.pid()) => Err(US),
        // The number is ours. It may have been another's before.
        Err(US) => match ground.host().own(None) {
            Ok(own) if own.start_ticks != identity.start_ticks => Err(Verdict::Recycled(Field::StartTime)),
            Ok(own) if own.inode.is_some() && identity.inode.is_some() && own.inode != identity.inode => {
                Err(Verdict::Recycled(Field::Inode))
            }
            _ => Err(US),
        },
        verified => verified,
    }
}

/// Stops the child of a record with its tree, from whatever process but one of that tree.
pub(super) fn stop(ground: &Ground, record: &Record, grace: Duration) -> StopOwned {
    let found = |process| Found::of_record(kin(ground, record), process, leaf_of(record), false);
    match verify(ground, &Above::look(ground), record) {
        Ok(process) => found(Some(process)).stop(grace),
        Err(Verdict::Gone) => found(None).stop(grace),
        Err(Verdict::NotOurs(Why::OtherBoot)) => StopOwned::NotRunning,
        Err(verdict @ Verdict::Recycled(_)) => match found(None).stop(grace) {
            // The number is a stranger's, and somebody of the tree was left.
            stopped @ (StopOwned::Stopped(_) | StopOwned::Survived(_)) => stopped,
            _ => untouched(verdict),
        },
        Err(verdict) => untouched(verdict),
    }
}
