//! Each cause with its own kind, step and words; nothing secret in any of them.

use std::{env, error::Error, ffi::OsStr, fs, io, os::unix::fs::PermissionsExt};

use pidward_core::reap::Status;
use rustix::io::Errno as Os;

use super::*;
use crate::{
    Command,
    prepare::tests::{Dir, output},
};

fn error_of(cmd: &Command) -> SpawnError {
    output(cmd).map(|(status, text)| format!("{status:?} {text}")).unwrap_err()
}

/// Kind, step, number and the kind of std.
fn told(error: &SpawnError) -> (SpawnErrorKind, Option<&'static str>, Option<i32>, io::ErrorKind) {
    (error.kind(), error.step(), error.raw_os_error(), io::Error::from(error.clone()).kind())
}

#[test]
fn causes_that_share_an_errno_are_told_apart() {
    use SpawnErrorKind::*;
    let dir = Dir::new("causes");
    let missing = dir.path("missing");
    let file = |name, text, mode| dir.file(name, text, mode).into_os_string().into_string().unwrap();
    let rows = [
        (missing.clone(), "/", ProgramMissing, "exec", Os::NOENT, io::ErrorKind::NotFound),
        (
            "/bin/true".into(),
            &missing,
            WorkingDirectoryMissing,
            "change directory",
            Os::NOENT,
            io::ErrorKind::NotFound,
        ),
        (
            "/bin/true".into(),
            "/etc/passwd",
            WorkingDirectoryMissing,
            "change directory",
            Os::NOTDIR,
            io::ErrorKind::NotFound,
        ),
        (
            file("script", "#!/no/such\n", 0o755),
            "/",
            InterpreterMissing,
            "exec",
            Os::NOENT,
            io::ErrorKind::NotFound,
        ),
        ("/etc/passwd/x".into(), "/", ProgramMissing, "exec", Os::NOTDIR, io::ErrorKind::NotFound),
        (dir.path(""), "/", NotExecutable, "exec", Os::ACCESS, io::ErrorKind::PermissionDenied),
        (
            file("plain", "#!/bin/sh\n", 0o644),
            "/",
            NotExecutable,
            "exec",
            Os::ACCESS,
            io::ErrorKind::PermissionDenied,
        ),
        ("/dev/null".into(), "/", NotExecutable, "exec", Os::ACCESS, io::ErrorKind::PermissionDenied),
        (
            file("text", "exit 0\n", 0o755),
            "/",
            BadFormat,
            "exec",
            Os::NOEXEC,
            io::Error::from_raw_os_error(8).kind(),
        ),
        (
            file("empty", "", 0o755),
            "/",
            BadFormat,
            "exec",
            Os::NOEXEC,
            io::Error::from_raw_os_error(8).kind(),
        ),
    ]
    .map(|(program, cwd, kind, step, errno, std)| {
        let mut cmd = Command::new(&program);
        cmd.current_dir(cwd);
        (cmd, (kind, Some(step), Some(errno.raw_os_error()), std))
    });
    for (cmd, want) in rows {
        let error = error_of(&cmd);
        assert_eq!(told(&error), want, "{error}");
        assert_eq!(error.program(), cmd.get_program());
    }
}

/// The ELF loader is the other interpreter that can be missing.
#[test]
fn a_missing_loader_is_told_from_a_missing_program() {
    let dir = Dir::new("loader");
    let mut elf = fs::read("/bin/true").unwrap();
    let Some(at) = elf.windows(7).position(|bytes| bytes == b"/lib64/" || bytes == b"/lib/ld") else {
        panic!("/bin/true has no loader")
    };
    elf[at + 1] = b'X';
    let path = dir.file("loaderless", "", 0o755);
    fs::write(&path, elf).unwrap();
    let error = error_of(&Command::new(&path));
    assert_eq!((error.kind(), error.path()), (SpawnErrorKind::InterpreterMissing, Some(&*path)), "{error}");
}

