//! Who is left of a child and its group.

use crate::{spawner::Entry, stop::Survivor};

/// The child, if it has not ended, and the living members of the group it was started as the leader of.
///
/// Zombies are nobody: they have ended, and their parent may take its time. A process whose state cannot be read counts
/// as living.
pub(crate) fn left(entry: &Entry, ended: bool) -> Vec<Survivor> {
    let mut left = Vec::new();
    let pid = entry.pid().get();
    if !ended {
        left.push(Survivor { pid, state: state_and_group(pid).map_or('?', |(state, _)| state) });
    }
    let Some(pgid) = entry.child.pgid() else { return left };
    if entry.group_is_gone() {
        return left;
    }
    let Ok(all) = std::fs::read_dir("/proc") else { return left };
    let pids = all.flatten().filter_map(|dir| dir.file_name().to_str()?.parse::<u32>().ok());
    left.extend(pids.filter(|&other| other != pid).filter_map(|pid| {
        let (state, group) = state_and_group(pid)?;
        (group == pgid.get() && !matches!(state, 'Z' | 'X')).then_some(Survivor { pid, state })
    }));
    left
}

/// State letter and group, fields 3 and 5 of `/proc/<pid>/stat`, counted after the last `)`.
fn state_and_group(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let mut fields = std::str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.nth(1)?.parse().ok()?))
}
