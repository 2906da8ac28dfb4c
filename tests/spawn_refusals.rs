//! Older kernels and the filters of others refuse calls that a spawn would like to make, with whatever errno
//! their author chose. The spawn works all the same, the record says what was done instead, and the child can
//! be stopped and reaped.

use std::{
    fs::{self, File},
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use pidward::{Command, Mechanism, SpawnErrorKind, Spawner, Stdio};
use pidward_core::spawn::{Cloning, Closing, ParentCheck, Pidfd, Placement};
use pidward_tests::{
    child::Again,
    fixture, in_child,
    leftovers::NoLeftovers,
    need, os, proc,
    report::Report,
    seccomp::Filter,
    skip::{self, cgroup2},
};

fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut cmd = Command::new(program);
    let (name, value) = guard.token();
    cmd.env(name, value).stdin(Stdio::null());
    cmd
}

/// Spawn, stop, exit code, error: all that a supervisor lives by. Gives the record of the spawns.
///
/// The spawner may be older than the refusal, and its thread think of the usual way; this thread begins anew.
fn whole_life(guard: &NoLeftovers, spawner: &Spawner) -> Mechanism {
    let mut mechanism = None;
    for here in [false, true] {
        let spawn = |cmd: &Command| if here { spawner.spawn_on_this_thread(cmd) } else { spawner.spawn(cmd) };
        let mut sleep = spawn(command(guard, "sleep").arg("1000")).expect("a child");
        assert_eq!(*mechanism.get_or_insert(sleep.mechanism()), sleep.mechanism());
        assert!(proc::alive(sleep.id()) && sleep.try_wait().unwrap().is_none());
        let report = sleep.stop(Duration::from_secs(20));
        assert!(!proc::alive(sleep.id()), "{report:?}");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&sleep.wait().unwrap()),
            Some(libc::SIGTERM)
        );
        let mut seven = spawn(command(guard, fixture!("exitwith")).arg("7")).expect("a child");
        assert_eq!(seven.wait().unwrap().code(), Some(7));
        let mut report = command(guard, fixture!("report"));
        let output = spawn(report.stdout(Stdio::piped())).expect("a child").wait_with_output().unwrap();
        let report = Report::parse(&output.stdout);
        assert_eq!(report.number("deathsig"), 15);
        for set in ["SigBlk", "SigIgn", "SigCgt"] {
            assert_eq!(report.set(set), 0, "{set}");
        }
        let error = spawn(&command(guard, "/no/such/program")).expect_err("there is none");
        assert_eq!(
            (error.kind(), error.raw_os_error()),
            (SpawnErrorKind::ProgramMissing, Some(libc::ENOENT))
        );
    }
    assert_eq!(proc::children(std::process::id()), [0; 0], "nobody is left to reap");
    mechanism.unwrap()
}

const ANSWERS: [i32; 3] = [libc::ENOSYS, libc::EPERM, libc::EINVAL];

const CLONE_VM: u64 = libc::CLONE_VM as u64;
const CLONE_THREAD: u64 = libc::CLONE_THREAD as u64;
const CLONE_PIDFD: u64 = libc::CLONE_PIDFD as u64;

/// Refuses `clone` with these flags, except for new threads.
fn clone_with(filter: Filter, flags: u64, errno: i32) -> Filter {
    filter.errno_if(libc::SYS_clone, 0, flags | CLONE_THREAD, flags, errno)
}