#[test]
fn the_file_in_question_is_named_where_it_was_searched() {
    let dir = Dir::new("named");
    let script = dir.file("bin/pidward-broken", "#!/no/such\n", 0o755);
    let mut cmd = Command::new("pidward-broken");
    cmd.env("PATH", format!("/no/such:{}", dir.path("bin")));
    assert_eq!(error_of(&cmd).path(), Some(&*script));
    // A relative element counts from the directory of the child.
    cmd.env("PATH", "bin").current_dir(&dir.0);
    let error = error_of(&cmd);
    assert_eq!((error.kind(), error.path()), (SpawnErrorKind::InterpreterMissing, Some(&*script)));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    let error = error_of(&cmd);
    assert_eq!((error.kind(), error.path()), (SpawnErrorKind::NotExecutable, Some(&*script)));
    let text = error.to_string();
    assert!(
        text.contains("exec: has no execute permission") && text.contains("EACCES (Permission denied)"),
        "{text}"
    );
}

/// The inner half runs in a mount namespace of its own, where the directory is mounted noexec.
#[test]
fn a_program_on_a_file_system_mounted_noexec_is_told() {
    const DIR: &str = "PIDWARD_TEST_NOEXEC";
    if let Some(dir) = env::var_os(DIR) {
        let program = Path::new(&dir).join("program");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let error = error_of(&Command::new(&program));
        assert_eq!(error.kind(), SpawnErrorKind::NotExecutable);
        assert!(error.to_string().contains("mounted noexec"), "{error}");
        return;
    }
    let dir = Dir::new("noexec");
    let mount = "mount -t tmpfs -o noexec,size=64k none \"$1\" || exit 99; shift; exec \"$@\"";
    let mut cmd = Command::new("unshare");
    cmd.args(["-rm", "sh", "-c", mount, "sh"]).arg(&dir.0).arg(env::current_exe().unwrap());
    cmd.args(["--exact", "error::tests::a_program_on_a_file_system_mounted_noexec_is_told"]).env(DIR, &dir.0);
    let (status, text) = output(&cmd).unwrap();
    if status == Status::Exited(99) || !text.contains("running 1 test") {
        println!("skipped: no mount namespace here");
        return;
    }
    assert_eq!(status, Status::Exited(0), "{text}");
}

#[test]
fn a_program_that_is_being_written_is_text_busy() {
    let dir = Dir::new("busy");
    let path = dir.file("program", "", 0o755);
    fs::copy("/bin/true", &path).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let error = error_of(&Command::new(&path));
    let etxtbsy = Some(Os::TXTBSY.raw_os_error());
    let want = (SpawnErrorKind::TextBusy, Some("exec"), etxtbsy, io::ErrorKind::ExecutableFileBusy);
    assert_eq!(told(&error), want);
    drop(writer);
    assert_eq!(output(&Command::new(&path)).unwrap().0, Status::Exited(0));
}

/// Causes that would take a full system, by the number that the kernel gives.
#[test]
fn numbers_without_a_file_behind_them_have_their_kinds() {
    use SpawnErrorKind::*;
    let rows = [
        (Step::Clone, Errno::EAGAIN, ProcessLimit),
        (Step::Exec, Errno::EAGAIN, ProcessLimit),
        (Step::Prepare, Errno::EAGAIN, Other),
        (Step::Clone, Errno::ENOMEM, OutOfMemory),
        (Step::Clone, Errno::EMFILE, NoFds),
        (Step::Prepare, Errno::ENFILE, NoFds),
        (Step::Clone, Errno::EPERM, Permission),
        (Step::Uid, Errno::EPERM, Permission),
        (Step::Plan, Errno::EPERM, ForkedCopy),
        (Step::Rlimits, Errno::EINVAL, InvalidInput),
        (Step::Clone, Errno::ENOSYS, Unsupported),
        (Step::Cgroup, Errno::EOPNOTSUPP, Unsupported),
        (Step::Group, Errno::EINTR, Ended),
        (Step::Exec, Errno::EINTR, Ended),
        (Step::Exec, Errno::EINVAL, BadFormat),
        (Step::Exec, Errno::EIO, Other),
        (Step::ParentCheck, Errno::ESRCH, Other),
    ];
    for (step, errno, kind) in rows {
        assert_eq!(kind::of_errno(step, errno), kind, "{step:?} {errno}");
    }
    assert_eq!(Ended.to_io(Some(Errno::EINTR.raw())), io::ErrorKind::Other);
}

