//! The guard and what its supervisor's program does to itself: it closes what is not its own, becomes another user, is to be spared when
//! memory runs out.

use std::{
    fs,
    io::Write,
    process::{Child, Command, Stdio},
    time::Duration,
};

use pidward::Spawner;
use pidward_tests::{
    announce::Board,
    files::TempDir,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os,
    place::{NOBODY, become_user},
    proc,
};

const GRACE: Duration = Duration::from_millis(300);

/// The fixture `supervisor`, which this command starts: its guard, when that stands, and its tree.
fn start(cmd: &mut Command, board: &Board, what: &str, kinds: &[&str]) -> (Child, u32) {
    cmd.arg(board.path()).arg(GRACE.as_millis().to_string()).arg(what).args(kinds);
    let supervisor = cmd.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a supervisor");
    let guard = board.wait_for_pid("guard");
    for word in kinds.iter().chain(&["ready", "supervisor"]) {
        board.wait_for(word);
    }
    proc::eventually("the guard stands", || proc::environ(guard).is_empty());
    (supervisor, guard)
}

#[track_caller]
fn nobody_soon(guard: &NoLeftovers, own: u32) {
    proc::eventually("nobody is left", || guard.left().is_empty());
    proc::eventually("the guard has ended", || proc::has_ended(own));
}

#[test]
fn the_guard_asks_to_be_the_last_that_is_ended_for_want_of_memory() {
    let has_strace =
        Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    need!(has_strace, "needs-strace: sees what is asked for, also where it is refused");
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command("strace");
    // A log for each process.
    cmd.args(["-ff", "-qq", "-e", "trace=write", "-o"]).arg(dir.at("log")).arg(fixture!("supervisor"));
    let (mut strace, own) = start(&mut cmd, &board, "wait", &["child"]);
    let log = fs::read_to_string(dir.at(format!("log.{own}"))).expect("its log");
    let asked = log.lines().find(|line| line.contains("\"-1000\", 5)")).unwrap_or_else(|| panic!("{log}"));
    let score = |pid: u32| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("it lives");
    let supervisor = board.wait_for_pid("supervisor");
    let granted = asked.ends_with("= 5");
    assert_eq!(score(own), if granted { "-1000\n".to_owned() } else { score(supervisor) });
    assert_eq!(score(board.wait_for_pid("child")), score(supervisor), "nobody else");
    os::signal_pid(supervisor, libc::SIGKILL).expect("it lives");
    nobody_soon(&guard, own);
    strace.wait().expect("its end");
}

/// A fault of its own would run a handler of the host, whatever it blocks. Every program of Rust has some, and ignores SIGPIPE.
#[test]
fn no_handler_of_its_supervisor_is_left_in_the_guard() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let mut cmd = guard.command(fixture!("supervisor"));
    let (mut supervisor, own) = start(&mut cmd, &Board::at(dir.at("board")), "wait", &["child"]);
    let sets = |pid| {
        let set = |name| proc::status(pid, name).and_then(|set| u64::from_str_radix(&set, 16).ok());
        [set("SigCgt").expect("its status"), set("SigIgn").expect("its status")]
    };
    assert!(sets(supervisor.id()).iter().all(|set| *set != 0), "{:x?}", sets(supervisor.id()));
    assert_eq!(sets(own), [0, 0]);
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    nobody_soon(&guard, own);
}

#[test]
fn a_host_that_closes_all_its_descriptors_keeps_its_tree_and_its_guard() {
    in_child!();
    let guard = NoLeftovers::alone();
    let dir = TempDir::new();
    let board = Board::at(dir.at("board"));
    let mut cmd = guard.command(fixture!("supervisor"));
    let (mut supervisor, own) = start(&mut cmd, &board, "close", &["child", "daemon"]);
    let waits = || proc::state(own) == Some('S');
    proc::eventually("the guard waits", waits);
    let all = guard.left().len();
    let slept = || proc::status(own, "voluntary_ctxt_switches").and_then(|count| count.parse::<u64>().ok());
    let before = slept().expect("its status");
    let file = fs::OpenOptions::new().append(true).open(board.path());
    file.and_then(|mut file| file.write_all(b"go\n")).expect("a word on the board");
    board.wait_for("closed");
    proc::eventually("it has looked", || proc::has_ended(own) || slept() > Some(before) && waits());
    // It would have begun by now.
    let harmed = || proc::has_ended(own) || guard.left().len() < all;
    assert!(!proc::until(GRACE * 4, harmed), "no end of the supervisor: {:?}", guard.left());
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    nobody_soon(&guard, own);
}

#[test]
fn a_host_that_has_become_another_user_leaves_no_guard() {
    need!(os::is_root(), "needs-root: to become another user");
    in_child!();
    let spawner = Spawner::new().expect("a spawner");
    let own = spawner.guard_pid().expect("a guard");
    proc::eventually("it stands", || proc::cmdline(own).is_empty());
    become_user(NOBODY);
    let refused = os::signal_pid(own, 0).expect_err("it is root's").raw_os_error();
    assert_eq!(refused, Some(libc::EPERM));
    assert!(spawner.shutdown(GRACE).is_complete());
    proc::eventually("it is gone, reaped too", || proc::state(own).is_none());
}
