//! Recycled numbers, made on demand: a process or a thread that gets the number which somebody else has just given up.
//!
//! Only in a pid namespace of its own ([`in_pid_namespace`](crate::child::Again::in_pid_namespace)), whose root may choose numbers.

use std::{
    ffi::{CString, OsStr},
    fs,
    io::{self, Write},
    os::{linux::fs::MetadataExt, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    ptr,
};

use crate::{announce::Board, os, proc};

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

/// Starts a program under this number, as the leader of a group of its own, with exactly this environ.
///
/// # Errors
/// `EEXIST`: somebody has the number, as pid, group or session. `EPERM`: not root of the pid namespace.
pub fn exec_as(pid: u32, program: &Path, args: &[&OsStr], environ: &[String]) -> io::Result<u32> {
    let text = |bytes: &[u8]| CString::new(bytes).expect("no NUL");
    let path = text(program.as_os_str().as_bytes());
    let argv: Vec<CString> =
        std::iter::once(path.clone()).chain(args.iter().map(|arg| text(arg.as_bytes()))).collect();
    let environ: Vec<CString> = environ.iter().map(|entry| text(entry.as_bytes())).collect();
    let table = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, environ) = (table(&argv), table(&environ));
    let tid = libc::pid_t::try_from(pid).expect("a pid");
    let clone = CloneArgs {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: &raw const tid as u64,
        set_tid_size: 1,
        ..CloneArgs::default()
    };
    // SAFETY: a plain fork; the struct and the number it points to stand until the call is back.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const clone, size_of::<CloneArgs>()) } {
        0 => {
            // SAFETY: the child's thread is alone; it makes system calls only.
            unsafe { libc::setpgid(0, 0) };
            // SAFETY: tables with their ends, copied with the process.
            unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environ.as_ptr()) };
            // SAFETY: ends the child.
            unsafe { libc::_exit(127) }
        }
        made => Ok(os::check(made)? as u32),
    }
}

/// Somebody who has nothing to do with the test's children: takes down every signal.
#[derive(Debug)]
pub struct Stranger {
    pid: u32,
    inode: u64,
    log: PathBuf,
}

impl Stranger {
    /// Started under this number, ready.
    ///
    /// # Errors
    /// As [`exec_as`].
    pub fn take(pid: u32, trapall: &Path, log: PathBuf, environ: &[String]) -> io::Result<Stranger> {
        let _ = fs::remove_file(&log);
        let made = exec_as(pid, trapall, &[log.as_os_str()], environ)?;
        assert_eq!(made, pid, "the number that was asked for");
        Board::at(log.clone()).wait_for(&format!("ready {pid}"));
        Ok(Stranger { pid, inode: inode(pid), log })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Fails unless it lives, is the same process, and got no signal.
    #[track_caller]
    pub fn is_untouched(&self) {
        let text = fs::read_to_string(&self.log).expect("its log");
        assert_eq!(text, format!("ready {}\n", self.pid), "signals that reached the stranger");
        assert!(proc::alive(self.pid), "the stranger has ended");
        assert_eq!(inode(self.pid), self.inode, "somebody else by now");
    }

    /// Ends and reaps it.
    pub fn end(self) {
        os::signal_pid(self.pid, libc::SIGKILL).expect("the stranger");
        reap(self.pid);
    }
}

/// Waits for a child and takes its status away.
pub fn reap(pid: u32) -> i32 {
    let mut status = 0;
    let pid = libc::pid_t::try_from(pid).expect("a pid");
    assert!(pid > 1, "one process");
    // SAFETY: writes one int.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// The inode of its pidfd.
pub fn inode(pid: u32) -> u64 {
    let pidfd = fs::File::from(os::pidfd(pid).expect("a pidfd"));
    pidfd.metadata().expect("its inode").st_ino()
}

/// Lets the kernel give this number to the next process or thread of the namespace.
///
/// # Errors
/// `EPERM`: not root of the pid namespace.
pub fn next_is(pid: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open("/proc/sys/kernel/ns_last_pid")?;
    file.write_all((pid - 1).to_string().as_bytes())
}
