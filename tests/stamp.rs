//! An API server stamps itself by exec in place: once, with everything else as it was, and only if the kernel shows it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStringExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::Command,
};

use pidward::{API_SERVER_ENV, API_SERVER_STAMP_ENV, api_server_service};
use pidward_tests::{
    child::Again,
    files::TempDir,
    fixture,
    fork::{self, Image},
    launch,
    leftovers::NoLeftovers,
    need, os, proc,
    seccomp::Filter,
    skip,
    stamper::{run, stamper, starts},
    this_test,
};

#[test]
fn everything_but_the_stamp_stays_and_it_happens_once() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let odd = OsString::from_vec(vec![b'a', 0xff, b' ', b'=']);
    let mut cmd = stamper(&guard, fixture!("stamper"), &file, &[&odd, "".as_ref()]);
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let inherited = reader.as_raw_fd();
    cmd.arg0("an odd (name) \n").current_dir(dir.at("")).env("EMPTY", "").env("ODD", &odd);
    let hook = move || {
        // SAFETY: takes a number only, as all calls here.
        unsafe { libc::umask(0o027) };
        // SAFETY: as above.
        unsafe { libc::setsid() };
        // SAFETY: as above.
        unsafe { libc::nice(5) };
        // SAFETY: as above.
        os::check(unsafe { libc::fcntl(inherited, libc::F_SETFD, 0) }.into())?;
        let set = 1_u64 << (libc::SIGUSR2 - 1);
        let (at, none, size) = (&raw const set, std::ptr::null_mut::<u64>(), size_of::<u64>());
        // SAFETY: reads one set, of the size that is passed.
        os::check(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, at, none, size) })?;
        Ok(())
    };
    // SAFETY: the hook makes system calls only.
    unsafe { cmd.pre_exec(hook) };
    launch::ignoring(&mut cmd, &[libc::SIGHUP, libc::SIGUSR1]);
    let starts = run(cmd, &file);
    assert_eq!(starts.len(), 2, "one exec: {starts:?}");
    let [before, after] = &starts[..] else { panic!("two starts") };
    assert_eq!((before.pid, before.rest()), (after.pid, after.rest()));
    assert!(before.env(API_SERVER_ENV).is_empty() && !before.is_stamped());
    assert!(after.is_stamped(), "{after:?}");
    assert_eq!(after.said, ["stamp Stamped"]);
    for (key, value) in [("nice", "5"), ("Umask", "0027")] {
        assert!(after.state.contains(&(key.to_owned(), value.to_owned())), "{key}: {after:?}");
    }
}

#[test]
fn pid_1_stamps_itself_as_any_other_does() {
    need!(skip::has_namespaces(), "needs-namespaces");
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let mut cmd = guard.command("unshare");
    cmd.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(fixture!("stamper")).arg(&file);
    let starts = run(cmd, &file);
    let [before, after] = &starts[..] else { panic!("two starts: {starts:?}") };
    assert_eq!((before.pid, after.pid), (1, 1));
    assert_eq!(before.rest(), after.rest());
    assert!(after.is_stamped() && after.said == ["stamp Stamped"], "{after:?}");
}

#[test]
fn a_stamp_of_somebody_else_is_none() {
    let guard = NoLeftovers::new();
    let own = std::process::id();
    let ticks = proc::start_time(own).expect("its stat line");
    // What a shell exported long ago, what a parent (this test) would hand down, and nonsense.
    for stale in ["4000000:1".to_owned(), format!("{own}:{ticks}"), String::new(), "x".to_owned()] {
        let dir = TempDir::new();
        let file = dir.at("log");
        let mut cmd = stamper(&guard, fixture!("stamper"), &file, &[]);
        cmd.env(API_SERVER_ENV, "api").env(API_SERVER_STAMP_ENV, &stale);
        let starts = run(cmd, &file);
        let [before, after] = &starts[..] else { panic!("{stale}: two starts: {starts:?}") };
        assert!(!before.is_stamped() && after.is_stamped(), "{stale}: replaced, not doubled: {after:?}");
        assert_eq!(before.rest(), after.rest());
    }
}

#[test]
fn what_is_started_afterwards_is_not_stamped() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let starts = run(stamper(&guard, fixture!("stamper"), &file, &["child".as_ref()]), &file);
    let [_, after, child] = &starts[..] else { panic!("three starts: {starts:?}") };
    assert!(after.is_stamped());
    assert!(child.env(API_SERVER_ENV).is_empty() && child.env(API_SERVER_STAMP_ENV).is_empty(), "{child:?}");
}

