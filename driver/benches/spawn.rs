//! What a spawn costs, against a floor of raw calls in the same run.
//!
//! `cargo bench` prints medians of ratios; with `-- --check` it ends with 1 when one is over
//! its budget (1.5 times the budget where `CI` is set, whose machines are noisy). `PIDWARD_ROUNDS=quick` takes fewer rounds.
//!
//! Candidates take turns inside each round, so that a noisy neighbour hits all of them; a ratio is taken within
//! one round, and of the ratios the median.

use std::{
    env,
    ffi::{CStr, CString},
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    ptr,
    time::{Duration, Instant},
};

use pidward::{Child, Spawner};
use pidward_core::{
    image::{Packer, Table},
    spawn::{Launcher, Plan, Program, Slot},
};

mod ratio;

use ratio::{median, verdict};

/// A program that does nothing: `exit(0)` by system call, as small as an executable can be.
const TINY: &str =
    "int main(void); void _start(void) { __asm__ volatile (\"syscall\" :: \"a\"(60), \"D\"(0)); }";

/// One way to start the program: how long the start took, and start and wait together.
type Way<'a> = Box<dyn FnMut() -> (Duration, Duration) + 'a>;

/// Name, budget against the floor, budget against std plain.
const BUDGETS: [(&str, Option<f64>, Option<f64>); 6] = [
    ("core, calling thread", Some(1.6), Some(0.8)),
    ("driver, calling thread", None, None),
    ("driver, spawner", None, Some(2.5)),
    ("driver, spawner, 60 us spin", None, Some(1.75)),
    ("std, plain", None, None),
    ("std, with hook", None, None),
];

fn main() -> ExitCode {
    let (slack, rounds) = (ratio::slack(), ratio::rounds(150, 600));
    let dir = env::temp_dir().join(format!("pidward-bench-{}", process::id()));
    fs::create_dir_all(&dir).expect("a temporary directory");
    let program = tiny(&dir);
    let mut over = 0;
    let mut small: Option<Vec<f64>> = None;
    for gib in [0usize, 1, 4] {
        if gib as u64 * 1_200_000 > available_kib() {
            println!("{gib} GiB: skipped, not enough memory");
            continue;
        }
        let memory = touched(gib);
        let rounds = if gib == 0 { rounds } else { rounds / 3 };
        let times = measure(&program, rounds);
        drop(memory);
        over += print(gib, &times, slack);
        let core: Vec<f64> = times.iter().map(|round| round[1].0.as_secs_f64()).collect();
        match &small {
            None => small = Some(core),
            Some(small) => {
                let ratio = median(core) / median(small.clone());
                over += verdict("core, against 0 GiB", ratio, Some(1.2 * slack));
            }
        }
    }
    let _ = fs::remove_dir_all(&dir);
    ratio::end(over)
}

/// Every candidate once a round, the floor first.
fn measure(program: &Path, rounds: usize) -> Vec<Vec<(Duration, Duration)>> {
    let path = CString::new(program.as_os_str().as_encoded_bytes()).expect("no NUL");
    let spawner = Spawner::new().expect("a spawner");
    let spinning = Spawner::builder().spin(Duration::from_micros(60)).build().expect("a spawner");
    let mut launcher = Launcher::new().expect("a launcher");
    let environ: Vec<String> = env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    let argv = [path.to_str().expect("UTF-8").to_owned()];
    let (argv, environ) = (table(&argv), table(&environ));
    let plan = Plan::new(Program::Paths(argv), argv, environ);
    let cmd = pidward::Command::new(program);
    let mut stack = vec![0u8; 64 * 1024];
    let mut ways: Vec<Way<'_>> = vec![
        Box::new(|| floor(&path, environ, &mut stack)),
        Box::new(|| {
            timed(
                || launcher.spawn(&plan, &Slot::new()).expect("a child"),
                |child| {
                    while !matches!(child.try_reap(), Ok(Some(_))) {
                        let pidfd = child.pidfd().expect("a pidfd");
                        let _ = rustix::event::poll(
                            &mut [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)],
                            None,
                        );
                    }
                },
            )
        }),
        Box::new(|| timed(|| spawner.spawn_on_this_thread(&cmd).expect("a child"), wait)),
        Box::new(|| timed(|| spawner.spawn(&cmd).expect("a child"), wait)),
        Box::new(|| timed(|| spinning.spawn(&cmd).expect("a child"), wait)),
        Box::new(|| timed(|| process::Command::new(program).spawn().expect("a child"), wait_std)),
        Box::new(|| timed(|| hooked(program).spawn().expect("a child"), wait_std)),
    ];
    for way in &mut ways {
        way();
    }
    (0..rounds).map(|_| ways.iter_mut().map(|way| way()).collect()).collect()
}

