//! Tests that cannot run here say so by name, and never pass in silence.
//!
//! A skipped test writes one line `SKIP test: reason` to the real standard error, and to the file that
//! `PIDWARD_SKIP_LOG` names. `skips.txt` lists each reason that is allowed, with a sentence.

use std::{fs::OpenOptions, io::Write};

/// Skips the test around it: `skip!("needs-root: mounts a file system")`. What stands before the colon is the
/// reason's name.
#[macro_export]
macro_rules! skip {
    ($reason:literal) => {{
        $crate::skip::note(&$crate::this_test!(), $reason);
        return;
    }};
}

/// `skip!` unless the condition holds.
#[macro_export]
macro_rules! need {
    ($condition:expr, $reason:literal) => {
        if !$condition {
            $crate::skip!($reason)
        }
    };
}

/// The name by which the test runner knows the function that `here` stands in.
pub fn test_name(here: &str) -> String {
    let path = here.split_once("::").map_or(here, |(_, path)| path);
    path.trim_end_matches("::here").trim_end_matches("::{{closure}}").to_string()
}

/// The name of a reason: what stands before the first colon.
pub fn name(reason: &str) -> &str {
    reason.split(':').next().unwrap_or(reason).trim()
}

/// Writes the line. The test runner captures what `eprintln!` prints, and not what is written to the stream.
pub fn note(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {}\n", name(reason));
    // Nothing to do where nobody listens.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(log) = std::env::var_os("PIDWARD_SKIP_LOG") {
        let mut file =
            OpenOptions::new().create(true).append(true).open(&log).expect("the file of PIDWARD_SKIP_LOG");
        file.write_all(line.as_bytes()).expect("a line for PIDWARD_SKIP_LOG");
    }
}

/// Whether processes can be put in namespaces of their own: pid and mount.
pub fn has_namespaces() -> bool {
    let made = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child", "true"])
        .output();
    made.is_ok_and(|o| o.status.success())
}

/// Whether a test can be in a pid namespace of its own as its root, who may choose numbers: by right, or by a user namespace.
pub fn has_pid_namespace() -> bool {
    let made = std::process::Command::new("unshare")
        .args(crate::child::pid_namespace())
        .args(["--", "true"])
        .output();
    made.is_ok_and(|o| o.status.success())
}

/// Whether this kernel keeps every promise by its first mechanism: Linux 6.15.
pub fn has_first_choices() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

/// Whether so many GiB of memory are available.
pub fn has_memory(gib: u64) -> bool {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.is_some_and(|kib| kib >> 20 >= gib)
}

/// Whether this process may serve a file system of its own.
pub fn has_fuse() -> bool {
    crate::os::is_root() && OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
}

/// A cgroup2 mount in which this process may make groups.
pub fn cgroup2() -> Option<std::path::PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|l| l.split(' '));
    let place =
        fields.find_map(|mut f| Some((f.nth(1)?, f.next()?)).filter(|(_, kind)| *kind == "cgroup2"))?.0;
    let probe =
        std::path::Path::new(place).join(format!("pidward-probe-{}", crate::leftovers::random_word()));
    std::fs::create_dir(&probe).ok()?;
    std::fs::remove_dir(&probe).ok()?;
    Some(place.into())
}
