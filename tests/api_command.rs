//! Every method of `Command` is called once, and its effect seen.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    path::Path,
    process,
    time::Duration,
};

use pidward::{ChildKind, Command, Resource, ServiceName, SpawnErrorKind, Spawner};
use pidward_tests::{
    child::Again, files::TempDir, fixture, in_child, leftovers::NoLeftovers, os, proc, report::Report,
};

const SECOND: Duration = Duration::from_secs(1);

/// What the child sees of itself after `set`.
fn report(set: impl FnOnce(&mut Command) -> &mut Command) -> Report {
    let mut cmd = Command::new(fixture!("report"));
    set(&mut cmd);
    let output = cmd.output().expect("a report");
    assert!(output.status.success(), "{output:?}");
    Report::parse(&output.stdout)
}

fn shows(set: impl FnOnce(&mut Command) -> &mut Command, key: &str, value: &str) {
    let report = report(set);
    let all = report.all(key);
    assert!(
        all.contains(&value.as_bytes()),
        "{key} {value}: {:?}",
        all.iter().map(|v| v.escape_ascii().to_string())
    );
}

fn lacks(set: impl FnOnce(&mut Command) -> &mut Command, key: &str, value: &str) {
    assert!(!report(set).all(key).contains(&value.as_bytes()), "{key} {value}");
}

fn fails(set: impl FnOnce(&mut Command) -> &mut Command, errno: i32) {
    let mut cmd = Command::new("/bin/true");
    set(&mut cmd);
    let error = Spawner::new().unwrap().spawn(&cmd).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(errno), "{error}");
}

/// What `id` says with this option.
fn id(option: &str, set: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let mut cmd = Command::new("id");
    set(cmd.arg(option));
    String::from_utf8(cmd.output().expect("id").stdout).expect("numbers").trim().to_string()
}

fn streams() {
    let dir = TempDir::new();
    let file = |name: &str| File::create_new(dir.at(name)).unwrap();
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", "read x; echo out $x; echo err >&2"]);
    fs::write(dir.at("in"), "text\n").unwrap();
    cmd.stdin(File::open(dir.at("in")).unwrap()).stdout(file("out")).stderr(file("err"));
    assert!(cmd.status().unwrap().success());
    assert_eq!(fs::read_to_string(dir.at("out")).unwrap(), "out text\n");
    assert_eq!(fs::read_to_string(dir.at("err")).unwrap(), "err\n");
}

fn exec() {
    let outcome = Again::of("body_that_execs").env("PIDWARD_TEST_DO", "exec").run();
    assert!(outcome.status.code() == Some(9) && outcome.stdout.contains("replaced"), "{outcome:?}");
}

/// The other half of `exec`; by itself it does nothing.
#[test]
fn body_that_execs() {
    if std::env::var_os("PIDWARD_TEST_DO").is_some() {
        let error = Command::new("/bin/sh").args(["-c", "echo replaced; exit 9"]).exec();
        panic!("{error}");
    }
}

fn keep_mask() {
    // SAFETY: a set of signals is numbers, for which zero is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes the set.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGUSR1) };
    // SAFETY: reads the set; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    assert_eq!(report(|c| c).set("SigBlk"), 0);
    assert_eq!(report(|c| c.keep_mask(true)).set("SigBlk"), 1 << (libc::SIGUSR1 - 1));
}

fn kill_on_drop() {
    let child = Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
    let pid = child.id();
    drop(child);
    assert!(proc::until(SECOND, || !proc::alive(pid)));
}

fn deadline() {
    let mut cmd = Command::new("/bin/true");
    let spawner = Spawner::new().unwrap();
    cmd.deadline(Duration::ZERO);
    // On a busy machine the answer may come before the asker has looked at the clock.
    let error = (0..100).find_map(|_| spawner.spawn(&cmd).err());
    assert_eq!(error.map(|e| e.kind()), Some(SpawnErrorKind::Deadline));
}

fn marked(key: &str, value: &str) {
    let entry = format!("{key}={value}");
    let service = ServiceName::try_new("name").unwrap();
    shows(|c| c.kind(ChildKind::Agent).service(&service), "env", &entry);
    lacks(|c| c.kind(ChildKind::Agent), "env", &entry);
}

fn getters() {
    let mut cmd = Command::new("p");
    cmd.arg("a").args(["b"]).env("K", "v").env_remove("R").current_dir("/d");
    assert_eq!(cmd.get_program(), "p");
    assert_eq!(cmd.get_args().collect::<Vec<_>>(), ["a", "b"]);
    let envs: Vec<_> = cmd.get_envs().collect();
    assert_eq!(envs, [(OsStr::new("K"), Some(OsStr::new("v"))), (OsStr::new("R"), None)]);
    assert_eq!(cmd.get_current_dir(), Some(Path::new("/d")));
}

