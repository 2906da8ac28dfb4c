//! What a receiver costs its host: threads, descriptors, memory; and what must not show on the child's side.

use std::{
    fs,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    time::{Duration, Instant},
};

use pidward::{ChannelLimits, Events, ProtocolErrorKind, Ready, SendError, Spawner, Transport};
use pidward_tests::{
    channel::{LIMIT, frame, next, print, to_exit, word},
    in_child,
    leftovers::NoLeftovers,
    proc,
    pty::Pty,
    seccomp::Filter,
};

const TRANSPORTS: [Transport; 3] = [Transport::Socket, Transport::Stdio, Transport::Lines];

fn count(dir: &str) -> usize {
    fs::read_dir(dir).expect("a directory of /proc").count()
}

/// Resident memory, and the most there ever was, in KiB.
fn memory(key: &str) -> u64 {
    let text = proc::status(std::process::id(), key).expect("a line of memory");
    text.trim_end_matches(" kB").trim().parse().expect("KiB")
}

#[test]
fn length_that_a_stray_word_made_up_takes_no_memory() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    // Once before, so that everything that is needed anyway is there.
    let run = |length: u32, expected: &str| {
        let mut cmd = guard.shell(&format!("{}; exec sleep 1000", print(&length.to_be_bytes())));
        let mut node = events.spawn(&spawner, cmd.channel(Transport::Stdio)).unwrap();
        if length > 16 << 20 {
            assert_eq!(word(&next(&events).1), expected);
        } else {
            assert!(events.recv(Some(Duration::from_millis(300))).is_none());
        }
        node.child().kill().unwrap();
        to_exit(&events)
    };
    let kind = ProtocolErrorKind::TooLarge { length: u32::MAX.into(), cap: 16 << 20 };
    let expected = format!("protocol {kind:?}");
    run(u32::MAX, &expected);
    let before = memory("VmHWM");
    assert_eq!(run(u32::MAX, &expected), ["exit -1"]);
    assert_eq!(run(16 << 20, ""), ["protocol Cut", "exit -1"]);
    let grown = memory("VmHWM") - before;
    assert!(grown < 1024, "{grown} KiB");
}

#[test]
fn flags_of_ours_do_not_show_on_the_childs_side() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let own = || {
        [0, 1, 2].map(|fd| {
            // SAFETY: takes numbers only.
            unsafe { libc::fcntl(fd, libc::F_GETFL) }
        })
    };
    let before = own();
    for transport in TRANSPORTS {
        let number = if transport == Transport::Socket { 3 } else { 1 };
        let script = format!(
            "for fd in 0 {number} 2; do while read -r key value; do test $key != flags: || echo $value >&2; done </proc/$$/fdinfo/$fd; done"
        );
        let mut cmd = guard.shell(&script);
        let _node = events.spawn(&spawner, cmd.channel(transport).stderr_events(true)).unwrap();
        let words = to_exit(&events);
        let flags: Vec<i32> = words
            .iter()
            .filter_map(|word| i32::from_str_radix(word.strip_prefix("stderr ")?, 8).ok())
            .collect();
        assert_eq!(flags.len(), 3, "{words:?}");
        assert!(flags[1..].iter().all(|flags| flags & libc::O_NONBLOCK == 0), "{transport:?} {flags:?}");
        assert_eq!(
            flags[0] & libc::O_NONBLOCK,
            if transport == Transport::Socket { before[0] & libc::O_NONBLOCK } else { 0 }
        );
    }
    assert_eq!(own(), before);
}

/// Nor on a terminal that it gets, whose flags everybody has who has it open: a shell with one that does not block ends.
#[test]
fn flags_of_ours_show_neither_on_a_terminal_nor_on_the_other_pipes() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (Spawner::new().unwrap(), Events::new().unwrap());
    let pty = Pty::open().unwrap();
    let terminal =
        fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(pty.slave());
    let terminal = terminal.unwrap();
    // SAFETY: takes numbers only.
    let own = || unsafe { libc::fcntl(terminal.as_raw_fd(), libc::F_GETFL) };
    let before = own();
    for transport in TRANSPORTS {
        let number = if transport == Transport::Socket { 3 } else { 1 };
        let script = format!(
            "echo >&7; for fd in 0 {number} 2 7 8; do while read -r key value; do test $key != flags: || echo $value >&2; done </proc/$$/fdinfo/$fd; done"
        );
        let mut cmd = guard.shell(&script);
        cmd.channel(transport)
            .stderr_events(true)
            .ready(Ready::Fd(7), LIMIT)
            .pass_fd(terminal.try_clone().unwrap(), 8);
        if transport == Transport::Socket {
            cmd.stdin(terminal.try_clone().unwrap());
        }
        let _node = events.spawn(&spawner, &cmd).unwrap();
        let words = to_exit(&events);
        let flags =
            words.iter().filter_map(|word| i32::from_str_radix(word.strip_prefix("stderr ")?, 8).ok());
        let flags: Vec<i32> = flags.collect();
        assert_eq!(flags.len(), 5, "{words:?}");
        assert!(flags.iter().all(|flags| flags & libc::O_NONBLOCK == 0), "{transport:?} {flags:?}");
        assert!(words.contains(&"ready".to_string()), "{words:?}");
        assert_eq!(own(), before);
    }
}