/// What is refused, and what the record has to say.
type Row = (&'static str, fn(Filter, i32) -> Filter, fn(&mut Mechanism));

const ROWS: &[Row] = &[
    ("nothing", |f, _| f, |_| {}),
    ("clone3", |f, e| f.errno(libc::SYS_clone3, e), |m| m.cloning = Cloning::Clone),
    (
        "a pidfd from the clone",
        |f, e| clone_with(f.errno(libc::SYS_clone3, e), CLONE_PIDFD, e),
        |m| (m.cloning, m.pidfd) = (Cloning::Clone, Pidfd::Opened),
    ),
    ("pidfd_open alone", |f, e| f.errno(libc::SYS_pidfd_open, e), |_| {}),
    (
        "every pidfd",
        |f, e| {
            let f = f.errno(libc::SYS_clone3, e).errno(libc::SYS_pidfd_open, e);
            clone_with(f, CLONE_PIDFD, e)
        },
        |m| (m.cloning, m.pidfd) = (Cloning::Clone, Pidfd::None),
    ),
    ("close_range", |f, e| f.errno(libc::SYS_close_range, e), |m| m.closing = Closing::Scan),
    (
        "close_range and a list of what is open",
        |f, e| f.errno(libc::SYS_close_range, e).errno_if(libc::SYS_getdents64, 2, u64::MAX, 128, e),
        |m| m.closing = Closing::CloseOnExec,
    ),
    (
        "shared memory",
        |f, e| clone_with(f.errno(libc::SYS_clone3, e), CLONE_VM, e),
        |m| m.cloning = Cloning::Fork,
    ),
    (
        "waitid by pidfd",
        |f, e| f.errno_if(libc::SYS_waitid, 0, u64::MAX, u64::from(libc::P_PIDFD), e),
        |_| {},
    ),
    ("signals by pidfd", |f, e| f.errno(libc::SYS_pidfd_send_signal, e), |_| {}),
];

fn usual(spawner: &Spawner) -> Mechanism {
    let mut child = spawner.spawn(&Command::new("true")).unwrap();
    child.wait().unwrap();
    child.mechanism()
}

#[test]
fn a_refused_call_changes_the_way_and_not_the_outcome() {
    const NAME: &str = "a_refused_call_changes_the_way_and_not_the_outcome";
    if let Ok(row) = std::env::var("PIDWARD_TEST_ROW") {
        let (row, errno) = row.split_once(' ').unwrap();
        let (name, refuse, change) = &ROWS[row.parse::<usize>().unwrap()];
        let guard = NoLeftovers::alone();
        // Made before: the C library knows no other way to make a thread where clone3 is not permitted.
        let spawner = Spawner::new().unwrap();
        let mut want = usual(&spawner);
        change(&mut want);
        refuse(Filter::new(), errno.parse().unwrap()).install();
        assert_eq!(whole_life(&guard, &spawner), want, "{name}");
        return;
    }
    let usual = usual(&Spawner::new().unwrap());
    assert_eq!((usual.placement, usual.parent_check), (Placement::NotAsked, ParentCheck::Ppid));
    for (row, (name, ..)) in ROWS.iter().enumerate() {
        for errno in ANSWERS {
            let again = Again::of(NAME).env("PIDWARD_TEST_ROW", &format!("{row} {errno}"));
            let fault = again.run().fault();
            assert!(fault.is_none(), "without {name}, answer {errno}: {}", fault.unwrap());
        }
    }
}

/// A group of its own, which goes whatever becomes of the test.
struct Leaf(std::path::PathBuf);

impl Leaf {
    fn new(place: &std::path::Path, name: &str) -> Leaf {
        let leaf = Leaf(place.join(format!("pidward-{name}-{}", std::process::id())));
        fs::create_dir(&leaf.0).unwrap();
        leaf
    }

    fn open(&self) -> OwnedFd {
        OwnedFd::from(File::open(&self.0).unwrap())
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        let gone = proc::until(proc::LIMIT, || fs::remove_dir(&self.0).is_ok());
        assert!(gone || std::thread::panicking(), "{} is still there", self.0.display());
    }
}

#[test]
fn a_refused_birth_in_a_cgroup_becomes_a_move_before_exec() {
    let Some(place) = cgroup2() else { pidward_tests::skip!("needs-cgroup2: a group to put a child in") };
    in_child!();
    let guard = NoLeftovers::alone();
    let leaf = Leaf::new(&place, "refusal");
    let spawner = Spawner::new().unwrap();
    let spawn = || {
        let mut cmd = command(&guard, fixture!("report"));
        cmd.cgroup(leaf.open()).stdout(Stdio::piped());
        let child = spawner.spawn(&cmd).expect("a child");
        let mechanism = child.mechanism();
        let report = Report::parse(&child.wait_with_output().unwrap().stdout);
        assert!(report.text("cgroup").ends_with(leaf.0.file_name().unwrap().to_str().unwrap()));
        mechanism.placement
    };
    let born = spawn();
    Filter::new().errno(libc::SYS_clone3, libc::EPERM).install();
    let moved = spawn();
    assert_eq!((born, moved), (Placement::Born, Placement::Wrote));
}

/// It would park its spawner in the clone.
#[test]
fn a_child_is_not_put_into_a_frozen_cgroup() {
    let Some(place) = cgroup2() else { pidward_tests::skip!("needs-cgroup2: a group to put a child in") };
    in_child!();
    let guard = NoLeftovers::alone();
    let leaf = Leaf::new(&place, "frozen");
    let spawner = Spawner::new().unwrap();
    let mut cmd = command(&guard, "true");
    cmd.cgroup(leaf.open());
    fs::write(leaf.0.join("cgroup.freeze"), "1").unwrap();
    proc::eventually("the group is frozen", || {
        fs::read_to_string(leaf.0.join("cgroup.events")).unwrap().contains("frozen 1")
    });
    let error = spawner.spawn(&cmd).expect_err("no child");
    assert_eq!((error.step(), error.raw_os_error()), (Some("enter cgroup"), Some(libc::EBUSY)), "{error}");
    fs::write(leaf.0.join("cgroup.freeze"), "0").unwrap();
    assert!(spawner.spawn(&cmd).expect("a child").wait().unwrap().success());
}

/// Closing one number after the other up to a limit like this would take minutes.
#[test]
fn a_huge_limit_of_descriptors_costs_nothing() {
    in_child!();
    let _guard = NoLeftovers::alone();
    // As high as the kernel goes; where that takes a right that is not ours, as high as we may.
    let most: u64 = fs::read_to_string("/proc/sys/fs/nr_open").unwrap().trim().parse().unwrap();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one rlimit.
    os::check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }.into()).unwrap();
    let huge = libc::rlimit { rlim_cur: 1_073_741_816.min(most), rlim_max: most };
    // SAFETY: reads one rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const huge) } == 0 {
        limit = huge;
    } else {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: reads one rlimit.
        os::check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }.into()).unwrap();
    }
    // And one descriptor is up there.
    let file = File::open("/dev/null").unwrap();
    let last = i32::try_from(limit.rlim_cur - 1).unwrap();
    // SAFETY: makes a copy of an open descriptor.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, last) }, last);
    let hundred = |closing| {
        let spawner = Spawner::new().unwrap();
        let mut took = Vec::new();
        for _ in 0..100 {
            let began = Instant::now();
            let mut child = spawner.spawn(&Command::new("true")).unwrap();
            took.push(began.elapsed());
            assert!(child.wait().unwrap().success());
            assert_eq!(child.mechanism().closing, closing);
        }
        took.sort_unstable();
        assert!(took[50] < Duration::from_millis(50), "{took:?}");
        let output = spawner.spawn(Command::new(fixture!("report")).stdout(Stdio::piped())).unwrap();
        assert_eq!(Report::parse(&output.wait_with_output().unwrap().stdout).fds(), [0, 1, 2]);
    };
    hundred(Closing::CloseRange);
    Filter::new().errno(libc::SYS_close_range, libc::EPERM).install();
    hundred(Closing::Scan);
}

