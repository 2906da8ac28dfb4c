//! Takes every signal that can be taken, and writes the number of each to a file, one a line; stays until
//! SIGKILL.
//!
//! `trapall FILE`: the first line of the file is `ready PID`.
//!
//! Signals are blocked and read from a signalfd, by raw calls: the C library keeps 32 and 33 for itself.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::fd::FromRawFd,
};

use pidward_tests::os;

fn all_signals() -> io::Result<File> {
    let all = u64::MAX;
    let (at, size) = (&raw const all, size_of::<u64>());
    let none = std::ptr::null_mut::<u64>();
    // SAFETY: reads one set, of the size that is passed. The process has one thread.
    os::check(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, at, none, size) })?;
    // SAFETY: as above.
    let fd = os::check(unsafe { libc::syscall(libc::SYS_signalfd4, -1, at, size, libc::SFD_CLOEXEC) })?;
    // SAFETY: just made, and nobody else knows the number.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).expect("a file");
    let mut log = OpenOptions::new().create(true).append(true).open(path)?;
    let mut signals = all_signals()?;
    log.write_all(format!("ready {}\n", std::process::id()).as_bytes())?;
    // Ends by SIGKILL only. One `struct signalfd_siginfo` at a time; the number stands first.
    loop {
        let mut info = [0; 128];
        signals.read_exact(&mut info)?;
        let (number, _) = info.split_at(4);
        log.write_all(
            format!("{}\n", u32::from_ne_bytes(number.try_into().expect("four bytes"))).as_bytes(),
        )?;
    }
}
