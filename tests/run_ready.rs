//! `pidward run --ready-fd`: a newline makes the program ready, and whoever waits for that is told.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    process::Command,
    time::Duration,
};

use pidward_tests::{
    command::{code, finish, run},
    files::TempDir,
    leftovers::{NoLeftovers, random_word},
};

fn shell(guard: &NoLeftovers, script: &str) -> Command {
    run(guard, &["--ready-fd", "7", "--grace", "1s"], &["sh", "-c", script])
}

/// What the waiting one hears, if anything.
fn heard(socket: &UnixDatagram, limit: Duration) -> Option<Vec<u8>> {
    socket.set_read_timeout(Some(limit)).unwrap();
    let mut space = [0; 100];
    socket.recv(&mut space).ok().map(|n| space[..n].to_vec())
}

#[test]
fn whoever_waits_is_told_once_the_program_is_ready() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let path = dir.at("notify");
    let name = format!("pidward-test-{}", random_word());
    let abstracted = SocketAddr::from_abstract_name(&name).unwrap();
    for (socket, address) in [
        (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
        (UnixDatagram::bind_addr(&abstracted).unwrap(), format!("@{name}")),
    ] {
        let script = "read go; printf 'not yet' >&7; read go; echo >&7; echo >&7; exec 7>&-; read go; exit 5";
        let mut command = shell(&guard, script);
        command.env("NOTIFY_SOCKET", &address).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut go = || std::io::Write::write_all(&mut stdin, b"\n").unwrap();
        go();
        assert_eq!(heard(&socket, Duration::from_millis(300)), None);
        go();
        assert_eq!(heard(&socket, Duration::from_secs(60)).as_deref(), Some(&b"READY=1"[..]));
        go();
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), output.stderr.as_slice()), (5, &b""[..]), "{output:?}");
        assert_eq!(heard(&socket, Duration::from_millis(100)), None);
    }
}

#[test]
fn program_that_does_not_become_ready_is_told_of_and_keeps_its_code() {
    let guard = NoLeftovers::new();
    let failed = |script: &str, expected: i32, words: &str| {
        let output = finish(&mut shell(&guard, script));
        assert_eq!(code(&output), expected, "{output:?}");
        let line = format!("pidward: the program {words} before it was ready\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), line, "{script}");
    };
    failed("exit 3", 3, "ended");
    // Somebody else has the descriptor, and goes with it.
    failed("sleep 1000 & exit 4", 4, "ended");
    failed("exec 7>&-; exec sleep 1000", 128 + 15, "closed the descriptor of --ready-fd");
    // Its last word counts; and nobody need wait for it.
    let output = finish(&mut shell(&guard, "echo >&7; exit 6"));
    assert_eq!((code(&output), output.stderr.as_slice()), (6, &b""[..]));
}

#[test]
fn number_that_cannot_be_is_refused_in_one_line() {
    let guard = NoLeftovers::new();
    for options in [&["--ready-fd", "2"][..], &["--ready-fd", "x"], &["--ready-fd", "9", "--pass-fd", "9"]] {
        let output = finish(&mut run(&guard, options, &["true"]));
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), 125, "{words}");
        assert!(words.starts_with("pidward: ") && words.lines().count() == 1, "{words}");
        assert!(words.contains("--ready-fd") && words.contains("3 or higher"), "{words}");
    }
}
