//! `pidward run --restart on-failure`: a program that has failed is started again, later each time, and not for ever.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use pidward_tests::{
    command::{code, finish, run},
    files::TempDir,
    leftovers::NoLeftovers,
    os, proc,
};

const OPTIONS: [&str; 4] = ["--restart", "on-failure", "--grace", "1s"];

/// Says on which line of the file it is, and then does what that turn is for.
fn turns(guard: &NoLeftovers, options: &[&str], log: &Path, then: &str) -> Command {
    let options = [&OPTIONS[..], options].concat();
    let script = format!("echo x >>{log}; n=$(wc -l <{log}); {then}", log = log.display());
    let mut command = run(guard, &options, &["sh", "-c", &script]);
    command.env("PIDWARD_LOG", "off");
    command
}

fn count(log: &Path) -> usize {
    fs::read_to_string(log).unwrap_or_default().lines().count()
}

#[test]
fn failed_program_is_started_again_until_it_does_well() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    for (name, fails) in [("code", "exit 3"), ("signal", "kill -9 $$")] {
        let log = dir.at(name);
        let began = Instant::now();
        let output = finish(&mut turns(&guard, &[], &log, &format!("[ $n = 1 ] && {fails}; exit 0")));
        assert_eq!((code(&output), count(&log)), (0, 2), "{output:?}");
        assert!(began.elapsed() >= Duration::from_millis(500));
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    // Well at once, and without the option whatever happens.
    let log = dir.at("well");
    assert_eq!((code(&finish(&mut turns(&guard, &[], &log, "exit 0"))), count(&log)), (0, 1));
    let log = dir.at("no");
    let script = format!("echo x >>{}; exit 3", log.display());
    let output = finish(&mut run(&guard, &["--restart", "no"], &["sh", "-c", &script]));
    assert_eq!((code(&output), count(&log)), (3, 1));
}

#[test]
fn two_crashes_at_the_start_are_enough() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let log = dir.at("log");
    let output = finish(&mut turns(&guard, &[], &log, "exit $((40 + n))"));
    assert_eq!((code(&output), count(&log)), (42, 2));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(words, "pidward: the program has failed too often, the last time with 42\n");
}

#[test]
fn whoever_wants_an_end_has_it_in_a_run_and_between_two() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    // It ends with a failure because it was told to end.
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let log = dir.at(format!("told{signal}"));
        let mut child =
            turns(&guard, &[], &log, "trap 'exit 9' TERM INT; sleep 1000 & wait").spawn().unwrap();
        proc::eventually("it runs", || count(&log) == 1);
        // Its trap is set by the time that its child is there.
        proc::eventually("it waits", || guard.left().len() >= 4);
        os::signal_pid(child.id(), signal).unwrap();
        assert_eq!((child.wait().unwrap().code(), count(&log)), (Some(9), 1));
    }
    // Nobody is there to be told.
    let log = dir.at("between");
    let mut command = turns(&guard, &[], &log, "exit 5");
    command.env("PIDWARD_LOG", "warn").stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("started again in"), "{line}");
    os::signal_pid(child.id(), libc::SIGTERM).unwrap();
    assert_eq!((child.wait().unwrap().code(), count(&log)), (Some(5), 1));
}

#[test]
fn time_is_that_of_all_runs_and_descriptors_are_there_in_each() {
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let log = dir.at("log");
    let then = "echo >&8; [ $n = 1 ] && exit 3; sleep 1000";
    let output = finish(&mut turns(&guard, &["--timeout", "3s", "--ready-fd", "8"], &log, then));
    assert_eq!((code(&output), count(&log)), (124, 2), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    // One that is passed is the same in every run.
    let seen = dir.at("seen");
    let log = dir.at("passed");
    let script = "echo $n >&7; [ $n = 1 ] && exit 3; exit 0";
    let inner = turns(&guard, &["--pass-fd", "7"], &log, script);
    let mut shell = guard.command("sh");
    shell.args(["-c", &format!("exec 7>{}; exec \"$@\"", seen.display()), "sh"]);
    shell.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        value.map(|value| shell.env(name, value));
    }
    assert_eq!(code(&finish(&mut shell)), 0);
    assert_eq!(fs::read_to_string(&seen).unwrap(), "1\n2\n");
}

#[test]
fn word_that_is_none_is_refused_in_one_line() {
    let guard = NoLeftovers::new();
    let output = finish(&mut run(&guard, &["--restart", "always"], &["true"]));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(&output), 125);
    assert!(words.starts_with("pidward: ") && words.contains("no or on-failure"), "{words}");
}
