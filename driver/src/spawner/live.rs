//! How many children this process supervises, over all its spawners: an exec in place would take them down.

use std::{
    process,
    sync::atomic::{AtomicU64, Ordering},
};

/// The pid of the process that counts, and the count: a forked copy has no children, though it has its original's memory.
static LIVE: AtomicU64 = AtomicU64::new(0);

fn split(both: u64) -> u64 {
    if both >> 32 == u64::from(process::id()) { both & u64::from(u32::MAX) } else { 0 }
}

/// How many.
pub(crate) fn children() -> u64 {
    split(LIVE.load(Ordering::Acquire))
}

/// Counts one child while it is kept.
#[derive(Debug)]
pub(super) struct Counted(());

impl Counted {
    pub(super) fn new() -> Counted {
        change(|count| count + 1);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        change(|count| count.saturating_sub(1));
    }
}

fn change(by: impl Fn(u64) -> u64) {
    let pid = u64::from(process::id()) << 32;
    // Always gives something new.
    let _ = LIVE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |both| Some(pid | by(split(both))));
}
