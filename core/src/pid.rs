//! A process number that cannot address anybody else.
//!
//! `kill(2)` gives 0, -1 and negative numbers meanings of their own: the own group, everybody, a group. A
//! [`Pid`] holds none of them. It is still only a number: it says nothing about who has it now.
#![forbid(unsafe_code)]

use core::{fmt, num::NonZeroU32};

#[cfg(pidward_linux)]
use linux_raw_sys::general::AT_FDCWD;

#[cfg(pidward_linux)]
use crate::{fd::Fd, sys};

/// A process or group number, `1..=i32::MAX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(NonZeroU32);

impl Pid {
    /// Pid 1 of the namespace.
    pub const INIT: Pid = Pid(NonZeroU32::MIN);

    /// The number as a value; `None` for 0 and above `i32::MAX`, which would wrap to a group or to
    /// everybody.
    pub const fn new(number: u32) -> Option<Pid> {
        if number > i32::MAX as u32 {
            return None;
        }
        match NonZeroU32::new(number) {
            Some(n) => Some(Pid(n)),
            None => None,
        }
    }

    /// The same for a signed number, as system calls return it; `None` for 0 and below.
    pub const fn from_raw(number: i32) -> Option<Pid> {
        if number < 0 { None } else { Pid::new(number as u32) }
    }

    /// The caller's. Where a filter refuses `getpid(2)` it is what `/proc` says; whoever needs it to be of our own pid namespace compares.
    #[cfg(pidward_linux)]
    pub(crate) fn own() -> Option<Pid> {
        Pid::from_raw(sys::getpid()).or_else(|| {
            let (file, mut text) = (Fd::open_at(AT_FDCWD, c"/proc/self/stat", 0).ok()?, [0; 16]);
            let read = sys::read(file.raw(), &mut text).ok()?;
            let number = text.get(..read)?.split(|byte| *byte == b' ').next()?;
            core::str::from_utf8(number).ok()?.parse().ok().and_then(Pid::new)
        })
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The number as `pid_t`; always positive.
    pub const fn raw(self) -> i32 {
        self.0.get() as i32
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