#[test]
fn child_that_cannot_be_started_leaves_nothing() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let before = count("/proc/self/fd");
    for transport in TRANSPORTS {
        let mut cmd = pidward::Command::new("/nonexistent/program");
        cmd.channel(transport).stderr_events(true);
        assert_eq!(events.spawn(&spawner, &cmd).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        let mut cmd = guard.shell("exit");
        cmd.channel(transport).stderr_events(true).current_dir("/nonexistent");
        assert_eq!(events.spawn(&spawner, &cmd).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        // From no descriptor at all to one too few.
        for spare in 0..12 {
            let mut cmd = guard.shell("exit");
            let limited = with_descriptors(spare, || {
                events.spawn(&spawner, cmd.channel(transport).stderr_events(true))
            });
            if let Ok(node) = limited {
                to_exit(&events);
                drop(node);
            }
        }
        // The spawner's own threads open one now and then.
        proc::eventually("all descriptors are closed", || count("/proc/self/fd") <= before);
        assert!(events.try_recv().is_none());
    }
    drop(spawner);
}

/// Runs it while so many descriptors more can be opened.
fn with_descriptors<R>(spare: usize, run: impl FnOnce() -> R) -> R {
    let old = {
        let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes one limit.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old) };
        old
    };
    // Those that are free below the highest one in use are used up.
    let mut fillers = Vec::new();
    let top = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .max();
    let top: i32 = top.expect("some");
    loop {
        let filler = fs::File::open("/dev/null").unwrap();
        if filler.as_raw_fd() > top {
            break;
        }
        fillers.push(filler);
    }
    let limit = libc::rlimit { rlim_cur: (top as u64) + 1 + spare as u64, rlim_max: old.rlim_max };
    // SAFETY: reads one limit.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    let result = run();
    // SAFETY: reads one limit.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const old) };
    result
}

#[test]
fn dropped_node_and_dropped_spawner_do_not_stop_the_events() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let events = Events::new().unwrap();
    let script = format!("sleep 0.3; {}; exit 12", print(&frame(b"late")));
    let mut cmd = guard.shell(&script);
    drop(events.spawn(&spawner, cmd.channel(Transport::Stdio)).unwrap());
    assert_eq!(to_exit(&events), ["frame late", "closed", "exit 12"]);
    // With the last spawner goes the child that nobody owns: its channel ends, and its exit comes.
    let node = events.spawn(&spawner, &cmd).unwrap();
    drop(node.into_child());
    drop(spawner);
    let words = to_exit(&events);
    assert_eq!(words.last().map(String::as_str), Some("exit -1"), "{words:?}");
}

#[test]
fn without_events_a_wait_ends_in_time() {
    let events = Events::new().unwrap();
    let began = Instant::now();
    assert!(events.try_recv().is_none());
    assert!(events.recv(Some(Duration::from_millis(50))).is_none());
    let took = began.elapsed();
    assert!(Duration::from_millis(50) <= took && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(ChannelLimits::default().drain, Duration::from_secs(1));
}

/// A fork of the host has the descriptors of all channels, and must neither take a frame away nor send one.
#[test]
fn forked_copy_takes_and_sends_nothing() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::builder().guard(false).build().unwrap();
    let events = Events::new().unwrap();
    let mut cmd = guard.shell("exec cat <&$PIDWARD_CHANNEL >&$PIDWARD_CHANNEL");
    let node = events.spawn(&spawner, cmd.channel(Transport::Socket)).unwrap();
    node.send(b"ours").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // SAFETY: the copy reads its pid, touches its own memory and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let nothing = events.try_recv().is_none() && node.send(b"copy's") == Err(SendError::Closed);
        drop(events);
        // SAFETY: ends the copy without a word.
        unsafe { libc::_exit(if nothing { 0 } else { 1 }) };
    }
    assert!(pid > 1);
    let mut status = 0;
    // SAFETY: writes one number.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
    node.close();
    assert_eq!(to_exit(&events), ["frame ours", "closed", "exit 0"]);
}

#[test]
fn child_that_cannot_be_watched_is_ended_and_reaped() {
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::builder().guard(false).build().unwrap();
    let events = Events::new().unwrap();
    let mut before = None;
    // Of this thread alone: the spawner's own can watch.
    Filter::new().errno(libc::SYS_epoll_ctl, libc::ENOSPC).install();
    for transport in TRANSPORTS.iter().cycle().take(6).copied() {
        let mut cmd = guard.shell("exec sleep 1000");
        let error = events.spawn(&spawner, cmd.channel(transport).stderr_events(true)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
        assert_eq!(guard.left(), Vec::<u32>::new());
        // Once the spawner has opened `/proc`, to look for descendants.
        let before = *before.get_or_insert_with(|| count("/proc/self/fd"));
        proc::eventually("all descriptors are closed", || count("/proc/self/fd") <= before);
    }
    assert!(events.try_recv().is_none());
}
