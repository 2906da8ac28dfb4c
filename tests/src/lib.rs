//! What the tests share: fixtures that misbehave on demand, and the means to see what a process is and what
//! it has left behind.
//!
//! Everything here leans on the standard library, libc and a parser of JSON only, never on the crates under test: a fault of
//! theirs must not hide in the scales that weigh them.
//!
//! The programs under `src/bin` are the children of the tests; [`fixture!`] gives the path of one.

pub mod announce;
pub mod calls;
pub mod cgroup;
pub mod channel;
pub mod child;
pub mod command;
pub mod corelife;
pub mod escape;
pub mod files;
pub mod fork;
pub mod frozen;
pub mod hung;
pub mod launch;
pub mod leftovers;
pub mod mcp;
pub mod notices;
pub mod os;
pub mod place;
pub mod proc;
pub mod pty;
pub mod records;
pub mod recycle;
pub mod registry;
pub mod report;
pub mod rounds;
pub mod seccomp;
pub mod skip;
pub mod stamper;
pub mod story;
pub mod strange;
pub mod tidy;

/// The path of a fixture program of this package. Only in a test of this package: cargo names the programs
/// to nobody else.
#[macro_export]
macro_rules! fixture {
    ($name:literal) => {
        ::std::path::Path::new(env!(concat!("CARGO_BIN_EXE_", $name)))
    };
}

/// The path of the function around it, without the crate: the name under which the test runner knows it.
#[macro_export]
macro_rules! this_test {
    () => {{
        fn here() {}
        $crate::skip::test_name(::std::any::type_name_of_val(&here))
    }};
}
