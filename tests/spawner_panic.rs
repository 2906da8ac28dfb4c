//! A panic while a request is served is that request's error, and nobody else's end.

use std::{
    fs, process,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use pidward::{Command, SpawnErrorKind, Spawner};
use pidward_tests::{in_child, leftovers::NoLeftovers, proc};

const MILLI: Duration = Duration::from_millis(1);

fn command(guard: &NoLeftovers, program: &str) -> Command {
    let (name, value) = guard.token();
    let mut cmd = Command::new(program);
    cmd.env(name, value);
    cmd
}

/// A logger of the host that panics on demand.
struct Panics(AtomicBool);

static LOGGER: Panics = Panics(AtomicBool::new(false));

impl log::Log for Panics {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, _: &log::Record<'_>) {
        assert!(!self.0.load(Ordering::Relaxed), "on purpose");
    }

    fn flush(&self) {}
}

#[test]
fn panic_on_the_spawner_thread_is_the_error_of_one_asker() {
    in_child!();
    let guard = NoLeftovers::alone();
    log::set_logger(&LOGGER).map(|()| log::set_max_level(log::LevelFilter::Trace)).unwrap();
    let spawner = Spawner::new().unwrap();
    let mut child = spawner.spawn(command(&guard, "sleep").arg("1000")).unwrap();
    for _ in 0..3 {
        // A SIGCHLD that is ignored is worth a word in the log, on the spawner thread.
        pidward_tests::os::ignore(libc::SIGCHLD).unwrap();
        LOGGER.0.store(true, Ordering::Relaxed);
        let error = spawner.spawn(command(&guard, "/bin/true").deadline(MILLI * 3000)).unwrap_err();
        LOGGER.0.store(false, Ordering::Relaxed);
        assert_eq!(error.kind(), SpawnErrorKind::Panicked, "{error}");
        assert!(error.to_string().contains("no child exists"), "{error}");
        assert_eq!(proc::children(process::id()), [child.id()], "no child exists but the old one");
    }
    let names = fs::read_dir("/proc/self/task").unwrap();
    let names = names.map(|t| fs::read_to_string(t.unwrap().path().join("comm")).unwrap_or_default());
    assert_eq!(names.filter(|n| n.starts_with("pidward-spawner")).count(), 1);
    assert!(child.wait_timeout(MILLI * 200).unwrap().is_none(), "its children live on");
    assert!(spawner.spawn(&command(&guard, "/bin/true")).unwrap().wait().unwrap().success());
    assert!(child.stop(MILLI * 5000).is_complete());
}
