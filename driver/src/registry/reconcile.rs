//! What an earlier owner has left: found, judged, and stopped, adopted or reported.
//!
//! For each record the process is verified, and whoever carries the nonce of its spawn or is in its leaf is looked for. Whose child has
//! ended with all of its tree is cleared; of whom it cannot be told is kept and nothing is sent to anybody. Last come those that carry the
//! run entry of a run that has ended and that no record knows.

use std::{
    collections::{BTreeSet, HashSet},
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::ExitStatus,
    sync::Arc,
    time::Duration,
};

use pidward_core::{
    Id128, Pid,
    cgroup::Cgroup,
    identity::{Process, Verdict, Why},
    marker::Run,
    record::{Record, State},
    sweep::Proof,
};

use super::{
    Action, Adopted, Inner, Leftover, Listed, Past, Policy, Reconciled, Reconciliation, Registry,
    RegistryError, is_passing,
    list::read,
    tree::{Above, US, groups, leaf_of, leaf_path, one_of_many, ports, verify},
    written::Written,
};
use crate::{
    carriers::Looks,
    identity::Found,
    leaves,
    markers::MarkerNames,
    members,
    say::say,
    spawner::{Ground, lock},
    stop::Climbs,
};

impl Registry {
    /// Finds what earlier owners of the directory have left: gives whoever lives to `decide`, and carries that out, all stops at once
    /// within the same `grace`. Children of spawners that use this registry now are not touched, nor is the caller or a process above it.
    ///
    /// Blocks for grace + kill limit at most, and twice that where somebody without a record must be stopped.
    ///
    /// # Errors
    /// The directory cannot be read. In a forked copy of the program nothing is done (`EPERM`).
    pub fn reconcile(
        &self,
        grace: Duration,
        mut decide: impl FnMut(Leftover<'_>) -> Policy,
    ) -> Result<Reconciliation, RegistryError> {
        let inner = &self.inner;
        if !inner.is_ours() {
            return Err(inner.place.error(rustix::io::Errno::PERM));
        }
        let ground = Ground::of_spawner(self.names.clone(), Some(inner.installation));
        let ground =
            Arc::new(ground.map_err(|e| RegistryError::io(inner.place.path(), super::place::errno_of(&e)))?);
        inner.reconcile(&ground, grace, &mut decide)
    }

    /// The names of the variables that children carry, where they are not the default ones.
    #[must_use]
    pub fn markers(self, names: MarkerNames) -> Registry {
        Registry { names, ..self }
    }
}

/// Most records that are dealt with at once.
const MANY: usize = 4096;
/// Descriptors that there are where nothing is known.
const FEW: usize = 256;

/// One record on the way.
struct Case {
    record: Listed,
    verdict: Verdict,
    process: Option<Process>,
    leaf: Option<Cgroup>,
    ports: Vec<SocketAddr>,
}

impl Inner {
    fn reconcile(
        self: &Arc<Self>,
        ground: &Arc<Ground>,
        grace: Duration,
        decide: &mut dyn FnMut(Leftover<'_>) -> Policy,
    ) -> Result<Reconciliation, RegistryError> {
        let (mut done, mut records) = (Reconciliation::default(), Vec::new());
        let past = lock(&self.past).clone();
        for (name, read) in read(&self.place)? {
            match read {
                Ok(record) if self.is_used(record.nonce) => {}
                Ok(record) => records.push(Listed::new(record)),
                Err(why) => done.odd.push((self.place.path().join(name), why.to_string())),
            }
        }
        self.remove_torn_writes();
        let homes = records
            .iter()
            .filter_map(|record| Some(leaf_path(record.record())?.parent()?.parent()?.to_owned()));
        let homes: BTreeSet<PathBuf> = homes.collect();
        // Each that lives is held by two descriptors until its stop is over.
        while !records.is_empty() {
            let some = records.drain(..room().min(records.len())).collect();
            self.reconcile_some(ground, some, &past, grace, decide, &mut done);
        }
        let of_records = done.children.iter().filter_map(|child| Some(child.record.record().cookie?.id));
        let mut dead: HashSet<Id128> = past.runs.iter().copied().collect();
        dead.extend(of_records.filter(|_| past.has_ended));
        if dead.is_empty() || self.sweep(ground, &dead, grace, decide, &mut done) {
            let was = std::mem::take(&mut lock(&self.past).runs);
            if !was.is_empty() {
                self.say_runs();
            }
        }
        for home in homes {
            leaves::tidy_path(&home, ground);
        }
        Ok(done)
    }

    fn reconcile_some(
        self: &Arc<Self>,
        ground: &Arc<Ground>,
        records: Vec<Listed>,
        past: &Past,
        grace: Duration,
        decide: &mut dyn FnMut(Leftover<'_>) -> Policy,
        done: &mut Reconciliation,
    ) {
        let (mut looks, mut left, mut stopping) = (Looks::new(), Vec::new(), Vec::new());
        let (above, groups) = (Above::look(ground), groups(ground));
        for mut case in records.into_iter().map(|record| Case::of(ground, record, &above)) {
            match case.is_left(ground, self.installation, &mut looks) {
                // Whoever started it may live, and look after it.
                true if !past.has_ended => {
                    case.verdict = Verdict::NotOurs(Why::OtherTree);
                    done.children.push(case.done(Action::Kept));
                }
                true => left.push(case),
                false => done.children.push(self.settle(case, ground, &groups)),
            }
        }
        let ports = ports(ground, left.iter().map(|case| case.record.record()));
        for (mut case, ports) in left.into_iter().zip(ports) {
            case.ports = ports;
            match (decide(Leftover::Child(&case.record, case.verdict)), &case.process) {
                (Policy::Stop, _) => stopping.push(case),
                (Policy::Adopt, Some(_)) => done.children.push(self.adopt(ground, case)),
                _ => done.children.push(case.done(Action::Reported)),
            }
        }
        done.children.extend(self.stop_all(ground, stopping, grace));
    }

    /// What an owner that was killed was just writing. What it was to replace is there.
    fn remove_torn_writes(&self) {
        for name in self.place.names().unwrap_or_default() {
            if is_passing(&name) {
                let _ = self.place.remove(&name);
            }
        }
    }

    /// Of whom nobody lives who could be told: cleared or kept.
    fn settle(&self, case: Case, ground: &Ground, groups: &HashSet<Pid>) -> Reconciled {
        if case.is_unclear(ground, self.installation, groups) {
            return case.done(Action::Kept);
        }
        if !self.clear_record(&case.record) {
            return case.done(Action::Kept);
        }
        let status = case.record.record().status.map(ExitStatus::from_raw);
        case.done(Action::Cleared(status))
    }

    /// Whether that could be done.
    fn clear_record(&self, record: &Listed) -> bool {
        if let Some(leaf) = leaf_path(record.record()) {
            // Where somebody lives in it, it stays.
            let _ = std::fs::remove_dir(leaf);
        }
        self.remove(record.nonce())
    }

    fn adopt(self: &Arc<Self>, ground: &Arc<Ground>, mut case: Case) -> Reconciled {
        match case.process.take() {
            Some(process) => {
                let written = Written::of(self, Box::new(case.record.record().clone()));
                let adopted = Adopted::new(Arc::clone(ground), process, case.record.clone(), written);
                case.done(Action::Adopted(adopted))
            }
            None => case.done(Action::Reported),
        }
    }

    /// All at once, each on its own ladder.
    fn stop_all(&self, ground: &Ground, cases: Vec<Case>, grace: Duration) -> Vec<Reconciled> {
        if cases.is_empty() {
            return Vec::new();
        }
        for case in &cases {
            self.note_stopping(&case.record);
        }
        let mut rest = Vec::new();
        let installation = self.installation;
        let found = cases.into_iter().map(|mut case| {
            let (process, leaf) = (case.process.take(), case.leaf.take());
            let kin = one_of_many(ground, case.record.record(), installation, process.is_some());
            rest.push(case);
            Found::of_record(kin, process, leaf, true)
        });
        let found: Vec<Found<'_>> = found.collect();
        let stopped = Climbs::new(found.into_iter(), grace).run().children;
        let reconciled = rest.into_iter().zip(stopped).map(|(case, stopped)| {
            if stopped.survivors.is_empty() {
                // One that cannot be removed is in the log, and found to have ended the next time.
                let _ = self.clear_record(&case.record);
            }
            case.done(Action::Stopped(stopped))
        });
        reconciled.collect()
    }

    fn note_stopping(&self, listed: &Listed) {
        let record = Record { state: State::Stopping, ..listed.record().clone() };
        if record.born.is_some()
            && let Err(e) = self.save(&record)
        {
            say!(warn, "the record {} is not up to date: {e}", record.nonce);
        }
    }
}

impl Case {
    fn of(ground: &Ground, record: Listed, above: &Above) -> Case {
        let leaf = leaf_of(record.record());
        let (process, verdict) = match verify(ground, above, record.record()) {
            Ok(process) => (Some(process), Verdict::Same),
            Err(verdict) => (None, verdict),
        };
        Case { record, verdict, process, leaf, ports: Vec::new() }
    }

    fn done(self, action: Action) -> Reconciled {
        Reconciled { record: self.record, verdict: self.verdict, ports: self.ports, action }
    }

    /// Whether it cannot be said that it has ended.
    fn is_unclear(&self, ground: &Ground, installation: Id128, groups: &HashSet<Pid>) -> bool {
        match self.verdict {
            Verdict::NotOurs(Why::OtherBoot) => false,
            // Of no use to look for what its tree carries.
            _ if !Run::spawned(installation, self.record.nonce()) => true,
            Verdict::Gone => self.is_group_left(ground, groups),
            Verdict::Recycled(_) => false,
            US => true,
            // The number is somebody's who cannot be it.
            Verdict::NotOurs(_) => false,
            _ => true,
        }
    }

    /// Whether a group of the child's number is left though nobody has the number: it was its group, and who is in it shows nothing.
    fn is_group_left(&self, ground: &Ground, groups: &HashSet<Pid>) -> bool {
        let pgid = self.record.record().born.and_then(|born| born.pgid);
        let Some(pgid) = pgid.filter(|pgid| groups.contains(pgid)) else { return false };
        let (ours, unproven) = members::members(ground, pgid, Proof::Nonce(self.record.nonce()));
        !(ours.is_empty() && unproven.is_empty())
    }

    /// Whether it, or anybody of its tree, lives.
    fn is_left(&self, ground: &Ground, installation: Id128, looks: &mut Looks) -> bool {
        if !Run::spawned(installation, self.record.nonce())
            || self.verdict == Verdict::NotOurs(Why::OtherBoot)
        {
            return false;
        }
        if self.process.is_some() {
            return true;
        }
        if matches!(self.verdict, Verdict::Unknown(_) | US) {
            return false;
        }
        let populated = self.leaf.as_ref().is_some_and(|leaf| leaf.is_populated() == Ok(true));
        let kin = one_of_many(ground, self.record.record(), installation, false);
        populated || !looks.left(kin, None, &[]).0.is_empty()
    }
}

/// How many may be held at once: half of the descriptors that there may still be, two for each.
fn room() -> usize {
    // The call may be refused, and its wrapper knows no such answer.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(FEW);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    (most.saturating_sub(open) / 4).clamp(1, MANY)
}
