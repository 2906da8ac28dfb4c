//! Looking at a living process: `/proc` tells.

use std::{thread, time::Duration};

pub(super) use pidward_core::procfs::is_zombie as has_ended_unreaped;
use pidward_core::{
    Pid,
    procfs::{Environ, Proc, ProcError},
};

/// During exec an environ is empty for a moment: this many looks, this far apart, tell that from a program without one.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// The environ, and whether it is the process's own.
pub(super) fn look_at(pid: u32) -> Option<(Vec<u8>, bool)> {
    // Opened once: every look is at the same process, whoever gets its number later.
    let process = Proc::open().and_then(|proc| proc.process(Pid::new(pid).ok_or(ProcError::Gone)?)).ok()?;
    let mut last = None;
    for look in 0..LOOKS {
        let mut block = Vec::new();
        // In this order: once it has called exec, what is read later is its own.
        let own = process.stat().is_ok_and(|stat| stat.has_execed());
        match process.environ(|piece| block.extend_from_slice(piece)) {
            Ok(Environ::Bytes(_)) if own => return Some((block, true)),
            Ok(Environ::Bytes(_)) => last = Some((block, false)),
            Ok(Environ::Empty) => {}
            Ok(_) | Err(ProcError::Gone) => return None,
            Err(e) => {
                log::debug!("environ of process {pid}: {e:?}");
                return None;
            }
        }
        if look + 1 < LOOKS {
            thread::sleep(BETWEEN);
        }
    }
    last
}
