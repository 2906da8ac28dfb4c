//! What a guard, and each replacement of one, costs its supervisor, against a bare fork of the same process in the same run.
//!
//! `cargo bench --bench guard` prints medians; with `-- --check` it ends with 1 when the ratio is over its budget. Floor and candidate take
//! turns within each round. The spawn path does not pay this: guards are made when a spawner starts, and by its events thread.

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use pidward_core::{
    Id128,
    guard::{Charge, Guard},
    marker::Names,
};

mod ratio;

/// It opens `/proc` and reads of itself, which a bare fork does not.
const BUDGET: f64 = 2.0;

fn main() -> ExitCode {
    let mut over = 0;
    let mut memory: Vec<u8> = Vec::new();
    for gib in [0, 1] {
        memory.resize(gib << 30, 1);
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = byte.wrapping_add(1));
        let rounds = ratio::rounds(5, 30);
        let (mut ratios, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (fork, guard) = (bare_fork().as_secs_f64(), guard().as_secs_f64());
            ratios.push(guard / fork);
            floors.push(fork * 1e3);
        }
        let (ratio, floor) = (ratio::median(ratios), ratio::median(floors));
        println!(
            "guard of a supervisor that has touched {gib} GiB: {:.2} ms, a bare fork {floor:.2} ms",
            ratio * floor
        );
        // Without memory to copy it is all about the other calls.
        over += ratio::verdict("× a bare fork", ratio, (gib > 0).then_some(BUDGET * ratio::slack()));
    }
    black_box(memory);
    ratio::end(over)
}

/// How long the call takes.
fn bare_fork() -> Duration {
    let began = Instant::now();
    // SAFETY: the child makes one system call.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: ends this process without a word.
        unsafe { libc::_exit(0) };
    }
    let took = began.elapsed();
    assert!(pid > 1, "one child");
    // SAFETY: a null status is not written.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    took
}

fn guard() -> Duration {
    let (run, limit) = (Id128::random().expect("randomness"), Duration::from_secs(1));
    let charge = Charge { names: Names::DEFAULT, run, grace: limit, limit, cgroup: None };
    let began = Instant::now();
    let guard = Guard::start(&charge).expect("a guard");
    let took = began.elapsed();
    guard.end();
    took
}