#[test]
fn a_stamped_server_is_known_and_what_it_started_by_itself_is_not() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let starts = run(stamper(&guard, fixture!("stamper"), &file, &["asked".as_ref()]), &file);
    let [_, _, parent, copy] = &starts[..] else { panic!("four starts: {starts:?}") };
    assert_eq!(parent.said, ["stamp is Same"]);
    // The shell has inherited the entries, which name its parent.
    assert_eq!(copy.said.first().map(String::as_str), Some("stamp is Unknown(NoMarker)"));
}

#[test]
fn supervised_children_are_a_typed_refusal_until_they_have_ended() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let starts = run(stamper(&guard, fixture!("stamper"), &file, &["live".as_ref()]), &file);
    // Refused, then stamped, then refused as the stamped one and still stamped.
    let [before, after] = &starts[..] else { panic!("two starts: {starts:?}") };
    assert_eq!(before.said.len(), 1, "{before:?}");
    assert!(
        before.said[0].starts_with("stamp error ResourceBusy None ") && before.said[0].contains("children"),
        "{before:?}"
    );
    assert!(after.is_stamped() && after.said == ["stamp Stamped", "stamp Stamped"], "{after:?}");
}

#[test]
fn a_program_that_was_replaced_on_disk_goes_on_as_what_it_is() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let (file, program) = (dir.at("log"), dir.at("server"));
    fs::copy(fixture!("stamper"), &program).expect("a copy");
    // The script deletes the file that it then runs, through a descriptor.
    let script = "exec 3<\"$0\"; rm \"$0\"; exec /proc/self/fd/3 \"$1\"";
    let mut cmd = guard.command("sh");
    cmd.args(["-c", script]).arg(&program).arg(&file);
    let starts = run(cmd, &file);
    let [before, after] = &starts[..] else { panic!("two starts: {starts:?}") };
    assert!(!program.exists() && after.is_stamped(), "{after:?}");
    assert_eq!(before.rest(), after.rest());
}

/// The dynamic loader that this test itself was started with.
fn loader() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").expect("its own");
    let paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    paths
        .map(PathBuf::from)
        .find(|path| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"ld-linux")))
}

#[test]
fn a_program_that_its_loader_started_is_started_so_again() {
    let guard = NoLeftovers::new();
    let loader = loader().expect("std links the C library dynamically");
    let name = OsStr::new("--argv0");
    let (path, empty) = (OsStr::new("--library-path"), OsStr::new(""));
    for options in [&[][..], &[path, empty], &[name, "odd".as_ref()]] {
        for words in [&[][..], &["word".as_ref(), empty]] {
            let dir = TempDir::new();
            let file = dir.at("log");
            let mut cmd = guard.command(&loader);
            cmd.env_remove(API_SERVER_ENV).env_remove(API_SERVER_STAMP_ENV);
            cmd.args(options).arg(fixture!("stamper")).arg(&file).args(words);
            let starts = run(cmd, &file);
            let [before, after] = &starts[..] else { panic!("{options:?}: two starts: {starts:?}") };
            assert_eq!(before.rest(), after.rest(), "{options:?}");
            assert!(after.is_stamped() && after.said == ["stamp Stamped"], "{after:?}");
        }
    }
}

#[test]
fn entries_that_std_does_not_show_stay() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let odd = ["=lead", "=", "=two=parts", "bare", "", "DUP=1", "DUP=2", "LAST="];
    let environ: Vec<String> = odd.into_iter().map(String::from).chain([guard.entry()]).collect();
    let image = Image::new(fixture!("stamper"), &[file.as_os_str()], &environ);
    let made = fork::exec(None, fork::Group::Same, &image).expect("a child");
    assert_eq!(fork::reap(made), 0);
    let starts = starts(&file);
    let [before, after] = &starts[..] else { panic!("two starts: {starts:?}") };
    assert_eq!(before.state.iter().filter(|(key, _)| key == "env").count(), environ.len(), "{before:?}");
    assert_eq!(before.rest(), after.rest());
    assert!(after.is_stamped(), "{after:?}");
}

