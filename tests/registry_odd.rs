//! Records that are none, and numbers that are somebody else's by now: nothing is signalled on their word, and the supervisor starts.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::PathBuf,
    time::Duration,
};

use pidward::{
    ChildKind, Listing, Registry, Spawner, Verdict, Why,
    registry::{Action, Policy, Reconciliation},
};
use pidward_core::{
    Id128, Pid,
    identity::{Field, Host},
    marker::{self, Run},
    record::{Born, Record, State},
};
use pidward_tests::{files::TempDir, fixture, leftovers::NoLeftovers, need, os, proc, records::records};

const SHORT: Duration = Duration::from_millis(100);

fn reconcile(registry: &Registry) -> Reconciliation {
    registry.reconcile(SHORT, |_| Policy::Stop).expect("a directory that can be read")
}

/// A record of this boot and installation; of a child that nobody knows.
fn record(registry: &Registry, born: Option<Born>) -> Record {
    let installation = Id128::parse(registry.installation().as_bytes()).expect("an id");
    let (boot, pid_ns) = Host::look().here().expect("a /proc");
    Record {
        state: if born.is_some() { State::Running } else { State::Intent },
        kind: marker::ChildKind::Task,
        name: "one".try_into().expect("short"),
        nonce: Run::nonce(installation).expect("random bytes"),
        cookie: Some(Run { id: Id128::random().expect("random bytes"), installation }),
        boot,
        pid_ns,
        born,
        leaf: None,
        status: None,
    }
}

fn put(registry: &Registry, record: &Record) -> PathBuf {
    let path = registry.path().join(format!("{}.record", record.nonce));
    fs::write(&path, record.to_string()).expect("ours");
    path
}

/// Whoever has this number now, as the child of a record.
fn born(pid: u32, ticks: u64, inode: Option<u64>) -> Option<Born> {
    let pid = Pid::new(pid).expect("a pid");
    Some(Born { pid, start_ticks: ticks, inode, pgid: Some(pid) })
}

#[test]
fn what_is_no_record_is_named_once_and_not_touched() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let good = record(&registry, None);
    let at = |name: &str| registry.path().join(name);
    let nonce = |digit: char| format!("{}.record", digit.to_string().repeat(32));
    let put = |name: &str, text: &[u8]| fs::write(at(name), text).expect("ours");
    put(&nonce('0'), b"");
    put(&nonce('1'), &[0; 4096]);
    put(&nonce('2'), b"hello\n");
    put(&nonce('3'), good.to_string().replacen("v=1\n", "v=2\n", 1).as_bytes());
    put(&nonce('4'), &vec![b'v'; 10 << 20]);
    // Whole, and under another's name.
    put(&nonce('5'), good.to_string().as_bytes());
    put("notes.txt", b"of a person");
    symlink("/proc/self/environ", at(&nonce('6'))).expect("ours");
    let fifo = std::process::Command::new("mkfifo").arg(at(&nonce('7'))).status();
    assert!(fifo.expect("mkfifo").success());
    fs::create_dir(at(&nonce('8'))).expect("ours");
    put(&nonce('9'), good.to_string().as_bytes());
    fs::set_permissions(at(&nonce('9')), fs::Permissions::from_mode(0o666)).expect("ours");
    let listing = Listing::read(registry.path()).expect("a directory");
    assert!(listing.children.is_empty() && listing.odd.len() == 11, "{listing:?}");
    // What somebody was just writing is no record, and is taken away.
    put(".1.record.tmp", b"v=1\nstate=");
    let report = reconcile(&registry);
    assert!(!at(".1.record.tmp").exists());
    assert_eq!((report.odd, report.children.len()), (listing.odd.clone(), 0));
    for (path, why) in &listing.odd {
        assert!(path.symlink_metadata().is_ok() && !why.is_empty() && !why.contains('\n'), "{path:?}: {why}");
    }
    let spawner = Spawner::builder().guard(false).registry(registry).build().expect("it starts all the same");
    assert!(spawner.spawn(&guard.shell("exit 0")).expect("a child").wait().expect("its end").success());
}

