//! The table of hazards names tests; each of them has to be there.

use super::{Files, functions, mask};

const TABLE: &str = "core/docs/hazards.md";

/// Each row of `core/docs/hazards.md` (hazard | where handled | test) names at least one test as
/// `` `path/file.rs::function` `` (`core/src/…`, `tests/…`, `driver/…`, from the root), and each named one is a function with
/// `#[test]` in that file.
pub fn hazards(files: &Files) -> Vec<String> {
    let Some(table) = files.text(TABLE) else { return vec![format!("{TABLE} is not there")] };
    let mut faults = Vec::new();
    // A row before the line of dashes is the head.
    let rows = table.lines().enumerate().filter(|(_, l)| l.trim_start().starts_with('|'));
    let body = rows.skip_while(|(_, l)| !l.contains("---")).filter(|(_, l)| !l.contains("---"));
    for (n, row) in body {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [hazard, place, tests] = cells.as_slice() else {
            faults.push(format!("{TABLE}:{}: three cells are wanted", n + 1));
            continue;
        };
        if hazard.is_empty() || place.is_empty() {
            faults.push(format!("{TABLE}:{}: an empty cell", n + 1));
        }
        let named: Vec<(&str, &str)> = tests.split('`').filter_map(|t| t.rsplit_once("::")).collect();
        if named.is_empty() {
            faults.push(format!("{TABLE}:{}: names no test", n + 1));
        }
        for (path, function) in named {
            if !files.text(path).is_some_and(|text| has_test(text, function)) {
                faults.push(format!("{TABLE}:{}: {path} has no test {function}", n + 1));
            }
        }
    }
    faults
}

fn has_test(text: &str, name: &str) -> bool {
    let masked = mask(text);
    let lines: Vec<&str> = masked.lines().collect();
    functions(&masked).iter().filter(|f| f.name == name).any(|f| {
        let before = lines.get(..f.line - 1).unwrap_or_default().iter().rev().map(|l| l.trim());
        before.take_while(|l| l.is_empty() || l.starts_with("#[")).any(|l| l == "#[test]")
    })
}