#[test]
fn a_refused_exec_gives_its_errno_and_the_program_goes_on() {
    const ERRNO: &str = "PIDWARD_TEST_ERRNO";
    let Ok(errno) = std::env::var(ERRNO) else {
        for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
            Again::of(&this_test!()).env(ERRNO, &errno.to_string()).run().check();
        }
        return;
    };
    let errno: i32 = errno.parse().expect("a number");
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    // By descriptor only, so that the fixture itself can be started.
    Filter::new().errno(libc::SYS_execveat, errno).install();
    let starts = run(stamper(&guard, fixture!("stamper"), &file, &["refused".as_ref()]), &file);
    let [before, child] = &starts[..] else { panic!("one start, and a child: {starts:?}") };
    assert!(
        before.said[0].starts_with("stamp error ") && before.said[0].contains(&format!("Some({errno})")),
        "{before:?}"
    );
    assert_eq!(before.said[1..], ["kept true"], "handlers and descriptors: {before:?}");
    assert!(child.said.iter().any(|line| line.contains("child Ok(") && line.contains("(0)")), "{child:?}");
}

#[test]
fn where_the_kernel_shows_no_environ_there_is_no_stamp_and_no_exec() {
    let guard = NoLeftovers::new();
    let one = |cmd: Command, file: &Path| {
        let starts = run(cmd, file);
        assert_eq!(starts.len(), 1, "no exec: {starts:?}");
        assert_eq!(starts[0].said, ["stamp Unverifiable"]);
    };
    let dir = TempDir::new();
    // It thinks that it is stamped, and the kernel shows something else: once more would be for ever.
    let file = dir.at("claims");
    one(stamper(&guard, fixture!("stamper"), &file, &["claims".as_ref()]), &file);
    if skip::has_namespaces() {
        for (name, place) in [("empty", "mount -t tmpfs none /proc &&"), ("outer", "")] {
            let file = dir.at(name);
            let mut cmd = guard.command("unshare");
            cmd.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
            cmd.arg(format!("{place} exec \"$0\" \"$1\" bare")).arg(fixture!("stamper")).arg(&file);
            let status = cmd.status().expect("unshare");
            assert!(status.success(), "{status}");
            let text = fs::read_to_string(&file).expect("what it said");
            assert_eq!(text.matches("start ").count(), 1, "{text}");
            assert!(text.ends_with("stamp Unverifiable\n"), "{text}");
        }
    }
}

#[test]
fn no_variable_at_all_is_an_environ_too() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let mut cmd = guard.command("env");
    cmd.arg("-i").arg(fixture!("stamper")).arg(&file);
    let starts = run(cmd, &file);
    let [before, after] = &starts[..] else { panic!("two starts: {starts:?}") };
    assert!(before.state.iter().all(|(key, _)| key != "env") && after.is_stamped(), "{starts:?}");
}

#[test]
fn a_stamped_server_below_somebodys_child_is_known() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let file = dir.at("log");
    let spawner = pidward::Spawner::new().expect("a spawner");
    let mut cmd = pidward::Command::new("/bin/sh");
    cmd.args(["-c", "\"$0\" \"$1\" asked; exit $?"]).arg(fixture!("stamper")).arg(&file);
    cmd.env(guard.token().0, guard.token().1).service(&"shell".parse().expect("a name"));
    assert!(spawner.spawn(&cmd).expect("a shell").wait().expect("its end").success());
    let starts = starts(&file);
    assert_eq!(starts[2].said, ["stamp is Same"], "{starts:?}");
}

#[test]
fn a_server_that_may_not_be_looked_at_is_unverifiable() {
    need!(os::is_root(), "needs-root: to become another user");
    let guard = NoLeftovers::new();
    let dir: PathBuf = std::env::temp_dir();
    let file = dir.join(format!("pidward-test-stamp-{}", pidward_tests::leftovers::random_word()));
    fs::write(&file, "").expect("a file");
    std::os::unix::fs::chown(&file, Some(65534), None).expect("root may");
    let mut cmd = stamper(&guard, fixture!("stamper"), &file, &["undumpable".as_ref()]);
    cmd.uid(65534);
    let status = cmd.status().expect("the fixture");
    let text = fs::read_to_string(&file).expect("what it said");
    fs::remove_file(&file).expect("the file");
    assert!(status.success(), "{status}: {text}");
    assert_eq!(text.matches("start ").count(), 1, "{text}");
    assert!(text.ends_with("stamp Unverifiable\n"), "{text}");
}

#[test]
fn the_service_of_an_api_server_has_one_name() {
    assert_eq!(api_server_service().as_str(), pidward::API_SERVER_SERVICE);
    let environ = format!("{API_SERVER_ENV}=api\0").into_bytes();
    assert!(pidward::ChildKind::Api.identifies(&environ, &api_server_service()));
}
