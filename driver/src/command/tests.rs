//! What is set is what the child has.

use std::{
    collections::BTreeMap,
    env, fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
};

use pidward_core::{Signal, reap::Status};

use super::*;
use crate::{
    SpawnError, SpawnErrorKind,
    prepare::tests::{Dir, end_of, launch, output},
};

fn sh(script: &str) -> Command {
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", script]);
    cmd
}

fn shown(cmd: &Command) -> String {
    let (status, text) = output(cmd).unwrap();
    assert_eq!(status, Status::Exited(0), "{text}");
    text.trim().to_owned()
}

/// Fields of `/proc/self/status` of a child.
fn status(set: impl FnOnce(&mut Command)) -> BTreeMap<String, String> {
    let mut cat = Command::new("cat");
    set(cat.arg("/proc/self/status"));
    let text = shown(&cat);
    text.lines().filter_map(|line| line.split_once(":\t")).map(|(k, v)| (k.into(), v.into())).collect()
}

/// A set of signals among them.
fn signals(field: &str, set: impl FnOnce(&mut Command)) -> u64 {
    u64::from_str_radix(&status(set)[field], 16).unwrap()
}

fn null() -> OwnedFd {
    fs::File::open("/dev/null").unwrap().into()
}

#[test]
fn what_was_set_can_be_read_back_as_with_std() {
    let mut cmd = Command::new("p");
    let mut std = process::Command::new("p");
    cmd.arg("a")
        .args(["b", "c"])
        .env("Z", "1")
        .envs([("A", "2"), ("M", "3")])
        .env_remove("M")
        .current_dir("/d");
    std.arg("a")
        .args(["b", "c"])
        .env("Z", "1")
        .envs([("A", "2"), ("M", "3")])
        .env_remove("M")
        .current_dir("/d");
    let same = |cmd: &Command, std: &process::Command| {
        assert_eq!(cmd.get_program(), std.get_program());
        assert_eq!(cmd.get_args().len(), std.get_args().len());
        assert!(cmd.get_args().eq(std.get_args()));
        assert!(cmd.get_envs().eq(std.get_envs()));
        assert_eq!(cmd.get_current_dir(), std.get_current_dir());
    };
    same(&cmd, &std);
    same(&Command::from(&std), &std);
    cmd.env_clear().env("B", "4").env_remove("B").env("C", "5");
    std.env_clear().env("B", "4").env_remove("B").env("C", "5");
    same(&cmd, &std);
}

