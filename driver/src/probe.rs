//! Questions about a number. Each answer was true when it was looked at; nothing here signals or reaps.
//!
//! A marker that is *present* is evidence. One that is absent, unreadable or not there yet is none: every "no" below can mean
//! "cannot be told". Descendants inherit markers, so a "yes" means a child or somebody it started.

use std::process;

use pidward_core::{Pid, marker};

#[cfg_attr(not(pidward_linux), path = "other/look.rs")]
mod look;

use look::{has_ended_unreaped, look_at};

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
/// Blocks for up to 95 ms while it is empty, as it is during exec, and while the process has not called exec: until then it shows its
/// parent's. One that never does, as a worker that its parent has forked, has a copy of that.
pub fn live_environ(pid: u32) -> Option<Vec<u8>> {
    look_at(pid).map(|(environ, _)| environ)
}

/// Whether the number is, now, a living process with these markers, and not the caller. What a process shows before it has called exec
/// is its parent's, and proves nothing.
pub fn live_pid_is_subprocess(pid: u32, key: &str, name: &str) -> bool {
    let shown = || look_at(pid).filter(|(_, own)| *own);
    pid != process::id() && shown().is_some_and(|(environ, _)| environ_identifies_child(&environ, key, name))
}

/// Whether the number is a process that has ended and whose status nobody has taken. A process whose first thread has ended
/// while others live is none. Unknown is `false`.
pub fn is_zombie(pid: u32) -> bool {
    Pid::new(pid).is_some_and(has_ended_unreaped)
}

/// The number as `kill(2)` takes it for one process; `None` for 0 and above `i32::MAX`, which would be a group or everybody.
pub fn signalable_pid(pid: u32) -> Option<i32> {
    Pid::new(pid).map(Pid::raw)
}

/// Whether this system can tell who a process is.
pub const fn identity_verification_supported() -> bool {
    cfg!(pidward_linux)
}
