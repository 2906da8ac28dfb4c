//! The directories that a command looks at, and what it finds there.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use clap::ArgMatches;
use pidward::{Listing, RegistryError, registry::Listed};
use pidward_core::Id128;

use crate::{
    environ::{given, invalid},
    fault::Fault,
    output,
};

pub(crate) const OPTION: &str = "registry";
pub(crate) const VARIABLE: &str = "PIDWARD_REGISTRY";

/// How many directories or children are dealt with at once.
const AT_ONCE: usize = 128;

/// The directory that was named.
pub(crate) fn named(matches: &ArgMatches) -> Result<Option<PathBuf>, String> {
    match given(matches, OPTION, VARIABLE) {
        Some((dir, of)) if dir.is_empty() => Err(invalid(&dir, &of, "a directory")),
        named => Ok(named.map(|(dir, _)| dir.into())),
    }
}

/// What there is to look at.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) listings: Vec<Listing>,
    /// Directories that nobody named and that cannot be used, each with the reason.
    pub(crate) unusable: Vec<RegistryError>,
}

impl Looked {
    /// The directory that was named, or those of all runs of the caller. One that holds those of runs stands for all of them.
    pub(crate) fn at(named: Option<&Path>) -> Result<Looked, Fault> {
        let mut looked = Looked::default();
        let Some(dir) = named else {
            looked.walk(Listing::directories());
            return Ok(looked);
        };
        let mut listing = Listing::read(dir).map_err(unusable)?;
        let mut runs = Vec::new();
        if !dir.join("lock").exists() {
            let odd = std::mem::take(&mut listing.odd);
            let (below, odd): (Vec<_>, _) = odd.into_iter().partition(|(path, _)| is_run(path));
            listing.odd = odd;
            runs.extend(below.into_iter().map(|(path, _)| path));
        }
        looked.listings.push(listing);
        looked.walk(runs);
        Ok(looked)
    }

    fn walk(&mut self, dirs: Vec<PathBuf>) {
        for dir in dirs {
            match Listing::read(&dir) {
                Ok(listing) => self.listings.push(listing),
                // The run has ended meanwhile.
                Err(e) if is_gone(&e) => {}
                Err(e) => self.unusable.push(e),
            }
        }
    }

    /// All records by name and kind, each with where it stands.
    pub(crate) fn records(&self) -> Vec<(&Listing, &Listed)> {
        let mut all = Vec::new();
        for listing in &self.listings {
            all.extend(listing.children.iter().map(|listed| (listing, listed)));
        }
        all.sort_by_key(|(_, listed)| (listed.name(), listed.kind()));
        all
    }

    /// A line for each file that is no record, and for each directory that cannot be used. How many there are.
    pub(crate) fn tell_odd(&self) -> usize {
        self.unusable.iter().for_each(|e| output::complain(&e.to_string()));
        let odd = self.listings.iter().flat_map(|listing| &listing.odd);
        odd.clone().for_each(|(path, why)| tell_odd(path, why));
        self.unusable.len() + odd.count()
    }
}

pub(crate) fn tell_odd(path: &Path, why: &str) {
    output::complain(&format!("{path:?} is not used: {why}"));
}

/// A directory that was named cannot be used.
pub(crate) fn unusable(error: RegistryError) -> Fault {
    Fault::with(125, error)
}

/// Whether the directory is not there.
pub(crate) fn is_gone(error: &RegistryError) -> bool {
    std::io::Error::from(error.clone()).kind() == ErrorKind::NotFound
}

/// Whether it is called as the directory of a run is. It may be gone by now.
fn is_run(path: &Path) -> bool {
    Id128::parse(path.file_name().unwrap_or_default().as_encoded_bytes()).is_some()
}

/// Does it for each, all at once, and gives the answers in the same order.
pub(crate) fn each_at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Ends with the items: each is taken once.
    let take = || {
        while let Some((at, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
        {
            let answer = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
        }
    };
    thread::scope(|scope| {
        for _ in 1..items.len().min(AT_ONCE) {
            // Where there is no thread to be had, the others and this one take longer.
            let _ = thread::Builder::new().spawn_scoped(scope, take);
        }
        take();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}
