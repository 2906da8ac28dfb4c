//! What the core does beside a spawn.

use std::{os::fd::AsRawFd, time::Duration};

use pidward_core::{
    Id128, Signal,
    guard::{Charge, Guard},
    identity::Host,
    marker::{Cookie, Names},
    net, probe,
    reap::Change,
    signal::{self, SignalFd},
    sweep::{self, Proof, Scope, Seen},
};

use crate::life::{Life, Say, end_of, put_away, until, word};

pub(crate) fn all(life: &mut Life, say: Say<'_>) {
    say("random id", &word(&Id128::random()));
    let p = probe::pidfds();
    let means = [("open", p.open), ("signal", p.signal), ("signal-group", p.signal_group), ("wait", p.wait)];
    let means = means.into_iter().chain([("inode", p.inode), ("exit-info", p.exit_info)]);
    let means: Vec<&str> = means.filter(|(_, can)| *can).map(|(what, _)| what).collect();
    say("probe", &if means.is_empty() { "nothing".to_string() } else { means.join(" ") });
    say(
        "signals to read",
        &word(
            &SignalFd::all()
                .map_err(|e| format!("{e}"))
                .and_then(|fd| fd.next().map_err(|e| format!("to read: {e}"))),
        ),
    );
    port(life, say);
    if !life.is_fertile() {
        return;
    }
    stops(life, say);
    taken(life, say);
    swept(life, say);
    guard(life, say);
}

/// Who holds a port.
fn port(life: &Life, say: Say<'_>) {
    let Some((_, address)) = &life.files.port else { return };
    let host = Host::look();
    let own = life.own;
    let mut inode = 0;
    let mut held = false;
    let answer = host.proc().and_then(|proc| proc.process(own)).and_then(|own| {
        net::listening(&own, |socket| {
            if socket.local == *address {
                inode = socket.inode;
            }
        })?;
        net::sockets(&own, |socket| held |= socket == inode)
    });
    say(
        "port",
        &answer.map_or_else(|e| format!("{e:?}"), |()| if held { "ok" } else { "not found" }.to_string()),
    );
}

/// A child that is stopped and goes on.
fn stops(life: &mut Life, say: Say<'_>) {
    let Ok(child) = life.stay(|_| {}) else { return };
    let _ = child.signal(Signal::STOP);
    let mut seen = Ok(None);
    until(|| {
        seen = child.next_stop();
        !matches!(seen, Ok(None))
    });
    let stopped = matches!(seen, Ok(Some(Change::Stopped(Signal::STOP))));
    say("stop seen", &if stopped { "ok".to_string() } else { format!("{seen:?}") });
    let _ = child.signal(Signal::CONT);
    put_away(&child);
}

/// A status that somebody else took.
fn taken(life: &mut Life, say: Say<'_>) {
    let Ok(child) = life.seven(|_| {}) else { return };
    let pid = i32::try_from(child.pid().get()).expect("a pid");
    // SAFETY: waits for one child, whose number is above 1, and writes no status.
    unsafe { libc::wait4(pid, std::ptr::null_mut(), 0, std::ptr::null_mut()) };
    say("taken status", &end_of(&child));
}

/// Processes found by what they carry, and ended.
fn swept(life: &mut Life, say: Say<'_>) {
    // One that is deaf to the first signal, so that the grace counts.
    let set = |to| {
        // SAFETY: neither runs code of ours.
        unsafe { libc::signal(libc::SIGTERM, to) };
    };
    set(libc::SIG_IGN);
    let child = life.stay(|plan| plan.keep.ignored = true);
    set(libc::SIG_DFL);
    let Ok(child) = child else { return };
    let (host, names) = (Host::look(), Names::DEFAULT);
    let (scope, proof) = (Scope::Group(child.pid()), Proof::Nonce(life.nonce));
    let mut found = 0;
    let mut scan = Ok(Seen::default());
    until(|| {
        found = 0;
        scan = sweep::each(&host, &names, scope, proof, |_| found += 1);
        scan.is_err() || found > 0
    });
    say("scan", &scan.map_or_else(|e| format!("{e:?}"), |_| format!("{found} found")));
    // The zombie stays as it is.
    let (proof, times) =
        (Proof::Cookie(Cookie::Run(life.run)), (Duration::from_millis(50), Duration::from_secs(1)));
    let ended = sweep::end_all(&host, &names, Scope::Since(0), proof, None, times, |_, _| true);
    say(
        "sweep",
        &ended
            .map_or_else(|e| format!("{e:?}"), |empty| if empty { "empty" } else { "not empty" }.to_string()),
    );
    put_away(&child);
}

/// A guard from its start to its end.
fn guard(life: &mut Life, say: Say<'_>) {
    let (grace, limit) = (Duration::from_millis(100), Duration::from_secs(10));
    let charge = Charge { names: Names::DEFAULT, run: life.run, grace, limit, cgroup: None };
    match Guard::start(&charge) {
        Err(e) => say("guard", &format!("{e}")),
        Ok(guard) => {
            say("guard", if guard.stands() { "ok" } else { "ended" });
            guard.end();
        }
    }
}

/// A write that nobody reads, in a program that SIGPIPE would end.
pub(crate) fn pipe(life: &Life, say: Say<'_>) {
    let fd = life.files.pipe.as_raw_fd();
    say("write to a closed pipe", "ended the program");
    // SAFETY: reads one byte.
    let wrote = signal::without_pipe_signal(|| unsafe { libc::write(fd, b".".as_ptr().cast(), 1) });
    say("write to a closed pipe", if wrote == -1 { "ok" } else { "was read" });
}
