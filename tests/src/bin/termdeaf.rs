//! Ignores SIGTERM, SIGINT, SIGHUP and SIGQUIT, and stays until SIGKILL.
//!
//! `termdeaf [--ready-fd N | --ready-file PATH] [--listen]`: announces `ready PID`, or `ready PID PORT` with a
//! listening socket on the loopback.

use std::net::TcpListener;

use pidward_tests::{announce, os};

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut place = announce::take(&mut args);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        os::ignore(signal).expect("a signal that can be ignored");
    }
    let pid = std::process::id();
    if args.iter().any(|a| a == "--listen") {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback");
        let port = socket.local_addr().expect("its address").port();
        place.say(&format!("ready {pid} {port}"));
        os::sleep_for_ever();
    }
    place.say(&format!("ready {pid}"));
    os::sleep_for_ever();
}
