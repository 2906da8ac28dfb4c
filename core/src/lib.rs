//! The trusted base of pidward: start a child that cannot outlive its supervisor, prove who a process is
//! before it is signalled, and take the whole tree down.
//!
//! `no_std`, no allocation, no global state, no panic path. The modules stand in the order a child lives;
//! read front to back they are the whole story.
//!
//! Unsafe code stands in three places only: `arch` (the system call instruction and the entry of a
//! new child), `sys` (one wrapper for each call that rustix lacks) and `spawn::child` (the child's path
//! between clone and exec). Everything else forbids it.
//!
//! Linux 5.4 is the floor, 5.10 and later are tested. Each promise names the kernel it needs and what
//! happens below it: a fallback that the [mechanism record](spawn::Mechanism) shows, or a typed refusal; never a weaker promise in
//! silence.
//!
//! On other systems, and on Linux with 32 bit, only what makes no system call is here: values (numbers are those of Linux), parsers,
//! identity lines, verdicts, ladder, liveness, frames and records.
#![no_std]
#![deny(unsafe_code)]
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::arithmetic_side_effects
)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

#[cfg(test)]
extern crate std;

// Boundary: the only modules, with `spawn::child`, that hold unsafe code.
#[cfg(pidward_linux)]
#[allow(unsafe_code)]
mod arch;
#[cfg(pidward_linux)]
#[allow(unsafe_code)]
mod sys;

#[cfg(pidward_linux)]
mod entries;
#[cfg(pidward_linux)]
mod fd;

// Values: numbers that cannot be wrong.
mod errno;
mod id;
pub mod name;
mod pid;
mod signo;
mod text;

pub use errno::Errno;
pub use id::Id128;
pub use pid::Pid;
pub use signo::Signal;

// What a new program is made of.
pub mod image;

// A child's life.
#[cfg(pidward_linux)]
pub mod spawn;

pub mod procfs;

pub mod marker;

pub mod identity;

#[cfg(pidward_linux)]
pub mod signal;

#[cfg(pidward_linux)]
pub mod reap;

#[cfg(pidward_linux)]
pub mod probe;

#[cfg(pidward_linux)]
pub mod cgroup;

#[cfg(pidward_linux)]
pub mod sweep;

#[cfg(pidward_linux)]
pub mod guard;

// What a started program finds.
#[cfg(pidward_linux)]
pub mod inherited;

// Decisions and bytes alone: no system call from here on.
pub mod ladder;

pub mod liveness;

pub mod frame;

pub mod record;

// Whose port it is, which `/proc` is asked for again.
#[cfg(pidward_linux)]
pub mod net;
