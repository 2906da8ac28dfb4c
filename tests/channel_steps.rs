//! Each step of a spawn for events is made to fail in turn: a typed error, no child, and nothing of it is left.

use std::{collections::BTreeSet, fs, os::fd::AsRawFd};

use pidward::{Command, Events, Node, Ready, Registry, SpawnError, Spawner, Transport};
use pidward_tests::{
    cgroup::{Place, groups},
    channel::{LIMIT, to_exit},
    child::{self, Again},
    files::TempDir,
    in_child,
    leftovers::NoLeftovers,
    proc,
    records::records,
    seccomp::Filter,
    this_test,
};

/// A spawner that writes its children down and, where it can be, puts each into a leaf.
struct Stand {
    guard: NoLeftovers,
    place: Option<Place>,
    registry: Registry,
    spawner: Spawner,
    events: Events,
    /// Descriptors once it has started a child.
    before: usize,
    _dir: TempDir,
}

impl Stand {
    fn new() -> Stand {
        let (guard, dir, place) = (NoLeftovers::alone(), TempDir::new(), Place::new());
        let registry = Registry::open(dir.at("r")).unwrap();
        let mut builder = Spawner::builder().threads(1).guard(false).registry(registry.clone());
        if let Some(place) = &place {
            builder = builder.cgroup(place.at());
        }
        let (spawner, events) = (builder.build().unwrap(), Events::new().unwrap());
        let mut stand = Stand { guard, place, registry, spawner, events, before: 0, _dir: dir };
        for cmd in stand.commands() {
            let node = stand.spawn(&cmd).unwrap();
            stand.run_out(node);
        }
        // A look for descendants opens `/proc`, and a failed start looks for them.
        let report = stand.spawner.spawn(&stand.guard.shell("exec sleep 1000")).unwrap().stop(LIMIT);
        assert!(report.is_complete());
        proc::eventually("all descriptors but those of the stand are closed", || {
            let now = proc::open_fds();
            std::mem::replace(&mut stand.before, now) == now
        });
        stand.is_clean();
        stand
    }

    /// With everything that takes a descriptor.
    fn commands(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        for transport in [Transport::Socket, Transport::Stdio, Transport::Lines] {
            for ready in [Ready::Fd(7), Ready::Notify] {
                // It does not end by itself, nor with its channel.
                let mut cmd = self.guard.shell("exec sleep 1000");
                cmd.channel(transport).stderr_events(true).ready(ready, LIMIT);
                commands.push(cmd);
            }
        }
        commands
    }

    fn spawn(&self, cmd: &Command) -> Result<Node, SpawnError> {
        self.events.spawn(&self.spawner, cmd)
    }

    fn run_out(&self, mut node: Node) {
        node.child().kill().unwrap();
        to_exit(&self.events);
    }

    /// No child, running or not yet reaped, no descriptor, no record, no leaf.
    #[track_caller]
    fn is_clean(&self) {
        assert!(self.events.try_recv().is_none());
        proc::eventually("no child is left", || proc::all_children(std::process::id()).is_empty());
        proc::eventually("no record is left", || records(self.registry.path()).is_empty());
        let leaves = || self.place.iter().flat_map(Place::below).flat_map(|run| groups(&run));
        proc::eventually("no leaf is left", || leaves().next().is_none());
        proc::eventually("all descriptors are closed", || proc::open_fds() <= self.before);
    }
}

/// Runs it while so many descriptors more can be opened.
fn with_descriptors<R>(spare: u64, run: impl FnOnce() -> R) -> R {
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one limit.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old) }, 0);
    // Those that are free below the highest one in use are used up.
    let top = proc::fds(std::process::id()).last().expect("some").0;
    let fill = || fs::File::open("/dev/null").unwrap();
    let fillers: Vec<fs::File> = std::iter::repeat_with(fill).take_while(|f| f.as_raw_fd() < top).collect();
    let limit = libc::rlimit { rlim_cur: top as u64 + 1 + spare, rlim_max: old.rlim_max };
    // SAFETY: reads one limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let result = run();
    // SAFETY: reads one limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const old) }, 0);
    drop(fillers);
    result
}

