//! Which limit refused a new process. The kernel says `EAGAIN` for all of them.

use std::{
    fmt, fs,
    os::fd::{AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
};

use rustix::process::{Resource, getrlimit};

/// A limit on the number of processes and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Of the user: `RLIMIT_NPROC`, see getrlimit(2).
    User,
    /// Of a cgroup: `pids.max` of the child's cgroup or of one above it.
    Cgroup,
    /// Of the system or of the pid namespace: `kernel.threads-max`, `kernel.pid_max`.
    System,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::User => "that of the user (RLIMIT_NPROC)",
            Limit::Cgroup => "that of a cgroup (pids.max)",
            Limit::System => "that of the system (threads-max, pid_max)",
        })
    }
}

/// The limit that is reached now; `None` if none is seen to be: it may have passed, or be hidden from us.
/// `leaf` is the cgroup that the child is charged to, where it is not ours.
///
/// What is exact comes first: for a user with privilege the kernel ignores `RLIMIT_NPROC`.
pub(super) fn find(leaf: Option<BorrowedFd<'_>>) -> Option<Limit> {
    let leaf = leaf.and_then(|dir| fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok());
    if leaf.into_iter().chain(own_cgroups()).any(|dir| is_full(&dir)) {
        return Some(Limit::Cgroup);
    }
    if is_system_full() == Some(true) {
        return Some(Limit::System);
    }
    let soft = getrlimit(Resource::Nproc).current?;
    (tasks_of_user() >= soft).then_some(Limit::User)
}

/// Where our own cgroups with a pids controller are looked for: both versions, at their usual places.
fn own_cgroups() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut dirs = Vec::new();
    for line in text.lines() {
        // `number:controllers:path`, see cgroups(7).
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let roots: &[&str] = match controllers {
            "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|name| name == "pids") => &["/sys/fs/cgroup/pids"],
            _ => continue,
        };
        dirs.extend(roots.iter().map(|root| Path::new(root).join(path.trim_start_matches('/'))));
    }
    dirs
}

/// Whether this cgroup or one above it has all it may. The root has no such file.
pub(super) fn is_full(leaf: &Path) -> bool {
    leaf.ancestors().any(|dir| {
        let max = number(&dir.join("pids.max"));
        max.is_some_and(|max| number(&dir.join("pids.current")).is_some_and(|current| current >= max))
    })
}

/// The kernel keeps the lowest numbers for itself after the first round (`RESERVED_PIDS`, `kernel/pid.c`).
const RESERVED: u64 = 300;

fn is_system_full() -> Option<bool> {
    let threads = number(Path::new("/proc/sys/kernel/threads-max"))?;
    let pids = number(Path::new("/proc/sys/kernel/pid_max"))?;
    // The fourth field is `running/all`, see proc_loadavg(5).
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let all: u64 = load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    Some(all >= threads || all + RESERVED >= pids)
}

/// `None` for `max`, and where there is no file.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Threads of our real user, as far as `/proc` shows them.
pub(super) fn tasks_of_user() -> u64 {
    let uid = rustix::process::getuid().as_raw();
    let Ok(proc) = fs::read_dir("/proc") else { return 0 };
    let statuses = proc.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    let of_user = statuses.filter_map(|entry| {
        // A name may hold any byte.
        let text = fs::read(entry.path().join("status")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        (field("Uid:")?.parse() == Ok(uid)).then(|| field("Threads:")?.parse::<u64>().ok())?
    });
    of_user.sum()
}
