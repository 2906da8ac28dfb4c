//! What a command comes to, seen by real children.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use pidward_core::{
    image::MAX_STRING,
    reap::Status,
    spawn::{self, Child, Launcher, Slot},
};

use super::*;
use crate::SpawnErrorKind;

/// Starts the command as the spawner does, its retries included.
pub(crate) fn launch(cmd: &Command) -> Result<(Child, ParentEnds), SpawnError> {
    let (prepared, ends) = Prepared::new(cmd, DefaultStdio::Piped, &Names::DEFAULT)?;
    let mut launcher = Launcher::new().unwrap();
    let mut tries = 0;
    loop {
        let error = match prepared.with_plan(|plan| launcher.spawn(plan, &Slot::new())) {
            Ok(child) => return Ok((child, ends)),
            Err(error) => error,
        };
        match spawn::delay(error, tries, 0) {
            Some(wait) => thread::sleep(wait),
            None => return Err(SpawnError::from_core(error, &prepared)),
        }
        tries += 1;
    }
}

pub(crate) fn end_of(child: &Child) -> Status {
    let start = Instant::now();
    loop {
        if let Some(exit) = child.try_reap().unwrap() {
            return exit.status;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "child {} has not ended", child.pid());
        thread::sleep(Duration::from_millis(1));
    }
}

/// How it ended, and what it wrote to its standard output.
pub(crate) fn output(cmd: &Command) -> Result<(Status, String), SpawnError> {
    let (child, ends) = launch(cmd)?;
    let mut text = Vec::new();
    if let Some(mut stdout) = ends.stdout {
        stdout.read_to_end(&mut text).unwrap();
    }
    Ok((end_of(&child), String::from_utf8(text).unwrap()))
}

/// A directory of its own for a test, removed at its end.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("pidward-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    pub(crate) fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kind_of(cmd: &Command) -> SpawnErrorKind {
    output(cmd).map(|(status, text)| format!("{status:?} {text}")).unwrap_err().kind()
}

fn sh(script: &str) -> Command {
    let mut cmd = Command::new("/bin/sh");
    cmd.args(["-c", script]);
    cmd
}

/// A prepared command can be asked for on one thread and started on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Prepared>();
    is_send::<ParentEnds>();
};

#[test]
fn a_single_argument_or_variable_over_the_limit_is_its_own_error() {
    let script = "printf %s ${#1}; printf ,%s ${#V}";
    let fits = "a".repeat(MAX_STRING);
    let (status, text) = output(sh(script).args(["x", &fits]).env("V", "")).unwrap();
    assert_eq!((status, text), (Status::Exited(0), format!("{MAX_STRING},0")));
    let value = "v".repeat(MAX_STRING - "V=".len());
    let (status, text) = output(sh(script).env("V", &value)).unwrap();
    assert_eq!((status, text), (Status::Exited(0), format!("0,{}", value.len())));

    let started = Instant::now();
    for cmd in [
        sh("exit 0").args(["x", &format!("{fits}a")]),
        sh("exit 0").env("V", format!("{value}v")),
        // No string is too long, all together are: even an unlimited stack gives 6 MiB.
        sh("exit 0").args(vec!["b".repeat(100_000); 80]),
    ] {
        let error = output(cmd).unwrap_err();
        assert_eq!((error.kind(), error.step()), (SpawnErrorKind::ArgumentTooLong, Some("exec")));
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::TOOBIG.raw_os_error()));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ArgumentListTooLong);
    }
    // Not retried: the retries alone would take three seconds.
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

/// Two tools that say where they are, and what stands in their way.
fn tools(name: &str) -> Dir {
    let dir = Dir::new(name);
    for place in ["d1", "d2", "cwd"] {
        dir.file(&format!("{place}/pidward-tool"), &format!("#!/bin/sh\necho {place}\n"), 0o755);
    }
    fs::create_dir_all(dir.0.join("d0/pidward-tool")).unwrap();
    dir.file("plain/pidward-tool", "#!/bin/sh\necho plain\n", 0o644);
    dir.file("file", "", 0o644);
    dir
}