#[test]
fn a_record_of_another_user_is_none() {
    need!(os::is_root(), "needs-root");
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let path = put(&registry, &record(&registry, None));
    chown(&path, Some(65534), None).expect("root may");
    let report = reconcile(&registry);
    let [(odd, why)] = &report.odd[..] else { panic!("{report:?}") };
    assert!(*odd == path && why.contains("65534"), "{why}");
    assert!(path.exists());
}

#[test]
fn one_bit_or_one_cut_makes_a_record_none() {
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let path = put(&registry, &record(&registry, born(4_000_000, 1, None)));
    let text = fs::read(&path).expect("ours");
    let check = |text: &[u8], what: &str| {
        fs::write(&path, text).expect("ours");
        let listing = Listing::read(registry.path()).expect("a directory");
        assert!(listing.children.is_empty() && listing.odd.len() == 1, "{what}: {listing:?}");
    };
    for cut in 0..text.len() {
        check(&text[..cut], &format!("cut at {cut}"));
    }
    for at in 0..text.len() * 8 {
        let mut flipped = text.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        check(&flipped, &format!("bit {at}"));
    }
    fs::write(&path, &text).expect("ours");
    assert_eq!(Listing::read(registry.path()).expect("a directory").children.len(), 1);
}

#[test]
fn after_a_reboot_every_record_is_void() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let mut stranger = guard.command("sleep").arg("1000").spawn().expect("a stranger");
    let ticks = proc::start_time(stranger.id()).expect("it lives");
    let boot = Id128::random().expect("random bytes");
    for born in [None, born(stranger.id(), ticks, None)] {
        put(&registry, &Record { boot, ..record(&registry, born) });
    }
    let listing = Listing::read(registry.path()).expect("a directory");
    assert!(listing.children.iter().all(|child| child.age().is_none() && child.verify() != Verdict::Same));
    let report = reconcile(&registry);
    assert_eq!((report.children.len(), records(registry.path()).len()), (2, 0));
    assert!(report.children.iter().all(|child| matches!(child.action, Action::Cleared(None))), "{report:?}");
    assert!(stranger.try_wait().expect("ours").is_none());
    stranger.kill().expect("it lives");
    stranger.wait().expect("ours");
}

#[test]
fn a_number_that_is_somebody_elses_is_not_touched() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let log = dir.at("log");
    let mut stranger = guard.command(fixture!("trapall"));
    // As a helper that has its markers from a child of another supervisor.
    stranger.env("PIDWARD_SUBPROCESS", "1").env("PIDWARD_TASK", "one").env("PIDWARD_NONCE", "a".repeat(32));
    let mut stranger = stranger.arg(&log).spawn().expect("a stranger");
    let ready = format!("ready {}\n", stranger.id());
    proc::eventually("it is ready", || fs::read_to_string(&log).is_ok_and(|text| text == ready));
    let ticks = |pid: u32| proc::start_time(pid).expect("it lives");
    let (tell, told) = std::sync::mpsc::channel();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(fs::read_link("/proc/thread-self").expect("a thread")).expect("the test waits");
        let _ = held.recv();
    });
    let thread_id = told.recv().expect("it tells");
    let thread_id = thread_id.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
    let own = std::process::id();
    let parent = proc::ppid(own).expect("it lives");
    let rows = [
        // The same tick, and then another.
        (born(stranger.id(), ticks(stranger.id()), None), Verdict::Recycled(Field::Nonce), false),
        (born(stranger.id(), ticks(stranger.id()) + 1, None), Verdict::Recycled(Field::StartTime), false),
        (born(own, ticks(own), None), Verdict::NotOurs(Why::Us), true),
        (born(own, ticks(own) + 1, None), Verdict::Recycled(Field::StartTime), false),
        (born(thread_id, ticks(own), None), Verdict::NotOurs(Why::ThreadId), false),
        (born(1, ticks(1), None), Verdict::NotOurs(Why::OtherTree), false),
        (born(parent, ticks(parent) + 1, None), Verdict::Recycled(Field::StartTime), false),
    ];
    for (born, verdict, kept) in rows {
        let path = put(&registry, &record(&registry, born));
        let stop = Listing::read(registry.path()).expect("a directory").children[0].stop(SHORT);
        assert!(matches!(stop, pidward::StopOwned::NotOurs(_)), "{born:?}: {stop:?}");
        let report = reconcile(&registry);
        let [child] = &report.children[..] else { panic!("{report:?}") };
        assert_eq!(child.verdict, verdict, "{born:?}");
        assert_eq!(
            (matches!(child.action, Action::Kept), path.exists()),
            (kept, kept),
            "{born:?}: {report:?}"
        );
        let _ = fs::remove_file(path);
    }
    // Of a number that shows nothing it cannot be told: kept.
    let mut bare = guard.command("sleep");
    let mut bare =
        bare.env_clear().env(guard.token().0, guard.token().1).arg("1000").spawn().expect("a process");
    proc::eventually("exec", || proc::cmdline(bare.id()).starts_with("sleep"));
    let path = put(&registry, &record(&registry, born(bare.id(), ticks(bare.id()), None)));
    let report = reconcile(&registry);
    assert!(matches!(&report.children[..], [one] if matches!(one.action, Action::Kept)), "{report:?}");
    assert!(path.exists() && bare.try_wait().expect("ours").is_none());
    bare.kill().expect("it lives");
    bare.wait().expect("ours");
    assert_eq!(fs::read_to_string(&log).expect("its log"), ready, "a stranger was signalled");
    stranger.kill().expect("it lives");
    stranger.wait().expect("ours");
    drop(hold);
    thread.join().expect("no panic");
}

