//! A process whose first thread has ended while another lives on.
//!
//! `lostmain [--ready-fd N | --ready-file PATH]`: announces `ready PID` once the first thread shows as a zombie; ends when its
//! standard input does.

use std::{io::Read, thread};

use pidward_tests::{announce, proc};

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut place = announce::take(&mut args);
    thread::spawn(move || {
        let pid = std::process::id();
        proc::eventually("the first thread has ended", || proc::state(pid) == Some('Z'));
        place.say(&format!("ready {pid}"));
        let ended = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(i32::from(ended.is_err()));
    });
    // SAFETY: ends this thread only; nothing that the other one uses stands on its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}
