//! One run of the program, or several: with `--restart on-failure` one that has failed is started again.

use std::{
    io, mem,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use pidward::{
    Child, Signal, Spawner,
    restart::{Breaker, Restart},
};
use pidward_core::reap::has_ended;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    job, not_started,
    options::Options,
    orphans,
    outer::Passed,
    ready::Readiness,
    supervise::{Around, End, Supervision},
    terminal::Terminal,
};
use crate::{fault::Fault, output};

/// Runs the program to its end, or to that of its last run, with these descriptors. Gives the exit code.
pub(super) fn supervise(
    spawner: &Spawner,
    mut passed: Passed,
    mut around: Around,
    options: &Options,
) -> Result<u8, Fault> {
    // Of all runs together.
    let timeout = options.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let (began, mut breaker) = (Instant::now(), Breaker::new(seed()));
    // Ends with a run that does well or is told to end, when the breaker opens, and when somebody wants an end in between.
    loop {
        let started = Instant::now();
        let (child, readiness) = start(spawner, &mut passed, &mut around, options)?;
        let End { code, failed, around: left } =
            Supervision::new(child, readiness, around, options, timeout).run()?;
        around = left;
        if !options.restart || !failed {
            return Ok(code);
        }
        let Restart::After(delay) = breaker.failed(began.elapsed(), started.elapsed()) else {
            output::complain(&format!("the program has failed too often, the last time with {code}"));
            return Ok(code);
        };
        log::warn!("the program has ended with {code}, and is started again in {} ms", delay.as_millis());
        match pause(&mut around, delay, timeout)? {
            Pause::Over => {}
            Pause::Told => return Ok(code),
            Pause::TimedOut => return Ok(124),
        }
    }
}

/// Starts it. Where there is no next run, its descriptors are its own alone from here on.
fn start(
    spawner: &Spawner,
    passed: &mut Passed,
    around: &mut Around,
    options: &Options,
) -> Result<(Child, Readiness), Fault> {
    let mut command = options.command();
    let copy = |(fd, number): &(OwnedFd, u32)| Ok((fd.try_clone()?, *number));
    let fds = if options.restart { passed.iter().map(copy).collect() } else { Ok(mem::take(passed)) };
    let fds: io::Result<Passed> = fds;
    for (fd, number) in
        fds.map_err(|e| Fault::run(format!("no copy of a descriptor for the program: {e}")))?
    {
        command.pass_fd(fd, number);
    }
    let readiness = Readiness::of(options.ready_fd, &mut command)?;
    if let Some(fd) = around.terminal.as_mut().and_then(Terminal::hand_over_at_start) {
        command.foreground(fd);
    }
    spawner.spawn(&command).map(|child| (child, readiness)).map_err(|error| {
        // It may have been handed over before the exec failed.
        if let Some(terminal) = &mut around.terminal {
            terminal.finish();
        }
        not_started(&error)
    })
}

/// How the time between two runs has ended.
enum Pause {
    Over,
    /// Somebody wants the program to end, and there is none.
    Told,
    TimedOut,
}

fn pause(around: &mut Around, delay: Duration, timeout: Option<Instant>) -> Result<Pause, Fault> {
    let over = Instant::now() + delay;
    // Ends when the time is over.
    loop {
        let now = Instant::now();
        if timeout.is_some_and(|timeout| timeout <= now) {
            return Ok(Pause::TimedOut);
        }
        if over <= now {
            return Ok(Pause::Over);
        }
        let until = timeout.map_or(over, |timeout| timeout.min(over));
        let left = Timespec::try_from(until.saturating_duration_since(now)).ok();
        let mut fds = vec![PollFd::new(&around.signals, PollFlags::IN)];
        if let Some(outer) = &around.outer {
            fds.push(PollFd::new(outer, PollFlags::IN));
        }
        // An interruption is a wake-up like any other.
        let _ = poll(&mut fds, left.as_ref());
        drop(fds);
        if around.outer.as_ref().is_some_and(|outer| has_ended(outer.as_fd()) == Ok(true)) {
            return Ok(Pause::Told);
        }
        // Ends when no signal is pending.
        while let Some(received) =
            around.signals.next().map_err(|e| Fault::run(format!("signals cannot be read: {e}")))?
        {
            match received.signal {
                Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT => return Ok(Pause::Told),
                Signal::TSTP => job::stop_us(false),
                Signal::CHLD => orphans::reap(0),
                // There is nobody to pass it to.
                _ => {}
            }
        }
    }
}

/// What differs between programs that fell over together.
fn seed() -> u64 {
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    time.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}
