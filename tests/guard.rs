//! The guard: whatever way a supervisor ends, nobody of its tree is left after the grace; and the guard itself is no burden.

use std::{
    fs,
    io::Write,
    net::TcpStream,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use pidward_tests::{
    announce::Board,
    cgroup::MemoryGroup,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os, proc,
    rounds::{median, rounds},
    skip,
};

const GRACE: Duration = Duration::from_millis(300);
/// Everything that a tree can be made of and that carries its environ.
const ALL: [&str; 8] = ["child", "grandchild", "daemon", "stopped", "deaf", "mixed", "listener", "storm:200"];
/// As many processes with an environ: the leader, the parent of the grandchild, the end of the storm and the others.
const COUNT: usize = 10;

/// A supervisor and its tree, all there.
struct Supervised {
    supervisor: Child,
    guard: u32,
    board: Board,
    _dir: TempDir,
}

impl Supervised {
    fn start(guard: &NoLeftovers, what: &str, kinds: &[&str]) -> Supervised {
        let mut cmd = guard.command(fixture!("supervisor"));
        Supervised::of(&mut cmd, what, kinds)
    }

    fn of(cmd: &mut Command, what: &str, kinds: &[&str]) -> Supervised {
        let dir = TempDir::new();
        let board = Board::at(dir.at("board"));
        cmd.arg(board.path()).arg(GRACE.as_millis().to_string()).arg(what).args(kinds);
        let supervisor = cmd.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a supervisor");
        let guard = board.wait_for_pid("guard");
        for kind in kinds.iter().filter(|kind| **kind != "exit") {
            board.wait_for(kind.split(':').next().unwrap_or_default());
        }
        board.wait_for("ready");
        if ["wait", "here", "rewrite", "eat"].contains(&what.split(':').next().unwrap_or_default()) {
            board.wait_for("written");
        }
        Supervised { supervisor, guard, board, _dir: dir }
    }

    /// The last guard it has told of, once it has answered.
    fn ask(&mut self) -> (usize, u32) {
        let before = self.board.lines().len();
        self.supervisor.stdin.as_mut().expect("piped").write_all(b"?\n").expect("it reads");
        proc::eventually("its answer", || self.board.lines().len() >= before + 2);
        let lines = self.board.lines();
        let number = |line: &str| line.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
        let [fds, guard] = [&lines[before], &lines[before + 1]].map(|line| number(line));
        (fds, u32::try_from(guard).expect("a pid"))
    }

    /// The word that a supervisor waits for before it ends.
    fn go(&self) {
        let board = fs::OpenOptions::new().append(true).open(self.board.path());
        board.and_then(|mut board| board.write_all(b"go\n")).expect("a word on the board");
    }

    fn kill(mut self) {
        self.supervisor.kill().expect("it lives");
        self.supervisor.wait().expect("ours");
    }
}

/// Nobody who carries the entry lives; and how long that took, within limits that hold on a busy machine too.
#[track_caller]
fn nobody_soon(guard: &NoLeftovers, what: &str) -> Duration {
    let began = Instant::now();
    proc::eventually("nobody is left", || guard.left().is_empty());
    let took = began.elapsed();
    assert!(took < GRACE + Duration::from_secs(10), "{what}: {took:?}");
    took
}

/// Ends it: it is not ours, but was named by a supervisor that is.
fn hit(pid: u32, signal: i32) {
    assert!(pid > 1 && proc::is_guard(pid));
    os::signal_pid(pid, signal).expect("it lives");
}

#[test]
fn a_supervisor_killed_at_any_moment_leaves_nobody_behind() {
    in_child!(|again| again.limit(Duration::from_secs(1500)));
    let mut took = Vec::new();
    for round in 0..rounds(6, 200) {
        let guard = NoLeftovers::alone();
        let tree = Supervised::start(&guard, "wait", &ALL);
        // The supervisor and the leader count, the storm's dead do not.
        proc::eventually("all of the tree", || guard.left().len() > COUNT);
        let port = tree.board.wait_for("listener");
        let address = format!("127.0.0.1:{port}");
        assert!(TcpStream::connect(&address).is_ok(), "somebody listens");
        std::thread::sleep(Duration::from_micros((round as u64 * 7919) % 20_000));
        let own = tree.guard;
        tree.kill();
        took.push(nobody_soon(&guard, "killed"));
        assert!(TcpStream::connect(&address).is_err(), "the port is free");
        proc::eventually("the guard has ended", || proc::has_ended(own));
        os::reap_orphans();
    }
    let median = median(took);
    assert!(median < GRACE + Duration::from_secs(2), "{median:?}");
}

#[test]
fn whoever_is_in_the_group_or_session_of_a_carrier_ends_too() {
    need!(skip::has_first_choices(), "needs-kernel-6.15: signals a group by its leader's pidfd");
    in_child!();
    let guard = NoLeftovers::alone();
    for kind in ["mixed", "spread"] {
        let tree = Supervised::start(&guard, "wait", &[kind]);
        let leader = tree.board.wait_for_pid(kind);
        let member =
            || proc::pids().into_iter().find(|pid| *pid != leader && proc::sid(*pid) == Some(leader));
        let bare = member().expect("a member");
        proc::eventually("exec", || proc::environ(bare).is_empty() && proc::cmdline(bare).contains("sleep"));
        assert_eq!(proc::pgid(bare), Some(if kind == "mixed" { leader } else { bare }));
        tree.kill();
        proc::eventually("the member has ended", || proc::has_ended(bare));
        nobody_soon(&guard, "killed");
    }
}

#[test]
fn however_a_supervisor_ends_its_tree_ends_too() {
    in_child!();
    for what in ["exit", "panic", "abort", "exec"] {
        let guard = NoLeftovers::alone();
        let mut tree = Supervised::start(&guard, what, &["grandchild", "daemon", "deaf"]);
        proc::eventually("all of the tree", || guard.left().len() >= 6);
        tree.go();
        if what == "exec" {
            let own = tree.supervisor.id();
            proc::eventually("nobody else is left", || guard.left() == [own]);
            tree.kill();
        } else {
            tree.supervisor.wait().expect("ours");
        }
        nobody_soon(&guard, what);
    }
}

#[test]
fn a_shutdown_takes_the_guard_away() {
    in_child!();
    let guard = NoLeftovers::alone();
    let tree = Supervised::start(&guard, "drop", &["deaf"]);
    let own = tree.guard;
    tree.go();
    tree.board.wait_for("shut");
    let began = Instant::now();
    proc::eventually("it is gone, reaped too", || proc::state(own).is_none());
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(proc::all_children(tree.supervisor.id()), [] as [u32; 0]);
    tree.kill();
}

#[test]
fn the_guard_holds_nothing_of_its_supervisor() {
    in_child!();
    let guard = NoLeftovers::alone();
    let tree = Supervised::start(&guard, "host", &["exit"]);
    let (own, supervisor) = (tree.guard, tree.supervisor.id());
    proc::eventually("it stands", || proc::environ(own).is_empty() && proc::cmdline(own).is_empty());
    assert_eq!((proc::sid(own), proc::pgid(own)), (Some(own), Some(own)), "a session of its own");
    assert_eq!(proc::ppid(own), Some(supervisor));
    assert_eq!(fs::read_link(format!("/proc/{own}/cwd")).ok().as_deref(), Some("/".as_ref()));
    let names: Vec<String> = proc::fds(own).into_iter().map(|(_, path)| path.display().to_string()).collect();
    let known = |name: &String| name == "/proc" || name.starts_with("pipe:") || name.contains("pidfd");
    assert!(names.len() == 3 && names.iter().all(known), "{names:?}");
    assert_eq!(
        proc::status(own, "SigBlk").as_deref(),
        Some("fffffffffffbfeff"),
        "all but SIGKILL and SIGSTOP"
    );
    // A `waitpid` for any child does not see it.
    assert_eq!(tree.board.wait_for("waited"), libc::ECHILD.to_string());
    tree.kill();
    nobody_soon(&guard, "killed");
    proc::eventually("the guard has ended", || proc::has_ended(own));
}

#[test]
fn signals_do_not_touch_the_guard_and_a_stopped_one_goes_on() {
    in_child!();
    let guard = NoLeftovers::alone();
    let mut tree = Supervised::start(&guard, "wait", &["deaf"]);
    let own = tree.guard;
    proc::eventually("it stands", || proc::environ(own).is_empty());
    for signal in (1..=64).filter(|n| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT, 32, 33].contains(n)) {
        hit(own, signal);
    }
    hit(own, libc::SIGSTOP);
    proc::eventually("it is stopped", || proc::state(own) == Some('T'));
    proc::eventually("it goes on", || proc::state(own) == Some('S'));
    assert_eq!(tree.ask().1, own, "the same");
    tree.kill();
    nobody_soon(&guard, "killed");
}

