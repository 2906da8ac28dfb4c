//! A fork whose child makes system calls only, and whose number, group and moment of exec the test chooses.
//!
//! What std cannot: it waits for the exec, and the kernel chooses the number.

use std::{
    ffi::{CString, OsStr},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
};

use crate::os;

/// `struct clone_args` of clone3(2), second version.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
}

/// Forks. In the child the answer is 0: it may make system calls and nothing else.
///
/// # Errors
/// With a number, since Linux 5.5, <https://man7.org/linux/man-pages/man2/clone.2.html>:
/// - `EEXIST`: somebody has the number, as process, thread, group or session.
/// - `EPERM`: not root of the pid namespace.
fn fork(pid: Option<u32>) -> io::Result<u32> {
    let tid = libc::pid_t::try_from(pid.unwrap_or_default()).expect("a pid");
    let clone = CloneArgs {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: pid.map_or(0, |_| &raw const tid as u64),
        set_tid_size: pid.is_some().into(),
        ..CloneArgs::default()
    };
    // SAFETY: a plain fork; the struct and the number it points to stand until the call is back.
    let made =
        os::check(unsafe { libc::syscall(libc::SYS_clone3, &raw const clone, size_of::<CloneArgs>()) })?;
    Ok(u32::try_from(made).expect("a pid"))
}

/// The group of a forked child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The test's.
    Same,
    /// One of its own, of which it is the leader.
    Own,
    /// The one of this number, in the test's session.
    Of(u32),
}

impl Group {
    /// In the child: enters it.
    fn enter(self) -> bool {
        let group = match self {
            Group::Same => return true,
            Group::Own => 0,
            Group::Of(group) => group as libc::pid_t,
        };
        // SAFETY: takes numbers only.
        unsafe { libc::setpgid(0, group) == 0 }
    }
}

/// What a child is to execute.
#[derive(Debug)]
pub struct Image {
    path: CString,
    argv: Vec<CString>,
    environ: Vec<CString>,
}

impl Image {
    /// A program, its arguments without its name, and all of its environ, entry by entry.
    pub fn new(program: &Path, args: &[&OsStr], environ: &[String]) -> Image {
        let text = |bytes: &[u8]| CString::new(bytes).expect("no NUL");
        let path = text(program.as_os_str().as_bytes());
        let args = args.iter().map(|arg| text(arg.as_bytes()));
        let argv = std::iter::once(path.clone()).chain(args).collect();
        Image { path, argv, environ: environ.iter().map(|entry| text(entry.as_bytes())).collect() }
    }

    fn tables(&self) -> [Vec<*const libc::c_char>; 2] {
        [&self.argv, &self.environ].map(|list| list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect())
    }
}

/// In the child: ends it.
fn exit(code: i32) -> ! {
    // SAFETY: ends this process without a word.
    unsafe { libc::_exit(code) }
}

/// In the child: says why it cannot, and ends.
fn refuse(report: RawFd) -> ! {
    let error = io::Error::last_os_error().raw_os_error().unwrap_or_default();
    // SAFETY: reads one int.
    unsafe { libc::write(report, (&raw const error).cast(), size_of::<i32>()) };
    exit(127)
}

/// The child, once it has closed its end of the pipe without a word.
fn unless_refused(made: u32, mut told: File) -> io::Result<u32> {
    let mut error = [0; 4];
    if told.read_exact(&mut error).is_err() {
        return Ok(made);
    }
    reap(made);
    Err(io::Error::from_raw_os_error(i32::from_ne_bytes(error)))
}

/// A child that executes an image, under this number or the next free one.
///
/// It is back when the program has begun to replace the test's image; what `/proc` shows may lag behind.
///
/// # Errors
/// `EEXIST`, `EPERM` of the number; and why the group or the program could not be had, where there is no child any more.
pub fn exec(pid: Option<u32>, group: Group, image: &Image) -> io::Result<u32> {
    let [argv, environ] = image.tables();
    let (told, tell) = pipe()?;
    let report = tell.as_raw_fd();
    let made = fork(pid)?;
    if made == 0 {
        if group.enter() {
            // SAFETY: tables with their ends, copied with the process.
            unsafe { libc::execve(image.path.as_ptr(), argv.as_ptr(), environ.as_ptr()) };
        }
        refuse(report);
    }
    drop(tell);
    unless_refused(made, told)
}

/// A child that has the test's image and environ, no descriptors, and waits for ever, under this number or the next free one.
///
/// # Errors
/// As [`exec`].
pub fn paused(pid: Option<u32>, group: Group) -> io::Result<u32> {
    let (told, tell) = pipe()?;
    let made = fork(pid)?;
    if made == 0 {
        if !group.enter() {
            refuse(tell.as_raw_fd());
        }
        // SAFETY: the process is a copy and uses none of them any more.
        unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
        os::sleep_for_ever();
    }
    drop(tell);
    unless_refused(made, told)
}

/// A child between fork and exec: it is there, and it shows the test's environ, command line and program.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    go: File,
}

impl Held {
    /// Forks it, and waits until it waits. It ends where the test does.
    ///
    /// # Errors
    /// As [`exec`], the program apart.
    pub fn start(pid: Option<u32>, group: Group, image: &Image) -> io::Result<Held> {
        let [argv, environ] = image.tables();
        let ((mut told, tell), (wait, go)) = (pipe()?, pipe()?);
        let fds = [tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd()];
        let made = fork(pid)?;
        if made == 0 {
            let [tell, wait, go] = fds;
            if !group.enter() {
                refuse(tell);
            }
            let mut byte = 0_u8;
            // SAFETY: or else the child would wait for itself.
            unsafe { libc::close(go) };
            // SAFETY: reads one byte.
            unsafe { libc::write(tell, (&raw const byte).cast(), 1) };
            // SAFETY: writes one byte.
            if unsafe { libc::read(wait, (&raw mut byte).cast(), 1) } == 1 {
                // SAFETY: tables with their ends, copied with the process.
                unsafe { libc::execve(image.path.as_ptr(), argv.as_ptr(), environ.as_ptr()) };
            }
            exit(127);
        }
        drop(tell);
        let mut first = [0; 4];
        match told.read(&mut first)? {
            1 => Ok(Held { pid: made, go }),
            _ => {
                reap(made);
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(first)))
            }
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it go to its exec, and gives its number. Whoever needs to see the new program waits for what it announces.
    pub fn let_go(mut self) -> u32 {
        self.go.write_all(&[0]).expect("it waits");
        self.pid
    }
}

/// Waits for a child and takes its status away.
#[track_caller]
pub fn reap(pid: u32) -> i32 {
    let mut status = 0;
    let pid = libc::pid_t::try_from(pid).expect("a pid");
    assert!(pid > 1, "one process");
    // SAFETY: writes one int.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// Ends a child of the test by SIGKILL, and takes its status away.
#[track_caller]
pub fn end(pid: u32) -> i32 {
    os::signal_pid(pid, libc::SIGKILL).expect("a child not yet reaped");
    reap(pid)
}

/// The reading and the writing end; exec closes both.
fn pipe() -> io::Result<(File, File)> {
    let (read, write) = io::pipe()?;
    Ok((File::from(std::os::fd::OwnedFd::from(read)), File::from(std::os::fd::OwnedFd::from(write))))
}
