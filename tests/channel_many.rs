//! A receiver with thousands of children: as many threads as with ten, and a child costs the same whoever is there beside it.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use pidward::{Cause, Command, Event, Events, Liveness, Node, Spawner, Transport};
use pidward_tests::{
    channel::{next, word},
    child::{self, Again},
    leftovers::NoLeftovers,
    need, proc,
    rounds::rounds,
    skip::note,
    this_test,
};

/// So many are started with each measure of what there is.
const MARKS: [usize; 2] = [10, 1_000];

/// A pidfd, and the pipes to standard input and from standard output.
const DESCRIPTORS: usize = 3;

/// So many times slower may the second half be than the first, on a busy machine.
const SLOWER: u32 = 4;

/// And by so much, where both take less than a pause of the scheduler's.
const PAUSE: Duration = Duration::from_millis(500);

/// Whether there may be so many processes, descriptors for each, and memory for all.
fn is_room_for(many: usize) -> bool {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let need = many as u64 + 1_000;
    // The groups above us that limit how many there are; a limit that does not show is none.
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let group = Path::new("/sys/fs/cgroup").join(group);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory =
        memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    number(Path::new("/proc/sys/kernel/pid_max")).is_some_and(|most| most > 2 * need)
        && group.ancestors().all(|group| number(&group.join("pids.max")).is_none_or(|most| most > need))
        && limit(libc::RLIMIT_NPROC).is_ok_and(|limit| limit.rlim_cur > need)
        && memory.and_then(|kib| kib.parse::<u64>().ok()).is_some_and(|kib| kib > 1024 * need)
        && raise_descriptors(DESCRIPTORS as u64 * need).is_ok()
}

