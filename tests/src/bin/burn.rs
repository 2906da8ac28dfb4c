//! Burns 300 ms of processor time, touches 50 MiB, and exits with the code in its argument (0 without).

fn cpu_ms() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    t.tv_sec * 1000 + t.tv_nsec / 1_000_000
}

fn main() {
    let code = std::env::args().nth(1).map_or(0, |a| a.parse().expect("an exit code"));
    let mut bytes = vec![0_u8; 50 << 20];
    for page in bytes.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&bytes);
    // Ends as the clock runs on while we do.
    while cpu_ms() < 300 {
        std::hint::black_box(bytes.iter().take(4096).map(|b| u64::from(*b)).sum::<u64>());
    }
    std::process::exit(code);
}
