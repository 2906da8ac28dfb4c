//! Values of the environment and data on pipes never appear in Debug, in an error or in the log. Arguments do: they are
//! in everybody's view in `/proc/PID/cmdline` anyway.

use std::{
    fmt::Debug,
    io::{Read, Write},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use pidward::{Command, Spawner, Stdio};
use pidward_tests::{in_child, leftovers::NoLeftovers, os, seccomp::Filter};

const SECRET: &str = "hunter2-6e3b0c44";
/// The same as a list of bytes, as a careless Debug would show it.
const AS_LIST: &str = "104, 117, 110, 116, 101, 114, 50";

/// Keeps every line of the log.
struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record.args().to_string());
    }

    fn flush(&self) {}
}

#[track_caller]
fn clean(text: &str) {
    assert!(!text.contains(SECRET) && !text.contains(AS_LIST), "{text}");
}

#[track_caller]
fn shows_nothing(value: &impl Debug) {
    clean(&format!("{value:?}"));
    clean(&format!("{value:#?}"));
}

/// A command with the secret in everything that is not to be shown.
fn secretive(guard: &NoLeftovers, program: &str) -> Command {
    let (name, value) = guard.token();
    let mut cmd = Command::new(program);
    cmd.env("TOKEN", SECRET).envs([("OTHER", SECRET)]).env(name, value);
    cmd
}

#[test]
fn secret_in_environ_and_on_pipes_is_shown_nowhere() {
    in_child!();
    let guard = NoLeftovers::alone();
    log::set_logger(&LINES).map(|()| log::set_max_level(log::LevelFilter::Trace)).unwrap();
    let builder = Spawner::builder();
    shows_nothing(&builder);
    let spawner = builder.build().unwrap();
    let mut cmd = secretive(&guard, "/bin/sh");
    cmd.args(["-c", "read x; echo $x $TOKEN; echo $x $OTHER >&2; read x; exit 3"]).arg("an argument");
    cmd.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shows_nothing(&cmd);
    let shown = format!("{cmd:?}");
    assert!(
        shown.contains("+TOKEN") && shown.contains("an argument"),
        "names and arguments are shown: {shown}"
    );
    let mut child = spawner.spawn(&cmd).unwrap();
    child.stdin.as_mut().unwrap().write_all(format!("{SECRET}\n").as_bytes()).unwrap();
    let mut line = vec![0; 2 * SECRET.len() + 2];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(line, format!("{SECRET} {SECRET}\n").as_bytes(), "the child has it");
    shows_nothing(&child);
    shows_nothing(&(&child.stdin, &child.stdout, &child.stderr));
    shows_nothing(&spawner);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let mut stopped = spawner.spawn(secretive(&guard, "/bin/sleep").arg("1000")).unwrap();
    shows_nothing(&stopped.stop(Duration::from_secs(5)));

    let mut failing = vec![secretive(&guard, "/nonexistent"), secretive(&guard, "/etc/passwd")];
    failing.push(secretive(&guard, "/bin/true"));
    failing[2].env("BAD", format!("{SECRET}\0")).current_dir("/");
    failing.push(secretive(&guard, "/bin/true"));
    failing[3].env(format!("={SECRET}"), SECRET);
    failing.push(secretive(&guard, "/bin/true"));
    failing[4].env("LONG", SECRET.repeat(20_000));
    failing.push(secretive(&guard, "/bin/true"));
    failing[5].current_dir("/nonexistent");
    failing.push(secretive(&guard, "/bin/true"));
    failing[6].deadline(Duration::ZERO);
    for (n, cmd) in failing.iter().enumerate() {
        // On a busy machine an answer may come before its asker has looked at the clock.
        let error = (0..100).find_map(|_| spawner.spawn(cmd).err());
        let error = error.unwrap_or_else(|| panic!("number {n} fails"));
        shows_nothing(&error);
        clean(&error.to_string());
        let error = std::io::Error::from(error);
        shows_nothing(&error);
        clean(&error.to_string());
    }

    // Something for the log: what is odd here, and what the kernel refuses.
    os::ignore(libc::SIGCHLD).unwrap();
    assert!(spawner.spawn(&secretive(&guard, "/bin/true")).unwrap().wait().unwrap().success());
    Filter::new().errno_if(libc::SYS_epoll_ctl, 1, u64::from(u32::MAX), 1, libc::ENOSPC).install();
    assert!(spawner.spawn(&secretive(&guard, "/bin/true")).unwrap().wait().unwrap().success());
    let lines = std::mem::take(&mut *LINES.0.lock().unwrap());
    assert!(lines.len() >= 2, "nothing was said: {lines:?}");
    lines.iter().for_each(|line| clean(line));
}
