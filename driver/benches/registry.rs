//! What a record adds to a spawn, against the spawn itself, and what a thousand records cost a listing and a reconciliation.
//!
//! `cargo bench --bench registry` prints medians; with `-- --check` it ends with 1 when one is over its budget. Floor and candidate take
//! turns within each round. The budget for a record holds on tmpfs, where run directories are; elsewhere the figure is printed alone.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use pidward::{
    Command, Listing, OnLastDrop, Registry, Spawner, Verdict,
    registry::{Action, Policy, ports as ports_of},
};

mod ratio;

/// A record costs less than the spawn itself.
const BUDGET: f64 = 2.0;
/// For 1,000 children, in seconds.
const LIMIT: f64 = 1.0;
const CHILDREN: usize = 1000;

fn main() -> ExitCode {
    let mut over = 0;
    for (dir, budget) in [("/dev/shm", Some(BUDGET)), ("/var/tmp", None)] {
        if Path::new(dir).is_dir() {
            over += record(&Path::new(dir).join(name()), budget);
        }
    }
    over += thousand(&std::env::temp_dir().join(name()));
    ratio::end(over)
}

fn name() -> String {
    format!("pidward-bench-{}", std::process::id())
}

/// From the call to the end of a child, with a record and without; each with its removal.
fn record(dir: &PathBuf, budget: Option<f64>) -> u32 {
    let registry = Registry::open(dir).expect("a registry");
    let plain = Spawner::builder().guard(false).build().expect("a spawner");
    let with = Spawner::builder().guard(false).registry(registry).build().expect("a spawner");
    let timed = |spawner: &Spawner| {
        let began = Instant::now();
        let mut child = spawner.spawn_on_this_thread(&Command::new("true")).expect("a child");
        let took = began.elapsed().as_secs_f64() * 1e6;
        child.wait().expect("its end");
        took
    };
    let rounds: Vec<(f64, f64)> =
        (0..ratio::rounds(300, 2000)).map(|_| (timed(&plain), timed(&with))).collect();
    let floor = ratio::median(rounds.iter().map(|round| round.0).collect());
    let times = ratio::median(rounds.iter().map(|round| round.1 / round.0).collect());
    let what = format!("a spawn with a record in {}", dir.parent().unwrap_or(dir).display());
    println!("{what}: {times:.2} x one without; that: {floor:.1} us");
    ratio::verdict(&what, times, budget.map(|budget| budget * ratio::slack()))
}

/// A thousand children that outlive their spawner, listed, verified, asked for their ports, and stopped by the next one.
fn thousand(dir: &PathBuf) -> u32 {
    let registry = Registry::open(dir).expect("a registry");
    let builder = Spawner::builder().guard(false).on_last_drop(OnLastDrop::Leave).registry(registry.clone());
    let spawner = builder.build().expect("a spawner");
    let mut command = Command::new("sleep");
    command.arg("600").survives_supervisor(true);
    for at in 0..CHILDREN {
        command.service(&format!("sleeper-{at}").parse().expect("a name"));
        drop(spawner.spawn(&command).expect("a child"));
    }
    let (mut list, mut ports) = (Vec::new(), Vec::new());
    for _ in 0..ratio::rounds(3, 10) {
        let began = Instant::now();
        let listing = Listing::read(dir).expect("a registry");
        assert!(listing.children.iter().all(|child| child.verify() == Verdict::Same));
        list.push(began.elapsed().as_secs_f64());
        assert_eq!(ports_of(&listing.children).len(), CHILDREN);
        ports.push(began.elapsed().as_secs_f64());
    }
    let (list, ports) = (ratio::median(list), ratio::median(ports));
    println!("{CHILDREN} children: listed and verified in {list:.3} s, with their ports in {ports:.3} s");
    let mut over = ratio::verdict("s for a listing with ports", ports, Some(LIMIT * ratio::slack()));
    // As a supervisor that has crashed leaves them: the same records and installation, and nobody has the lock.
    let left = dir.with_extension("left");
    std::fs::create_dir(&left).expect("a directory");
    for entry in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry")) {
        std::fs::copy(entry.path(), left.join(entry.file_name())).expect("a copy");
    }
    std::fs::set_permissions(&left, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours");
    let next = Registry::open(&left).expect("a registry");
    let began = Instant::now();
    let report = next.reconcile(Duration::from_secs(5), |_| Policy::Stop).expect("a registry");
    let took = began.elapsed().as_secs_f64();
    assert!(!report.has_survivors() && report.children.len() == CHILDREN, "{report:?}");
    assert!(report.children.iter().all(|child| matches!(child.action, Action::Stopped(_))), "{report:?}");
    println!("{CHILDREN} living children verified, stopped and cleared in {took:.3} s");
    drop((spawner.shutdown(Duration::ZERO), registry));
    over += ratio::verdict("s for a reconciliation", took, Some(LIMIT * ratio::slack()));
    over
}