#[test]
fn a_child_starts_with_every_promise_kept() {
    let cmd = sh("read _ _ _ _ pgrp sid _ </proc/$$/stat; echo $$ $pgrp $sid; ls /proc/$$/fd");
    let _open = fs::File::open("/dev/null").unwrap();
    let text = shown(&cmd);
    let mut lines = text.lines();
    let ids: Vec<&str> = lines.next().unwrap().split(' ').collect();
    assert_eq!(ids[0], ids[1], "a group of its own");
    assert_ne!(ids[0], ids[2], "not a session");
    assert_eq!(lines.collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!((signals("SigBlk", |_| ()), signals("SigIgn", |_| ())), (0, 0));
}

#[test]
fn group_and_session_are_as_asked_and_the_last_word_counts() {
    let ids = |set: &dyn Fn(&mut Command)| {
        let mut cmd = sh("read _ _ _ _ pgrp sid _ </proc/$$/stat; echo $$ $pgrp $sid");
        set(&mut cmd);
        let text = shown(&cmd);
        let ids: Vec<i32> = text.split(' ').map(|id| id.parse().unwrap()).collect();
        (ids[1] == ids[0], ids[2] == ids[0], ids[1])
    };
    let ours = rustix::process::getpgrp().as_raw_pid();
    assert_eq!(ids(&|c| _ = c.own_group(false)), (false, false, ours));
    assert_eq!(ids(&|c| _ = c.process_group(ours)), (false, false, ours));
    assert!(matches!(ids(&|c| _ = c.process_group(ours).process_group(0)), (true, false, _)));
    assert!(matches!(ids(&|c| _ = c.own_session(true)), (true, true, _)));
    assert!(matches!(ids(&|c| _ = c.own_session(true).own_session(false)), (true, false, _)));
    assert!(matches!(ids(&|c| _ = c.own_group(false).own_group(true)), (true, false, _)));
}

#[test]
fn attributes_reach_the_child() {
    let mut cmd = sh(
        "umask; nice; cat /proc/$$/oom_score_adj; ulimit -n; ulimit -Hn; grep -o 'NoNewPrivs.*' /proc/$$/status",
    );
    cmd.umask(0o27).nice(7).oom_score_adj(500).no_new_privs(true);
    cmd.rlimit(Resource::OpenFiles, 1, 1).rlimit(Resource::OpenFiles, 64, 128);
    assert_eq!(shown(&cmd), "0027\n7\n500\n64\n128\nNoNewPrivs:\t1");
    let mut first = sh("tr '\\0' ' ' </proc/$$/cmdline");
    assert_eq!(shown(first.arg0("zero")).split(' ').next(), Some("zero"));
    assert_eq!(shown(Command::new("pwd").current_dir("/usr/bin")), "/usr/bin");
    let umask = status(|c| _ = c.umask(0o77))["Umask"].clone();
    assert_eq!(umask, "0077");
}

#[test]
fn a_limit_that_cannot_be_is_an_error_of_its_step() {
    let error = output(sh("exit 0").rlimit(Resource::OpenFiles, 10, 5)).unwrap_err();
    assert_eq!((error.kind(), error.step()), (SpawnErrorKind::InvalidInput, Some("set resource limit")));
}

#[test]
fn a_change_of_user_takes_the_groups_of_root_away() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: not root");
        return;
    }
    let ids = |set: &dyn Fn(&mut Command)| {
        let fields = status(set);
        let words = |name: &str| fields[name].split_whitespace().collect::<Vec<_>>().join(" ");
        (words("Uid"), words("Gid"), words("Groups"))
    };
    let user = ids(&|c| _ = c.uid(12345).gid(23456));
    let want = ("12345 12345 12345 12345", "23456 23456 23456 23456", "");
    assert_eq!((&*user.0, &*user.1, &*user.2), want);
    assert_eq!(ids(&|c| _ = c.uid(12345).gid(23456).groups(&[7, 8])).2, "7 8");
}

#[test]
fn the_death_signal_can_be_changed_and_taken_away() {
    // What a program sees of it: prctl(PR_GET_PDEATHSIG), through a script of a language that has it.
    let script = "import ctypes as c; n = c.c_int(); c.CDLL(None).prctl(2, c.byref(n)); print(n.value)";
    let seen = |set: &dyn Fn(&mut Command)| {
        let mut cmd = Command::new("python3");
        cmd.args(["-c", script]);
        set(&mut cmd);
        shown(&cmd)
    };
    if output(Command::new("python3").arg("--version")).is_err() {
        println!("skipped: no python3");
        return;
    }
    assert_eq!(seen(&|_| ()), "15");
    assert_eq!(seen(&|c| _ = c.death_signal(Some(Signal::INT))), "2");
    assert_eq!(seen(&|c| _ = c.death_signal(None)), "0");
    assert_eq!(seen(&|c| arm_parent_death_signal(c.death_signal(None))), "15");
}

#[test]
fn mask_and_ignored_signals_are_kept_on_demand() {
    let pipe = 1u64 << (Signal::PIPE.raw() - 1);
    assert_eq!(signals("SigIgn", |c| _ = c.keep_ignored(true)) & pipe, pipe);
    assert_eq!(signals("SigIgn", |c| _ = c.keep_ignored(false)), 0);
    // The mask of the thread that asks.
    let asker = std::thread::spawn(move || {
        let usr1 = 1u64 << (Signal::USR1.raw() - 1);
        pidward_core::signal::block(usr1).unwrap();
        assert_eq!(signals("SigBlk", |_| ()), 0);
        assert_eq!(signals("SigBlk", |c| _ = c.keep_mask(true)), usr1);
    });
    asker.join().unwrap();
}

