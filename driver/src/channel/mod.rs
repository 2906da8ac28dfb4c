//! One place where everything that happens to many children comes out: their frames, the ends of their channels, their exits.
//!
//! # What is promised
//!
//! - The receiver does the work, on its own thread, while it is in [`recv`](Events::recv) or [`try_recv`](Events::try_recv); or one thread
//!   for all does it, [if asked to](Events::on_thread). There is no thread per child. Two receivers at once share the events: each comes to
//!   one of them.
//! - The [exit](Event::Exit) of a child is its last event, and comes after its last frame: when the kernel says that it has ended, what it has
//!   written is read first. Where somebody else keeps the channel open, no more than that is read, and only the rest of a frame that is cut
//!   in the middle is waited for, at most [`ChannelLimits::drain`].
//! - Before its exit each channel ends once, by [`Event::Closed`] or [`Event::Protocol`].
//! - A length above the cap takes no memory. A length below it takes as much as has come of the frame, up to twice over.
//! - [`Node::send`] never waits for a child. A child that does not read gets [`SendError::Full`] once
//!   its queue is full, and delays nobody else. What waits in queues is written while the receiver is at work.
//! - A child that writes faster than its events are taken has to wait: nothing is read while many events are pending.
//! - A child that is to become [ready](Command::ready) does so once, or [fails to start](Event::FailedToStart) and is stopped with its tree.
//! - Whether a child is [alive](Command::liveness) is asked while the receiver is at work. What a receiver that was away has missed is not
//!   held against the child.
//! - Our ends do not block, the child's do, and no flag of ours shows on the child's side.
//!
//! # What is not
//!
//! - [`SendError::Full`] or a [held](Event::Exit::held) channel is no stop: it is the owner's to decide what becomes of the child. After
//!   [`Event::Protocol`], [`Event::Stuck`] and [`Event::PastDeadline`] it is [stopped](Command::on_fault), unless it is only to be told.
//! - When [`Events`] is dropped, the children are [stopped](Events::on_drop) with their trees, or go on. Either way a thread reads and drops
//!   what they send until the last has ended, so that none hangs, and each is reaped.
//! - In a forked copy of the program nothing comes, and nothing is sent.
//!
//! # Loops of other kinds
//!
//! [`Events`] can be polled: its descriptor is readable when [`try_recv`](Events::try_recv) has something to do, be it without an event to
//! give. Call that until it gives `None`. The example `tokio.rs` does it in a loop of tokio's.
//!
//! # Kernels
//!
//! Everything here is older than Linux 5.4. Where there is no pidfd, ends are seen within 10 ms.

mod alive;
mod ends;
mod event;
mod events;
mod hub;
mod lines;
mod node;
mod out;
mod reader;
mod serve;
mod settings;
mod slot;
mod start;

#[cfg(feature = "json")]
pub(crate) use self::reader::Reader;
pub use self::{
    alive::Liveness,
    event::{Event, ProtocolError, ProtocolErrorKind},
    events::Events,
    node::Node,
    out::SendError,
    settings::{ChannelLimits, OnFault, Transport},
    start::{Ready, StartFailure},
};
pub(crate) use self::{
    ends::Ends,
    settings::Settings,
    start::{Ear, Mouth, ready},
};
#[cfg(doc)]
use crate::Command;
