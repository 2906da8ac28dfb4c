//! Descriptors that a program finds open when it starts, by the numbers that it was told.
//!
//! A number from the environment is an allegation: whoever set the variable may be somebody further up, and the number may belong to
//! something that this program has opened itself since. What it has opened itself is as a rule close-on-exec, and what came through exec
//! never is: only the latter is taken. Nothing is closed by its number.
#![forbid(unsafe_code)]

use rustix::fd::{OwnedFd, RawFd};

use crate::{Errno, sys};

/// A copy of the descriptor, close-on-exec and the caller's own. The number itself stays as it is.
///
/// # Errors
/// - `EBADF`: nothing has the number that came through exec.
/// - `EMFILE`: no descriptor is left.
pub fn copy(number: u32) -> Result<OwnedFd, Errno> {
    let fd = RawFd::try_from(number).map_err(|_| Errno::EBADF)?;
    if !sys::stays_across_exec(fd) {
        return Err(Errno::EBADF);
    }
    sys::copy_of(fd)
}

/// Makes the number close-on-exec: no program that is started from now on gets it, and [`copy`] refuses it.
///
/// # Errors
/// - `EBADF`: nobody has opened it.
pub fn close_on_exec(number: u32) -> Result<(), Errno> {
    sys::close_on_exec(RawFd::try_from(number).map_err(|_| Errno::EBADF)?)
}