/// Without a leaf there is no limit, and without the limit no child.
fn limits() {
    let spawner = Spawner::new().unwrap();
    let set: [fn(&mut Command) -> &mut Command; 3] =
        [|c| c.memory_limit(1 << 30), |c| c.process_limit(9), |c| c.cpu_weight(50)];
    for set in set {
        let error = spawner.spawn(set(&mut Command::new("true"))).expect_err("no leaf");
        assert_eq!(error.kind(), SpawnErrorKind::Unsupported, "{error}");
    }
    let error = spawner.spawn(Command::new("true").cpu_weight(0)).expect_err("no share");
    assert_eq!(error.kind(), SpawnErrorKind::InvalidInput, "{error}");
}

fn ask_grace() {
    let spawner = Spawner::new().unwrap();
    let mut cmd = Command::new("cat");
    let mut child =
        spawner.spawn(cmd.stdin(pidward::Stdio::piped()).ask_grace(Duration::from_secs(20))).unwrap();
    assert_eq!(child.stop(Duration::ZERO).rung(), Some(pidward::Rung::Ask));
}

fn channel() {
    let (spawner, events) = (Spawner::new().unwrap(), pidward::Events::new().unwrap());
    let mut limits = pidward::ChannelLimits::default();
    limits.frame = 3;
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", "echo seen >&2; test $PIDWARD_CHANNEL = 3"]);
    cmd.channel(pidward::Transport::Socket).channel_limits(limits).stderr_events(true);
    let node = events.spawn(&spawner, &cmd).unwrap();
    assert_eq!(node.send(b"four"), Err(pidward::SendError::TooLarge));
    let words = pidward_tests::channel::to_exit(&events);
    assert!(
        words.contains(&"stderr seen".to_string()) && words.ends_with(&["exit 0".to_string()]),
        "{words:?}"
    );
}

fn watched() {
    let (spawner, events) = (Spawner::new().unwrap(), pidward::Events::new().unwrap());
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", "echo >&9; echo no frame; exec sleep 0.3"]).channel(pidward::Transport::Stdio);
    cmd.ready(pidward::Ready::Fd(9), Duration::from_secs(60)).on_fault(pidward::OnFault::Tell);
    cmd.liveness(pidward::Liveness::new());
    let node = events.spawn(&spawner, &cmd).unwrap();
    assert_eq!(events.health(node.id()), Some(pidward::Health::Healthy));
    let words = pidward_tests::channel::to_exit(&events);
    assert!(words.contains(&"ready".to_string()), "{words:?}");
    assert_eq!(words.last().map(String::as_str), Some("exit 0"), "{words:?}");
}

/// What a copy of this program gets; it lists its tests and ends.
fn copied() {
    let (spawner, events) = (Spawner::new().unwrap(), pidward::Events::new().unwrap());
    let mut cmd = Command::this_program(&ServiceName::try_new("worker").unwrap()).unwrap();
    cmd.arg("--list").stdout(pidward::Stdio::null());
    let _node = events.spawn(&spawner, &cmd).unwrap();
    assert_eq!(pidward_tests::channel::to_exit(&events), ["closed", "exit 0"]);
    let error = events.spawn(&spawner, cmd.max_depth(0)).unwrap_err();
    assert_eq!(error.kind(), SpawnErrorKind::DepthLimit);
}

type Row = (&'static [&'static str], fn());

