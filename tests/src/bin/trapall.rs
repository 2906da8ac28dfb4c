//! Takes every signal that can be taken, and writes the number of each to a file, one a line; stays until
//! SIGKILL.
//!
//! `trapall FILE`: the first line of the file is `ready PID`. A signal of `sigqueue` that is the last real-time one asks: the answer is the
//! line `fence VALUE TID`.
//!
//! `trapall FILE TID`: with a second thread that has this number, and takes signals as well; the first line is `ready PID TID`.
//! Only as root of a pid namespace.
//!
//! Signals are blocked and read from a signalfd, by raw calls: the C library keeps 32 and 33 for itself.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::fd::FromRawFd,
    sync::mpsc,
    thread,
};

use pidward_tests::{os, recycle};

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

fn tid() -> i32 {
    // SAFETY: asks only.
    unsafe { libc::gettid() }
}

/// Ends by SIGKILL only. One `struct signalfd_siginfo` at a time.
fn take_down(mut signals: &File, mut log: &File) -> io::Result<()> {
    loop {
        let mut info = [0; 128];
        signals.read_exact(&mut info)?;
        let field = |at: usize| i32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
        let (number, code, value) = (field(0), field(8), field(44));
        let line = match (number, code) {
            (64, libc::SI_QUEUE) => format!("fence {value} {}\n", tid()),
            _ => format!("{number}\n"),
        };
        log.write_all(line.as_bytes())?;
    }
}

/// A thread of this number that takes down signals. Others may get the number first, so it is tried some times.
fn second_thread(wanted: i32, signals: &File, log: &File) -> io::Result<()> {
    for _ in 0..100 {
        let (tell, told) = mpsc::channel();
        let (signals, log) = (signals.try_clone()?, log.try_clone()?);
        recycle::next_is(wanted as u32)?;
        let thread = thread::spawn(move || {
            let got = tid() == wanted;
            tell.send(got).expect("the first thread listens");
            if got { take_down(&signals, &log) } else { Ok(()) }
        });
        if told.recv().expect("it tells") {
            return Ok(());
        }
        thread.join().expect("the thread")?;
    }
    Err(io::Error::other("the number is not to be had"))
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a file");
    let mut log = OpenOptions::new().create(true).append(true).open(path)?;
    let signals = all_signals()?;
    let mut line = format!("ready {}", std::process::id());
    if let Some(wanted) = args.next() {
        let wanted = wanted.parse().expect("a thread's number");
        if let Err(error) = second_thread(wanted, &signals, &log) {
            log.write_all(format!("{error}\n").as_bytes())?;
            return Err(error);
        }
        line = format!("{line} {wanted}");
    }
    log.write_all(format!("{line}\n").as_bytes())?;
    take_down(&signals, &log)
}