#[test]
fn a_killed_guard_is_replaced_and_nothing_is_left_of_it() {
    in_child!(|again| again.limit(Duration::from_secs(300)));
    let guard = NoLeftovers::alone();
    let mut tree = Supervised::start(&guard, "wait", &["daemon"]);
    let (fds, mut own) = tree.ask();
    for round in 0..rounds(10, 100) {
        proc::eventually("it stands", || proc::is_guard(own));
        hit(own, libc::SIGKILL);
        let began = Instant::now();
        let mut next = own;
        proc::eventually("another", || {
            next = tree.ask().1;
            next != 0 && next != own
        });
        assert!(began.elapsed() < Duration::from_secs(1), "round {round}: {:?}", began.elapsed());
        assert_eq!(proc::state(own), None, "no zombie of it");
        own = next;
    }
    assert_eq!(tree.ask().0, fds, "no descriptor is left open");
    let children = proc::all_children(tree.supervisor.id());
    assert_eq!(children.len(), 2, "one guard and the tree: {children:?}");
    // The last one does its work as the first would have.
    tree.kill();
    nobody_soon(&guard, "killed");
}

#[test]
fn the_guard_stays_small_whatever_its_supervisor_does() {
    need!(skip::has_memory(3), "needs-memory: a supervisor that has touched a gigabyte");
    in_child!();
    let guard = NoLeftovers::alone();
    let tree = Supervised::start(&guard, "rewrite:1024", &["daemon"]);
    tree.board.wait_for("written");
    let rollup =
        fs::read_to_string(format!("/proc/{}/smaps_rollup", tree.guard)).expect("root, or the same user");
    let private: u64 = ["Private_Clean:", "Private_Dirty:"]
        .iter()
        .filter_map(|key| rollup.lines().find_map(|line| line.strip_prefix(key)))
        .filter_map(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok())
        .sum();
    println!("private memory of the guard: {private} KiB");
    assert!(private > 0 && private <= 1024, "{private} KiB");
    tree.kill();
    nobody_soon(&guard, "killed");
}

