//! What the kernel says of processes, read from `/proc`. Whatever cannot be read is `None` or empty; a
//! number may go to another process at any time, so only of children not yet reaped is the answer sure.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Long enough for everything that is not stuck, on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(30);

fn read(pid: u32, file: &str) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/{file}")).ok()
}

/// The fields of `/proc/PID/stat` from the state on (field 3 of proc_pid_stat(5) comes first).
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = String::from_utf8_lossy(&read(pid, "stat")?).into_owned();
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_string).collect())
}

fn stat_number(pid: u32, field: usize) -> Option<u64> {
    stat(pid)?.get(field - 3)?.parse().ok()
}

/// The state letter: `R`, `S`, `D`, `T`, `t`, `Z`, `X`, `I`.
pub fn state(pid: u32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// Whether it runs or could run again: there, and neither a zombie nor on its last step.
pub fn alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X' | 'x'))
}

/// Whether it is on its way out: in its exit (`PF_EXITING`), or with a SIGKILL it has not yet taken.
pub fn ending(pid: u32) -> bool {
    let killed = |name| {
        let set = status(pid, name).and_then(|v| u64::from_str_radix(&v, 16).ok());
        set.is_some_and(|set| set & (1 << (libc::SIGKILL - 1)) != 0)
    };
    stat_number(pid, 9).is_some_and(|flags| flags & 4 != 0) || killed("SigPnd") || killed("ShdPnd")
}

/// The parent's pid.
pub fn ppid(pid: u32) -> Option<u32> {
    stat_number(pid, 4)?.try_into().ok()
}

/// The process group.
pub fn pgid(pid: u32) -> Option<u32> {
    stat_number(pid, 5)?.try_into().ok()
}

/// The session.
pub fn sid(pid: u32) -> Option<u32> {
    stat_number(pid, 6)?.try_into().ok()
}

/// The start time in ticks since boot: with the pid, a name for the process that is good enough for tests.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_number(pid, 22)
}

/// A line of `/proc/PID/status`, without its name.
pub fn status(pid: u32, name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(&read(pid, "status")?).into_owned();
    text.lines().find_map(|l| Some(l.strip_prefix(name)?.strip_prefix(':')?.trim().to_string()))
}

/// All pids, without threads.
pub fn pids() -> Vec<u32> {
    let Ok(dir) = fs::read_dir("/proc") else { return Vec::new() };
    dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The children of a process, zombies too.
pub fn all_children(pid: u32) -> Vec<u32> {
    pids().into_iter().filter(|p| ppid(*p) == Some(pid)).collect()
}

/// The same without guards, which live as long as their spawner does.
pub fn children(pid: u32) -> Vec<u32> {
    all_children(pid).into_iter().filter(|child| !is_guard(*child)).collect()
}

/// The entries of a process's environ, as they were at its exec unless it has rewritten them.
pub fn environ(pid: u32) -> Vec<Vec<u8>> {
    let bytes = read(pid, "environ").unwrap_or_default();
    bytes.split(|b| *b == 0).filter(|e| !e.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The entries of the environ that a child has got at its exec, which must leave it one. A spawn is over when the kernel has let go of the
/// parent's memory: for a moment the child may still show its parent's entries, or none.
pub fn own_environ(pid: u32) -> Vec<Vec<u8>> {
    const FORKED_NO_EXEC: u64 = 0x40;
    let has_execed = || stat_number(pid, 9).is_some_and(|flags| flags & FORKED_NO_EXEC == 0);
    eventually("its own environ", || has_execed() && !environ(pid).is_empty());
    environ(pid)
}

/// The living processes whose environ has exactly this entry (`name=value`), this one apart.
pub fn carriers(entry: &str) -> Vec<u32> {
    let own = std::process::id();
    let carries = |pid: &u32| environ(*pid).iter().any(|e| e == entry.as_bytes());
    pids().into_iter().filter(|p| *p != own && carries(p) && alive(*p)).collect()
}

/// Whether it has ended, whole: it is gone, or a zombie.
pub fn has_ended(pid: u32) -> bool {
    state(pid).is_none_or(|state| matches!(state, 'Z' | 'X'))
}

/// Whether it is the guard of a spawner: it is called so, and before that it tells nobody when it ends (field 38 of its stat line), unless
/// its parent has ended.
pub fn is_guard(pid: u32) -> bool {
    if read(pid, "comm").is_some_and(|name| name == b"pidward-guard\n") {
        return true;
    }
    let stat = read(pid, "stat").unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_ascii_whitespace().nth(35) == Some("0"))
}

/// The command line with spaces between the arguments.
pub fn cmdline(pid: u32) -> String {
    let bytes = read(pid, "cmdline").unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_string()
}

/// The open descriptors of a process with what they point to, in order. Of this process the one that reads
/// is left out.
pub fn fds(pid: u32) -> Vec<(i32, PathBuf)> {
    let own = PathBuf::from(format!("/proc/{pid}/fd"));
    let Ok(dir) = fs::read_dir(&own) else { return Vec::new() };
    let mut list: Vec<(i32, PathBuf)> = dir
        .filter_map(|e| {
            let entry = e.ok()?;
            let target = fs::read_link(entry.path()).ok()?;
            (target != own).then_some((entry.file_name().to_str()?.parse().ok()?, target))
        })
        .collect();
    list.sort();
    list
}

/// How many descriptors this process has open. Other tests of the same run open and close theirs: ask in a
/// process of your own (`in_child!`).
pub fn open_fds() -> usize {
    fds(std::process::id()).len()
}

/// How many threads a process has.
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Asks every 5 ms until the answer is yes (true) or the time is over (false).
pub fn until(limit: Duration, mut yes: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if yes() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits at most [`LIMIT`] for something that is to come true, and fails the test where it does not.
#[track_caller]
pub fn eventually(what: &str, yes: impl FnMut() -> bool) {
    assert!(until(LIMIT, yes), "waited {} s in vain: {what}", LIMIT.as_secs());
}