#[test]
fn of_another_installation_or_pid_namespace_nothing_is_known() {
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let foreign = Record { nonce: Id128::random().expect("random bytes"), ..record(&registry, None) };
    let apart = Record { pid_ns: 1, ..record(&registry, born(4_000_000, 1, None)) };
    for record in [foreign, apart] {
        let path = put(&registry, &record);
        let report = reconcile(&registry);
        assert!(matches!(&report.children[..], [one] if matches!(one.action, Action::Kept)), "{report:?}");
        fs::remove_file(path).expect("it stays");
    }
}

#[test]
fn of_a_group_whose_leader_is_gone_and_that_shows_nothing_it_cannot_be_told() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let mut leader = guard.command("sh");
    leader.args(["-c", "env -i sleep 1000 >/dev/null & echo $!"]).stdout(std::process::Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut leader, 0);
    let output = leader.spawn().and_then(|child| Ok((child.id(), child.wait_with_output()?)));
    let (pid, output) = output.expect("a shell");
    let rest: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a pid");
    guard.watch(rest);
    let path = put(&registry, &record(&registry, born(pid, 1, None)));
    let report = reconcile(&registry);
    let is_kept = |child: &pidward::registry::Reconciled| {
        child.verdict == Verdict::Gone && matches!(child.action, Action::Kept)
    };
    assert!(report.children.iter().all(is_kept) && path.exists() && proc::alive(rest), "{report:?}");
    os::signal_pid(rest, libc::SIGKILL).expect("it lives");
    proc::eventually("it has ended", || proc::has_ended(rest));
    assert!(
        matches!(&reconcile(&registry).children[..], [one] if matches!(one.action, Action::Cleared(None)))
    );
}

#[test]
fn a_leaf_that_is_not_called_by_the_nonce_is_no_leaf() {
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    fs::create_dir(dir.at("innocent")).expect("ours");
    let path = dir.at("innocent").to_str().expect("text").as_bytes().try_into().expect("short");
    put(&registry, &Record { leaf: Some(path), ..record(&registry, born(4_000_000, 1, None)) });
    let report = reconcile(&registry);
    assert!(
        matches!(&report.children[..], [one] if matches!(one.action, Action::Cleared(None))),
        "{report:?}"
    );
    assert!(dir.at("innocent").exists());
}

#[test]
fn a_lost_token_is_found_again_in_the_records() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let installation = registry.installation();
    put(&registry, &record(&registry, born(4_000_000, 1, None)));
    drop(registry);
    for text in ["", "not an id\n"] {
        fs::write(dir.at("r").join("installation"), text).expect("ours");
        let registry = Registry::open(dir.at("r")).expect("a registry");
        assert_eq!(registry.installation(), installation);
    }
    let registry = Registry::open(dir.at("r")).expect("a registry");
    let report = reconcile(&registry);
    assert!(
        matches!(&report.children[..], [one] if matches!(one.action, Action::Cleared(None))),
        "{report:?}"
    );
    assert_eq!((report.children[0].record.kind(), guard.left().len()), (ChildKind::Task, 0));
}
