//! A server that answers nobody. Does what its arguments say, in their order, says each on its standard output, and stays until the end
//! of its standard input. At each line of that it closes what it opened last, and says `closed`.
//!
//! - `ADDRESS:PORT`: listens there; says `port PORT`;
//! - `udp`: waits for datagrams on the loopback; says `port PORT`;
//! - `connect:PORT`: has a connection from the loopback; says `port PORT`, its own;
//! - `fork`: goes on as two, of which one, without exec, only waits for the end; says `copy PID`;
//! - `apart`: goes on in a network namespace of its own; `undumpable`: cannot be looked at by others than root.
//!
//! When all is done it says `ready PID`.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
};

use pidward_tests::os;

fn say(words: &str) {
    println!("{words}");
    std::io::stdout().flush().expect("a reader");
}

fn opened(socket: impl Into<OwnedFd>, address: std::io::Result<SocketAddr>) -> OwnedFd {
    say(&format!("port {}", address.expect("its own address").port()));
    socket.into()
}

fn main() {
    let mut open: Vec<OwnedFd> = Vec::new();
    for word in std::env::args().skip(1) {
        match (word.as_str(), word.strip_prefix("connect:")) {
            (_, Some(port)) => {
                let port = port.parse().expect("a port");
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
                let address = stream.local_addr();
                open.push(opened(stream, address));
            }
            ("udp", _) => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on the loopback");
                let address = socket.local_addr();
                open.push(opened(socket, address));
            }
            ("fork", _) => {
                // SAFETY: there is one thread, so the copy may do whatever the program may.
                match os::check(unsafe { libc::fork() }.into()).expect("a copy") {
                    0 => {
                        // Ends when the other end is closed.
                        let _ = std::io::stdin().read_to_end(&mut Vec::new());
                        return;
                    }
                    copy => say(&format!("copy {copy}")),
                }
            }
            ("apart", _) => {
                // SAFETY: takes a number only.
                os::check(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into()).expect("root may");
            }
            ("undumpable", _) => {
                // SAFETY: takes numbers only.
                let ret = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
                os::check(ret.into()).expect("any process may do that");
            }
            (address, _) => {
                let address: SocketAddr = address.parse().expect("an address");
                let socket = TcpListener::bind(address).expect("a port there");
                let address = socket.local_addr();
                open.push(opened(socket, address));
            }
        }
    }
    say(&format!("ready {}", std::process::id()));
    // Ends when the other end is closed.
    for _ in std::io::stdin().lines() {
        drop(open.pop().expect("something open"));
        say("closed");
    }
}
