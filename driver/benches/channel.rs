//! What a receiver adds: from the end of a child to its exit event, against a blocking `waitid`; frames of 64 KiB, against a bare loop
//! of `read` and `write` on the same kind of socket; and what one child that never reads costs another.
//!
//! `cargo bench --bench channel` prints medians; with `-- --check` it ends with 1 when one is over its budget. Floor and candidate take
//! turns within each round.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::ExitCode,
    time::{Duration, Instant},
};

use pidward::{Command, Event, Events, Node, Spawner, Stdio, Transport};

mod ratio;

/// Against a blocking `waitid` on the same thread.
const EXIT: f64 = 1.5;
/// The same through the thread of a receiver: a second wake-up.
const EXIT_BY_THREAD: f64 = 3.0;
/// The slowest of a hundred echoes beside a child that never reads, against alone.
const BESIDE: f64 = 2.0;
/// Time against the bare loop: 0.8 of its throughput.
const FRAMES: f64 = 1.25;

const LENGTH: usize = 64 << 10;

fn main() -> ExitCode {
    ratio::end(exits() + frames() + beside())
}

/// A child that ends with its standard input.
fn cat() -> Command {
    let mut cmd = Command::new("cat");
    cmd.stdin(Stdio::piped()).stdout(Stdio::null());
    cmd
}

fn exits() -> u32 {
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    let events = Events::new().expect("a receiver");
    let threaded = Events::new().and_then(Events::on_thread).expect("a receiver with a thread");
    let (mut ratios, mut by_thread, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ratio::rounds(300, 2000) {
        let (floor, event) = (waitid().as_secs_f64(), exit_event(&spawner, &events).as_secs_f64());
        ratios.push(event / floor);
        by_thread.push(exit_event(&spawner, &threaded).as_secs_f64() / floor);
        floors.push(floor * 1e6);
    }
    let (ratio, floor) = (ratio::median(ratios), ratio::median(floors));
    let thread = ratio::median(by_thread);
    println!("from a child's end to its event: {ratio:.2} x a blocking waitid; that: {floor:.1} us");
    println!("the same through the receiver's thread: {thread:.2} x");
    ratio::verdict("× a blocking waitid", ratio, Some(EXIT * ratio::slack()))
        + ratio::verdict("× a blocking waitid, by the thread", thread, Some(EXIT_BY_THREAD * ratio::slack()))
}

/// A child that sends back what it gets.
fn echo() -> Command {
    let mut cmd = Command::new("cat");
    cmd.channel(Transport::Stdio);
    cmd
}

/// The 99th of so many hundredths of echoes, slowest last.
fn p99(events: &Events, node: &Node, count: usize) -> f64 {
    let mut took: Vec<f64> = (0..count)
        .map(|_| {
            let began = Instant::now();
            node.send(b"there and back").expect("room");
            let event = events.recv(Some(Duration::from_secs(10)));
            assert!(matches!(event, Some((id, Event::Frame(_))) if id == node.id()));
            began.elapsed().as_secs_f64()
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[count * 99 / 100]
}

/// One receiver without, and one with a child that never reads and has a full queue, in turns.
fn beside() -> u32 {
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    let (alone, both) = (Events::new().expect("a receiver"), Events::new().expect("a receiver"));
    let one = alone.spawn(&spawner, &echo()).expect("a child");
    let other = both.spawn(&spawner, &echo()).expect("a child");
    let mut cmd = Command::new("sleep");
    let deaf = both.spawn(&spawner, cmd.arg("600").channel(Transport::Socket)).expect("a child");
    while deaf.send(&[0; 60_000]).is_ok() {}
    let (mut ratios, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ratio::rounds(15, 61) {
        let floor = p99(&alone, &one, 300);
        // Each time it is tried again.
        assert!(deaf.send(b"more").is_err());
        ratios.push(p99(&both, &other, 300) / floor);
        floors.push(floor * 1e6);
    }
    let (ratio, floor) = (ratio::median(ratios), ratio::median(floors));
    println!("p99 of an echo beside a child that never reads: {ratio:.2} x alone; that: {floor:.0} us");
    ratio::verdict("× alone", ratio, Some(BESIDE * ratio::slack()))
}

/// From the end of its input until its status is here; nobody else looks at it.
#[expect(clippy::zombie_processes, reason = "the bare call takes the status")]
fn waitid() -> Duration {
    let mut cmd = std::process::Command::new("cat");
    cmd.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = cmd.spawn().expect("a child");
    let input = child.stdin.take();
    settle();
    let began = Instant::now();
    drop(input);
    // SAFETY: the struct is numbers, for which zero is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes one struct; the child is ours and not yet reaped.
    let waited = unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut info, libc::WEXITED) };
    let took = began.elapsed();
    assert_eq!(waited, 0);
    took
}

fn exit_event(spawner: &Spawner, events: &Events) -> Duration {
    let mut node = events.spawn(spawner, &cat()).expect("a child");
    let input = node.child().stdin.take();
    settle();
    let began = Instant::now();
    drop(input);
    let event = events.recv(Some(Duration::from_secs(10)));
    let took = began.elapsed();
    assert!(matches!(event, Some((_, Event::Exit { .. }))));
    took
}

/// Until the child is at its read.
fn settle() {
    std::thread::sleep(Duration::from_millis(1));
}

/// The writer is this program's own thread each time, so that the reader makes the difference.
fn frames() -> u32 {
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    let events = Events::new().expect("a receiver");
    let count = ratio::rounds(2000, 20_000);
    let (mut ratios, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ratio::rounds(9, 15) {
        let floor = bare(count).as_secs_f64();
        let ours = through(&spawner, &events, count).as_secs_f64();
        ratios.push(ours / floor);
        floors.push((count * LENGTH) as f64 / floor / 1e9);
    }
    let (ratio, floor) = (ratio::median(ratios), ratio::median(floors));
    println!("frames of 64 KiB: {:.2} x the throughput of a bare loop; that: {floor:.2} GB/s", 1.0 / ratio);
    ratio::verdict("× the time of a bare loop", ratio, Some(FRAMES * ratio::slack()))
}

/// Writes so many frames.
fn write(mut to: impl Write, count: usize) {
    let mut frame = (LENGTH as u32).to_be_bytes().to_vec();
    frame.resize(4 + LENGTH, b'x');
    for _ in 0..count {
        to.write_all(&frame).expect("a reader");
    }
}

/// A frame's length and payload, into the same memory each time.
fn bare(count: usize) -> Duration {
    let (mut read, to) = UnixStream::pair().expect("a socket");
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| write(&to, count));
        let mut payload = vec![0; LENGTH];
        for _ in 0..count {
            let mut header = [0; 4];
            read.read_exact(&mut header).expect("a header");
            read.read_exact(&mut payload).expect("a payload");
        }
    });
    began.elapsed()
}

