//! What `/proc` says of a process.
//!
//! Parsers take bytes, are total and live apart from the reading. Reading goes through fixed buffers: an environ of
//! any size is matched as a stream. A number names nobody in particular: whoever wants to act on what is read here pins the
//! process first and looks again afterwards.
#![forbid(unsafe_code)]

mod environ;
mod read;
mod stat;
#[cfg(test)]
mod tests;

pub use environ::{Entry, Matcher};
pub use read::{ProcError, environ, is_zombie, pids, stat};
pub use stat::{Malformed, Stat, State};
