//! What the caller sets arrives as it was set: limits and names of every kind, up to the longest string the
//! kernel takes. And what a child has used comes back with its end.

use std::{
    fs,
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    time::{Duration, Instant},
};

use pidward::{Command, Resource, SpawnErrorKind, Spawner, Stdio};
use pidward_tests::{
    files::TempDir, fixture, in_child, leftovers::NoLeftovers, need, os, proc, report::Report,
};

/// A command that the guard knows.
fn command(guard: &NoLeftovers, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut cmd = Command::new(program);
    let (name, value) = guard.token();
    cmd.env(name, value).stdin(Stdio::null());
    cmd
}

/// What the program says of itself, started both ways: by a spawner, and by the thread that asks.
fn run(cmd: &mut Command) -> [Report; 2] {
    cmd.stdout(Stdio::piped());
    let spawner = Spawner::new().expect("a spawner");
    [spawner.spawn(cmd), spawner.spawn_on_this_thread(cmd)].map(|child| {
        let out = child.expect("a child").wait_with_output().expect("its output");
        assert!(out.status.success(), "{:?}", out.status);
        Report::parse(&out.stdout)
    })
}

#[test]
fn mask_of_file_modes_niceness_and_limits_are_as_they_were_set() {
    let guard = NoLeftovers::new();
    let mut cmd = command(&guard, fixture!("report"));
    cmd.umask(0o027).nice(7).oom_score_adj(321);
    cmd.rlimit(Resource::OpenFiles, 77, 78).rlimit(Resource::Core, 9, Resource::UNLIMITED);
    cmd.rlimit(Resource::Core, 0, 4096);
    for report in run(&mut cmd) {
        assert_eq!(report.text("umask"), "0027");
        assert_eq!(report.number("nice"), 7);
        assert_eq!(report.number("oom_score_adj"), 321);
        assert_eq!(report.text("rlimit_nofile"), "77 78");
        assert_eq!(report.text("rlimit_core"), "0 4096");
    }
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    for report in run(&mut command(&guard, fixture!("report"))) {
        assert_eq!(report.text("oom_score_adj"), own.trim());
        // SAFETY: asks only.
        assert_eq!(report.number("nice"), i64::from(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }));
    }
}

#[test]
fn working_directory_is_entered_with_the_childs_rights_and_any_name() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let odd = dir.at(std::ffi::OsString::from_vec(b"with space \xff\n".to_vec()));
    fs::create_dir(&odd).unwrap();
    for report in run(command(&guard, fixture!("report")).current_dir(&odd)) {
        assert_eq!(report.bytes("cwd"), std::os::unix::ffi::OsStrExt::as_bytes(odd.as_os_str()));
    }
    need!(os::is_root(), "needs-root: another user");
    fs::set_permissions(&odd, fs::Permissions::from_mode(0o700)).unwrap();
    let mut cmd = command(&guard, "true");
    cmd.current_dir(&odd).uid(65534).gid(65534);
    let error = cmd.status().map_err(|e| e.downcast::<pidward::SpawnError>().unwrap()).unwrap_err();
    assert_eq!((error.step(), error.kind()), (Some("change directory"), SpawnErrorKind::Permission));
}

#[test]
fn arguments_arrive_whole_and_in_order() {
    let guard = NoLeftovers::new();
    let odd = std::ffi::OsString::from_vec((1..=255).collect());
    let mut cmd = command(&guard, fixture!("report"));
    cmd.arg0("another name").arg("").arg(&odd).arg("\n");
    for report in run(&mut cmd) {
        let all: Vec<u8> = (1..=255).collect();
        assert_eq!(report.all("arg"), [&b"another name"[..], b"", &all, b"\n"]);
    }
    let plain = fixture!("report");
    for report in run(&mut command(&guard, plain)) {
        assert_eq!(report.all("arg"), [plain.to_str().unwrap().as_bytes()]);
    }
}

/// The longest string that exec takes, 131,071 bytes where pages have 4 KiB: 32 pages with the NUL (`MAX_ARG_STRLEN`).
fn longest() -> usize {
    // SAFETY: asks only.
    32 * usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap() - 1
}

fn assert_too_long(cmd: &Command) {
    let spawner = Spawner::new().unwrap();
    for here in [false, true] {
        let began = Instant::now();
        let child = if here { spawner.spawn_on_this_thread(cmd) } else { spawner.spawn(cmd) };
        let error = child.expect_err("too long");
        assert_eq!(error.kind(), SpawnErrorKind::ArgumentTooLong);
        assert_eq!((error.step(), error.raw_os_error()), (Some("exec"), Some(libc::E2BIG)));
        assert!(began.elapsed() < Duration::from_millis(500), "no retry helps: {:?}", began.elapsed());
    }
}

#[test]
fn longest_argument_and_variable_work_and_one_byte_more_is_refused() {
    in_child!();
    let guard = NoLeftovers::alone();
    let text = "x".repeat(longest() + 1);
    let mut cmd = command(&guard, fixture!("report"));
    cmd.arg(&text[1..]).env("LONG", &text["LONG=".len() + 1..]);
    for report in run(&mut cmd) {
        assert_eq!(report.all("arg")[1].len(), longest());
        let long = report.all("env").into_iter().find(|e| e.starts_with(b"LONG=")).unwrap().len();
        assert_eq!(long, longest());
    }
    let fds = proc::open_fds();
    assert_too_long(command(&guard, "true").arg(&text));
    assert_too_long(command(&guard, "true").env("LONG", &text["LONG=".len()..]));
    // Each fits, all together do not: a quarter of the stack limit is there for them.
    let mut many = command(&guard, "true");
    // SAFETY: writes one rlimit.
    let stack = unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit);
        limit.rlim_cur.min(24 << 20)
    };
    for _ in 0..=stack / 4 / 100_000 {
        many.arg(&text[..100_000]);
    }
    assert_too_long(&many);
    assert_eq!(proc::open_fds(), fds);
    assert_eq!(proc::children(std::process::id()), [0; 0], "nobody is left");
}

#[test]
fn what_a_child_has_used_comes_back_with_its_end() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    for here in [false, true] {
        let mut cmd = command(&guard, fixture!("burn"));
        cmd.arg("3");
        let child = if here { spawner.spawn_on_this_thread(&cmd) } else { spawner.spawn(&cmd) };
        let mut child = child.unwrap();
        assert!(child.usage().is_none(), "while it runs there is none");
        assert_eq!(child.wait().unwrap().code(), Some(3));
        let usage = child.usage().expect("its usage");
        assert!(usage.user + usage.system >= Duration::from_millis(250), "{usage:?}");
        assert!(usage.user + usage.system < Duration::from_secs(30), "{usage:?}");
        assert!(usage.max_rss >= 50 << 20 && usage.max_rss < 1 << 30, "{usage:?}");
        assert!(usage.faults.0 > 0, "{usage:?}");
    }
}
