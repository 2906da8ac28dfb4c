//! Stopping children: the ladder, driven.
//!
//! The ladder itself is a table in core; here its actions are carried out and the world is looked at. Nothing here reads
//! the wall clock: times are counted from the beginning of the stop, on the monotonic clock.

use std::{
    os::{fd::BorrowedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use pidward_core::{
    Pid, Signal,
    ladder::{Action, Event, Graces, Ladder, Outcome, Rung},
    signal::SignalError,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    members,
    say::say,
    spawner::{Entry, POLL_INTERVAL, Shared},
};

/// How long after SIGKILL the kernel may take before the rest counts as survivors.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Somebody that a stop could not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survivor {
    /// Its pid when it was looked at.
    pub pid: u32,
    /// Its state letter in `/proc/<pid>/stat`; `?` where that cannot be read.
    pub state: char,
}

/// What became of one child.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stopped {
    /// Its pid. Only a number by now.
    pub pid: u32,
    /// Its status; `None` while it has not ended, and where somebody else took it.
    pub status: Option<ExitStatus>,
    /// The last thing that had to be done; `None` if it and all of its group had ended before.
    pub rung: Option<Rung>,
    /// How long it took.
    pub took: Duration,
    /// Who is left. Empty: nobody.
    pub survivors: Vec<Survivor>,
}

/// What a stop did. It is over when nobody is left, or when the report says who is.
#[derive(Clone, Debug, Default)]
#[must_use = "it says whether anybody survived"]
#[non_exhaustive]
pub struct StopReport {
    /// One for each child that was to be stopped.
    pub children: Vec<Stopped>,
}

impl StopReport {
    /// Whether nobody is left.
    pub fn is_complete(&self) -> bool {
        self.survivors().next().is_none()
    }

    /// Who is left.
    pub fn survivors(&self) -> impl Iterator<Item = Survivor> {
        self.children.iter().flat_map(|child| child.survivors.iter().copied())
    }

    /// The status of the first child; the one that was asked for, if it was one.
    pub fn status(&self) -> Option<ExitStatus> {
        self.children.first().and_then(|child| child.status)
    }

    /// The last rung that was needed for any of them.
    pub fn rung(&self) -> Option<Rung> {
        self.children.iter().filter_map(|child| child.rung).max()
    }
}

/// What a stop is for: a process and its group, however they are held.
pub(crate) trait Tree {
    /// The first process.
    fn pid(&self) -> Pid;
    /// Whether that process has ended.
    fn has_ended(&self) -> bool;
    /// Readable once it has; `None` where it must be asked again and again.
    fn end_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Sends a signal to everybody.
    fn signal(&self, signal: Signal) -> Result<(), SignalError>;
    /// Who lives; `ended`: the first process does not.
    fn left(&self, ended: bool) -> Vec<Survivor>;
    /// The status of the first process, if it is known.
    fn status(&self) -> Option<ExitStatus>;
    /// Nobody is left.
    fn finish(&self);
}

/// A child of this program.
#[derive(Debug)]
pub(crate) struct Ours {
    entry: Arc<Entry>,
    shared: Arc<Shared>,
}

impl Tree for Ours {
    fn pid(&self) -> Pid {
        self.entry.pid()
    }

    fn has_ended(&self) -> bool {
        self.shared.look(&self.entry).is_some()
    }

    fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.entry.as_fd())
    }

    fn signal(&self, signal: Signal) -> Result<(), SignalError> {
        self.entry.signal_tree(signal)
    }

    fn left(&self, ended: bool) -> Vec<Survivor> {
        members::left(&self.entry, ended)
    }

    fn status(&self) -> Option<ExitStatus> {
        self.entry.ended().flatten().map(|exit| ExitStatus::from_raw(exit.status.raw()))
    }

    fn finish(&self) {
        // Its group is empty: nothing is pinned by a zombie any more.
        let _ = self.entry.child.try_reap();
    }
}

/// A stop under way, for programs with a loop of their own: [`step`](Stopping::step) never blocks.
#[derive(Debug)]
#[must_use = "a stop that is not stepped does nothing"]
pub struct Stopping(Climbs<Ours>);

impl Stopping {
    pub(crate) fn new(shared: &Arc<Shared>, entries: &[Arc<Entry>], grace: Duration) -> Stopping {
        let ours = |entry: &Arc<Entry>| Ours { entry: Arc::clone(entry), shared: Arc::clone(shared) };
        Stopping(Climbs::new(entries.iter().map(ours), grace))
    }

    /// Does what is due. The report, once the stop is over.
    pub fn step(&mut self) -> Option<StopReport> {
        self.0.step()
    }

    /// No more grace: the next step sends SIGKILL.
    pub fn hurry(&mut self) {
        self.0.hurry();
    }

    /// How long until a step is due; zero if one is. A child's end makes one due at any time.
    pub fn due_in(&self) -> Duration {
        self.0.due_in()
    }
}

/// All that are stopped at once.
#[derive(Debug)]
pub(crate) struct Climbs<T> {
    began: Instant,
    climbs: Vec<Climb<T>>,
}

/// One of them on the ladder.
#[derive(Debug)]
struct Climb<T> {
    tree: T,
    ladder: Ladder,
    started: bool,
    leader_seen: bool,
    done: Option<Stopped>,
}

impl<T: Tree> Climbs<T> {
    pub(crate) fn new(trees: impl Iterator<Item = T>, grace: Duration) -> Climbs<T> {
        Climbs { began: Instant::now(), climbs: trees.map(|tree| Climb::new(tree, grace)).collect() }
    }

