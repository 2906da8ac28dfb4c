//! Identity where a process or a place makes it hard: environs that are overwritten or withheld, `/proc` that is missing, hidden or
//! another namespace's, and supervisors beside or below ours. What cannot be told is unknown, and is not signalled.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    path::Path,
    process,
    time::Duration,
};

use pidward::{Child, ChildKind, Command, Identity, ServiceName, Spawner, Stdio, StopOwned, Verdict, Why};
use pidward_core::identity;
use pidward_tests::{
    child::Again, command, fixture, in_child, leftovers::NoLeftovers, need, os, proc, skip, strange,
    this_test,
};

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(10);
const KIND: ChildKind = ChildKind::Mcp;

fn name() -> ServiceName {
    "odd".parse().expect("a name")
}

fn marked(guard: &NoLeftovers, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut cmd = Command::new(program);
    cmd.args(args).kind(KIND).service(&name()).env(guard.token().0, guard.token().1);
    cmd.stdin(Stdio::piped()).stdout(Stdio::piped());
    cmd
}

/// Starts it and waits for a line that begins with `ready`.
fn ready(spawner: &Spawner, cmd: &Command) -> Child {
    let mut child = spawner.spawn(cmd).expect("a child");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("ready"), "{line}");
    child
}

fn without_inode(identity: &Identity) -> Identity {
    let known = identity::Identity::parse(identity.to_string().as_bytes()).expect("a line");
    identity::Identity { inode: None, ..known }.to_string().parse().expect("a line")
}

fn by_inode(without: Verdict) -> Verdict {
    if skip::has_first_choices() { Verdict::Same } else { without }
}

/// A child that shows nothing of what it was given: known by its inode and by its handle, unknown by what it shows, and never "not ours".
fn shows_nothing(guard: &NoLeftovers, program: &Path, args: &[&str], why: Why, may_show: bool) {
    let spawner = Spawner::new().expect("a spawner");
    let other_handle = Spawner::new().expect("another spawner");
    let child = ready(&spawner, &marked(guard, program, args));
    let (pid, identity) = (child.id(), child.identity().expect("an identity"));
    let unknown = Verdict::Unknown(why);
    let expect = |found: Verdict| {
        assert!(found == unknown || may_show && found == Verdict::Same, "{args:?}: {found:?}");
    };
    expect(without_inode(&identity).verify());
    expect(pidward::verify(pid, KIND, &name()));
    if skip::has_first_choices() {
        assert_eq!(identity.verify(), Verdict::Same, "{args:?}");
    }
    if !may_show {
        let stop = without_inode(&identity).stop(SHORT);
        assert!(matches!(stop, StopOwned::Unverifiable(v) if v == unknown), "{stop:?}");
        let stop = other_handle.stop_owned(pid, KIND, &name(), SHORT);
        assert!(matches!(stop, StopOwned::Unverifiable(v) if v == unknown), "{stop:?}");
        assert!(proc::alive(pid), "nothing was sent");
    }
    // Whoever has the handle knows.
    assert!(spawner.owns(pid, KIND, &name()));
    match skip::has_first_choices() {
        true => assert!(matches!(identity.stop(LONG), StopOwned::Stopped(_))),
        false => assert!(matches!(spawner.stop_owned(pid, KIND, &name(), LONG), StopOwned::Stopped(_))),
    }
    assert!(!pidward::is_running(pid));
}

#[test]
fn a_child_that_overwrote_its_environ_is_unknown_by_it_and_still_stops() {
    let guard = NoLeftovers::new();
    for how in ["zeros", "title"] {
        shows_nothing(&guard, fixture!("strange"), &[how], Why::NoMarker, false);
    }
    // The other half may hold the markers, or not.
    shows_nothing(&guard, fixture!("strange"), &["half"], Why::NoMarker, true);
}