/// The descriptor that the child has as number 3.
fn their_side(node: &mut Node) -> UnixStream {
    let pidfd = node.child().as_fd().as_raw_fd();
    // SAFETY: takes numbers only.
    let got = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd, 3, 0) };
    let got = i32::try_from(got).expect("a number");
    assert!(got > 2, "{}", std::io::Error::last_os_error());
    // SAFETY: it is new, and nobody else's.
    UnixStream::from(unsafe { OwnedFd::from_raw_fd(got) })
}

/// The child is there for its channel alone: we write to it by a descriptor of our own.
fn through(spawner: &Spawner, events: &Events, count: usize) -> Duration {
    let mut cmd = Command::new("sleep");
    let mut node = events.spawn(spawner, cmd.arg("600").channel(Transport::Socket)).expect("a child");
    let to = their_side(&mut node);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| write(&to, count));
        for _ in 0..count {
            let event = events.recv(Some(Duration::from_secs(10)));
            assert!(matches!(event, Some((_, Event::Frame(bytes))) if bytes.len() == LENGTH));
        }
    });
    let took = began.elapsed();
    drop(to);
    node.child().kill().expect("ours");
    // Ends with the exit.
    while !matches!(events.recv(Some(Duration::from_secs(10))), Some((_, Event::Exit { .. })) | None) {}
    took
}
