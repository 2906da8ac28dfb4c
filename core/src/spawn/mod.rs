//! One call that starts a child with every promise kept, or starts nothing.
//!
//! A prepared [`Plan`] goes in; an owned [`Child`] comes out, or a [`SpawnError`] that names the step and the
//! errno. Whoever gets the error knows that no child exists, nothing is left to reap and no descriptor is
//! open that was not open before.
//!
//! # How
//!
//! The spawning thread blocks all signals, clones with shared memory onto a stack of its own and sleeps
//! until the child has called exec or ended (`CLONE_VM | CLONE_VFORK`). The cost does not depend on how
//! much memory the supervisor has touched. The child does everything else on its side of the clone, with
//! raw system calls only.
//!
//! A plan that changes credentials is different: a child that shares memory would mark the *supervisor* as
//! non-dumpable, so it gets a plain fork. The same goes for systems where memory is not shared although the
//! call said so (emulators) or where sharing is refused. Errors of such a child come through a
//! close-on-exec pipe.
//!
//! # What is refused, and then
//!
//! | refused | instead | since |
//! |---|---|---|
//! | `clone3` | `clone` | 5.3 |
//! | `CLONE_CLEAR_SIGHAND` | only the loop that resets each signal, which runs in any case | 5.5 |
//! | `CLONE_PIDFD` | `pidfd_open` at once, while the child is our unreaped child | 5.2 |
//! | `CLONE_INTO_CGROUP` | the child writes itself into the leaf before exec | 5.7 |
//! | `execveat` of an open program | `execve` of its name in `/proc/self/fd` | 3.19 |
//! | shared memory | plain fork and a pipe | |
//! | `close_range` | each number in `/proc/self/fd`; without `/proc` close-on-exec alone | 5.9 |
//! | `setpgid`, `prctl`, `rt_sigaction` | the child runs without own group, death signal or reset of ignored signals | |
//!
//! What is refused of any other call, and what then happens, stands in `core/docs/syscalls.md`.
//!
//! Every refusal is judged again at each spawn; what was learnt is only where to begin. [`Mechanism`] says
//! what happened in this one.
//!
//! # Lifetimes
//!
//! The death signal follows the *thread* that called: when it ends, its children are signalled, though the
//! process lives on. Call from a thread that lives as long as the children may.
#![deny(unsafe_code)]

mod attempt;
#[allow(unsafe_code)]
mod child;
mod job;
mod launch;
mod outcome;
mod owned;
mod plan;
mod replace;
mod retry;
mod slot;
pub(crate) mod stack;
#[cfg(test)]
mod tests;

pub(crate) use child::{close_all_but, oom_score};
pub use launch::Launcher;
pub(crate) use launch::begins_a_namespace;
pub use outcome::{Cloning, Closing, Mechanism, ParentCheck, Pidfd, Placement, Refused, SpawnError, Step};
pub use owned::Child;
pub use plan::{Credentials, FdMap, Group, Keep, Plan, Program, Rlimit};
pub use replace::replace;
pub use retry::{RETRIES, delay};
pub use slot::Slot;
