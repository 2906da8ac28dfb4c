//! pidward: child processes that cannot outlive their supervisor.
#![forbid(unsafe_code)]
