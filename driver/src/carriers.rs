//! Who descends from a spawner by what it carries, wherever it has gone: out of its group, its session, its parent.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use pidward_core::{
    Id128, Pid, Signal,
    identity::Process,
    sweep::{self, Member, Proof, Scope, Seen},
};

use crate::{leaves::Home, members, report::Survivor, say::say, spawner::Ground, stop::KILL_LIMIT};

/// How many scans there may be until two in a row are quiet. A busy machine may never be.
const SCANS: u32 = 8;

/// Of whom carriers are looked for: the child, and what it started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kin<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) nonce: Id128,
    /// The child's. Who has the number when it has ended is somebody else, whatever it shows.
    pub(crate) pid: Pid,
    /// Its group, which is signalled otherwise.
    pub(crate) group: Option<Pid>,
    /// No descendant was made at an earlier clock tick.
    pub(crate) since: u64,
    /// What a look goes by: the run entry, so that one look is for all children of a spawner, or the nonce alone.
    pub(crate) by: Proof<'a>,
}

#[derive(Debug)]
struct Carrier {
    pid: Pid,
    pgrp: i32,
    session: i32,
    nonce: Option<Id128>,
    state: char,
}

impl Carrier {
    /// Whether it descends from the child.
    fn is_of(&self, kin: Kin<'_>) -> bool {
        self.nonce == Some(kin.nonce) && self.pid != kin.pid
    }

    /// And has left the child's group.
    fn is_away(&self, kin: Kin<'_>) -> bool {
        self.is_of(kin) && Some(self.pgrp) != kin.group.map(Pid::raw)
    }
}

/// How sure it is that nobody is left who was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sure {
    /// Two scans in a row were quiet.
    Proven,
    /// The machine was not quiet; nobody has ever been seen to leave the child's group.
    Likely,
    /// The machine was not quiet, and somebody had left the group.
    No,
}

/// Looks at all carriers, shared by everybody who asks within one step of a stop.
#[derive(Debug)]
pub(crate) struct Looks {
    /// When the step began, since the beginning of the stop: before every look.
    pub(crate) now: Duration,
    /// One child only is being stopped: whether anybody of it is seen is all that counts.
    alone: bool,
    last: Option<Look>,
    /// Nonces of the children that got SIGKILL, with their pids: from then on every look kills whom it sees of them. Who forks and ends
    /// in a loop is somebody else by the next look.
    doomed: HashMap<Id128, Pid>,
    /// Nonces of which somebody was seen outside the child's group: then not to see anybody is not enough, it must be proven.
    away: HashSet<Id128>,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    list: Vec<Carrier>,
    proven: bool,
}

impl Looks {
    pub(crate) fn new() -> Looks {
        Looks { now: Duration::ZERO, alone: false, last: None, doomed: HashMap::new(), away: HashSet::new() }
    }

    /// A new step: what was seen before is old.
    pub(crate) fn begin(&mut self, began: Instant, alone: bool) {
        (self.now, self.alone, self.last) = (began.elapsed(), alone, None);
    }

    /// Who of the child's carriers lives and is not among `known`, as seen at `after` or later; and how sure that is.
    pub(crate) fn left(
        &mut self,
        kin: Kin<'_>,
        after: Option<Instant>,
        known: &[Survivor],
    ) -> (Vec<Survivor>, Sure) {
        let look = self.at(kin, after, SCANS);
        let is_away = look.list.iter().any(|carrier| carrier.is_away(kin));
        let left = look.list.iter().filter(|carrier| {
            carrier.is_of(kin) && !known.iter().any(|known| known.pid == carrier.pid.get())
        });
        let left = left.map(|carrier| Survivor { pid: carrier.pid.get(), state: carrier.state }).collect();
        let proven = look.proven;
        self.away.extend(is_away.then_some(kin.nonce));
        let sure = match self.away.contains(&kin.nonce) {
            _ if proven => Sure::Proven,
            true => Sure::No,
            false => Sure::Likely,
        };
        (left, sure)
    }