#[test]
fn a_python_child_that_sets_its_title_is_unknown_by_its_environ_and_still_stops() {
    let Some(python) = strange::python_with_setproctitle(env!("CARGO_TARGET_TMPDIR").as_ref()) else {
        skip!("needs-setproctitle");
    };
    let guard = NoLeftovers::new();
    shows_nothing(&guard, &python, &["-c", strange::TITLE_SCRIPT], Why::NoMarker, false);
}

#[test]
fn a_child_that_may_not_be_looked_at_is_unknown_by_what_it_shows() {
    need!(os::is_root(), "needs-root: to become another user");
    in_child!();
    let guard = NoLeftovers::new();
    let mut root = guard.command("cat").stdin(process::Stdio::piped()).spawn().expect("cat");
    proc::eventually("exec", || proc::cmdline(root.id()).starts_with("cat"));
    let spawner = Spawner::new().expect("a spawner");
    let roots_child = ready(&spawner, &marked(&guard, fixture!("strange"), &["undumpable"]));
    let roots = roots_child.identity().expect("an identity");
    // SAFETY: takes a number; this process is the test's own.
    assert_eq!(unsafe { libc::setuid(65534) }, 0);
    let code = pidward_core::Errno::EACCES;
    shows_nothing(&guard, fixture!("strange"), &["undumpable"], Why::Errno(code), false);
    // Another user's: its inode can be read, its environ cannot.
    let denied = Verdict::Unknown(Why::Errno(code));
    assert_eq!(roots.verify(), by_inode(denied));
    assert_eq!(without_inode(&roots).verify(), denied);
    assert_eq!(pidward::verify(root.id(), KIND, &name()), denied);
    let stop = Spawner::new().expect("a spawner").stop_owned(root.id(), KIND, &name(), SHORT);
    assert!(matches!(stop, StopOwned::Unverifiable(v) if v == denied), "{stop:?}");
    assert!(pidward::is_running(root.id()) && pidward::is_running(roots_child.id()));
    // Their standard inputs are still ours.
    drop((root.stdin.take(), roots_child));
    root.wait().expect("its end");
    proc::eventually("nobody is left", || guard.left().is_empty());
}

#[test]
fn what_hidepid_hides_is_unknown_and_not_gone() {
    const LEVEL: &str = "PIDWARD_TEST_HIDEPID";
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    let Ok(level) = std::env::var(LEVEL) else {
        for level in ["1", "2"] {
            Again::of(&this_test!()).env(LEVEL, level).in_pid_namespace().run().check();
        }
        return;
    };
    let guard = NoLeftovers::new();
    let mut root = guard.command("cat").stdin(process::Stdio::piped()).spawn().expect("cat");
    proc::eventually("exec", || proc::cmdline(root.id()).starts_with("cat"));
    let options = format!("hidepid={level}");
    let mounted =
        process::Command::new("mount").args(["-t", "proc", "-o", &options, "proc", "/proc"]).status();
    assert!(mounted.expect("mount").success());
    // SAFETY: takes a number; this process is the test's own.
    assert_eq!(unsafe { libc::setgid(65534) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setuid(65534) }, 0);
    let spawner = Spawner::new().expect("a spawner");
    let mut own = spawner.spawn(&marked(&guard, "cat", &[])).expect("cat");
    assert_eq!(pidward::verify(own.id(), KIND, &name()), Verdict::Same, "an own child is seen");
    let identity = own.identity().expect("an identity");
    assert_eq!((identity.verify(), without_inode(&identity).verify()), (Verdict::Same, Verdict::Same));
    let hidden = pidward::verify(root.id(), KIND, &name());
    assert!(matches!(hidden, Verdict::Unknown(Why::Errno(e)) if e.name() == Some("EPERM")), "{hidden:?}");
    assert!(pidward::is_running(root.id()), "it exists");
    assert_eq!(pidward::verify(4_000_000, KIND, &name()), Verdict::Gone, "a free number");
    assert!(!pidward::is_running(4_000_000));
    assert!(own.stop(LONG).is_complete(), "nothing breaks");
    drop(root.stdin.take());
    root.wait().expect("its end");
}

