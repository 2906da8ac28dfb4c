//! Budgets of lines. A code line is neither blank nor comment; unit tests (`tests.rs`) do not count.

use super::{Files, code_lines, functions, mask};

/// What may hold so many code lines at most: paths that begin with one of the first and with none of the second.
type Budget = (&'static str, &'static [&'static str], &'static [&'static str], usize);

const BUDGETS: [Budget; 5] = [
    ("core", &["core/src/"], &[], 5_319),
    (
        "driver without the command and other systems",
        &["driver/src/"],
        &["driver/src/bin/", "driver/src/cli/", "driver/src/main.rs", "driver/src/other/"],
        10_104,
    ),
    ("the driver on other systems", &["driver/src/other/"], &[], 1_000),
    (
        "the files with unsafe code, for one instruction set",
        &["core/src/arch/x86_64.rs", "core/src/arch/mod.rs", "core/src/sys", "core/src/spawn/child"],
        &[],
        900,
    ),
    ("the guard", &["core/src/guard"], &[], 250),
];

/// The budgets above are kept.
pub fn budgets(files: &Files) -> Vec<String> {
    let over = |(what, with, without, most): &Budget| {
        let counted = files.product("").filter(|(path, _)| {
            with.iter().any(|w| path.starts_with(w)) && !without.iter().any(|w| path.starts_with(w))
        });
        let lines: usize = counted.map(|(_, text)| code_lines(text)).sum();
        (lines > *most).then(|| format!("{what}: {lines} code lines, of {most} at most"))
    };
    BUDGETS.iter().filter_map(over).chain(child_path(files)).collect()
}

/// Between clone and exec run at most 200 lines: those of `child.rs` from the child's first function on.
fn child_path(files: &Files) -> Option<String> {
    let text = files.text("core/src/spawn/child.rs")?;
    let lines = code_lines(text.get(text.find("fn start(")?..)?);
    (lines > 200).then(|| format!("between clone and exec: {lines} code lines, of 200 at most"))
}

/// No file is longer than 300 code lines; the list of system calls may have 400.
pub fn file_lengths(files: &Files) -> Vec<String> {
    let over = |(path, text): (&str, &str)| {
        let most = if path == "core/src/sys.rs" { 400 } else { 300 };
        let lines = code_lines(text);
        (lines > most).then(|| format!("{path}: {lines} code lines, of {most} at most"))
    };
    files.product("").filter_map(over).collect()
}

/// No function is longer than 70 lines.
pub fn function_lengths(files: &Files) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in files.rust("") {
        let masked = mask(text);
        let long = functions(&masked).into_iter().filter(|f| f.lines > 70);
        faults.extend(
            long.map(|f| format!("{path}:{}: {} has {} lines, of 70 at most", f.line, f.name, f.lines)),
        );
    }
    faults
}