#[test]
fn with_any_number_of_free_descriptors_it_starts_or_leaves_nothing() {
    in_child!();
    let stand = Stand::new();
    let mut kinds = BTreeSet::new();
    for cmd in stand.commands() {
        let (mut worked, mut failed) = (0, 0);
        // Ends when there are enough, and some more.
        for spare in 0..64 {
            match with_descriptors(spare, || stand.spawn(&cmd)) {
                Ok(node) => {
                    worked += 1;
                    stand.run_out(node);
                }
                Err(error) => {
                    failed += 1;
                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{spare}: {error}");
                    kinds.insert(format!("{:?}", error.kind()));
                }
            }
            stand.is_clean();
            if worked == 3 {
                break;
            }
        }
        println!("{failed} steps failed for want of a descriptor");
        assert!(worked == 3 && failed > 5, "{worked} {failed}");
    }
    println!("{kinds:?}");
    assert!(kinds.contains("NoFds") && kinds.contains("Registry"), "{kinds:?}");
}

/// Steps of a spawn by their calls, each of which fails for some commands.
const CALLS: [(&str, libc::c_long); 7] = [
    ("socketpair", libc::SYS_socketpair),
    ("pipe2", libc::SYS_pipe2),
    ("socket", libc::SYS_socket),
    ("bind", libc::SYS_bind),
    ("setsockopt", libc::SYS_setsockopt),
    ("ioctl", libc::SYS_ioctl),
    ("epoll_ctl", libc::SYS_epoll_ctl),
];

/// So many descriptors are tried that an epoll instance is told to watch.
const WATCHED: usize = 16;

const STEP: &str = "PIDWARD_TEST_STEP";

#[test]
fn whatever_call_is_refused_nothing_is_left() {
    let test = this_test!();
    if !child::is(&test) {
        // A filter stays for good: a process for each.
        let refused = |step: usize| {
            let outcome = Again::of(&test).env(STEP, &step.to_string()).run();
            outcome.check();
            outcome.stdout.contains("refused")
        };
        (0..CALLS.len()).for_each(|step| assert!(refused(step), "{} is not called", CALLS[step].0));
        let watched = (0..WATCHED).filter(|at| refused(CALLS.len() + at)).count();
        // The pidfd, two ends of a channel, standard error, and what says that it is ready.
        assert!(watched >= 5, "{watched} descriptors were not watched");
        return;
    }
    let step: usize = std::env::var(STEP).unwrap().parse().unwrap();
    let stand = Stand::new();
    match CALLS.get(step) {
        Some((_, call)) => Filter::new().errno(*call, libc::ENOSPC),
        None => {
            let used: BTreeSet<i32> = proc::fds(std::process::id()).into_iter().map(|(fd, _)| fd).collect();
            let fd = (0..).filter(|fd| !used.contains(fd)).nth(step - CALLS.len()).expect("a free one");
            Filter::new().errno_if(libc::SYS_epoll_ctl, 2, u64::from(u32::MAX), fd as u64, libc::ENOSPC)
        }
    }
    .install();
    for cmd in stand.commands() {
        match stand.spawn(&cmd) {
            Ok(node) => stand.run_out(node),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                println!("refused: {error}");
            }
        }
        stand.is_clean();
    }
}

#[test]
fn receiver_that_cannot_be_made_leaves_nothing() {
    in_child!();
    let before = proc::open_fds();
    let is_refused = |errno: i32| {
        let made = Events::new().and_then(Events::on_thread);
        assert_eq!(made.unwrap_err().raw_os_error(), Some(errno));
        assert_eq!(proc::open_fds(), before);
    };
    (0..3).for_each(|spare| with_descriptors(spare, || drop(Events::new().unwrap_err())));
    assert_eq!(proc::open_fds(), before);
    // The last step first: an earlier one that is refused hides the later.
    Filter::new().errno(libc::SYS_clone3, libc::EAGAIN).errno(libc::SYS_clone, libc::EAGAIN).install();
    is_refused(libc::EAGAIN);
    for call in [libc::SYS_epoll_ctl, libc::SYS_timerfd_create, libc::SYS_eventfd2, libc::SYS_epoll_create1] {
        Filter::new().errno(call, libc::ENOSPC).install();
        is_refused(libc::ENOSPC);
    }
}
