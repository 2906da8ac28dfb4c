//! A program that makes itself hard to know, says `ready PID` and stays until the end of its standard input.
//!
//! `strange HOW`:
//! - `zeros`, `title`, `half`: overwrites its environ with zeros, with 20 bytes of a title, or the first half of it with a title;
//! - `undumpable`: cannot be looked at by others than root;
//! - `user N`: becomes that user.

use std::io::{Read, Write};

use pidward_tests::os;

/// Where the kernel says that the environ begins and ends: fields 50 and 51 of proc_pid_stat(5).
fn environ_area() -> (usize, usize) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a stat line");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields[number - 3].parse().expect("an address");
    (field(50), field(51))
}

fn overwrite(with: impl Fn(usize, usize) -> Option<u8>) {
    let (start, end) = environ_area();
    for at in start..end {
        if let Some(byte) = with(at - start, end - start) {
            // SAFETY: the initial environ lies in this process's own writable stack; nothing reads it meanwhile.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(byte) };
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let title = |at: usize| *b"redis-server *:6379 ".get(at % 20).expect("twenty");
    match args.get(1).map(String::as_str) {
        Some("zeros") => overwrite(|_, _| Some(0)),
        Some("title") => overwrite(|at, _| Some(if at < 20 { title(at) } else { 0 })),
        Some("half") => overwrite(|at, all| (at < all / 2).then(|| title(at))),
        Some("undumpable") => {
            // SAFETY: takes numbers only.
            let ret = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
            os::check(ret.into()).expect("any process may do that");
        }
        Some("user") => {
            let user = args.get(2).and_then(|n| n.parse().ok()).expect("a user");
            // SAFETY: takes a number only.
            os::check(unsafe { libc::setuid(user) }.into()).expect("root may");
        }
        _ => panic!("how?"),
    }
    println!("ready {}", std::process::id());
    std::io::stdout().flush().expect("a reader");
    // Ends when the other end is closed.
    let _ = std::io::stdin().read(&mut [0]);
}
