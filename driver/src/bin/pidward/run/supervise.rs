//! The loop between a program's start and the end of its group.

use std::{
    collections::HashMap,
    fs,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use pidward::{Child, ChildState, Signal, StopReport, Stopping};
use pidward_core::{
    reap::has_ended,
    signal::{Received, SignalFd},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{job, options::Options, orphans, ready::Readiness, terminal::Terminal};
use crate::{fault::Fault, output};

/// How far apart the two ways of one signal are at most.
const TWICE: Duration = Duration::from_secs(1);

/// What outlives one run of the program.
pub(super) struct Around {
    pub(super) signals: SignalFd,
    /// Readable when the outer pidward has ended.
    pub(super) outer: Option<OwnedFd>,
    pub(super) terminal: Option<Terminal>,
}

/// How one run of the program has ended.
pub(super) struct End {
    pub(super) code: u8,
    /// By itself, and not well.
    pub(super) failed: bool,
    pub(super) around: Around,
}

pub(super) struct Supervision {
    pub(super) child: Child,
    pub(super) terminal: Option<Terminal>,
    /// SIGTSTP was passed on: we stop when the program has.
    pub(super) stop_asked: bool,
    /// The stop of the program that was acted on.
    pub(super) seen_stop: Option<Signal>,
    signals: SignalFd,
    readiness: Readiness,
    /// Readable when the outer pidward has ended.
    outer: Option<OwnedFd>,
    /// Somebody wants it to end, or its time was over: how it ends is no failure.
    told: bool,
    /// The last of each signal: when, and whether the outer one passed it on.
    last: HashMap<Signal, (Instant, bool)>,
    grace: Duration,
    ended: bool,
    stopping: Option<Stopping>,
    /// SIGINT or SIGHUP was passed on: the ladder begins now, if there is still somebody.
    patience: Option<Instant>,
    /// How often somebody has asked for a stop.
    asked: u32,
    timeout: Option<Instant>,
    timed_out: bool,
    /// The terminal is.
    closed: bool,
    /// It was said that stops cannot be seen.
    blind: bool,
    /// As nohup(1) has it: a closed terminal is nothing to us.
    ignores_hangup: bool,
}

impl Supervision {
    pub(super) fn new(
        child: Child,
        readiness: Readiness,
        around: Around,
        options: &Options,
        timeout: Option<Instant>,
    ) -> Supervision {
        let Around { signals, outer, terminal } = around;
        Supervision {
            child,
            terminal,
            stop_asked: false,
            seen_stop: None,
            signals,
            readiness,
            outer,
            told: false,
            last: HashMap::new(),
            grace: options.grace,
            ended: false,
            stopping: None,
            patience: None,
            asked: 0,
            timeout,
            timed_out: false,
            closed: false,
            blind: false,
            ignores_hangup: ignores(Signal::HUP),
        }
    }

    /// To the end of the group.
    pub(super) fn run(mut self) -> Result<End, Fault> {
        // Ends with the group: the program ends by itself or is stopped, and a stop always ends.
        let report = loop {
            if let Some(report) = self.step() {
                break report;
            }
            if let Err(fault) = self.wait() {
                drop(self.child.stop(self.grace));
                self.give_back();
                return Err(fault);
            }
        };
        self.give_back();
        let code = self.code(&report)?;
        let failed = !self.told && code != 0 && code != super::SURVIVED;
        let Supervision { signals, outer, terminal, .. } = self;
        Ok(End { code, failed, around: Around { signals, outer, terminal } })
    }

    fn give_back(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.finish();
        }
    }

    /// Does what is due; the report when the group has ended.
    fn step(&mut self) -> Option<StopReport> {
        if !self.ended {
            self.look();
        }
        if self.readiness.has_failed(self.ended) {
            self.begin_stop();
        }
        let now = Instant::now();
        let late = self.timeout.is_some_and(|timeout| timeout <= now);
        if late && !self.ended {
            (self.timed_out, self.told) = (true, true);
        }
        if late || self.ended || self.patience.is_some_and(|patience| patience <= now) {
            (self.timeout, self.patience) = (None, None);
            self.begin_stop();
        }
        self.stopping.as_mut()?.step()
    }

    fn begin_stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(self.child.stopping(self.grace));
        }
    }

    fn look(&mut self) {
        match self.child.state() {
            Ok(ChildState::Ended) => self.ended = true,
            Ok(ChildState::Stopped(signal)) if self.seen_stop != Some(signal) => {
                self.seen_stop = Some(signal);
                job::stopped(self, signal);
            }
            Ok(ChildState::Stopped(_)) => {}
            Ok(_) => self.seen_stop = None,
            Err(e) if !self.blind => {
                self.blind = true;
                log::warn!("whether process {} is stopped cannot be seen: {e}", self.child.id());
            }
            Err(_) => {}
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Blocks until something is to be done, and takes the signals that came.
    fn wait(&mut self) -> Result<(), Fault> {
        let ladder = self.stopping.as_ref().map(Stopping::due_in);
        let now = Instant::now();
        let times = [self.timeout, self.patience, self.readiness.due()].into_iter().flatten();
        let due = times.map(|time| time.saturating_duration_since(now)).chain(ladder).min();
        let due = due.and_then(|due| Timespec::try_from(due).ok());
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let program = self.child.as_fd();
        if !self.ended {
            fds.push(PollFd::new(&program, PollFlags::IN));
        }
        if let Some(fd) = self.readiness.fd() {
            fds.push(PollFd::new(fd, PollFlags::IN));
        }
        if let Some(outer) = &self.outer {
            fds.push(PollFd::new(outer, PollFlags::IN));
        }
        let watched = self.terminal.as_ref().filter(|_| !self.closed && !self.ignores_hangup);
        if let Some(terminal) = watched {
            fds.push(PollFd::new(terminal, PollFlags::empty()));
        }
        // An interruption is a wake-up like any other.
        let _ = poll(&mut fds, due.as_ref());
        let closed = watched.is_some() && fds.last().is_some_and(|fd| fd.revents().contains(PollFlags::HUP));
        drop(fds);
        if self.outer.as_ref().is_some_and(|outer| has_ended(outer.as_fd()) == Ok(true)) {
            log::warn!("whoever started the program was killed: it is stopped");
            (self.outer, self.told) = (None, true);
            self.begin_stop();
        }
        if closed {
            log::info!("the terminal is closed");
            self.closed = true;
            self.hang_up();
        }
        // Ends when no signal is pending.
        loop {
            match self.signals.next() {
                Ok(Some(received)) => self.receive(received),
                Ok(None) => return Ok(()),
                Err(e) => return Err(Fault::run(format!("signals cannot be read: {e}"))),
            }
        }
    }

    fn receive(&mut self, received: Received) {
        let Received { signal, pid, .. } = received;
        // Of our own making: a line that nobody reads raises SIGPIPE.
        if pid == std::process::id() {
            return;
        }
        if self.is_told_twice(signal, pid) {
            return;
        }
        log::debug!("{signal} from process {pid}");
        match signal {
            Signal::CHLD => orphans::reap(self.child.id()),
            Signal::CONT => job::go_on(self),
            Signal::TERM => self.ask(None),
            Signal::INT => self.ask(Some(Signal::INT)),
            // Of a terminal that is closed, it was told.
            Signal::HUP if !self.closed => self.hang_up(),
            Signal::HUP => {}
            Signal::TSTP => {
                self.stop_asked = true;
                self.pass(signal);
            }
            _ => self.pass(signal),
        }
    }

    /// Whether it came to our whole group, and the outer one has passed its own on: two ways, one signal.
    fn is_told_twice(&mut self, signal: Signal, pid: u32) -> bool {
        let passed = self.outer.is_some() && pid == std::os::unix::process::parent_id();
        let now = Instant::now();
        let twice = self.outer.is_some()
            && signal != Signal::CHLD
            && self.last.remove(&signal).is_some_and(|(at, was)| was != passed && now - at < TWICE);
        if !twice {
            self.last.insert(signal, (now, passed));
        }
        twice
    }

    /// Somebody wants the program to end, by SIGTERM or in this way. The second time there is no grace.
    fn ask(&mut self, way: Option<Signal>) {
        self.asked += 1;
        self.told = true;
        match way {
            // The ladder begins with SIGTERM.
            None => self.begin_stop(),
            Some(signal) => {
                self.pass(signal);
                self.patience = Instant::now().checked_add(self.grace);
            }
        }
        if self.asked > 1 {
            self.begin_stop();
            if let Some(stopping) = &mut self.stopping {
                stopping.hurry();
            }
        }
    }

    fn hang_up(&mut self) {
        if !self.ignores_hangup {
            self.told = true;
            self.pass(Signal::HUP);
            // A stopped program acts on it only when it goes on.
            self.pass(Signal::CONT);
            self.patience = self.patience.or_else(|| Instant::now().checked_add(self.grace));
        }
    }

    pub(super) fn pass(&self, signal: Signal) {
        if let Err(e) = self.child.signal_group(signal) {
            log::debug!("{signal} to the group of process {}: {e}", self.child.id());
        }
    }

    fn code(&mut self, report: &StopReport) -> Result<u8, Fault> {
        if let Some(killed @ 1..) = self.child.cgroup().and_then(|leaf| leaf.oom_kills()) {
            output::complain(&format!("out of memory: the kernel ended {killed} of the program's processes"));
        }
        if tell_survivors(report) {
            return Ok(super::SURVIVED);
        }
        if self.timed_out {
            return Ok(124);
        }
        match self.child.try_wait() {
            Ok(Some(status)) => Ok(super::code_of(status)),
            Ok(None) => Err(Fault::run("the program's status is not known")),
            Err(e) => Err(Fault::run(e)),
        }
    }
}

/// A line for each; whether there is any.
pub(super) fn tell_survivors(report: &StopReport) -> bool {
    for survivor in report.survivors() {
        output::complain(&format!("process {} (state {}) survived the stop", survivor.pid, survivor.state));
    }
    !report.is_complete()
}

/// Whether whoever started us has set this signal to be ignored.
fn ignores(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    ignored.is_some_and(|set| set & (1 << (signal.raw() - 1)) != 0)
}
