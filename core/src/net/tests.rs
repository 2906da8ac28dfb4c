use std::{
    format, fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsRawFd, RawFd},
    process::{self, Command, Stdio},
    string::{String, ToString},
    thread,
    time::Duration,
    vec,
    vec::Vec,
};

use super::{Socket, hex, inode, listening, sockets};
use crate::{
    Errno, Pid,
    procfs::{Proc, ProcDir, ProcError, is_zombie},
};

/// As Linux 6.18 shows them on a little-endian machine: a listener, a connection, one that waits out its end, and three of IPv6.
const LINES: [&str; 6] = [
    "   0: 0100007F:9C41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11893 1 00000000a640131c 100 0 0 10 0                     ",
    "  12: 0100007F:9C41 0100007F:D3E8 01 00000000:00000002 00:00000000 00000000  1000        0 11895 2 0000000000000000 20 4 30 10 -1",
    "   3: 0100007F:D3E8 0100007F:9C41 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0000000000000000",
    "   0: 00000000000000000000000001000000:9C42 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11894 1 0000000000000000 100 0 0 10 0",
    "   1: B80D0120000000000000000042000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1 0000000000000000 100 0 0 10 0",
    "   2: 0000000000000000FFFF00000200A8C0:FFFF 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 18446744073709551615 1 0000000000000000 100 0 0 10 0",
];

/// A line of the tables with its words in the byte order of this machine.
fn native(line: &str) -> String {
    if cfg!(target_endian = "little") {
        return line.to_string();
    }
    let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
    for word in words.iter_mut().filter(|word| matches!(word.len(), 13 | 37)) {
        let (address, port) = word.split_once(':').unwrap();
        let turned: Vec<String> = address
            .as_bytes()
            .chunks(8)
            .map(|word| format!("{:08X}", hex::<8>(word).unwrap().swap_bytes()))
            .collect();
        *word = format!("{}:{port}", turned.concat());
    }
    words.join(" ")
}

fn parse(line: &str) -> Option<Socket> {
    Socket::parse(native(line).as_bytes())
}

#[test]
fn lines_of_the_tables_are_read_as_they_are() {
    let read: Vec<_> = LINES.iter().map(|line| parse(line).unwrap()).collect();
    let shown: Vec<_> =
        read.iter().map(|socket| (socket.local.to_string(), socket.listens, socket.inode)).collect();
    let wanted = [
        ("127.0.0.1:40001", true, 11893),
        ("127.0.0.1:40001", false, 11895),
        ("127.0.0.1:54248", false, 0),
        ("[::1]:40002", true, 11894),
        ("[2001:db8::42]:80", true, 7),
        ("[::ffff:192.168.0.2]:65535", true, u64::MAX),
    ];
    assert_eq!(shown, wanted.map(|(address, listens, inode)| (address.to_string(), listens, inode)));
}

#[test]
fn what_is_no_such_line_is_no_socket() {
    let good = LINES[0];
    for bad in [
        "",
        " ",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "  sl  local_address                         remote_address                        st tx_queue rx_queue tr",
        &good.replace("0:", "0"),
        &good.replace("0100007F:9C41", "0100007F9C41"),
        &good.replace("0100007F:9C41", "100007F:9C41"),
        &good.replace("0100007F:9C41", "+100007F:9C41"),
        &good.replace("0100007F:9C41", "0100007F0100007F:9C41"),
        &good.replace("0100007F:9C41", "0100007G:9C41"),
        &good.replace("0100007F:9C41", "0100007F:19C41"),
        &good.replace("0100007F:9C41", "0100007F:C41"),
        &good.replace("0100007F:9C41", ":9C41"),
        &good.replace("0100007F:9C41", "9C41"),
        &good.replace("0100007F:9C41", "\u{e9}100007F:9C41"),
        &good.replace("00000000:0000 ", "rem "),
        &good.replace(" 0A ", " A "),
        &good.replace(" 0A ", " 00A "),
        &good.replace(" 0A ", " "),
        &good.replace("11893", "18446744073709551616"),
        &good.replace("11893", "-1"),
        &good.replace("11893", "0x1"),
    ] {
        assert_eq!(parse(bad), None, "{bad}");
    }
}

#[test]
fn a_line_that_may_be_cut_in_the_inode_is_none() {
    let end = LINES[0].find("11893").unwrap();
    for length in 0..=LINES[0].len() {
        let whole = parse(&LINES[0][..length]);
        assert_eq!(whole.map(|socket| socket.inode), (length > end + 6).then_some(11893), "{length}");
    }
}

#[test]
fn links_to_sockets_are_told_from_all_others() {
    for (link, number) in [
        ("socket:[11893]", Some(11893)),
        ("socket:[0]", Some(0)),
        ("socket:[18446744073709551615]", Some(u64::MAX)),
        ("socket:[18446744073709551616]", None),
        ("socket:[]", None),
        ("socket:[+1]", None),
        ("socket:[1", None),
        ("socket:[1] (deleted)", None),
        ("pipe:[11893]", None),
        ("anon_inode:[eventpoll]", None),
        ("/tmp/socket:[1]", None),
        ("", None),
    ] {
        assert_eq!(inode(link.as_bytes()), number, "{link}");
    }
}

