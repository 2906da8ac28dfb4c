//! A file system with one program, `prog` (it exits with 7), that does not answer its open or its first read
//! until told to.
//!
//! `hungfs open|read answered|ignored`: mounts in a mount namespace of its own, prints `ready PATH`, and for each
//! caller that hangs `hung PID`. `answered`: a signal to the caller lets it go with EINTR, `ignored`: it waits on.
//! A byte on standard input releases all: `g` gives the file as it is, `e` EIO. The end of input ends the server,
//! and the mount with it. Needs root and `/dev/fuse`.
//!
//! The protocol is that of uapi/linux/fuse.h, version 7.31, spoken by hand: a request is one read, a reply one
//! write.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::fd::AsRawFd,
};

use pidward_tests::{files, os};

// Opcodes.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const ROOT: u64 = 1;
const PROG: u64 = 2;

/// What is needed of a request.
#[derive(Clone, Copy)]
struct Request {
    opcode: u32,
    unique: u64,
    node: u64,
    pid: u32,
    /// For READ: offset and size.
    range: (u64, u32),
}

struct Server {
    device: File,
    content: Vec<u8>,
    at: u32,
    deaf: bool,
    /// What is answered to the held call by now; `None`: nothing.
    release: Option<u8>,
    held: Vec<Request>,
}

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn longs(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four bytes")))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
}

impl Server {
    fn reply(&self, unique: u64, answer: Result<Vec<u8>, i32>) {
        let (error, body) = answer.map_or_else(|e| (-e, Vec::new()), |body| (0, body));
        let length = 16 + body.len() as u32;
        let message = [words(&[length, error as u32]), longs(&[unique]), body].concat();
        // ENOENT: the caller has gone meanwhile.
        let _ = (&self.device).write_all(&message);
    }

    /// `struct fuse_attr`.
    fn attributes(&self, node: u64) -> Vec<u8> {
        let (size, mode) = if node == ROOT { (0, 0o040_755) } else { (self.content.len() as u64, 0o100_755) };
        [longs(&[node, size, 1, 0, 0, 0]), words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])].concat()
    }

    fn served(&self, request: Request, name: &[u8]) -> Result<Vec<u8>, i32> {
        match request.opcode {
            // Version, no flags; 128 KiB a write; the times count in nanoseconds.
            INIT => Ok([words(&[7, 31, 0, 0, 0, 1 << 17, 1, 0]), vec![0; 32]].concat()),
            LOOKUP if request.node == ROOT && name == b"prog\0" => {
                Ok([longs(&[PROG, 0, 0, 0]), words(&[0, 0]), self.attributes(PROG)].concat())
            }
            LOOKUP => Err(libc::ENOENT),
            GETATTR => Ok([longs(&[0]), words(&[0, 0]), self.attributes(request.node)].concat()),
            OPEN | OPENDIR => Ok([longs(&[0]), words(&[0, 0])].concat()),
            READ => {
                let (offset, size) = request.range;
                let bytes = self.content.iter().skip(offset as usize).take(size as usize);
                Ok(bytes.copied().collect())
            }
            RELEASE | RELEASEDIR | FLUSH => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        }
    }

    fn take(&mut self, message: &[u8]) {
        let request = Request {
            opcode: u32_at(message, 4),
            unique: u64_at(message, 8),
            node: u64_at(message, 16),
            pid: u32_at(message, 32),
            range: (u64_at(message, 48), u32_at(message, 56)),
        };
        let name = message.get(40..).unwrap_or_default();
        match request.opcode {
            // These have no answer.
            FORGET | BATCH_FORGET => {}
            INTERRUPT => {
                let at = self.held.iter().position(|r| r.unique == u64_at(message, 40));
                if let Some(at) = at.filter(|_| !self.deaf) {
                    let request = self.held.remove(at);
                    self.reply(request.unique, Err(libc::EINTR));
                }
            }
            opcode if opcode == self.at && request.node == PROG && self.release != Some(b'g') => {
                if self.release.is_some() {
                    self.reply(request.unique, Err(libc::EIO));
                } else {
                    self.held.push(request);
                    println!("hung {}", request.pid);
                }
            }
            _ => self.reply(request.unique, self.served(request, name)),
        }
    }

    fn let_go(&mut self, how: u8) {
        self.release = Some(how);
        for request in std::mem::take(&mut self.held) {
            let answer = if how == b'g' { self.served(request, &[]) } else { Err(libc::EIO) };
            self.reply(request.unique, answer);
        }
    }

    /// Ends with the end of input, or with the mount.
    fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            let mut list =
                [0, self.device.as_raw_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            // SAFETY: as many entries as the count says.
            os::check(unsafe { libc::poll(list.as_mut_ptr(), 2, -1) }.into())?;
            let [input, device] = list;
            if input.revents != 0 {
                let mut byte = [0];
                if io::stdin().read(&mut byte)? == 0 {
                    return Ok(());
                }
                self.let_go(byte[0]);
            }
            if device.revents != 0 {
                let n = (&self.device).read(&mut buffer)?;
                let message: Vec<u8> = buffer.iter().take(n).copied().collect();
                self.take(&message);
            }
        }
    }
}

fn mount(device: &File, place: &CString) -> io::Result<()> {
    // SAFETY: takes numbers only.
    os::check(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
    let (none, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: strings with their end; nothing else is read. What is mounted here stays here.
    let ret = unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) };
    os::check(ret.into())?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let (kind, data) = (c"fuse".as_ptr(), CString::new(options)?);
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: strings with their end; nothing else is read.
    os::check(unsafe { libc::mount(kind, place.as_ptr(), kind, flags, data.as_ptr().cast()) }.into())
        .map(drop)
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let at = if args.first().is_some_and(|a| a == "read") { READ } else { OPEN };
    let deaf = args.get(1).is_some_and(|a| a == "ignored");
    let content = files::tiny_program(7).ok_or_else(|| io::Error::other("no program for this machine"))?;
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let place = files::TempDir::new();
    let path = place.at("").display().to_string();
    mount(&device, &CString::new(path.trim_end_matches('/'))?)?;
    println!("ready /proc/{}/root{path}prog", std::process::id());
    Server { device, content, at, deaf, release: None, held: Vec::new() }.run()
}