#[test]
fn without_proc_and_close_range_close_on_exec_holds() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces: a place without /proc");
    in_child!(|again| again.in_pid_namespace());
    let _guard = NoLeftovers::alone();
    let listing = |spawner: &Spawner| {
        let mut cmd = Command::new("sh");
        // Asks for each number by opening what stands there; the shell has 10 for itself.
        cmd.args(["-c", "for n in 3 4 5 6 7 8 9; do (: <&$n) 2>/dev/null && echo $n; done; true"]);
        let mut child = spawner.spawn(cmd.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
        assert!(child.wait().unwrap().success());
        (child.mechanism().closing, text)
    };
    let spawner = Spawner::new().unwrap();
    assert_eq!(listing(&spawner), (Closing::CloseRange, String::new()));
    let none: *const libc::c_char = std::ptr::null();
    // SAFETY: all names end in NUL. The mount namespace is this process's own.
    let ret = unsafe { libc::mount(c"none".as_ptr(), c"/proc".as_ptr(), c"tmpfs".as_ptr(), 0, none.cast()) };
    assert_eq!(ret, 0, "{}", std::io::Error::last_os_error());
    assert_eq!(listing(&spawner), (Closing::CloseRange, String::new()));
    Filter::new().errno(libc::SYS_close_range, libc::ENOSYS).install();
    assert_eq!(listing(&spawner), (Closing::CloseOnExec, String::new()));
    assert_eq!(listing(&Spawner::new().unwrap()), (Closing::CloseOnExec, String::new()));
    // SAFETY: takes a name with its end.
    assert_eq!(unsafe { libc::umount2(c"/proc".as_ptr(), libc::MNT_DETACH) }, 0);
}

#[test]
fn a_supervisor_that_is_pid_1_is_no_orphans_parent() {
    need!(skip::has_namespaces(), "needs-namespaces: pid 1 of one");
    in_child!(|again| again.in_pid_namespace());
    assert_eq!(std::process::id(), 1);
    let guard = NoLeftovers::new();
    assert_eq!(whole_life(&guard, &Spawner::new().unwrap()).parent_check, ParentCheck::Ppid);
}

#[test]
fn a_child_outside_its_parents_pid_namespace_asks_the_pidfd() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces: children in another one");
    in_child!();
    let _guard = NoLeftovers::alone();
    // There can be no new thread afterwards.
    let spawner = Spawner::new().unwrap();
    // SAFETY: from here on children are in a new pid namespace. (The first is its pid 1.)
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
    // Only the thread that called has its children there.
    let mut child = spawner.spawn_on_this_thread(Command::new("cat").stdin(Stdio::piped()));
    let child = child.as_mut().expect("a child");
    assert_eq!(child.mechanism().parent_check, ParentCheck::Pidfd);
    assert!(child.wait().unwrap().success());
}

#[test]
fn after_unshare_of_the_time_namespace_children_start() {
    need!(os::is_root(), "needs-root: a time namespace");
    in_child!();
    let (guard, spawner) = (NoLeftovers::alone(), Spawner::new().unwrap());
    // SAFETY: takes a number only.
    if unsafe { libc::unshare(libc::CLONE_NEWTIME) } != 0 {
        pidward_tests::skip!("needs-namespaces: of time");
    }
    whole_life(&guard, &spawner);
}
