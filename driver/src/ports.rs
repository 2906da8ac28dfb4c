//! Which TCP ports are listened on, by whom, and whether they are ours. No other program is asked: `/proc` tells.

use std::{
    borrow::Borrow,
    collections::{HashMap, hash_map},
    net::SocketAddr,
    process,
};

use pidward_core::{
    Pid,
    identity::{Process, Verdict},
    net,
    procfs::{Proc, ProcDir, ProcError},
};
use rustix::fs::{AtFlags, statat};

#[cfg(test)]
mod tests;

/// One listening TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listener {
    /// Its own address. One that was bound to all of IPv6 (`::`) may take IPv4 connections as well.
    pub address: SocketAddr,
    /// A process that holds it, the one that the verdict is about. Only a number: it may be somebody else's by now. `None`: nobody that may
    /// be looked at holds it.
    pub pid: Option<u32>,
    /// [`Verdict::Same`]: it is a child of the spawner, or descends from it or another run of its installation.
    /// [`Verdict::NotOurs`]: somebody else's. [`Verdict::Unknown`]: it cannot be told.
    pub verdict: Verdict,
}

/// The listening sockets of a network namespace by inode.
type Table = HashMap<u64, SocketAddr>;

fn table(process: &ProcDir) -> Result<Table, ProcError> {
    let mut table = Table::new();
    net::listening(process, |socket| _ = table.insert(socket.inode, socket.local))?;
    Ok(table)
}

/// Those of them that a process holds.
fn held(process: &ProcDir, table: &Table) -> Result<Vec<u64>, ProcError> {
    let mut held = Vec::new();
    net::sockets(process, |inode| held.extend(table.contains_key(&inode).then_some(inode)))?;
    Ok(held)
}

/// Who listens on a port in our network namespace; `judge` says whose a process is. One holder that is ours makes a socket ours, and one
/// that may be makes it unknown: several share it after a fork.
pub(crate) fn listeners(
    proc: &Proc,
    port: u16,
    judge: impl Fn(&ProcDir) -> Verdict,
) -> Result<Vec<Listener>, ProcError> {
    let own = proc.process(Pid::new(process::id()).ok_or(ProcError::Gone)?)?;
    let mut sockets = table(&own)?;
    sockets.retain(|_, address| address.port() == port);
    if sockets.is_empty() {
        return Ok(Vec::new());
    }
    let (mut holders, mut unseen) = (HashMap::new(), None);
    proc.pids(|pid| {
        let looked = proc.listed(pid).and_then(|process| {
            if held(&process, &sockets)?.is_empty() {
                return Ok(());
            }
            let verdict = judge(&process);
            // Looked at again: before exec it had a copy of whatever its parent has open.
            for inode in held(&process, &sockets)? {
                let (best, found) = holders.entry(inode).or_insert((pid, verdict));
                if rank(verdict) > rank(*found) {
                    (*best, *found) = (pid, verdict);
                }
            }
            Ok(())
        });
        unseen = unseen.or(looked.err().filter(|e| *e != ProcError::Gone));
        true
    })?;
    if holders.len() < sockets.len() {
        // The holder has ended since the table was read, and the socket with it; unless it is still there.
        let now = table(&own)?;
        sockets.retain(|inode, _| holders.contains_key(inode) || now.contains_key(inode));
    }
    // Somebody who may not be looked at has it, or is not even listed: hidden, or in another pid namespace.
    let nobody = Verdict::from(unseen.unwrap_or(ProcError::Hidden));
    let listener = |(inode, address)| {
        let (pid, verdict) =
            holders.get(&inode).map_or((None, nobody), |(pid, verdict)| (Some(pid.get()), *verdict));
        Listener { address, pid, verdict }
    };
    let mut list: Vec<Listener> = sockets.into_iter().map(listener).collect();
    list.sort_unstable_by_key(|listener| (listener.address, listener.pid));
    Ok(list)
}

/// Which of several holders counts.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Same => 2,
        Verdict::Unknown(_) => 1,
        _ => 0,
    }
}

/// The addresses that each of these processes listens on, in the network namespace that it is in: in their order, sorted, each once. None
/// for a process that has ended or may not be looked at.
pub(crate) fn of_processes(processes: impl Iterator<Item = impl Borrow<Process>>) -> Vec<Vec<SocketAddr>> {
    let (proc, mut tables) = (Proc::open(), HashMap::new());
    let mut addresses = |process: &Process| of_process(proc.as_ref().ok()?, process, &mut tables).ok();
    processes.map(|process| addresses(process.borrow()).unwrap_or_default()).collect()
}

/// `tables`: those that were read before, by the inode of their namespace. One that may not be asked for its number is read anew.
fn of_process(
    proc: &Proc,
    process: &Process,
    tables: &mut HashMap<u64, Table>,
) -> Result<Vec<SocketAddr>, ProcError> {
    let dir = proc.process(process.pid())?;
    let namespace = statat(&dir, "ns/net", AtFlags::empty());
    let alone;
    let table = match namespace.map(|namespace| tables.entry(namespace.st_ino)) {
        Ok(hash_map::Entry::Occupied(known)) => known.into_mut(),
        Ok(hash_map::Entry::Vacant(new)) => new.insert(table(&dir)?),
        Err(_) => {
            alone = table(&dir)?;
            &alone
        }
    };
    let held = held(&dir, table)?;
    let mut addresses: Vec<_> = held.iter().filter_map(|inode| table.get(inode)).copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    // If it has not ended by now, the number was its own, and not that of somebody later.
    if process.has_ended()? { Err(ProcError::Gone) } else { Ok(addresses) }
}
