//! Faults that other programs have had and that no other file here shows: cost that grows with memory, set-user-id helpers, a job
//! that is stopped at a terminal, children that an ordinary wait does not find.

use std::{
    fs,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    time::{Duration, Instant},
};

use pidward::{ChildState, Command, Signal, Spawner, Stdio};
use pidward_tests::{
    files::TempDir, fixture, in_child, leftovers::NoLeftovers, need, os, proc, pty::Pty, report::Report,
    rounds::rounds,
};

/// A command that the guard knows.
fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut cmd = Command::new(program);
    let (name, value) = guard.token();
    cmd.env(name, value).stdin(Stdio::null());
    cmd
}

/// The median time of a spawn, in each of two ways: every promise on, and with further options.
fn medians(guard: &NoLeftovers, spawner: &Spawner) -> [Duration; 2] {
    let plain = command(guard, fixture!("exitwith"));
    let mut options = command(guard, fixture!("exitwith"));
    options
        .umask(0o22)
        .nice(1)
        .oom_score_adj(1)
        .current_dir("/")
        .no_new_privs(true)
        .death_signal(Some(Signal::HUP));
    [plain, options].map(|cmd| {
        let mut times: Vec<Duration> = (0..rounds(40, 200))
            .map(|_| {
                let begun = Instant::now();
                let mut child = spawner.spawn_on_this_thread(&cmd).expect("a child");
                let took = begun.elapsed();
                child.wait().expect("a status");
                assert!(
                    child.mechanism().shares_memory(),
                    "an option has changed the way: {:?}",
                    child.mechanism()
                );
                took
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    })
}

#[test]
fn a_large_supervisor_spawns_as_fast_as_a_small_one() {
    need!(pidward_tests::skip::has_memory(3), "needs-memory: 3 GiB of memory that nobody uses");
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let small = medians(&guard, &spawner);
    let mut memory = vec![0u8; 1 << 30];
    memory.chunks_mut(4096).for_each(|page| page[0] = 1);
    let large = medians(&guard, &spawner);
    std::hint::black_box(&memory);
    // A plain fork of this one takes ten times as long.
    for (small, large) in small.into_iter().zip(large) {
        assert!(large < small * 2 + Duration::from_millis(1), "{small:?} when small, {large:?} with 1 GiB");
    }
}

#[test]
fn a_set_user_id_helper_has_its_rights_unless_it_was_to_have_none() {
    need!(os::is_root(), "needs-root: to become another user");
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    fs::set_permissions(dir.at(""), fs::Permissions::from_mode(0o755)).expect("an open directory");
    let helper = dir.at("helper");
    fs::copy(fixture!("report"), &helper).expect("a copy");
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o4755)).expect("a set-user-id bit");
    let spawner = Spawner::new().expect("a spawner");
    // Real, effective, saved and file-system user.
    let users = |no_new_privs: bool| {
        let mut cmd = command(&guard, &helper);
        cmd.uid(65534).gid(65534).stdout(Stdio::piped()).nice(1).umask(0o22).no_new_privs(no_new_privs);
        let output = spawner.spawn(&cmd).expect("a child").wait_with_output().expect("its output");
        assert!(output.status.success(), "{:?}", output.status);
        let report = Report::parse(&output.stdout);
        report.text("Uid").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(users(false)[..2], ["65534", "0"]);
    assert_eq!(users(true)[..2], ["65534", "65534"]);
}

/// Makes the calling process the leader of a session with this terminal; the terminal.
fn sit_down_at(pty: &Pty) -> fs::File {
    // The leader of a group can lead no new session.
    let own = std::process::id();
    let above = proc::ppid(own).and_then(proc::pgid).expect("the group of our parent");
    // SAFETY: takes numbers only.
    os::check(unsafe { libc::setpgid(0, above.cast_signed()) }.into()).expect("out of our group");
    // SAFETY: takes nothing.
    os::check(unsafe { libc::setsid() }.into()).expect("a session");
    let terminal = fs::File::options().read(true).write(true).open(pty.slave()).expect("the terminal");
    // SAFETY: takes numbers only.
    os::check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }.into())
        .expect("a controlling terminal");
    terminal
}

#[test]
fn a_child_that_touches_the_terminal_from_the_background_is_seen_stopped_and_still_stops() {
    in_child!();
    let guard = NoLeftovers::alone();
    let pty = Pty::open().expect("a terminal");
    // The line is closed in the end, which the leader of a session is told by a signal.
    os::ignore(libc::SIGHUP).expect("SIGHUP ignored");
    let terminal = sit_down_at(&pty);
    let spawner = Spawner::new().expect("a spawner");
    for script in ["stty sane", "read line"] {
        let mut cmd = command(&guard, "sh");
        cmd.args(["-c", script]).stdin(Stdio::from(terminal.try_clone().expect("a copy")));
        let mut child = spawner.spawn(&cmd).expect("a child");
        let stopped = || matches!(child.state(), Ok(ChildState::Stopped(Signal::TTOU | Signal::TTIN)));
        assert!(proc::until(Duration::from_secs(1), stopped), "{script}: {:?}", child.state());
        let begun = Instant::now();
        let report = child.stop(Duration::from_secs(20));
        assert!(report.is_complete(), "{report:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{script}: SIGCONT did not follow SIGTERM");
    }
}

#[test]
fn an_ordinary_wait_finds_a_child_by_shared_memory_and_by_plain_fork() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    // SAFETY: asks only.
    let own = unsafe { libc::getuid() };
    // By shared memory, and by plain fork.
    for uid in [None, Some(own)] {
        let mut cmd = command(&guard, "cat");
        cmd.stdin(Stdio::piped());
        if let Some(uid) = uid {
            cmd.uid(uid);
        }
        let mut child = spawner.spawn(&cmd).expect("a child");
        assert_eq!(child.mechanism().shares_memory(), uid.is_none());
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("its stat");
        // Field 38 is the signal at its end; the name of this program holds no blank.
        assert_eq!(stat.split_whitespace().nth(37), Some(libc::SIGCHLD.to_string().as_str()), "{stat}");
        assert!(child.wait().expect("a status").success());
    }
}

#[test]
fn the_program_can_change_its_user_beside_a_spawner() {
    need!(os::is_root(), "needs-root: to become another user");
    in_child!();
    let guard = NoLeftovers::alone();
    let spawner = Spawner::new().expect("a spawner");
    let mut child = spawner.spawn(&command(&guard, "true")).expect("a child");
    // The C library signals every thread and waits for each: this would hang, and be ended with the process.
    // SAFETY: takes a number only.
    os::check(unsafe { libc::setuid(65534) }.into()).expect("another user");
    assert!(child.wait().expect("a status").success());
    assert!(spawner.spawn(&command(&guard, "true")).expect("a child").wait().expect("a status").success());
}
