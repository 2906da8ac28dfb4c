//! Questions about a number. Each answer was true when it was looked at; nothing here signals or reaps.
//!
//! A marker that is *present* is evidence. One that is absent, unreadable or not there yet is none: every "no" below can mean
//! "cannot be told". Descendants inherit markers, so a "yes" means a child or somebody it started.

use std::{process, thread, time::Duration};

use pidward_core::{
    Pid, marker,
    procfs::{self, Environ, Proc, ProcError},
};

/// During exec an environ is empty for a moment: this many looks, this far apart, tell that from a program without one.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// Whether a block of `name=value` entries holds the general marker and `key=name`, each as a whole entry and the first of its
/// name.
pub fn environ_identifies_child(environ: &[u8], key: &str, name: &str) -> bool {
    marker::environ_identifies_child(environ, key, name)
}

/// Whether a block is that of the API server of this name. The general marker is not needed.
pub fn environ_identifies_api_server(environ: &[u8], service: &str) -> bool {
    marker::environ_identifies_api_server(environ, service)
}

/// Whether a block holds any variable. A block without one was withheld or overwritten: it proves nothing.
pub fn environ_has_entries(environ: &[u8]) -> bool {
    marker::environ_has_entries(environ)
}

/// The environ of a living process, whole. `None`: there is none to be had: it is another user's, a kernel thread, a zombie, a
/// thread id, gone, or stays empty.
///
/// Blocks for up to 95 ms while it is empty, as it is during exec.
pub fn live_environ(pid: u32) -> Option<Vec<u8>> {
    // Opened once: every look is at the same process, whoever gets its number later.
    let process = Proc::open().and_then(|proc| proc.process(Pid::new(pid).ok_or(ProcError::Gone)?)).ok()?;
    for look in 0..LOOKS {
        let mut block = Vec::new();
        match process.environ(|piece| block.extend_from_slice(piece)) {
            Ok(Environ::Bytes(_)) => return Some(block),
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
    None
}

/// Whether the number is, now, a living process with these markers, and not the caller.
pub fn live_pid_is_subprocess(pid: u32, key: &str, name: &str) -> bool {
    pid != process::id()
        && live_environ(pid).is_some_and(|environ| environ_identifies_child(&environ, key, name))
}

/// Whether the number is a process that has ended and whose status nobody has taken. A process whose first thread has ended
/// while others live is none. Unknown is `false`.
pub fn is_zombie(pid: u32) -> bool {
    Pid::new(pid).is_some_and(procfs::is_zombie)
}

/// The number as `kill(2)` takes it for one process; `None` for 0 and above `i32::MAX`, which would be a group or everybody.
pub fn signalable_pid(pid: u32) -> Option<i32> {
    Pid::new(pid).map(Pid::raw)
}

/// Whether this system can tell who a process is.
pub const fn identity_verification_supported() -> bool {
    cfg!(target_os = "linux")
}