#[test]
fn the_path_searched_is_that_of_the_child() {
    let dir = tools("search");
    let find = |path: &[&str], fork: bool| {
        let mut cmd = Command::new("pidward-tool");
        cmd.current_dir(dir.0.join("cwd"));
        cmd.env("PATH", path.join(":"));
        // A change of user takes the other way to make a child.
        if fork {
            cmd.uid(rustix::process::getuid().as_raw());
        }
        output(&cmd).map(|(_, text)| text.trim().to_owned()).map_err(|e| e.kind())
    };
    let [d0, d1, d2, plain, file] = ["d0", "d1", "d2", "plain", "file"].map(|name| dir.path(name));
    for fork in [false, true] {
        let find = |path: &[&str]| find(path, fork);
        assert_eq!(find(&[&d1]).as_deref(), Ok("d1"));
        assert_eq!(find(&[&d2, &d1]).as_deref(), Ok("d2"));
        // Empty elements: the file in the current directory never runs.
        assert_eq!(find(&["", &d1]).as_deref(), Ok("d1"));
        assert_eq!(find(&[&d1, ""]).as_deref(), Ok("d1"));
        assert_eq!(find(&["", &d0]), Err(SpawnErrorKind::NotExecutable));
        assert_eq!(find(&[""]), Err(SpawnErrorKind::ProgramMissing));
        assert_eq!(find(&["", "", ""]), Err(SpawnErrorKind::ProgramMissing));
        // A directory, a file without execute permission and a file for a directory are passed by.
        assert_eq!(find(&[&d0, &plain, &file, "/no/such", &d2]).as_deref(), Ok("d2"));
        // Nothing better: what was found is told, not what was not.
        assert_eq!(find(&[&plain, "/no/such"]), Err(SpawnErrorKind::NotExecutable));
        assert_eq!(find(&[&file, "/no/such"]), Err(SpawnErrorKind::ProgramMissing));
        // Asked for by name it does run, from the child's directory.
        assert_eq!(find(&["."]).as_deref(), Ok("cwd"));
    }
}

#[test]
fn without_path_the_default_is_searched_and_never_the_current_directory() {
    let dir = tools("default");
    for clear in [true, false] {
        let mut tool = Command::new("pidward-tool");
        let mut echo = Command::new("echo");
        echo.arg("found");
        for cmd in [&mut tool, &mut echo] {
            let cmd = cmd.current_dir(dir.0.join("cwd"));
            if clear {
                cmd.env_clear()
            } else {
                cmd.env_remove("PATH")
            };
        }
        assert_eq!(kind_of(&tool), SpawnErrorKind::ProgramMissing);
        assert_eq!(output(&echo).unwrap().1, "found\n");
    }
    let mut planted = Command::new("./pidward-tool");
    planted.current_dir(dir.0.join("cwd")).env_clear();
    assert_eq!(output(&planted).unwrap().1, "cwd\n");
}