    fn step(&mut self) -> Option<StopReport> {
        for climb in self.climbs.iter_mut().filter(|climb| climb.done.is_none()) {
            climb.step(self.began);
        }
        if self.climbs.iter().any(|climb| climb.done.is_none()) {
            return None;
        }
        Some(StopReport { children: self.climbs.iter_mut().filter_map(|climb| climb.done.take()).collect() })
    }

    fn hurry(&mut self) {
        for climb in self.climbs.iter_mut().filter(|climb| climb.done.is_none()) {
            climb.started = true;
            climb.feed(self.began, Event::Force);
        }
    }

    fn due_in(&self) -> Duration {
        let now = self.began.elapsed();
        let open = self.climbs.iter().filter(|climb| climb.done.is_none());
        let due = open.map(|climb| climb.ladder.next_deadline().unwrap_or(now)).min();
        due.map_or(Duration::ZERO, |due| due.saturating_sub(now))
    }

    /// Blocks until a step is due or a process has ended.
    fn block(&self) {
        let waited = || self.climbs.iter().filter(|climb| !climb.leader_seen);
        let ends: Vec<_> = waited().filter_map(|climb| climb.tree.end_fd()).collect();
        let all = ends.len() == waited().count();
        let mut fds: Vec<_> = ends.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let due = self.due_in();
        let timeout = Timespec::try_from(if all { due } else { due.min(POLL_INTERVAL) }).ok();
        // An interruption is a wake-up like any other.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// To the end: within grace + kill limit, the ladder always does.
    pub(crate) fn run(mut self) -> StopReport {
        loop {
            if let Some(report) = self.step() {
                return report;
            }
            self.block();
        }
    }
}

/// Stops all of them at once, to the end.
pub(crate) fn run(shared: &Arc<Shared>, entries: &[Arc<Entry>], grace: Duration) -> StopReport {
    if !shared.is_ours() {
        return StopReport { children: entries.iter().map(|entry| untouched(entry)).collect() };
    }
    Stopping::new(shared, entries, grace).0.run()
}

/// A forked copy of the program was to stop it: it is not the copy's child, and nothing of it is known here.
fn untouched(entry: &Entry) -> Stopped {
    let pid = entry.pid().get();
    let survivors = vec![Survivor { pid, state: '?' }];
    Stopped { pid, status: None, rung: None, took: Duration::ZERO, survivors }
}

impl<T: Tree> Climb<T> {
    fn new(tree: T, grace: Duration) -> Climb<T> {
        let graces = Graces { ask: None, term: grace, kill_limit: KILL_LIMIT };
        Climb { tree, ladder: Ladder::new(graces), started: false, leader_seen: false, done: None }
    }

    fn step(&mut self, began: Instant) {
        if !self.started {
            self.started = true;
            // Where nobody is left, nothing need be done.
            self.leader_seen = self.tree.has_ended();
            if self.is_empty() {
                self.feed(began, Event::Empty);
                return;
            }
            self.feed(began, Event::Start);
            if self.leader_seen {
                self.feed(began, Event::LeaderEnded);
            }
        }
        if !self.leader_seen && self.tree.has_ended() {
            self.leader_seen = true;
            self.feed(began, Event::LeaderEnded);
        }
        self.feed(began, Event::Tick);
    }

    /// One event, and all that follows from it at once.
    fn feed(&mut self, began: Instant, event: Event) {
        let mut action = self.ladder.step(began.elapsed(), event);
        // Ends with `Wait` or `Done`: each step is taken once, and a look is followed by a step or by a wait.
        loop {
            action = match action {
                Action::Wait => return,
                Action::Look => {
                    // Who is seen now was there at this time, or before.
                    let now = began.elapsed();
                    let seen = if self.is_empty() { Event::Empty } else { Event::NotEmpty };
                    self.ladder.step(now, seen)
                }
                Action::Take(rung) => {
                    self.take(rung);
                    self.ladder.step(began.elapsed(), Event::Taken(rung))
                }
                Action::Done(outcome) => {
                    self.done = Some(self.report(outcome, began));
                    return;
                }
            };
        }
    }

    fn take(&self, rung: Rung) {
        let signals: &[Signal] = match rung {
            Rung::Ask => &[],
            // A stopped process acts on SIGTERM only when it goes on.
            Rung::Term => &[Signal::TERM, Signal::CONT],
            Rung::Kill | Rung::Sweep => &[Signal::KILL],
        };
        for &signal in signals {
            match self.tree.signal(signal) {
                Ok(()) | Err(SignalError::Gone) => {}
                Err(e) => say!(warn, "{signal} to the group of process {}: {e:?}", self.tree.pid()),
            }
        }
    }

    /// Whether the child has ended and its group has no living member.
    fn is_empty(&self) -> bool {
        self.leader_seen && self.left().is_empty()
    }

    fn left(&self) -> Vec<Survivor> {
        self.tree.left(self.leader_seen)
    }

    fn report(&self, outcome: Outcome, began: Instant) -> Stopped {
        let (rung, survivors) = match outcome {
            Outcome::Empty { by } => (by, Vec::new()),
            Outcome::Survived => (Some(Rung::Sweep), self.left()),
        };
        if self.leader_seen && survivors.is_empty() {
            self.tree.finish();
        }
        Stopped {
            pid: self.tree.pid().get(),
            status: self.tree.status(),
            rung,
            took: began.elapsed(),
            survivors,
        }
    }
}