    /// Sends a signal to those of the child's carriers that its group does not hold.
    pub(crate) fn signal(&mut self, kin: Kin<'_>, signal: Signal) {
        if signal == Signal::KILL {
            self.doomed.insert(kin.nonce, kin.pid);
        }
        let mut is_away = false;
        for carrier in self.at(kin, None, 1).list.iter().filter(|carrier| carrier.is_away(kin)) {
            is_away = true;
            // Looked at again: it is pinned now, and was only listed before.
            let (host, names) = (kin.ground.host(), kin.ground.names());
            let process = sweep::one(&host, &names, carrier.pid, Proof::Nonce(kin.nonce));
            let led = (carrier.pgrp, carrier.session);
            process.iter().for_each(|process| send(kin, process, led, Proof::Nonce(kin.nonce), signal));
        }
        self.away.extend(is_away.then_some(kin.nonce));
    }

    fn at(&mut self, kin: Kin<'_>, after: Option<Instant>, scans: u32) -> &Look {
        let fresh = self.last.take().filter(|look| after.is_none_or(|after| look.at >= after));
        let look = fresh.unwrap_or_else(|| self.look(kin, scans));
        self.last.insert(look)
    }

    /// Scans until two in a row are quiet, so often at most. Who was seen once counts, unless it is proven that nobody is there.
    fn look(&self, kin: Kin<'_>, scans: u32) -> Look {
        let at = Instant::now();
        let (mut list, mut before): (Vec<Carrier>, Option<Seen>) = (Vec::new(), None);
        let (host, names, scope) = (kin.ground.host(), kin.ground.names(), Scope::Since(kin.since));
        for _ in 0..scans {
            let old = list.len();
            let seen = sweep::each(&host, &names, scope, kin.by, |member| {
                let Member::Ours(process, stat, carried) = member else { return };
                let leader = carried.nonce.and_then(|nonce| self.doomed.get(&nonce));
                if leader.is_some_and(|leader| *leader != process.pid()) {
                    send(kin, process, (stat.pgrp, stat.session), kin.by, Signal::KILL);
                }
                let state = stat.state.letter().into();
                let (pid, pgrp, session) = (process.pid(), stat.pgrp, stat.session);
                list.push(Carrier { pid, pgrp, session, nonce: carried.nonce, state });
            });
            let found = self.alone && list.iter().any(|carrier| carrier.is_of(kin));
            match (seen, before) {
                (Ok(_), _) if found => break,
                (Ok(seen), Some(before)) if seen.is_quiet(&before) => {
                    return Look { at, list: list.split_off(old), proven: true };
                }
                (Ok(seen), _) => before = Some(seen),
                (Err(e), _) => {
                    kin.ground.tell_blind(e);
                    break;
                }
            }
        }
        Look { at, list, proven: false }
    }
}

/// Stops whoever still carries the run entry of a spawner, when its children have been stopped: what ended ones left behind, and what
/// supervisors further down did. SIGTERM (with SIGCONT), SIGKILL after `grace`. Who is left, but for those that are `known` to be.
pub(crate) fn stop_strays(
    ground: &Ground,
    home: Option<&Home>,
    grace: Duration,
    known: &[Survivor],
) -> Vec<Survivor> {
    let (scope, proof) = (Scope::Since(ground.since()), Proof::Cookie(ground.run_cookie()));
    let is_stray = |pid: Pid| !known.iter().any(|known| known.pid == pid.get());
    let (host, names) = (ground.host(), ground.names());
    let group = home.map(Home::group);
    let mut left = Vec::new();
    let times = (grace, KILL_LIMIT);
    let ended =
        sweep::end_all(&host, &names, scope, proof, group, times, |process, _| is_stray(process.pid()));
    if let Err(e) = ended {
        ground.tell_blind(e);
    }
    if ended == Ok(false) {
        // On a machine that is never quiet there may be nobody all the same.
        let _ = sweep::each(&host, &names, scope, proof, |member| match member {
            Member::Ours(process, ..) if is_stray(process.pid()) => {
                left.push(members::survivor(process.pid()));
            }
            _ => {}
        });
    }
    left
}

/// Also to the group and to the session that it leads.
fn send(kin: Kin<'_>, process: &Process, led: (i32, i32), proof: Proof<'_>, signal: Signal) {
    let (host, names) = (kin.ground.host(), kin.ground.names());
    if let Err(e) = sweep::signal_led(&host, &names, process, led, proof, &[signal]) {
        say!(debug, "{signal} to process {}, which has left its group: {e:?}", process.pid());
    }
}
