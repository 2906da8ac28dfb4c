//! Who listens on a TCP port: the tables of a network namespace, and the sockets that a process holds.
//!
//! A table names each socket by its inode, and so does a link to it in the directory of a process's descriptors; the two together say who
//! listens. An inode is a socket's own in whatever network namespace it is, so a socket that was handed to a process of another one is
//! found all the same.
//!
//! Both are pictures of something that moves, taken one after the other: nothing here proves anything about a later moment.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use core::{
    ffi::CStr,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use linux_raw_sys::general as raw;
use rustix::{
    fd::{AsFd, AsRawFd},
    fs, io,
};

use crate::{
    Errno,
    fd::Fd,
    procfs::{self, ProcDir, ProcError, lines},
    sys,
};

/// `TCP_LISTEN` (`include/net/tcp_states.h`).
const LISTEN: u32 = 10;

/// `PF_EXITING` of `include/linux/sched.h`, in field 9 of a stat line.
const EXITING: u32 = 4;

/// A TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its own address. One that was bound to all of IPv6 (`::`) may take IPv4 connections too, or not: the kernel does not show which.
    pub local: SocketAddr,
    /// Whether it waits for connections; any other is one, or has been.
    pub listens: bool,
    /// 0 where no process can hold it: a connection that is not accepted yet, or is closed.
    pub inode: u64,
}

impl Socket {
    /// From a line of `/proc/net/tcp` or `tcp6`, proc_pid_net(5); `None` for the header, and for a line that ends with the inode or before:
    /// that may be cut.
    pub fn parse(line: &[u8]) -> Option<Socket> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let _: u64 = procfs::number(words.next()?.strip_suffix(b":")?).ok()?;
        let local = address(words.next()?)?;
        let _remote = address(words.next()?)?;
        let state = hex::<2>(words.next()?)?;
        // Queues, timer, retransmissions, user and time-out stand between.
        let inode = procfs::number(words.nth(5)?).ok()?;
        words.next()?;
        Some(Socket { local, listens: state == LISTEN, inode })
    }
}

/// An address as the tables write it: one word of four octets (IPv4) or four such words, each a number in the byte order of the machine;
/// then the port, which is a plain number.
fn address(word: &[u8]) -> Option<SocketAddr> {
    let (address, port) = word.split_at_checked(word.len().checked_sub(5)?)?;
    let port = u16::try_from(hex::<4>(port.strip_prefix(b":")?)?).ok()?;
    let octets = |word: &[u8; 8]| hex::<8>(word).map(u32::from_be);
    let address = match address.as_chunks() {
        ([word], []) => IpAddr::V4(Ipv4Addr::from_bits(octets(word)?)),
        (words @ [_, _, _, _], []) => {
            let join = |bits: u128, word| Some(bits << 32 | u128::from(octets(word)?));
            IpAddr::V6(Ipv6Addr::from_bits(words.iter().try_fold(0, join)?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// A number of exactly so many hexadecimal digits, eight at most.
fn hex<const DIGITS: usize>(digits: &[u8]) -> Option<u32> {
    let next = |number: u32, digit: &u8| Some(number << 4 | char::from(*digit).to_digit(16)?);
    digits.iter().try_fold(0, next).filter(|_| digits.len() == DIGITS)
}

/// The inode of a socket, from what a link in `/proc/<pid>/fd` says; `None` for any other file.
pub fn inode(link: &[u8]) -> Option<u64> {
    procfs::number(link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?).ok()
}

/// Gives each listening TCP socket of the network namespace that the process is in to `visit`, whoever holds it. It takes no right over
/// the process.
///
/// # Errors
/// [`ProcError::Gone`]: the process has ended. [`ProcError::Malformed`]: a table holds something else than sockets, and not all are known.
/// `ENOENT`: its first thread has ended, or there is no TCP here.
pub fn listening(process: &ProcDir, mut visit: impl FnMut(Socket)) -> Result<(), ProcError> {
    let mut table = |path: &CStr| {
        let mut known = true;
        lines(process.as_fd(), path, |line| match Socket::parse(line) {
            Some(socket) if socket.listens => visit(socket),
            Some(_) => {}
            None => known &= line.trim_ascii_start().starts_with(b"sl "),
        })?;
        if known { Ok(()) } else { Err(ProcError::Malformed) }
    };
    let read = table(c"net/tcp").and_then(|()| match table(c"net/tcp6") {
        // There is no IPv6 here; unless the other table has gone too.
        Err(ProcError::Gone) => Ok(Fd::open_at(process.as_fd().as_raw_fd(), c"net/tcp", 0).map(drop)?),
        read => read,
    });
    match read {
        Err(ProcError::Gone) => shows(process).and(Err(ProcError::Errno(Errno::ENOENT))),
        read => read,
    }
}

/// Gives the inode of each socket that the process holds to `visit`, once for each of its descriptors.
///
/// # Errors
/// `EACCES`: another user's process, or one that has made itself non-dumpable. [`ProcError::Gone`]: it has ended. `ENOENT`: its first
/// thread has ended, and what the others hold is not shown. In each case there may be more sockets than were given.
pub fn sockets(process: &ProcDir, mut visit: impl FnMut(u64)) -> Result<(), ProcError> {
    let dir = Fd::open_at(process.as_fd().as_raw_fd(), c"fd", raw::O_DIRECTORY)?;
    let mut buffer = [0; 4096];
    // Ends at the end of the directory.
    loop {
        let length = sys::entries(dir.raw(), &mut buffer)?;
        let mut list = buffer.get(..length).unwrap_or_default();
        if list.is_empty() {
            return shows(process);
        }
        while let Some((_, name, rest)) = sys::next_entry(list) {
            list = rest;
            let name = CStr::from_bytes_until_nul(name).map_err(|_| ProcError::Malformed)?;
            // `.` and `..`.
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            // Longer than any link to a socket; others are cut.
            let mut link = [0; 64];
            match fs::readlinkat_raw(&dir, name, &mut link) {
                Ok(length) => link.get(..length).and_then(inode).into_iter().for_each(&mut visit),
                // Closed meanwhile. Where the process has ended, that shows in the end.
                Err(io::Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Whether what was just read of descriptors and namespaces is the process's: they are shown as its first thread has them, and from the
/// end of that one on there are none, whatever other threads hold.
fn shows(process: &ProcDir) -> Result<(), ProcError> {
    let stat = process.stat()?;
    match (stat.flags & EXITING, stat.threads) {
        (0, _) => Ok(()),
        (_, 0 | 1) => Err(ProcError::Gone),
        _ => Err(ProcError::Errno(Errno::ENOENT)),
    }
}
