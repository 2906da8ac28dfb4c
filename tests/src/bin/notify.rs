//! Sends each of its arguments to the socket that `NOTIFY_SOCKET` names, as a message of its own; then waits for the end of its standard
//! input.

use std::{
    io::Read,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
};

fn main() {
    let address = std::env::var("NOTIFY_SOCKET").expect("an address");
    let name = address.strip_prefix('@').expect("an abstract address");
    let socket = UnixDatagram::unbound().expect("a socket");
    socket.connect_addr(&SocketAddr::from_abstract_name(name).expect("a name")).expect("a listener");
    for message in std::env::args().skip(1) {
        socket.send(message.as_bytes()).expect("room for a message");
    }
    // Ends when the other end is closed.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
