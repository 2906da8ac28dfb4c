//! What a reconciliation would do, as far as one look tells: nothing is touched, not even the lock.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use pidward::{Listing, Verdict, Why, registry::Listed};
use pidward_core::{
    Id128,
    identity::{Host, Identity},
    marker::{Names, Run},
    sweep::{self, Member, Proof, Scope},
};

use super::{Done, Line};
use crate::stop::{above, called};

pub(super) fn of(listing: &Listing) -> Done {
    if listing.is_owned {
        // It is a file of ours: it was just looked at.
        let text = fs::read_to_string(listing.path.join("lock")).unwrap_or_default();
        let pid = text.lines().find_map(|line| line.strip_prefix("pid ")?.parse().ok());
        return Done::owned(&listing.path, pid);
    }
    let mut done = Done::odd(&listing.odd);
    let token = fs::read(listing.path.join("installation")).unwrap_or_default();
    let installation = Id128::parse(token.trim_ascii());
    let mut carriers = installation.map(carriers).unwrap_or_default();
    let mut kept = HashSet::new();
    for listed in &listing.children {
        let (nonce, verdict) = (nonce(listed), listed.verify());
        let is_foreign = installation.zip(nonce).is_some_and(|(id, nonce)| !Run::spawned(id, nonce));
        let lives = || nonce.is_some_and(|nonce| carriers.contains_key(&nonce)) || is_populated(listed);
        let action = match verdict {
            Verdict::NotOurs(Why::OtherBoot) => "clear",
            _ if is_foreign => "keep",
            Verdict::Same => "stop",
            // It is only intended.
            Verdict::Unknown(_) if listed.identity().is_none() => "clear",
            Verdict::Unknown(_) => "keep",
            _ if lives() => "stop",
            _ => "clear",
        };
        done.kept |= action == "keep";
        kept.extend(nonce);
        let text = (action != "clear").then(|| format!("would {action}: {}", called(listed)));
        done.lines.push(Line { text, ..Line::of_record(&listing.path, listed, verdict, action) });
    }
    carriers.retain(|nonce, _| !kept.contains(nonce));
    let strays = carriers.values().sum();
    if strays > 0 {
        let text = format!("would stop: processes without a record in {:?}: {strays}", listing.path);
        let line = Line { strays: Some(strays), text: Some(text), ..Line::new(&listing.path, "stop") };
        done.lines.push(line);
    }
    done
}

/// How many carry each nonce, of all that descend from this installation; not this process and those above it.
fn carriers(installation: Id128) -> HashMap<Id128, usize> {
    let (mut found, above) = (HashMap::new(), above());
    let (names, proof) = (Names::DEFAULT, Proof::Installation(installation));
    let seen = sweep::each(&Host::look(), &names, Scope::Since(0), proof, |member| {
        if let Member::Ours(process, _, carried) = member
            && let Some(nonce) = carried.nonce
            && !above.contains(&process.pid())
        {
            *found.entry(nonce).or_default() += 1;
        }
    });
    if let Err(e) = seen {
        log::warn!("whoever has no record cannot be looked for: {e:?}");
    }
    found
}

fn nonce(listed: &Listed) -> Option<Id128> {
    let line = listed.identity()?.to_string();
    Identity::parse(line.as_bytes()).ok()?.nonce
}

/// Whether anybody lives in its leaf. cgroup v2, Linux 4.5.
fn is_populated(listed: &Listed) -> bool {
    let events = listed.cgroup().and_then(|leaf| fs::read_to_string(leaf.join("cgroup.events")).ok());
    events.is_some_and(|events| events.lines().any(|line| line == "populated 1"))
}