#[test]
fn a_supervisor_ended_for_want_of_memory_takes_its_tree_along() {
    const LIMIT: u64 = 64 << 20;
    need!(MemoryGroup::of(LIMIT).is_some(), "needs-memory-group: a cgroup that limits memory");
    in_child!();
    let guard = NoLeftovers::alone();
    let group = MemoryGroup::of(LIMIT).expect("as above");
    let mut cmd = guard.command("/bin/sh");
    cmd.args(["-c", "echo 0 >\"$0\"; exec \"$@\""]).arg(group.procs()).arg(fixture!("supervisor"));
    let mut tree = Supervised::of(&mut cmd, "eat:256", &["daemon", "deaf"]);
    let own = tree.guard;
    tree.supervisor.stdin.as_mut().expect("piped").write_all(b"?\n").expect("it reads");
    let status = tree.supervisor.wait().expect("ours");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    nobody_soon(&guard, "out of memory");
    proc::eventually("the guard has ended", || proc::has_ended(own));
}

/// The supervisor starts a child on its main thread, and is killed by strace at one system call of that.
#[test]
fn a_supervisor_killed_at_any_call_of_a_spawn_leaves_nobody_behind() {
    let has_strace =
        Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    need!(has_strace, "needs-strace: kills at one system call");
    in_child!(|again| again.limit(Duration::from_secs(900)));
    let run = |inject: Option<usize>| {
        let guard = NoLeftovers::alone();
        let dir = TempDir::new();
        let (board, log) = (Board::at(dir.at("board")), dir.at("log"));
        let mut cmd = guard.command("strace");
        cmd.args(["-qq", "-o"]).arg(&log);
        if let Some(n) = inject {
            cmd.arg("-e").arg(format!("inject=all:signal=SIGKILL:when={n}"));
        }
        cmd.arg(fixture!("supervisor")).arg(board.path()).arg(GRACE.as_millis().to_string());
        let mut strace = cmd.args(["here", "daemon", "deaf"]).stdin(Stdio::piped()).spawn().expect("strace");
        // One that makes fewer calls than the first did is killed when its tree stands.
        let stands = || board.lines().iter().any(|line| line.starts_with("supervisor "));
        proc::eventually("its end", || stands() || strace.try_wait().expect("ours").is_some());
        if stands() {
            // Gone meanwhile, if it was killed at its very last call.
            let _ = os::signal_pid(board.wait_for_pid("supervisor"), libc::SIGKILL);
        }
        proc::eventually("strace has ended", || strace.try_wait().expect("ours").is_some());
        nobody_soon(&guard, &format!("call {inject:?}"));
        (fs::read_to_string(log).expect("its log"), board.lines())
    };
    // From the announcement of the guard to that of the tree.
    let (log, _) = run(None);
    let at = |word: &str| log.lines().position(|line| line.contains(word)).expect("an announcement") + 1;
    let (first, last) = (at("\"guard "), at("\"supervisor "));
    println!("system calls of a spawn: {}", last - first);
    assert!(last > first + 10, "{log}");
    for call in (first + 1..=last).step_by(rounds(5, 1)) {
        let (_, lines) = run(Some(call));
        assert!(lines.iter().any(|line| line.starts_with("guard ")), "call {call}: {lines:?}");
    }
}