/// What another program, in another place, makes of an identity: `unshare` with these options, then the script.
fn elsewhere(guard: &NoLeftovers, options: &[&str], script: &str, identity: &Identity) -> String {
    let mut cmd = guard.command("unshare");
    cmd.args(options).args(["sh", "-c", &format!("{script} exec \"$0\" \"$1\"")]);
    let output = cmd.arg(fixture!("identify")).arg(identity.to_string()).output().expect("unshare");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn where_proc_is_missing_or_anothers_nothing_is_known_and_nothing_sent() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let mut child = spawner.spawn(&marked(&guard, "cat", &[])).expect("cat");
    let identity = child.identity().expect("an identity");
    let empty = elsewhere(&guard, &["--mount"], "mount -t tmpfs none /proc &&", &identity);
    assert_eq!(empty, "Unknown(NoProc)\nUnverifiable(Unknown(NoProc))\n");
    let other = "Unknown(OtherPidNamespace)\nUnverifiable(Unknown(OtherPidNamespace))\n";
    let apart = ["--pid", "--fork", "--kill-child"];
    assert_eq!(elsewhere(&guard, &apart, "", &identity), other, "the /proc of the namespace above");
    let whole = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    assert_eq!(elsewhere(&guard, &whole, "", &identity), other, "the number is another's there");
    assert!(proc::alive(child.id()), "nothing was sent");
    // And the command says the same.
    let mut cmd = guard.command("unshare");
    cmd.args(["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" verify \"$1\" --name odd"]);
    let output = cmd.arg(command::path()).arg(child.id().to_string()).output().expect("unshare");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(child.stop(LONG).is_complete());
}

#[test]
fn installations_of_one_name_never_touch_each_others_children() {
    let guard = NoLeftovers::new();
    let (one, two) = (Spawner::new().expect("a spawner"), Spawner::new().expect("a spawner"));
    let mut child = one.spawn(&marked(&guard, "cat", &[])).expect("cat");
    let other = Verdict::NotOurs(Why::OtherTree);
    proc::eventually("exec", || one.verify(child.id(), KIND, &name()) == Verdict::Same);
    assert_eq!(two.verify(child.id(), KIND, &name()), other);
    let stop = two.stop_owned(child.id(), KIND, &name(), SHORT);
    assert!(matches!(stop, StopOwned::NotOurs(v) if v == other), "{stop:?}");
    assert!(proc::alive(child.id()) && !two.owns(child.id(), KIND, &name()));
    let stop = one.stop_owned(child.id(), KIND, &name(), LONG);
    assert!(matches!(stop, StopOwned::Stopped(ref stopped) if stopped.status.is_some()), "{stop:?}");
    assert!(child.try_wait().expect("its status").is_some());
}

#[test]
fn a_supervisor_below_ours_keeps_its_children_of_the_same_name() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().expect("a spawner");
    let inner = ["run", "--name", "odd", "--kind", "mcp", "--", "sh", "-c", "echo ready $$; exec sleep 1000"];
    let mut outer = spawner.spawn(&marked(&guard, command::path(), &inner)).expect("pidward");
    let mut line = String::new();
    BufReader::new(outer.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let below: u32 = line.trim().trim_start_matches("ready ").parse().expect("a pid");
    proc::eventually("exec", || proc::cmdline(below).starts_with("sleep"));
    let trees = proc::environ(below).iter().filter(|entry| entry.starts_with(b"PIDWARD_TREE_")).count();
    assert_eq!(trees, 2, "it descends from both");
    let other = Verdict::NotOurs(Why::OtherTree);
    assert_eq!(spawner.verify(below, KIND, &name()), other);
    let stop = spawner.stop_owned(below, KIND, &name(), SHORT);
    assert!(matches!(stop, StopOwned::NotOurs(v) if v == other), "{stop:?}");
    assert!(proc::alive(below));
    assert!(spawner.owns(outer.id(), KIND, &name()));
    assert!(outer.stop(LONG).is_complete());
    proc::eventually("nobody is left", || guard.left().is_empty());
}