#[test]
fn an_error_without_the_kernel_says_that_no_child_exists() {
    let made: [(fn() -> SpawnError, SpawnErrorKind); 7] = [
        (SpawnError::queue_full, SpawnErrorKind::QueueFull),
        (SpawnError::deadline, SpawnErrorKind::Deadline),
        (SpawnError::shut_down, SpawnErrorKind::ShutDown),
        (SpawnError::node_in_use, SpawnErrorKind::NodeInUse),
        (SpawnError::reply_lost, SpawnErrorKind::ReplyLost),
        (SpawnError::panicked, SpawnErrorKind::Panicked),
        (SpawnError::forked_copy, SpawnErrorKind::ForkedCopy),
    ];
    for (make, kind) in made {
        let error = make();
        assert!(error.to_string().starts_with("cannot start a program: "), "{error}");
        let error = error.of_program(OsStr::new("a\nb")).of_program(OsStr::new("other"));
        assert_eq!((error.kind(), error.step(), error.raw_os_error()), (kind, None, None));
        let text = error.to_string();
        assert!(
            text.starts_with("cannot start \"a\\nb\": ") && text.ends_with("; no child exists"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
    assert_eq!(io::Error::from(SpawnError::deadline()).kind(), io::ErrorKind::TimedOut);
}

#[test]
fn an_io_error_keeps_kind_and_number() {
    let error = io::Error::from(error_of(&Command::new("/no/such")));
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<SpawnError>()).unwrap();
    assert_eq!(inner.kind(), SpawnErrorKind::ProgramMissing);
    assert_eq!(inner.raw_os_error(), Some(Os::NOENT.raw_os_error()));
    assert!(inner.source().is_none());
    let text = "cannot start \"/no/such\": exec: no such program: ENOENT (No such file or directory)";
    assert_eq!((error.to_string(), inner.to_string()), (text.into(), text.into()));
}

#[test]
fn no_error_shows_an_argument_or_a_value() {
    let dir = Dir::new("shown");
    let programs = [dir.path("missing"), dir.path(""), "true\0".into(), String::new()];
    for program in programs {
        let mut cmd = Command::new(program);
        cmd.arg("arg-secret").arg0("arg0-secret").env("KEY", "value-secret");
        assert!(!format!("{cmd:?}{cmd:#?}").contains("value-secret"), "{cmd:?}");
        assert!(format!("{cmd:?}").contains("+KEY"), "{cmd:?}");
        let error = error_of(&cmd);
        let shown = format!("{error} {error:?} {error:#?} {:?}", io::Error::from(error.clone()));
        assert!(!shown.contains("-secret"), "{shown}");
    }
}

#[test]
fn a_full_cgroup_further_up_is_seen() {
    let dir = Dir::new("pids");
    let full = || limit::is_full(&dir.0.join("a/b"));
    dir.file("a/b/pids.max", "max\n", 0o644);
    dir.file("a/b/pids.current", "7\n", 0o644);
    assert!(!full());
    dir.file("a/pids.max", "8\n", 0o644);
    dir.file("a/pids.current", "7\n", 0o644);
    assert!(!full());
    dir.file("a/pids.current", "8\n", 0o644);
    assert!(full());
}

#[test]
fn the_threads_of_our_user_are_counted() {
    // Others of our user start and end meanwhile: many more than they do, in one of several tries.
    let seen = (0..50).any(|_| {
        let before = limit::tasks_of_user();
        assert!(before >= 1);
        let stop = std::sync::Barrier::new(65);
        let with = std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| stop.wait());
            }
            let with = limit::tasks_of_user();
            stop.wait();
            with
        });
        with >= before + 32
    });
    assert!(seen);
}
