//! One wrapper for each system call that rustix lacks, or that the child's path, the guard and an init
//! without libc must make themselves.
#![allow(dead_code)]
