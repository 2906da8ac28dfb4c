//! This program once more: the version that runs, whatever became of its file; in a role only with its channel; and not for ever.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use pidward::{CHANNEL_ENV, DEPTH_ENV, SUBAGENT_ENV};
use pidward_tests::{
    channel::to_exit, files::TempDir, fixture, in_child, leftovers::NoLeftovers, need, os, place,
    seccomp::Filter, skip,
};

/// What `role host` prints, with this as the first program.
fn host(guard: &NoLeftovers, program: PathBuf, args: &[&str]) -> Vec<String> {
    let mut cmd = guard.command(program);
    cmd.arg("host").args(args).stdin(Stdio::null());
    lines(&mut cmd)
}

fn lines(cmd: &mut Command) -> Vec<String> {
    let output = cmd.output().expect("the fixture");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn copy(dir: &TempDir) -> PathBuf {
    let path = dir.at("program");
    fs::copy(fixture!("role"), &path).expect("a copy");
    path
}

/// What a role sees of itself: `write` is `ETXTBSY`, and the pair of sockets is all it has.
#[track_caller]
fn is_whole(said: &[String]) {
    let [name, again, write, own, below, version, inherited, exit] = said else { panic!("{said:?}") };
    assert_eq!([name, again, write], ["look 1", "again false", "write Err(Some(26))"]);
    let open: Vec<&str> = own.split(' ').skip(1).collect();
    // Its reading of the directory is one of these; the channel is there by its number and as the role has it.
    let sockets: BTreeSet<&&str> = open.iter().filter(|link| link.starts_with("socket:")).collect();
    assert_eq!(sockets.len(), 1, "{own}");
    assert!(!own.contains("program") && open.len() <= 7, "a descriptor of the program: {own}");
    assert!(!below.contains("socket:") && below.contains("/dev/null"), "{below}");
    // The variables are there, the channel is not: the same program is itself.
    assert_eq!([version, inherited, exit], ["below version 1", "inherited 0 0 1", "exit Some(7)"]);
}

#[test]
fn copy_is_a_role_and_nothing_below_it_is_one() {
    let guard = NoLeftovers::new();
    is_whole(&host(&guard, fixture!("role").to_path_buf(), &["look"]));
}

#[test]
fn version_that_runs_is_started_whatever_became_of_its_file() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let path = copy(&dir);
    let name = path.to_str().expect("text");
    is_whole(&host(&guard, path.clone(), &["look", &format!("rm '{name}'")]));
    // What the kernel calls a removed program is a name that somebody else can have.
    let planted = format!("rm '{name}'; cp /bin/false '{name} (deleted)'; cp /bin/false '{name}'");
    copy(&dir);
    is_whole(&host(&guard, path.clone(), &["look", &planted]));
    fs::remove_file(&path).expect("the planted one");
    copy(&dir);
    let renamed = format!("cp /bin/false '{name}.new'; mv '{name}.new' '{name}'");
    is_whole(&host(&guard, path, &["look", &renamed]));
}

#[test]
fn variable_alone_is_no_role_and_neither_is_a_number_of_something_else() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    fs::write(dir.at("file"), "").expect("a file");
    // No number, none that is open, a file, a pipe, a standard stream, one that is no number.
    for (number, shell) in [
        (None, "exec \"$0\" --version"),
        (Some("3"), "exec \"$0\" --version"),
        (Some("3"), "exec \"$0\" --version 3<\"$1\""),
        (Some("3"), "true | exec \"$0\" --version 3<&0"),
        (Some("1"), "exec \"$0\" --version"),
        (Some("+3"), "exec \"$0\" --version"),
        (Some("4294967299"), "exec \"$0\" --version"),
    ] {
        let mut cmd = guard.command("/bin/sh");
        cmd.args(["-c", shell]).arg(fixture!("role")).arg(dir.at("file")).env(SUBAGENT_ENV, "look");
        number.map(|number| cmd.env(CHANNEL_ENV, number));
        assert_eq!(lines(&mut cmd), ["version 1"], "{number:?}, {shell}");
    }
}

#[test]
fn channel_without_the_variable_is_no_role() {
    let guard = NoLeftovers::new();
    let (spawner, events) = (pidward::Spawner::new().unwrap(), pidward::Events::new().unwrap());
    let mut cmd = guard.shell("exec \"$0\" --version >&2");
    cmd.arg(fixture!("role")).channel(pidward::Transport::Socket).stderr_events(true);
    let _node = events.spawn(&spawner, &cmd).unwrap();
    let mut said = to_exit(&events);
    said.sort_unstable();
    assert_eq!(said, ["closed", "exit 0", "stderr version 1"]);
}

#[test]
fn program_that_always_starts_itself_stops_at_the_limit_of_its_depth() {
    let guard = NoLeftovers::new();
    let program = || fixture!("role").to_path_buf();
    let expected = ["nest 1", "nest 2", "nest 3", "nest 4", "DepthLimit None"];
    let exits = ["exit Some(7)"; 4];
    assert_eq!(host(&guard, program(), &["nest"]), [&expected[..], &exits].concat());
    // Whoever is deep already has less before it; its parent's limit holds, and a larger one of its own does not.
    for (depth, said) in [
        ("2/4", &["nest 3", "nest 4", "DepthLimit None", "exit Some(7)", "exit Some(7)"][..]),
        ("0/1", &["nest 1", "DepthLimit None", "exit Some(7)"]),
        ("3/100", &["nest 4", "DepthLimit None", "exit Some(7)"]),
        ("4/4", &["DepthLimit None"]),
        ("many", &["InvalidInput None"]),
    ] {
        let mut cmd = guard.command(program());
        assert_eq!(lines(cmd.args(["host", "nest"]).env(DEPTH_ENV, depth)), said, "{depth}");
    }
}

#[test]
fn where_the_call_is_refused_the_name_in_proc_does() {
    in_child!();
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let path = copy(&dir);
    let name = path.to_str().expect("text");
    Filter::new().errno(libc::SYS_execveat, libc::ENOSYS).install();
    is_whole(&host(&guard, path.clone(), &["look", &format!("rm '{name}'; cp /bin/false '{name}'")]));
}

#[test]
fn without_proc_there_is_an_error_and_what_stands_there_is_not_run() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces: a place without /proc");
    in_child!(|again| again.in_mount_namespace());
    let guard = NoLeftovers::new();
    place::empty_proc();
    let program = || fixture!("role").to_path_buf();
    let said = host(&guard, program(), &["look"]);
    assert_eq!(said, [format!("Unsupported Some({})", libc::EOPNOTSUPP)]);
    fs::create_dir("/proc/self").expect("a directory");
    fs::copy("/bin/false", "/proc/self/exe").expect("a file");
    assert_eq!(host(&guard, program(), &["look"]), said);
}
