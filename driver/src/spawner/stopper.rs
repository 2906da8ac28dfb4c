//! Stops that nobody waits for: one thread for all of a spawner's, there while there are any.

use std::{
    mem,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use super::{builder::OnLastDrop, end_tree, entry::Entry, queue::lock, shared::Shared};
use crate::{
    report::{Cause, StopReport},
    say::say,
    stop::Stopping,
};

/// How long a stop waits at most for the thread to hear of it.
const PAUSE: Duration = Duration::from_millis(50);

/// What the thread is asked for.
#[derive(Debug, Default)]
pub(super) struct Stopper(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    entries: Vec<Arc<Entry>>,
    /// The thread is there, and takes them.
    runs: bool,
}

impl Shared {
    /// Stops the child with its tree, with the spawner's grace, in the background. Who is left is in the log.
    pub(crate) fn stop_later(self: &Arc<Self>, entry: &Arc<Entry>, cause: Cause) {
        entry.note_cause(cause);
        let mut asked = lock(&self.stopper.0);
        asked.entries.push(Arc::clone(entry));
        if asked.runs {
            return;
        }
        let shared = Arc::clone(self);
        match thread::Builder::new().name("pidward-stop".to_owned()).spawn(move || run(&shared)) {
            Ok(_) => asked.runs = true,
            Err(e) => {
                say!(warn, "process {} gets no grace: no thread for it: {e}", entry.pid());
                asked.entries.clear();
                drop(asked);
                end_tree(entry);
            }
        }
    }

    /// A child lost its owner after the last handle was gone: nobody is left to stop it later.
    pub(crate) fn let_go(self: &Arc<Self>, entry: &Arc<Entry>) {
        if self.is_closed() && self.config.on_last_drop == OnLastDrop::Stop {
            self.stop_later(entry, Cause::Stopped);
        }
    }
}

fn run(shared: &Arc<Shared>) {
    let mut stops = Vec::new();
    // Ends with the last stop; every stop ends within grace + kill limit.
    loop {
        {
            let mut asked = lock(&shared.stopper.0);
            let entries = mem::take(&mut asked.entries);
            if !entries.is_empty() {
                stops.push(Stopping::new(shared, &entries, None, shared.config.grace));
            }
            if stops.is_empty() {
                asked.runs = false;
                return;
            }
        }
        stops.retain_mut(|stop| {
            let report = stop.step();
            for survivor in report.iter().flat_map(StopReport::survivors) {
                say!(warn, "process {} survives its stop, in state {}", survivor.pid, survivor.state);
            }
            report.is_none()
        });
        if !stops.is_empty() {
            crate::stop::wait_for_any(&stops, PAUSE);
        }
    }
}
