//! A supervisor with a guard: starts one tree, says who is who, and then does as it is told.
//!
//! `supervisor BOARD GRACE_MS WHAT KIND…` starts the fixture `tree` with `BOARD KIND…`, writes `guard PID` (0: none), `supervisor PID` to
//! the board and then, for `WHAT`
//! - `wait`: stays, and writes `fds N` and `guard PID` for each line of its input;
//! - `here`: as `wait`, with the tree started on its main thread;
//! - `exit`, `panic`, `abort`: ends so, without a drop;
//! - `exec`: becomes `sleep`;
//! - `close`: closes all descriptors from 3 up, writes `closed 0` and stays;
//! - `drop`: shuts the spawner down, writes `shut 0` and stays (this, `close` and the ends above wait for the line `go` on the board);
//! - `rewrite:N`: touches N MiB before it starts the spawner, and writes to all of them again before it stays;
//! - `eat:N`: as `wait`, and touches N MiB for each line of its input before it answers;
//! - `survive`: as `wait`, with a tree that survives it; writes `identity LINE` first;
//! - `host`: opens a socket and a file before the spawner; says what a `waitpid` for any child answers when its own have ended.

use std::{
    fs::OpenOptions,
    io::BufRead,
    net::TcpListener,
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::Path,
    time::Duration,
};

use pidward::{Command, Spawner};
use pidward_tests::{
    announce::{own_dir, say},
    os, proc,
};

fn become_sleep() -> ! {
    let error = std::process::Command::new("sleep").arg("1000").exec();
    panic!("{error}")
}

/// As daemons do that know nothing of libraries beneath them.
fn close_all(board: &Path) -> ! {
    // The word goes by a number that stays: a new file would get that of one which others take for theirs.
    let file = OpenOptions::new().append(true).open(board).expect("the board");
    // SAFETY: takes numbers only; the output of this program is nobody else's.
    os::check(unsafe { libc::dup2(file.as_raw_fd(), 1) }.into()).expect("a copy");
    // SAFETY: what is lost is the very thing that is tried; nothing is dropped any more.
    os::check(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }).expect("none is open");
    let word = b"closed 0\n";
    // SAFETY: reads these bytes.
    os::check(unsafe { libc::write(1, word.as_ptr().cast(), word.len()) } as libc::c_long).expect("a line");
    os::sleep_for_ever()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [board, grace, what, kinds @ ..] = &args[..] else {
        panic!("supervisor BOARD GRACE_MS WHAT KIND...")
    };
    let board = Path::new(board);
    let (what, number) = what.split_once(':').unwrap_or((what, "0"));
    let mut eaten = Vec::new();
    let size = number.parse::<usize>().expect("a number") << 20;
    let mut memory = vec![0_u8; if what == "rewrite" { size } else { 0 }];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let held = (what == "host")
        .then(|| (TcpListener::bind("127.0.0.1:0"), OpenOptions::new().read(true).open("/proc/version")));
    let grace = Duration::from_millis(grace.parse().expect("milliseconds"));
    let spawner = Spawner::builder().grace(grace).build().expect("a spawner");
    let guard = |spawner: &Spawner| format!("guard {}", spawner.guard_pid().unwrap_or(0));
    say(board, &guard(&spawner));
    let mut tree = Command::new(own_dir().join("tree"));
    tree.arg(board).args(kinds).survives_supervisor(what == "survive");
    let child = if what == "here" { spawner.spawn_on_this_thread(&tree) } else { spawner.spawn(&tree) };
    let child = child.expect("a tree");
    if what == "survive" {
        say(board, &format!("identity {}", child.identity().expect("an identity")));
    }
    say(board, &format!("supervisor {}", std::process::id()));
    match what {
        "exit" | "panic" | "abort" | "exec" | "close" | "drop" => {
            // Its word is on the board when all of the tree stands.
            proc::eventually("the tree", || {
                std::fs::read_to_string(board).is_ok_and(|text| text.contains("\ngo\n"))
            });
            match what {
                "exit" => std::process::exit(0),
                "panic" => panic!("as told"),
                "abort" => std::process::abort(),
                "exec" => become_sleep(),
                "close" => close_all(board),
                _ => assert!(spawner.shutdown(grace).is_complete()),
            }
            say(board, "shut 0");
            os::sleep_for_ever();
        }
        "host" => {
            let mut child = child;
            child.wait().expect("its end");
            // SAFETY: takes numbers and a null.
            let answer = os::check(unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) }.into());
            say(board, &format!("waited {}", answer.expect_err("no child").raw_os_error().unwrap_or(0)));
            drop(held);
            os::sleep_for_ever();
        }
        _ => {
            memory.iter_mut().step_by(4096).for_each(|byte| *byte = 2);
            say(board, "written 0");
            for line in std::io::stdin().lock().lines() {
                line.expect("a line");
                if what == "eat" {
                    eaten.push(vec![1_u8; size]);
                }
                say(board, &format!("fds {}", proc::open_fds()));
                say(board, &guard(&spawner));
            }
            os::sleep_for_ever();
        }
    }
}
