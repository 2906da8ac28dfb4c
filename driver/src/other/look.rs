//! Looking at a process, on systems where nothing tells who has a number: the answer is always that it cannot be told.

use pidward_core::Pid;

pub(super) fn look_at(_: u32) -> Option<(Vec<u8>, bool)> {
    None
}

pub(super) fn has_ended_unreaped(_: Pid) -> bool {
    false
}