fn timed<C>(start: impl FnOnce() -> C, wait: impl FnOnce(C)) -> (Duration, Duration) {
    let began = Instant::now();
    let child = start();
    let started = began.elapsed();
    wait(child);
    (started, began.elapsed())
}

fn wait(mut child: Child) {
    assert!(child.wait().expect("a status").success());
}

fn wait_std(mut child: process::Child) {
    assert!(child.wait().expect("a status").success());
}

fn hooked(program: &Path) -> process::Command {
    let mut cmd = process::Command::new(program);
    let hook = || {
        // SAFETY: takes numbers only.
        let grouped = unsafe { libc::setpgid(0, 0) };
        // SAFETY: takes numbers only.
        let armed = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        if grouped | armed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the hook makes system calls only.
    unsafe { cmd.pre_exec(hook) };
    cmd
}

/// Path, argv and environ, as the floor's child needs them.
type Exec = (*const libc::c_char, [*const libc::c_char; 2], *const *const libc::c_char);

/// The floor: `clone(CLONE_VM | CLONE_VFORK)` and `execve`, nothing else.
fn floor(path: &CStr, environ: Table<'_>, stack: &mut [u8]) -> (Duration, Duration) {
    extern "C" fn run(arg: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the address of the three that the sleeping parent keeps.
        let (path, argv, envp) = unsafe { &*arg.cast::<Exec>() };
        // SAFETY: lists that end in NULL.
        unsafe { libc::execve(*path, argv.as_ptr(), *envp) };
        // SAFETY: ends the child.
        unsafe { libc::_exit(127) }
    }
    let mut arg: Exec = (path.as_ptr(), [path.as_ptr(), ptr::null()], environ.as_ptr().cast());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let top = stack.as_mut_ptr_range().end;
    let aligned = top.wrapping_sub(top as usize % 16);
    let began = Instant::now();
    // SAFETY: the stack is ours alone; this thread sleeps until the child has called exec.
    let pid = unsafe { libc::clone(run, aligned.cast(), flags, ptr::from_mut(&mut arg).cast()) };
    let started = began.elapsed();
    assert!(pid > 1, "clone");
    let mut status = 0;
    // SAFETY: writes one int.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the floor's child");
    (started, began.elapsed())
}

fn print(gib: usize, times: &[Vec<(Duration, Duration)>], slack: f64) -> u32 {
    let micros = |pick: fn(&(Duration, Duration)) -> Duration, way: usize| {
        median(times.iter().map(|round| pick(&round[way]).as_secs_f64() * 1e6).collect())
    };
    println!(
        "{gib} GiB touched, {} rounds; floor: spawn {:.1} us, spawn + wait {:.1} us",
        times.len(),
        micros(|t| t.0, 0),
        micros(|t| t.1, 0)
    );
    println!("  {:<30}{:>8}{:>9}{:>12}{:>9}", "", "x floor", "x std", "+wait: x fl", "x std");
    let mut over = 0;
    for (way, (name, to_floor, to_std)) in (1..).zip(BUDGETS) {
        let ratio = |pick: fn(&(Duration, Duration)) -> Duration, to: usize| {
            median(times.iter().map(|r| pick(&r[way]).as_secs_f64() / pick(&r[to]).as_secs_f64()).collect())
        };
        let (floor, std) = (ratio(|t| t.0, 0), ratio(|t| t.0, 5));
        println!("  {name:<30}{floor:>8.2}{std:>9.2}{:>12.2}{:>9.2}", ratio(|t| t.1, 0), ratio(|t| t.1, 5));
        // The budgets are for the small supervisor; the large one is compared with it.
        if gib == 0 {
            over += verdict(&format!("{name}, against the floor"), floor, to_floor.map(|b| b * slack));
            over += verdict(&format!("{name}, against std plain"), std, to_std.map(|b| b * slack));
        }
    }
    over
}

fn tiny(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("tiny.c"), dir.join("tiny"));
    fs::write(&source, TINY).expect("a source file");
    let built = process::Command::new("cc")
        .args(["-static", "-nostdlib", "-O2", "-o"])
        .args([&program, &source])
        .status()
        .expect("a C compiler (cc)");
    assert!(built.success(), "cc could not build the tiny program");
    program
}

fn table(strings: &[String]) -> Table<'static> {
    let bytes = vec![0; strings.iter().map(|s| s.len() + 1).sum()].leak();
    let mut packer = Packer::new(bytes, vec![ptr::null(); strings.len() + 1].leak());
    for s in strings {
        packer.push(s.as_bytes()).expect("exact room");
    }
    packer.finish()
}

fn touched(gib: usize) -> Vec<u8> {
    let mut memory = vec![0u8; gib << 30];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    memory
}

fn available_kib() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
