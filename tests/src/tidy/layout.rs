//! Where things stand, and what may be used there.

use super::{Files, mask};

/// What may stand at the top beside dot files.
const TOP: [&str; 7] = ["Cargo.toml", "Cargo.lock", "core", "driver", "fuzz", "tests", "README.md"];

/// The packages of the default build.
const PACKAGES: [&str; 10] = [
    "pidward-core",
    "pidward",
    "rustix",
    "linux-raw-sys",
    "heapless",
    "log",
    "bitflags",
    "hash32",
    "byteorder",
    "stable_deref_trait",
];

/// The top level holds the members, one README and licences only.
pub fn layout(files: &Files) -> Vec<String> {
    let mut faults: Vec<String> = files
        .all()
        .map(|(path, _)| path.split('/').next().unwrap_or(path))
        .filter(|top| !top.starts_with('.') && !top.starts_with("LICENSE") && !TOP.contains(top))
        .map(|top| format!("top level: {top} has no place there"))
        .collect();
    faults.dedup();
    faults
}

/// No package but the named ones; takes what `cargo tree --prefix none` prints.
pub fn dependencies(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|l| l.split(' ').next()).filter(|n| !n.is_empty());
    names
        .filter(|n| !PACKAGES.contains(n))
        .map(|n| format!("{n} is no dependency of the default build"))
        .collect()
}

/// std starts no process in core and driver: everything goes through the core's one spawn call. Only the files for other
/// systems (`other.rs`, `other/`) may. A reference to a command of std is allowed, to take its settings over, if
/// nothing in that file could start it.
pub fn std_commands(files: &Files) -> Vec<String> {
    let product = files.product("core/src/").chain(files.product("driver/src/"));
    let linux = product.filter(|(path, _)| !path.ends_with("/other.rs") && !path.contains("/other/"));
    let mut faults = Vec::new();
    for (path, text) in linux {
        let (owned, borrowed) = mentions(text);
        let starts =
            [".spawn()", ".status()", ".output()", ".exec()"].iter().any(|call| mask(text).contains(call));
        if owned || borrowed && starts {
            faults.push(format!("{path} uses std's Command"));
        }
    }
    faults
}

/// Whether std's `process::Command` is named, alone, in a group or by a glob: as something of one's own, and as
/// `&process::Command` or its Unix extension. Comments do not count.
fn mentions(text: &str) -> (bool, bool) {
    let squeezed: String = mask(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut owned, mut borrowed) = (false, false);
    for (at, found) in squeezed.match_indices("process::") {
        let (head, tail) = squeezed.split_at(at);
        let tail = tail.get(found.len()..).unwrap_or_default();
        let head = head.trim_end_matches("std::");
        let group = match tail.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default(),
            None => {
                tail.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').next().unwrap_or_default()
            }
        };
        if head.ends_with("rustix::") {
            continue;
        }
        for word in group.split(|c: char| !c.is_alphanumeric() && c != '*' && c != '_') {
            let lent = head.ends_with('&') || head.ends_with("&mut ");
            borrowed |= word == "CommandExt" || word == "Command" && lent;
            owned |= word == "*" || word == "Command" && !lent;
        }
    }
    (owned, borrowed)
}