#[test]
fn passed_descriptors_have_their_numbers_and_nothing_else_is_open() {
    let dir = Dir::new("pass");
    let file = |name: &str| fs::File::open(dir.file(name, name, 0o644)).unwrap();
    let mut cmd = sh("ls /proc/$$/fd; cat <&3; cat <&9");
    cmd.pass_fd(file("nine"), 9).pass_fd(file("old"), 3).pass_fd(file("three"), 3);
    assert_eq!(shown(&cmd), "0\n1\n2\n3\n9\nthreenine");
    // Ours stays open, close-on-exec and where it was.
    let own = null();
    cmd.pass_fd(own.try_clone().unwrap(), 10);
    assert!(own.as_fd().as_raw_fd() > 2);
    // Both files were read to their ends before, and an offset is shared.
    assert_eq!(shown(&cmd), "0\n1\n10\n2\n3\n9");
}

#[test]
fn the_same_file_can_be_two_streams() {
    let dir = Dir::new("both");
    let log = fs::File::create(dir.0.join("log")).unwrap();
    let mut cmd = sh("echo out; echo err >&2");
    cmd.stdout(log.try_clone().unwrap()).stderr(log);
    assert_eq!(shown(&cmd), "");
    assert_eq!(fs::read_to_string(dir.0.join("log")).unwrap(), "out\nerr\n");
}

#[test]
fn a_foreign_command_can_be_placed_in_a_group() {
    let mut cmd = process::Command::new("true");
    place_in_own_process_group(&mut cmd);
    assert!(format!("{cmd:#?}").contains("pgroup: Some"), "{cmd:#?}");
    // std takes the same number.
    cmd.process_group(0);
}

#[test]
fn marking_a_child_sets_kind_and_service() {
    let name = ServiceName::try_new("svc").unwrap();
    let mut cmd = sh("echo $PIDWARD_SUBPROCESS $MCP_SERVICE_ID");
    mark_child(&mut cmd, ChildKind::Mcp, &name);
    assert_eq!((cmd.kind, cmd.service.as_ref()), (Some(ChildKind::Mcp), Some(&name)));
    cmd.env_clear();
    assert_eq!(shown(&cmd), "1 svc");
}

#[test]
fn exec_is_refused_while_children_live() {
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped());
    let (child, ends) = launch(&cat).unwrap();
    // The program is missing, so that nothing is lost if the refusal is.
    let error = Command::new("/no/such").exec();
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<SpawnError>()).unwrap();
    assert_eq!(inner.kind(), SpawnErrorKind::ChildrenLive);
    drop(ends);
    assert_eq!(end_of(&child), Status::Exited(0));
}

/// The inner half is a process of its own, which becomes the program.
#[test]
fn exec_becomes_the_program_or_says_why_not() {
    const INNER: &str = "PIDWARD_TEST_EXEC";
    if env::var_os(INNER).is_some() {
        let error = Command::new("/no/such").exec();
        let inner = error.get_ref().and_then(|e| e.downcast_ref::<SpawnError>()).unwrap();
        assert_eq!((inner.kind(), inner.step()), (SpawnErrorKind::ProgramMissing, Some("exec")));
        let mut cmd = sh("echo became $$ $0 \"$1\" $V");
        let error = cmd.args(["zero", "x  y"]).env("V", "v").exec();
        panic!("{error}");
    }
    let mut cmd = Command::new(env::current_exe().unwrap());
    cmd.args(["--exact", "command::tests::exec_becomes_the_program_or_says_why_not"]).env(INNER, "1");
    let (child, ends) = launch(&cmd).unwrap();
    let mut text = String::new();
    io::Read::read_to_string(&mut ends.stdout.unwrap(), &mut text).unwrap();
    assert_eq!(end_of(&child), Status::Exited(0), "{text}");
    assert!(text.contains(&format!("became {} zero x  y v", child.pid())), "{text}");
}

#[test]
fn debug_shows_names_of_variables_and_no_value() {
    let mut cmd = Command::new("prog");
    cmd.arg("arg").env("SET", "value-secret").env_remove("GONE").current_dir("/d");
    let text = format!("{cmd:?}");
    for part in ["prog", "arg", "+SET", "-GONE", "/d"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("secret") && cmd.get_program().as_bytes() == b"prog");
}