fn dir(pid: u32) -> ProcDir {
    Proc::open().unwrap().process(Pid::new(pid).unwrap()).unwrap()
}

fn held(process: &ProcDir) -> Vec<u64> {
    let mut list = Vec::new();
    sockets(process, |inode| list.push(inode)).unwrap();
    list
}

fn inode_of(fd: RawFd) -> u64 {
    let link = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
    inode(link.as_os_str().as_encoded_bytes()).unwrap()
}

#[test]
fn listeners_of_this_process_are_in_the_table_and_among_its_descriptors() {
    let own = dir(process::id());
    let mut servers = vec![TcpListener::bind("127.0.0.1:0").unwrap()];
    // Where there is no IPv6, there is no such table either.
    servers.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, 0)));
    let client = TcpStream::connect(servers[0].local_addr().unwrap()).unwrap();
    let (accepted, _) = servers[0].accept().unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut table = Vec::new();
    listening(&own, |socket| table.push(socket)).unwrap();
    assert!(table.iter().all(|socket| socket.listens), "{table:?}");
    let holds = held(&own);
    for server in &servers {
        let socket = Socket {
            local: server.local_addr().unwrap(),
            listens: true,
            inode: inode_of(server.as_raw_fd()),
        };
        assert!(table.contains(&socket) && holds.contains(&socket.inode), "{socket:?} in {table:?}");
    }
    for fd in [client.as_raw_fd(), accepted.as_raw_fd(), datagrams.as_raw_fd()] {
        let inode = inode_of(fd);
        assert!(holds.contains(&inode) && !table.iter().any(|socket| socket.inode == inode), "{fd}");
    }
}

#[test]
fn more_descriptors_than_one_buffer_holds_are_all_seen() {
    let own = dir(process::id());
    let sockets: Vec<_> = (0..300).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let holds = held(&own);
    for socket in sockets {
        assert!(holds.contains(&inode_of(socket.as_raw_fd())));
    }
}

#[test]
fn a_process_that_has_ended_is_an_error_and_holds_not_just_nothing() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pinned = dir(child.id());
    let look = || (listening(&pinned, |_| {}), sockets(&pinned, |_| {}));
    assert_eq!(look(), (Ok(()), Ok(())));
    drop(child.stdin.take());
    for _ in 0..6000 {
        if is_zombie(pinned.pid()) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(look(), (Err(ProcError::Gone), Err(ProcError::Gone)), "a zombie");
    child.wait().unwrap();
    assert_eq!(look(), (Err(ProcError::Gone), Err(ProcError::Gone)), "reaped");
}

#[test]
fn where_the_first_thread_has_ended_it_is_not_known_what_the_others_hold() {
    // Ends its first thread alone; the other has a socket, and ends with its input.
    let script = "import ctypes, socket, sys, threading\n\
                  s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
                  def rest():\n    print('ready', flush=True); sys.stdin.read(); import os; os._exit(0)\n\
                  threading.Thread(target=rest).start()\n\
                  ctypes.CDLL(None).syscall(ctypes.c_long(EXIT), 0)\n";
    let exit = linux_raw_sys::general::__NR_exit;
    let mut python = Command::new("python3");
    python.args(["-c", &script.replace("EXIT", &exit.to_string())]);
    let Ok(mut child) = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else { return };
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pinned = dir(child.id());
    for _ in 0..6000 {
        if pinned.stat().unwrap().flags & super::EXITING != 0 {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    // While it is on its way out, it may be seen with all it has.
    let unknown = Err(ProcError::Errno(Errno::ENOENT));
    let found = (0..6000).find_map(|_| {
        thread::sleep(Duration::from_millis(5));
        let found = (listening(&pinned, |_| {}), sockets(&pinned, |_| {}));
        (found.0 != Ok(())).then_some(found)
    });
    assert_eq!(found, Some((unknown, unknown)));
    child.stdin.take().unwrap().write_all(b"").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_process_that_may_not_be_looked_at_is_an_error() {
    let Ok(init) = Proc::open().unwrap().process(Pid::INIT) else { return };
    // Who may list the descriptors may not always see what they are: root without the right to trace, say.
    let links =
        |dir: fs::ReadDir| dir.map(|entry| fs::read_link(entry?.path())).collect::<Result<Vec<_>, _>>();
    let seen = fs::read_dir("/proc/1/fd").and_then(links);
    let wanted = if seen.is_ok() { Ok(()) } else { Err(ProcError::Errno(Errno::EACCES)) };
    assert_eq!(sockets(&init, |_| {}), wanted, "{seen:?}");
    // The tables are nobody's secret.
    assert_eq!(listening(&init, |_| {}), Ok(()));
}
