//! Which failures may pass, and how long to wait before the next try.
#![forbid(unsafe_code)]

use core::time::Duration;

use super::{SpawnError, Step};
use crate::Errno;

/// Tries after the first, for either cause.
pub const RETRIES: u32 = 10;

/// How long to wait before retry number `tries` (from 0); `None` when the error is final.
///
/// Two failures may pass. `EAGAIN` of the clone: a limit on processes is reached; waits grow by 20 ms each, 1.1 s in
/// all. `ETXTBSY` of the exec: somebody holds the program file open for writing, most often another
/// thread's child that has not called exec yet; waits double from 1 ms, 1 s in all. Nothing else is retried: an
/// `EAGAIN` of the exec is the limit of the user that the child has become.
///
/// `jitter`, any number, shortens a wait by up to a quarter, so that many waiters do not come back together.
pub fn delay(error: SpawnError, tries: u32, jitter: u8) -> Option<Duration> {
    if tries >= RETRIES {
        return None;
    }
    let millis = match (error.step, error.errno) {
        (Step::Clone, Errno::EAGAIN) => 20u64.saturating_mul(u64::from(tries).saturating_add(1)),
        (Step::Exec, Errno::ETXTBSY) => 1u64.wrapping_shl(tries),
        _ => return None,
    };
    let micros = millis.saturating_mul(1000);
    let off = micros.saturating_mul(u64::from(jitter)) >> 10;
    Some(Duration::from_micros(micros.saturating_sub(off)))
}
