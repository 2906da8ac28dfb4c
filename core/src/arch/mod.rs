//! The system call instruction, and the entry of a new child on its own stack.
//!
//! One file per instruction set, the same items in the same order: `syscall6`, then `clone_onto`, then
//! `trap`. Nothing
//! else in the crate is written in assembly. To add an instruction set, copy the nearest file and add its
//! line below: the compiler names what is missing.
#![deny(unsafe_code)]

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
#[path = "aarch64.rs"]
mod isa;
#[cfg(target_arch = "riscv64")]
#[allow(unsafe_code)]
#[path = "riscv64.rs"]
mod isa;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[path = "x86_64.rs"]
mod isa;

#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "x86_64")))]
compile_error!("pidward-core has no entry code for this instruction set: add a file beside arch/x86_64.rs");

pub(crate) use isa::{clone_onto, syscall6, trap};
