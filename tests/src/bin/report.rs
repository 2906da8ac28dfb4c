//! Prints what it is and what it was given, one `key=value` a line with escaped values.
//!
//! `report [--to FILE] [--then byte|sleep] …`: afterwards it waits for a byte on descriptor 0, or for ever. All
//! arguments are reported, these too.
//!
//! It has a `main` of C: the runtime of Rust would ignore SIGPIPE, catch SIGSEGV and open descriptors 0 to 2.
#![no_main]

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::FromRawFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

use pidward_tests::{escape::escape, os, proc};

type Lines = Vec<(&'static str, Vec<u8>)>;

fn status(lines: &mut Lines) {
    let keys =
        ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd", "NoNewPrivs", "Uid", "Gid", "Groups", "Threads"];
    let own = std::process::id();
    for key in keys {
        lines.push((key, proc::status(own, key).unwrap_or_default().into()));
    }
    lines.push(("pid", own.to_string().into()));
    for (key, value) in [("ppid", proc::ppid(own)), ("pgrp", proc::pgid(own)), ("sid", proc::sid(own))] {
        lines.push((key, value.unwrap_or_default().to_string().into()));
    }
    for (key, file) in
        [("oom_score_adj", "oom_score_adj"), ("cgroup", "cgroup"), ("coredump_filter", "coredump_filter")]
    {
        let text = fs::read(format!("/proc/self/{file}")).unwrap_or_default();
        lines.push((key, text.trim_ascii_end().to_vec()));
    }
}

fn limits(lines: &mut Lines) {
    for (key, which) in [
        ("rlimit_nofile", libc::RLIMIT_NOFILE),
        ("rlimit_core", libc::RLIMIT_CORE),
        ("rlimit_nproc", libc::RLIMIT_NPROC),
    ] {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes one rlimit.
        let ret = unsafe { libc::getrlimit(which, &raw mut limit) };
        if ret == 0 {
            lines.push((key, format!("{} {}", limit.rlim_cur, limit.rlim_max).into()));
        }
    }
    let mut signal: libc::c_int = 0;
    // SAFETY: writes one int.
    unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) };
    lines.push(("deathsig", signal.to_string().into()));
    // SAFETY: asks only.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    lines.push(("nice", nice.to_string().into()));
    // SAFETY: asks only; the mask is not needed any more, as files are written with the mode of their directory's test.
    let mask = unsafe { libc::umask(0o077) };
    lines.push(("umask", format!("{mask:04o}").into()));
}

fn collect(args: &[OsString]) -> Lines {
    // First of all, before anything is opened here.
    let fds = proc::fds(std::process::id());
    let mut lines: Lines = args.iter().map(|a| ("arg", a.as_bytes().to_vec())).collect();
    lines.extend(strings("environ").into_iter().map(|e| ("env", e)));
    for (n, target) in fds {
        lines.push(("fd", [n.to_string().as_bytes(), b" ", target.as_os_str().as_bytes()].concat()));
    }
    status(&mut lines);
    limits(&mut lines);
    let cwd = fs::read_link("/proc/self/cwd").unwrap_or_default();
    lines.push(("cwd", cwd.into_os_string().into_vec()));
    let exe = fs::read_link("/proc/self/exe").unwrap_or_default();
    lines.push(("exe", exe.into_os_string().into_vec()));
    lines
}

fn option<'a>(args: &'a [OsString], name: &str) -> Option<&'a OsString> {
    args.iter().position(|a| a == name).and_then(|at| args.get(at + 1))
}

/// The strings of a file in `/proc/self`, as the kernel passed them: also entries that are no `name=value`.
fn strings(file: &str) -> Vec<Vec<u8>> {
    let bytes = fs::read(format!("/proc/self/{file}")).unwrap_or_default();
    let mut list: Vec<Vec<u8>> = bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect();
    // What follows the last end of a string.
    list.pop();
    list
}

/// The entry of a C program, without the arguments, which `/proc` has too.
// A program has one `main`, and the standard library's is left out.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> libc::c_int {
    let args: Vec<OsString> = strings("cmdline").into_iter().map(OsString::from_vec).collect();
    let lines = collect(&args);
    let mut out = match option(&args, "--to") {
        Some(path) => File::create(path).expect("the file after --to"),
        // SAFETY: descriptor 1 is the program's own for its output; where it is closed the write fails.
        None => unsafe { File::from_raw_fd(1) },
    };
    let text: String = lines.iter().map(|(key, value)| format!("{key}={}\n", escape(value))).collect();
    let written = out.write_all(text.as_bytes());
    drop(out);
    match option(&args, "--then").map(|w| w.as_bytes()) {
        Some(b"byte") => {
            // SAFETY: descriptor 0 is the program's own for its input.
            let read = unsafe { File::from_raw_fd(0) }.read(&mut [0]);
            i32::from(read.is_err())
        }
        Some(b"sleep") => os::sleep_for_ever(),
        _ => i32::from(written.is_err()),
    }
}
