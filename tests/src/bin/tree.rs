//! Makes descendants as told, announces each as `KIND PID` in a file, then `ready PID`, and stays.
//!
//! `tree FILE KIND…` with
//! - `child`: a child;
//! - `grandchild`: the child of one (which stays too, as `parent`);
//! - `daemon`: in a session of its own, its parent gone;
//! - `bare`: a `daemon` that has no environ (it executes `sleep`);
//! - `mixed`: a `daemon` with a child in its group that has no environ;
//! - `spread`: a `daemon` with a child in its session that has a group of its own and no environ;
//! - `listener`: a `daemon` that listens on a port of 127.0.0.1; says `listener PORT`;
//! - `stopped`: a child that has stopped itself;
//! - `deaf`: a child that ignores SIGTERM, SIGINT and SIGHUP;
//! - `runaway:N`: a `daemon` that is a chain of N processes in which each forks the next and exits;
//! - `storm:N`: a chain of N processes in which each forks the next and exits; the last one stays;
//! - `exit`: the program ends after `ready` instead of staying, and is ready when all others are there.
//!
//! It stays single-threaded, so that a child may go on after fork. A fork that fails ends the program.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io::Write,
    net::TcpListener,
};

use pidward_tests::{announce::Board, os};

/// Runs `body` in a child, which then stays for ever.
fn fork(body: impl FnOnce()) {
    // SAFETY: this process has one thread, so the child has all of it.
    match unsafe { libc::fork() } {
        0 => {
            body();
            os::sleep_for_ever();
        }
        pid if pid > 1 => {}
        _ => std::process::exit(99),
    }
}

fn new_session() {
    // SAFETY: takes nothing.
    unsafe { libc::setsid() };
}

fn execute_bare() -> ! {
    let (path, arg) = (CString::from(c"/bin/sleep"), CString::from(c"1000"));
    let (argv, environ) = ([path.as_ptr(), arg.as_ptr(), std::ptr::null()], [std::ptr::null()]);
    // SAFETY: both tables end in a null, and their strings stand.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environ.as_ptr()) };
    std::process::exit(98);
}

/// A port that this process listens on from now on.
fn listen() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::mem::forget(listener);
    port
}

fn storm(mut left: u32) {
    while left > 1 {
        // SAFETY: as above.
        match unsafe { libc::fork() } {
            0 => left -= 1,
            pid if pid > 1 => std::process::exit(0),
            _ => std::process::exit(99),
        }
    }
}

fn make(kind: &str, log: &File) {
    let say = |kind: &str| {
        let mut file = log;
        file.write_all(format!("{kind} {}\n", std::process::id()).as_bytes()).expect("the file takes a line");
    };
    let middle = |body: &dyn Fn()| {
        fork(|| {
            fork(body);
            std::process::exit(0);
        });
    };
    match kind.split_once(':').unwrap_or((kind, "")) {
        ("child", _) => fork(|| say("child")),
        ("grandchild", _) => fork(|| {
            say("parent");
            fork(|| say("grandchild"));
        }),
        ("daemon", _) => middle(&|| {
            new_session();
            say("daemon");
        }),
        ("runaway", n) => middle(&|| {
            new_session();
            say("runaway");
            storm(n.parse().ok().filter(|n| *n <= 100_000).expect("a length up to 100000"));
        }),
        ("bare", _) => middle(&|| {
            new_session();
            say("bare");
            execute_bare();
        }),
        ("mixed", _) => middle(&|| {
            new_session();
            fork(|| execute_bare());
            say("mixed");
        }),
        ("spread", _) => middle(&|| {
            new_session();
            fork(|| {
                // SAFETY: takes numbers only.
                unsafe { libc::setpgid(0, 0) };
                execute_bare()
            });
            say("spread");
        }),
        ("listener", _) => middle(&|| {
            new_session();
            let mut file = log;
            file.write_all(format!("listener {}\n", listen()).as_bytes()).expect("the file takes a line");
        }),
        ("stopped", _) => fork(|| {
            say("stopped");
            // SAFETY: signals this thread only.
            unsafe { libc::raise(libc::SIGSTOP) };
        }),
        ("deaf", _) => fork(|| {
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                os::ignore(signal).expect("a signal that can be ignored");
            }
            say("deaf");
        }),
        ("storm", n) => fork(|| {
            say("first");
            storm(n.parse().ok().filter(|n| *n <= 100_000).expect("a length up to 100000"));
            say("storm");
        }),
        _ => panic!("no kind of descendant: {kind}"),
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a file");
    let mut log = OpenOptions::new().create(true).append(true).open(&path).expect("the file");
    let kinds: Vec<String> = args.collect();
    for kind in kinds.iter().filter(|k| *k != "exit") {
        make(kind, &log);
    }
    let exits = kinds.iter().any(|k| k == "exit");
    if exits {
        // Whoever sees the end may stop those who are left before they have said a word.
        let board = Board::at(path.into());
        for kind in kinds.iter().filter(|k| *k != "exit") {
            board.wait_for(&format!("{} ", kind.split(':').next().unwrap_or_default()));
        }
    }
    // In one write, as the others: `writeln!` would make several.
    log.write_all(format!("ready {}\n", std::process::id()).as_bytes()).expect("the file takes a line");
    if !exits {
        os::sleep_for_ever();
    }
}
