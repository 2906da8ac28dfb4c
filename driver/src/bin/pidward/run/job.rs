//! Job control: what is done when the program is stopped, and when we are continued.

use pidward::Signal;
use pidward_core::signal::block;
use rustix::process::{
    PidfdFlags, Signal as RawSignal, getpid, kill_current_process_group, pidfd_open, pidfd_send_signal,
};

use super::supervise::Supervision;

/// The program has been stopped by this signal.
pub(super) fn stopped(run: &mut Supervision, signal: Signal) {
    let id = run.child.id();
    let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
    let asked = std::mem::take(&mut run.stop_asked);
    let stopping = run.is_stopping();
    if let Some(terminal) = &mut run.terminal {
        // Where the program is in front by now, the stop is left from before that: others of its group may have been on
        // their way into it when the first was seen, and who has what it wants is only to go on.
        if wants_terminal && (terminal.is_in_front() || terminal.is_programs(id)) {
            if terminal.lend(id) {
                run.seen_stop = None;
                run.pass(Signal::CONT);
            }
            return;
        }
        if !stopping && (terminal.is_lent() || wants_terminal) {
            terminal.take_back();
            // The key stopped the program's group alone; those who wait for us are stopped with us, as if it were theirs.
            stop_us(true);
            return go_on(run);
        }
    }
    if stopping {
        // The ladder sends SIGCONT with its SIGTERM, and nothing holds up SIGKILL.
        return;
    }
    if asked {
        stop_us(false);
        return go_on(run);
    }
    log::warn!("process {id} is stopped by {signal}; SIGCONT continues it");
}

/// We were continued: so is the program, in front if we are and it was.
pub(super) fn go_on(run: &mut Supervision) {
    let id = run.child.id();
    if let Some(terminal) = &mut run.terminal {
        terminal.lend_again(id);
    }
    run.seen_stop = None;
    run.pass(Signal::CONT);
}

/// Stops us as SIGTSTP by default does, and returns when we are continued: at once where nobody could do that
/// (the kernel stops no orphaned group in this way), or where the signal is ignored.
pub(super) fn stop_us(group: bool) {
    let all_but_stop = !(1 << (Signal::TSTP.raw() - 1));
    let sent = if group { stop_group() } else { stop_self() };
    if let Err(e) = sent.map_err(Into::into).and_then(|()| block(all_but_stop)) {
        log::warn!("we cannot stop: {e}");
    }
    if let Err(e) = block(u64::MAX) {
        log::warn!("signals cannot be blocked again: {e}");
    }
}

fn stop_self() -> rustix::io::Result<()> {
    pidfd_send_signal(pidfd_open(getpid(), PidfdFlags::empty())?, RawSignal::TSTP)
}

#[expect(clippy::disallowed_methods, reason = "our own group is meant: it is the job of whoever started us")]
fn stop_group() -> rustix::io::Result<()> {
    kill_current_process_group(RawSignal::TSTP)
}
