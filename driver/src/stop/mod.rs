//! Stopping children: the ladder, driven.
//!
//! The ladder itself is a table in core; here its actions are carried out and the world is looked at. Nothing here reads
//! the wall clock: times are counted from the beginning of the stop, on the monotonic clock.

use std::{
    os::fd::BorrowedFd,
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

mod ours;

use ours::{Ours, untouched};

use crate::{
    carriers::{Looks, Sure},
    report::{StopReport, Stopped, Survivor},
    say::say,
    spawner::{Entry, POLL_INTERVAL, Shared},
    stdio::ChildStdin,
};

/// How long after SIGKILL the kernel may take before the rest counts as survivors.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How long nobody must be found where it cannot be proven that nobody is left, because the machine is never quiet.
const UNPROVEN: Duration = Duration::from_millis(300);
/// And in how many looks, of several scans each.
const UNPROVEN_LOOKS: u32 = 4;

/// What a stop is for: a process and its group, however they are held.
pub(crate) trait Tree {
    /// The first process.
    fn pid(&self) -> Pid;
    /// Whether that process has ended.
    fn has_ended(&self) -> bool;
    /// Readable once it has; `None` where it must be asked again and again.
    fn end_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Sends a signal to everybody.
    fn signal(&self, signal: Signal, looks: &mut Looks) -> Result<(), SignalError>;
    /// Who lives, as seen at `after` or later; and how sure that is. `ended`: the first process does not live.
    fn left(&self, ended: bool, after: Option<Instant>, looks: &mut Looks) -> (Vec<Survivor>, Sure);
    /// The status of the first process, if it is known.
    fn status(&self) -> Option<ExitStatus>;
    /// Nobody is left.
    fn finish(&self);
    /// How long to wait after [`ask`](Tree::ask); `None` where there is no way to ask.
    fn ask_grace(&self) -> Option<Duration> {
        None
    }
    /// Asks the first process to end.
    fn ask(&mut self) {}
    /// A rung is taken while the first process lives.
    fn note(&self, _rung: Rung) {}
}

/// A stop under way, for programs with a loop of their own: [`step`](Stopping::step) never blocks.
#[derive(Debug)]
#[must_use = "a stop that is not stepped does nothing"]
pub struct Stopping(Climbs<Ours>);

impl Stopping {
    /// `input`: our end of the standard input of the one child, if it is one.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        entries: &[Arc<Entry>],
        mut input: Option<ChildStdin>,
        grace: Duration,
    ) -> Stopping {
        let ours = |entry: &Arc<Entry>| {
            // Where nobody is asked by it, it is closed now.
            let input = input.take().filter(|_| entry.about.ask.is_some());
            Ours { entry: Arc::clone(entry), shared: Arc::clone(shared), input }
        };
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
    looks: Looks,
}

/// One of them on the ladder.
#[derive(Debug)]
struct Climb<T> {
    tree: T,
    ladder: Ladder,
    started: bool,
    leader_seen: bool,
    /// When the last rung was taken: who was seen before is no answer to it.
    taken: Option<Instant>,
    /// How sure the last look was.
    sure: Sure,
    /// Since when no look has found anybody, and how many have not.
    clear: Option<(Instant, u32)>,
    /// Why a signal was refused, as it was said last: a sweep is repeated, and so is its refusal.
    refused: Option<SignalError>,
    done: Option<Stopped>,
}

impl<T: Tree> Climbs<T> {
    pub(crate) fn new(trees: impl Iterator<Item = T>, grace: Duration) -> Climbs<T> {
        let climbs = trees.map(|tree| Climb::new(tree, grace)).collect();
        Climbs { began: Instant::now(), climbs, looks: Looks::new() }
    }

    fn step(&mut self) -> Option<StopReport> {
        let alone = self.climbs.iter().filter(|climb| climb.done.is_none()).count() == 1;
        self.looks.begin(self.began, alone);
        for climb in self.climbs.iter_mut().filter(|climb| climb.done.is_none()) {
            climb.step(self.began, &mut self.looks);
        }
        if self.climbs.iter().any(|climb| climb.done.is_none()) {
            return None;
        }
        let children = self.climbs.iter_mut().filter_map(|climb| climb.done.take()).collect();
        Some(StopReport { children, ..StopReport::default() })
    }

    fn hurry(&mut self) {
        let alone = self.climbs.iter().filter(|climb| climb.done.is_none()).count() == 1;
        self.looks.begin(self.began, alone);
        for climb in self.climbs.iter_mut().filter(|climb| climb.done.is_none()) {
            climb.started = true;
            climb.feed(self.began, Event::Force, &mut self.looks);
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
        wait(self.ends(), self.due_in());
    }

    /// What tells that a process has ended, for each that has not; `None` where nothing does.
    fn ends(&self) -> impl Iterator<Item = Option<BorrowedFd<'_>>> {
        self.climbs.iter().filter(|climb| !climb.leader_seen).map(|climb| climb.tree.end_fd())
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

/// Waits until one of them ends, at most so long.
fn wait<'a>(ends: impl Iterator<Item = Option<BorrowedFd<'a>>>, due: Duration) {
    let mut unseen = false;
    let ends: Vec<_> = ends.inspect(|end| unseen |= end.is_none()).flatten().collect();
    let mut fds: Vec<_> = ends.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(if unseen { due.min(POLL_INTERVAL) } else { due }).ok();
    // An interruption is a wake-up like any other.
    let _ = poll(&mut fds, timeout.as_ref());
}

/// Waits until one of several stops has something to do, at most so long.
pub(crate) fn wait_for_any(stops: &[Stopping], most: Duration) {
    let due = stops.iter().map(Stopping::due_in).fold(most, Duration::min);
    wait(stops.iter().flat_map(|stop| stop.0.ends()), due);
}

/// Stops all of them at once, to the end.
pub(crate) fn run(
    shared: &Arc<Shared>,
    entries: &[Arc<Entry>],
    input: Option<ChildStdin>,
    grace: Duration,
) -> StopReport {
    if !shared.is_ours() {
        let children = entries.iter().map(|entry| untouched(entry)).collect();
        return StopReport { children, ..StopReport::default() };
    }
    Stopping::new(shared, entries, input, grace).0.run()
}

impl<T: Tree> Climb<T> {
    fn new(tree: T, grace: Duration) -> Climb<T> {
        let graces = Graces { ask: tree.ask_grace(), term: grace, kill_limit: KILL_LIMIT };
        let ladder = Ladder::new(graces);
        Climb {
            tree,
            ladder,
            started: false,
            leader_seen: false,
            taken: None,
            sure: Sure::Likely,
            clear: None,
            refused: None,
            done: None,
        }
    }

    fn step(&mut self, began: Instant, looks: &mut Looks) {
        if !self.started {
            self.started = true;
            // Where nobody is left, nothing need be done.
            self.leader_seen = self.tree.has_ended();
            if self.is_empty(looks) {
                self.feed(began, Event::Empty, looks);
                return;
            }
            self.feed(began, Event::Start, looks);
            if self.leader_seen {
                self.feed(began, Event::LeaderEnded, looks);
            }
            // Whoever has ended by now is looked at in the next step, with all others whose signal went out in this one.
            return;
        }
        if !self.leader_seen && self.tree.has_ended() {
            self.leader_seen = true;
            self.feed(began, Event::LeaderEnded, looks);
        }
        self.feed(began, Event::Tick, looks);
    }

    /// One event, and all that follows from it at once.
    fn feed(&mut self, began: Instant, event: Event, looks: &mut Looks) {
        let mut action = self.ladder.step(looks.now, event);
        // Ends with `Wait` or `Done`: each step is taken once, and a look is followed by a step or by a wait.
        loop {
            action = match action {
                Action::Wait => return,
                Action::Look => {
                    let seen = if self.is_empty(looks) { Event::Empty } else { Event::NotEmpty };
                    // Before the look: who is seen was there then, or came later.
                    self.ladder.step(looks.now, seen)
                }
                Action::Take(rung) => {
                    self.take(rung, looks);
                    self.ladder.step(began.elapsed(), Event::Taken(rung))
                }
                Action::Done(outcome) => {
                    self.done = Some(self.report(outcome, began, looks));
                    return;
                }
            };
        }
    }

    fn take(&mut self, rung: Rung, looks: &mut Looks) {
        if !self.leader_seen {
            self.tree.note(rung);
        }
        let signals: &[Signal] = match rung {
            Rung::Ask => {
                self.tree.ask();
                &[]
            }
            // A stopped process acts on SIGTERM only when it goes on.
            Rung::Term => &[Signal::TERM, Signal::CONT],
            Rung::Kill | Rung::Sweep => &[Signal::KILL],
        };
        for &signal in signals {
            match self.tree.signal(signal, looks) {
                Ok(()) | Err(SignalError::Gone) => {}
                Err(e) if self.refused != Some(e) => {
                    say!(warn, "{signal} to the group of process {}: {e:?}", self.tree.pid());
                    self.refused = Some(e);
                }
                Err(_) => {}
            }
        }
        self.taken = Some(Instant::now());
    }

    /// Whether the child has ended, its group has no living member, and nobody carries its nonce.
    fn is_empty(&mut self, looks: &mut Looks) -> bool {
        if !self.leader_seen {
            return false;
        }
        let before = self.clear.take();
        self.clear = self.left(looks).is_empty().then(|| {
            let (since, looks) = before.unwrap_or_else(|| (Instant::now(), 0));
            (since, looks + 1)
        });
        self.clear.is_some_and(|(since, looks)| match self.sure {
            Sure::Proven => true,
            // On a machine so busy that looks take long there are few in that time.
            Sure::Likely => looks >= UNPROVEN_LOOKS && since.elapsed() >= UNPROVEN,
            Sure::No => false,
        })
    }

    fn left(&mut self, looks: &mut Looks) -> Vec<Survivor> {
        let (left, sure) = self.tree.left(self.leader_seen, self.taken, looks);
        self.sure = sure;
        left
    }

    fn report(&mut self, outcome: Outcome, began: Instant, looks: &mut Looks) -> Stopped {
        let (rung, survivors) = match outcome {
            Outcome::Empty { by } => (by, Vec::new()),
            Outcome::Survived => (Some(Rung::Sweep), self.left(looks)),
        };
        if self.leader_seen && survivors.is_empty() {
            self.tree.finish();
        }
        Stopped {
            pid: self.tree.pid().get(),
            status: self.tree.status(),
            rung,
            took: began.elapsed(),
            proven: survivors.is_empty() && self.sure == Sure::Proven,
            survivors,
        }
    }
}
