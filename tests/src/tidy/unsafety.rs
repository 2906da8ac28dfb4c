//! Where unsafe code stands, how much of it, and that each piece is argued.

use super::{Files, mask};

/// Files of core that may hold unsafe code.
fn may_be_unsafe(path: &str) -> bool {
    path.starts_with("core/src/arch/") || path == "core/src/sys.rs" || path == "core/src/spawn/child.rs"
}

/// The file or directory modules that deny it, and allow it on a `mod` line.
const DENY: [&str; 3] = ["core/src/lib.rs", "core/src/arch/mod.rs", "core/src/spawn/mod.rs"];

/// Places of a whole word in masked text.
fn words<'a>(masked: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    masked.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let (head, tail) = masked.split_at(*at);
        let after = tail.get(word.len()..).unwrap_or_default();
        !head.ends_with(part) && !after.starts_with(part)
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

/// The word `unsafe` stands only in the files that may hold it, and nowhere in the driver; benches and examples are no
/// part of either.
pub fn unsafe_places(files: &Files) -> Vec<String> {
    let product = files.product("core/src/").chain(files.product("driver/src/"));
    let mut faults = Vec::new();
    for (path, text) in product.filter(|(path, _)| !may_be_unsafe(path)) {
        let masked = mask(text);
        faults.extend(
            words(&masked, "unsafe").map(|at| format!("{path}:{}: unsafe code", line_of(&masked, at))),
        );
    }
    faults
}

/// `deny` at the head of the modules that open onto unsafe files, `forbid` at the head of every other file of core
/// and of the driver's library.
pub fn attributes(files: &Files) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in
        files.product("core/src/").filter(|(path, _)| !may_be_unsafe(path) || DENY.contains(path))
    {
        let wanted = if DENY.contains(&path) { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        let masked = mask(text);
        // Before the first item: nothing but attributes of the file.
        let head =
            masked.lines().map(str::trim).filter(|l| !l.is_empty()).take_while(|l| l.starts_with("#!["));
        if !head.into_iter().any(|l| l == wanted) {
            faults.push(format!("{path} does not open with {wanted}"));
        }
    }
    let driver =
        files.text("driver/src/lib.rs").is_some_and(|t| !mask(t).contains("#![forbid(unsafe_code)]"));
    faults.extend(driver.then(|| "driver/src/lib.rs does not forbid unsafe code".to_string()));
    faults
}

/// Core has at most 60 unsafe blocks, and before each one (and before the statement it is in) a comment says
/// why it is sound.
pub fn unsafe_blocks(files: &Files) -> Vec<String> {
    let (mut faults, mut count) = (Vec::new(), 0);
    for (path, text) in files.product("core/src/") {
        let masked = mask(text);
        let lines: Vec<(&str, &str)> = text.lines().zip(masked.lines()).collect();
        for at in words(&masked, "unsafe") {
            let tail = masked.get(at + 6..).unwrap_or_default().trim_start();
            let is_impl = words(tail, "impl").next() == Some(0);
            if !tail.starts_with('{') && !is_impl {
                continue;
            }
            count += usize::from(!is_impl);
            let line = line_of(&masked, at);
            if !argued(lines.get(..line - 1).unwrap_or_default()) {
                faults.push(format!("{path}:{line}: an unsafe block without its SAFETY comment"));
            }
        }
    }
    if count > 60 {
        faults.push(format!("core has {count} unsafe blocks, of 60 at most"));
    }
    faults
}

/// Whether the comment right before says why. Lines of the same statement may stand between: up to three of them, none of
/// which ends a statement or a block.
fn argued(before: &[(&str, &str)]) -> bool {
    let mut code = 0;
    for (line, masked) in before.iter().rev() {
        let (line, masked) = (line.trim(), masked.trim());
        if line.starts_with("// SAFETY:") {
            return true;
        }
        let comment = masked.is_empty() && line.starts_with("//");
        code += usize::from(!comment);
        if masked.ends_with([';', '}']) || line.is_empty() || code > 3 {
            return false;
        }
    }
    false
}
