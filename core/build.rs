//! Sets the one cfg by which the sources tell Linux from other systems, `pidward_linux`: Linux with 64 bit. There is entry code for no
//! instruction set of 32 bit, and inodes of pidfds are not unique there.
//!
//! `RUSTFLAGS="--cfg pidward_portable"` makes Linux one of the other systems, so that their code is run by a test.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(pidward_linux)");
    let is = |name: &str, value: &str| env::var(name).as_deref() == Ok(value);
    let linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64");
    if linux && env::var_os("CARGO_CFG_PIDWARD_PORTABLE").is_none() {
        println!("cargo::rustc-cfg=pidward_linux");
    }
}
