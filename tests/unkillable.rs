//! A process that the kernel does not let go of: a stop says so within its limits, nothing blocks, and its end is taken when it comes.

use std::time::{Duration, Instant};

use pidward::{CgroupPlace, Spawner};
use pidward_tests::{
    cgroup::{Place, groups},
    command::{self, code},
    files::TempDir,
    frozen::Frozen,
    in_child,
    leftovers::NoLeftovers,
    need, os, proc, skip,
};

const SHORT: Duration = Duration::from_millis(200);
/// Grace, kill limit, and time for a busy machine.
const LIMIT: Duration = Duration::from_secs(12);

#[test]
fn a_stop_says_who_is_beyond_sigkill_and_its_end_is_taken_when_it_comes() {
    need!(os::is_root(), "needs-root: to mount");
    in_child!();
    let guard = NoLeftovers::new();
    let dir = TempDir::new();
    let Some(frozen) = Frozen::new(&dir) else {
        skip!("needs-loop");
    };
    let leaves = Place::new();
    let at = leaves.as_ref().map_or(CgroupPlace::Off, Place::at);
    let spawner = Spawner::builder().cgroup(at).build().expect("a spawner");
    let file = frozen.path().join("file");
    // It keeps no pipe open.
    let script = format!("exec >/dev/null 2>&1; echo x > {}", file.display());
    let mut child = spawner.spawn(&guard.shell(&script)).expect("a child");
    let pid = child.id();
    proc::eventually("it hangs", || proc::state(pid) == Some('D'));
    let began = Instant::now();
    let report = child.stop(SHORT);
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    let survivors: Vec<_> = report.survivors().map(|survivor| (survivor.pid, survivor.state)).collect();
    assert_eq!(survivors, [(pid, 'D')], "{report:?}");
    assert!(report.status().is_none() && report.children.iter().all(|child| !child.proven), "{report:?}");
    let began = Instant::now();
    drop(child);
    assert!(began.elapsed() < Duration::from_secs(1), "a drop does not wait");
    // The command ends, names it, and says so by its code.
    let mut cmd = command::run(&guard, &["--grace", "100ms", "--timeout", "100ms"], &["sh", "-c", &script]);
    let began = Instant::now();
    let output = command::finish(&mut cmd);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(began.elapsed() < LIMIT * 2 && code(&output) == 4, "{:?}: {output:?}", began.elapsed());
    assert!(
        text.starts_with("pidward: process ") && text.contains(" (state D) survived the stop\n"),
        "{text}"
    );
    // A shutdown reports it once, and the drop that follows does not begin anew.
    let another = Spawner::new().expect("a spawner");
    let other = another.spawn_supervised(guard.shell(&script)).expect("a child");
    proc::eventually("it hangs", || proc::state(other) == Some('D'));
    let began = Instant::now();
    let report = another.shutdown(SHORT);
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    assert_eq!(report.survivors().map(|survivor| survivor.pid).collect::<Vec<_>>(), [other], "{report:?}");
    frozen.thaw();
    proc::eventually("its end is taken", || proc::state(pid).is_none());
    proc::eventually("nobody is left", || guard.left().is_empty());
    if let Some(place) = &leaves {
        let run = place.below().pop().expect("the run's group");
        proc::eventually("its leaf is gone", || groups(&run).is_empty());
        drop(spawner);
        assert!(place.below().is_empty(), "and the run's group");
    }
}