/// Each method of `Command`, and what shows that it does something.
const METHODS: &[Row] = &[
    (&["new", "get_program", "get_args", "get_envs", "get_current_dir"], getters),
    (&["arg", "output"], || shows(|c| c.arg("one"), "arg", "one")),
    (&["args"], || shows(|c| c.args(["one", "two"]), "arg", "two")),
    (&["arg0"], || shows(|c| c.arg0("other"), "arg", "other")),
    (&["env"], || shows(|c| c.env("KEY", "value"), "env", "KEY=value")),
    (&["envs"], || shows(|c| c.envs([("A", "1"), ("B", "2")]), "env", "B=2")),
    (&["env_remove"], || lacks(|c| c.env("A", "1").env_remove("A"), "env", "A=1")),
    (&["env_clear"], || lacks(|c| c.env("A", "1").env_clear(), "env", "A=1")),
    (&["current_dir"], || shows(|c| c.current_dir("/usr"), "cwd", "/usr")),
    (&["stdin", "stdout", "stderr", "status"], streams),
    (&["spawn"], || assert!(Command::new("/bin/true").spawn().unwrap().wait().unwrap().success())),
    (&["uid"], || {
        let own = id("-u", |c| c);
        let other = if own == "0" { "65534" } else { &own };
        assert_eq!(id("-u", |c| c.uid(other.parse().unwrap())), other);
    }),
    (&["gid"], || {
        let own = id("-g", |c| c);
        let other = if os::is_root() { "65533" } else { &own };
        assert_eq!(id("-g", |c| c.gid(other.parse().unwrap())), other);
    }),
    (&["groups"], || {
        if os::is_root() {
            assert!(id("-G", |c| c.groups(&[65531, 65532])).ends_with("65531 65532"));
        } else {
            fails(|c| c.groups(&[65531, 65532]), libc::EPERM);
        }
    }),
    (&["process_group"], || {
        let child = report(|c| c.process_group(0));
        assert_eq!(child.number("pgrp"), child.number("pid"));
    }),
    (&["own_group"], || {
        let own = proc::pgid(process::id()).unwrap().to_string();
        shows(|c| c.own_group(false), "pgrp", &own);
    }),
    (&["own_session"], || {
        let child = report(|c| c.own_session(true));
        assert_eq!(child.number("sid"), child.number("pid"));
    }),
    (&["exec"], exec),
    (&["death_signal"], || {
        shows(|c| c, "deathsig", "15");
        shows(|c| c.death_signal(None), "deathsig", "0");
    }),
    (&["kind", "service"], || marked("AGENT_NAME", "name")),
    (&["rlimit"], || shows(|c| c.rlimit(Resource::Core, 0, 0), "rlimit_core", "0 0")),
    (&["pass_fd"], || {
        let null = File::open("/dev/null").unwrap();
        shows(|c| c.pass_fd(null, 17), "fd", "17 /dev/null");
    }),
    (&["nice"], || shows(|c| c.nice(7), "nice", "7")),
    (&["oom_score_adj"], || shows(|c| c.oom_score_adj(777), "oom_score_adj", "777")),
    (&["umask"], || shows(|c| c.umask(0o027), "umask", "0027")),
    (&["no_new_privs"], || shows(|c| c.no_new_privs(true), "NoNewPrivs", "1")),
    (&["foreground"], || fails(|c| c.foreground(File::open("/dev/null").unwrap()), libc::ENOTTY)),
    (&["cgroup"], || fails(|c| c.cgroup(File::open("/usr").unwrap()), libc::ENOENT)),
    (&["keep_mask"], keep_mask),
    (&["keep_ignored"], || {
        let pipe = 1 << (libc::SIGPIPE - 1);
        assert_eq!(report(|c| c).set("SigIgn"), 0);
        assert_eq!(report(|c| c.keep_ignored(true)).set("SigIgn") & pipe, pipe);
    }),
    (&["kill_on_drop"], kill_on_drop),
    (&["memory_limit", "process_limit", "cpu_weight"], limits),
    (&["ask_grace"], ask_grace),
    (&["survives_supervisor"], || {
        shows(|c| c.survives_supervisor(true), "deathsig", "0");
        let seen = report(|c| c.survives_supervisor(true));
        assert!(seen.all("env").iter().all(|entry| !entry.starts_with(b"PIDWARD_TREE_")), "{seen:?}");
    }),
    (&["deadline"], deadline),
    (&["channel", "channel_limits", "stderr_events"], channel),
    (&["ready", "liveness", "on_fault"], watched),
    (&["this_program", "max_depth"], copied),
];

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/src").join(file);
    fs::read_to_string(path).expect("a source file")
}

#[test]
fn methods_of_command_do_what_the_table_says() {
    in_child!();
    let _guard = NoLeftovers::alone();
    METHODS.iter().for_each(|(_, effect)| effect());
}

#[test]
fn table_of_methods_is_whole() {
    let table = source("command/mod.rs");
    let listed: BTreeSet<&str> =
        table.lines().filter_map(|l| l.strip_prefix("/// | [`")?.split('`').next()).collect();
    let called: BTreeSet<&str> = METHODS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
    assert_eq!(listed, called);
    let unix = source("command/unix.rs");
    let methods = table.lines().chain(unix.lines()).filter_map(|l| l.strip_prefix("    pub fn "));
    for name in methods.filter_map(|l| l.split(['(', '<']).next()) {
        assert!(listed.contains(name), "{name} is not in the table");
    }
}

#[test]
fn command_of_std_is_taken_over() {
    let mut std = process::Command::new("p");
    std.arg("a").env("K", "v").env_remove("R").current_dir("/d");
    let cmd = Command::from(&std);
    assert_eq!((cmd.get_program(), cmd.get_current_dir()), (std.get_program(), std.get_current_dir()));
    assert!(cmd.get_args().eq(std.get_args()) && cmd.get_envs().eq(std.get_envs()));
}

#[test]
fn free_functions_mark_arm_and_place() {
    let service = ServiceName::try_new("name").unwrap();
    let mut marked = Command::new(fixture!("report"));
    pidward::mark_child(&mut marked, ChildKind::Mcp, &service);
    pidward::arm_parent_death_signal(marked.death_signal(None));
    let child = Report::parse(&marked.output().unwrap().stdout);
    assert!(child.all("env").contains(&&b"MCP_SERVICE_ID=name"[..]));
    assert_eq!(child.number("deathsig"), 15);
    let mut std = process::Command::new(fixture!("report"));
    pidward::place_in_own_process_group(&mut std);
    let child = Report::parse(&std.output().unwrap().stdout);
    assert_eq!(child.number("pgrp"), child.number("pid"));
}