fn limit(of: libc::__rlimit_resource_t) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one limit.
    match unsafe { libc::getrlimit(of, &raw mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Root may raise the hard limit too.
fn raise_descriptors(most: u64) -> io::Result<()> {
    let old = limit(libc::RLIMIT_NOFILE)?;
    let new = libc::rlimit { rlim_cur: most.max(old.rlim_cur), rlim_max: most.max(old.rlim_max) };
    // SAFETY: reads one limit.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const new) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Threads, descriptors, and KiB of memory.
fn costs() -> (usize, usize, u64) {
    let own = std::process::id();
    let memory = proc::status(own, "VmRSS").expect("a line of memory");
    let memory = memory.trim_end_matches(" kB").trim().parse().expect("KiB");
    (proc::threads(own), fs::read_dir("/proc/self/fd").expect("a directory of /proc").count(), memory)
}

/// So much time of the processor has this process used.
fn used() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("a directory of /proc").flatten();
    let text = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    text.map(|text| Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())).sum()
}

/// Sends back what it gets.
fn echo(guard: &NoLeftovers) -> Command {
    let mut cmd = Command::new("/bin/cat");
    let (key, value) = guard.token();
    cmd.env(key, value).channel(Transport::Stdio);
    cmd
}

/// Starts so many more, and has heard of each of them.
fn start(events: &Events, spawner: &Spawner, cmd: &Command, nodes: &mut Vec<Node>, many: usize) -> Duration {
    let began = Instant::now();
    for _ in 0..many {
        let node = events.spawn(spawner, cmd).unwrap();
        node.send(node.id().to_string().as_bytes()).unwrap();
        nodes.push(node);
    }
    for _ in 0..many {
        let (id, event) = next(events);
        assert_eq!(word(&event), format!("frame {id}"));
    }
    began.elapsed()
}

/// Lets these end, and has heard that each did, by this cause.
fn end(events: &Events, nodes: &[Node], how: fn(&Node), by: Cause) -> Duration {
    let (began, mut left) = (Instant::now(), nodes.len());
    nodes.iter().for_each(how);
    while left > 0 {
        match next(events).1 {
            Event::Closed => {}
            Event::Exit { cause, .. } => {
                assert_eq!(cause, by);
                left -= 1;
            }
            event => panic!("{event:?}"),
        }
    }
    began.elapsed()
}

/// Whether this is the process for the body of the test; else it is run, and what it measures is printed here.
fn is_there(test: &str) -> bool {
    if !child::is(test) {
        let outcome = Again::of(test).limit(Duration::from_secs(900)).run();
        outcome.check();
        println!("{}", outcome.stdout);
    }
    child::is(test)
}

#[test]
fn thousands_cost_no_thread_and_each_as_much_as_the_first() {
    if !is_there(&this_test!()) {
        return;
    }
    let mut many = rounds(2_000, 10_000);
    if many > 2_000 && !is_room_for(many) {
        note(&this_test!(), "needs-many: ten thousand of them; two thousand are tried");
        many = 2_000;
    }
    need!(is_room_for(many), "needs-many: thousands of processes, and descriptors and memory for them");
    let guard = NoLeftovers::alone();
    let spawner = Spawner::builder().threads(1).build().unwrap();
    let events = Events::new().unwrap();
    let (cmd, mut nodes) = (echo(&guard), Vec::new());
    let mut seen = Vec::new();
    let before = costs();
    for mark in MARKS.into_iter().chain([many]) {
        let more = mark - nodes.len();
        let took = start(&events, &spawner, &cmd, &mut nodes, more);
        let (threads, fds, memory) = costs();
        println!(
            "{mark} children: {threads} threads, {fds} descriptors, {memory} KiB; {more} started in {took:?}"
        );
        assert_eq!(threads, before.0);
        // And what the spawner opens now and then.
        assert!(fds <= before.1 + DESCRIPTORS * mark + 8, "{fds} of {mark}");
        seen.push((took / more as u32, memory));
    }
    assert!(seen[2].0 < seen[1].0 * SLOWER, "{seen:?}");
    let each = (seen[2].1 - before.2) / many as u64;
    assert!(each < 16, "{each} KiB for a child");
    let half = many / 2;
    let mut took = Vec::new();
    for part in [&nodes[..half], &nodes[half..]] {
        took.push(end(&events, part, Node::close, Cause::Itself));
    }
    println!("the first half ended in {:?}, the second in {:?}", took[0], took[1]);
    assert!(took[0] < took[1] * SLOWER + PAUSE, "{took:?}");
    drop(nodes);
    // The spawner's own threads open one now and then.
    proc::eventually("all descriptors are closed", || costs().1 <= before.1);
}

#[test]
fn thousands_are_asked_whether_they_live_at_little_cost_and_stopped_together() {
    if !is_there(&this_test!()) {
        return;
    }
    let many = 2_000;
    need!(is_room_for(many), "needs-many: thousands of processes, and descriptors and memory for them");
    let guard = NoLeftovers::alone();
    let spawner = Spawner::builder().threads(1).grace(Duration::from_secs(60)).build().unwrap();
    let events = Events::new().unwrap().on_thread().unwrap();
    // A ping goes to each every 5 s; an answer may be late on a busy machine.
    let (frames, pongs) = (Duration::from_secs(1), Duration::from_secs(60));
    let terms = Liveness::new().frames(frames).pongs(pongs).ping("ping", |frame| frame == b"ping");
    let (mut cmd, mut nodes) = (echo(&guard), Vec::new());
    start(&events, &spawner, cmd.liveness(terms), &mut nodes, many);
    let (before, look) = (used(), Duration::from_secs(6));
    assert!(events.recv(Some(look)).is_none(), "neither a pong nor a verdict is an event");
    let busy = used().saturating_sub(before);
    println!("{many} children that are asked: {busy:?} of {look:?}");
    assert!(busy < look / 2, "{busy:?}");
    assert!(nodes.iter().all(|node| events.health(node.id()).is_some()));
    let mut took = Vec::new();
    for part in [&nodes[..many / 2], &nodes[many / 2..]] {
        took.push(end(&events, part, Node::begin_stop, Cause::Stopped));
    }
    println!("the first half was stopped in {:?}, the second in {:?}", took[0], took[1]);
    assert!(took[0] < took[1] * SLOWER + PAUSE, "{took:?}");
}