#[test]
fn a_nul_byte_is_refused_and_nothing_is_cut() {
    let nul = "x\0y-secret";
    let mut arg0 = Command::new("true");
    arg0.arg0(nul);
    for cmd in [
        &Command::new("true\0b"),
        &Command::new("/bin/true\0b"),
        &arg0,
        Command::new("true").arg(nul),
        Command::new("true").env("V", nul),
        Command::new("true").current_dir(nul),
    ] {
        let error = output(cmd).unwrap_err();
        assert_eq!((error.kind(), error.step(), error.raw_os_error()), (SpawnErrorKind::Nul, None, None));
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_name_of_a_variable_that_is_none_is_refused() {
    for name in ["", "=", "A=B", "A=secret", "A\0B"] {
        let set = output(Command::new("true").env(name, "secret")).unwrap_err();
        let removed = output(Command::new("true").env_remove(name)).unwrap_err();
        for error in [set, removed] {
            assert_eq!(error.kind(), SpawnErrorKind::InvalidInput);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }
    assert_eq!(kind_of(&Command::new("")), SpawnErrorKind::InvalidInput);
}

#[test]
fn an_empty_argument_list_gets_the_program_as_its_first() {
    let dir = Dir::new("argv");
    let show = |cmd: &mut Command| output(cmd.stdin(fs::File::open("/dev/null").unwrap())).unwrap().1;
    let file = dir.file("show", "", 0o644);
    // A shell without arguments reads from its input.
    fs::write(&file, "tr '\\0' ' ' < /proc/$$/cmdline").unwrap();
    let mut cmd = Command::new("/bin/sh");
    cmd.stdin(fs::File::open(&file).unwrap());
    assert_eq!(output(&cmd).unwrap().1, "/bin/sh ");
    cmd.stdin(fs::File::open(&file).unwrap()).arg0("other");
    assert_eq!(output(&cmd).unwrap().1, "other ");
    assert_eq!(show(&mut Command::new("/bin/sh")), "");
}

#[test]
fn numbers_that_cannot_be_meant_are_refused_before_any_child() {
    let null = || fs::File::open("/dev/null").unwrap();
    let cases: [&dyn Fn(&mut Command); 8] = [
        &|c| _ = c.process_group(-2),
        &|c| _ = c.own_group(false).foreground(null()),
        &|c| _ = c.pass_fd(null(), 2),
        &|c| _ = c.pass_fd(null(), u32::MAX),
        &|c| _ = c.nice(20),
        &|c| _ = c.nice(-21),
        &|c| _ = c.oom_score_adj(1001),
        &|c| _ = c.oom_score_adj(-1001),
    ];
    for set in cases {
        let mut cmd = Command::new("true");
        set(&mut cmd);
        let error = output(&cmd).unwrap_err();
        assert_eq!((error.kind(), error.step()), (SpawnErrorKind::InvalidInput, None), "{error}");
    }
}

#[test]
fn a_stamp_stands_once_whatever_was_there() {
    let mut cmd = sh("env | grep ^STAMP | sort");
    cmd.env("STAMP", "old").env("STAMPS", "stay");
    let (mut prepared, ends) = Prepared::new(&cmd, DefaultStdio::Piped, &Names::DEFAULT).unwrap();
    prepared.stamp("STAMP", "first");
    prepared.stamp("STAMP", "second");
    let mut launcher = Launcher::new().unwrap();
    // The same plan twice, as a retry does.
    for _ in 0..2 {
        let child = prepared.with_plan(|plan| launcher.spawn(plan, &Slot::new())).unwrap();
        assert_eq!(end_of(&child), Status::Exited(0));
    }
    drop(prepared);
    let mut text = String::new();
    ends.stdout.unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "STAMP=second\nSTAMPS=stay\n".repeat(2));
}

#[test]
fn streams_are_what_was_asked_for() {
    let mut cmd = sh("cat; echo err >&2");
    cmd.stdin(Stdio::piped());
    let (child, ends) = launch(&cmd).unwrap();
    ends.stdin.unwrap().write_all(b"in").unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    ends.stdout.unwrap().read_to_string(&mut out).unwrap();
    ends.stderr.unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((end_of(&child), out.as_str(), err.as_str()), (Status::Exited(0), "in", "err\n"));

    let mut null = sh("readlink /proc/self/fd/0 /proc/self/fd/1 >&2");
    null.stdout(Stdio::null());
    let (child, ends) = launch(&null).unwrap();
    let mut err = String::new();
    ends.stderr.unwrap().read_to_string(&mut err).unwrap();
    assert!(ends.stdin.is_none() && ends.stdout.is_none());
    assert_eq!(end_of(&child), Status::Exited(0));
    // The second is readlink's own standard output, sent to the pipe.
    assert!(err.starts_with("/dev/null\n"), "{err}");
}

#[test]
fn a_command_can_be_used_again_with_the_same_descriptor() {
    let dir = Dir::new("again");
    let file = fs::File::create(dir.0.join("log")).unwrap();
    let mut cmd = sh("echo line");
    cmd.stdout(file);
    for _ in 0..3 {
        assert_eq!(output(&cmd).unwrap().0, Status::Exited(0));
    }
    assert_eq!(fs::read_to_string(dir.0.join("log")).unwrap(), "line\n".repeat(3));
}

#[test]
fn a_write_to_a_child_that_has_ended_is_an_error() {
    let mut cmd = Command::new("true");
    cmd.stdin(Stdio::piped());
    let (child, ends) = launch(&cmd).unwrap();
    assert_eq!(end_of(&child), Status::Exited(0));
    let error = ends.stdin.unwrap().write_all(b"x").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_working_directory_of_any_bytes_is_entered() {
    let dir = Dir::new("bytes");
    let odd = dir.0.join(OsString::from_vec(b"a b\xff\n".to_vec()));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("here"), "").unwrap();
    let mut cmd = Command::new("ls");
    cmd.current_dir(&odd);
    assert_eq!(output(&cmd).unwrap().1, "here\n");
}
