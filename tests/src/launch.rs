//! Bad starters: what a program finds when whoever started it was careless. Each changes a command of std, in the
//! child, after std has set up everything else.

use std::{io, os::unix::process::CommandExt, process::Command};

use crate::os;

/// The program starts with these signals ignored.
pub fn ignoring<'a>(command: &'a mut Command, signals: &[i32]) -> &'a mut Command {
    let signals = signals.to_vec();
    let set = move || signals.iter().try_for_each(|s| os::ignore(*s));
    // SAFETY: between fork and exec only `signal` is called, which takes no lock and no memory.
    unsafe { command.pre_exec(set) }
}

/// The program starts with these signals blocked.
pub fn blocking<'a>(command: &'a mut Command, signals: &[i32]) -> &'a mut Command {
    let set = signals.iter().fold(0_u64, |set, s| set | 1 << (s - 1));
    let block = move || {
        let (at, size) = (&raw const set, size_of::<u64>());
        let none = std::ptr::null_mut::<u64>();
        // SAFETY: reads one set, of the size that is passed.
        let ret = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, at, none, size) };
        os::check(ret).map(drop)
    };
    // SAFETY: between fork and exec one system call is made.
    unsafe { command.pre_exec(block) }
}

/// The program starts without these descriptors. (One of Rust that has the runtime's `main` opens 0 to 2 again.)
pub fn closing<'a>(command: &'a mut Command, fds: &[i32]) -> &'a mut Command {
    let fds = fds.to_vec();
    let close = move || -> io::Result<()> {
        for fd in &fds {
            // SAFETY: this copy of the process goes on to exec, and std's pipe for its errors is none of 0 to 2.
            unsafe { libc::close(*fd) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec only `close` is called.
    unsafe { command.pre_exec(close) }
}
