//! What is left unfinished, and what belongs to nobody but its author.

use std::collections::BTreeSet;

use super::{Files, code::mask};

/// No macro that stands for missing code, no mark for later, no test that is ignored without a reason. Strings do not
/// count, comments do.
pub fn unfinished(files: &Files) -> Vec<String> {
    let marks = [["FIX", "ME"].concat(), ["XX", "X"].concat(), ["TO", "DO"].concat()];
    let mut faults = Vec::new();
    for (path, text) in files.rust("") {
        for (n, (line, masked)) in text.lines().zip(mask(text).lines()).enumerate() {
            let comment = line.find("//").map_or("", |at| line.get(at..).unwrap_or_default());
            let missing = ["todo!", "unimplemented!"].iter().any(|m| masked.contains(m));
            let marked = marks.iter().any(|m| masked.contains(m.as_str()) || has_word(comment, m));
            let ignored = masked.contains(concat!("#[", "ignore]"));
            if missing || marked || ignored {
                faults.push(format!("{path}:{}: unfinished: {}", n + 1, line.trim()));
            }
        }
    }
    faults
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|w| w == word)
}

/// Nothing tells of the place or the notes it was written by: no path of a workplace, no number of a note
/// (`H` and two digits, a hazard, a correction or an issue by number, a section of the design) in what is handed out.
pub fn working_notes(files: &Files) -> Vec<String> {
    let workplace = ["/wo", "rk/"].concat();
    let handed_out = files.all().filter(|(path, _)| {
        [".rs", ".md", ".toml", ".txt", ".sh"].iter().any(|e| path.ends_with(e)) || path.starts_with(".ci/")
    });
    let mut faults = Vec::new();
    for (path, text) in handed_out {
        for (n, line) in text.lines().enumerate() {
            if line.contains(&workplace) || numbered(line) {
                faults.push(format!("{path}:{}: speaks of working notes: {}", n + 1, line.trim()));
            }
        }
    }
    faults
}

fn numbered(line: &str) -> bool {
    let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '§' && c != '_').collect();
    let hazard =
        |w: &&str| w.len() == 3 && w.starts_with('H') && w.bytes().skip(1).all(|b| b.is_ascii_digit());
    let noted = words.windows(2).any(|pair| match pair {
        [what, number] => {
            let what = what.to_ascii_lowercase();
            let digits = number.trim_start_matches('§');
            let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let section = number.starts_with('§') && (what == "design" || what == "contract");
            numeric && (section || what == "hazard" || what == "issue" || what == "correction")
        }
        _ => false,
    });
    noted || words.iter().any(hazard)
}

/// Each reason for which a test may be skipped is listed, and each listed one is used.
pub fn skips(files: &Files) -> Vec<String> {
    let listed: BTreeSet<&str> = files.text("tests/skips.txt").into_iter().flat_map(names).collect();
    let mut used = BTreeSet::new();
    for (_, text) in files.rust("tests/").filter(|(path, _)| !path.starts_with("tests/src/")) {
        for (at, _) in text.match_indices("\"needs-") {
            let reason = text.get(at + 1..).unwrap_or_default();
            used.insert(reason.split(['"', ':']).next().unwrap_or_default());
        }
    }
    let unlisted = used.difference(&listed).map(|r| format!("tests/skips.txt does not list {r}"));
    let unused = listed.difference(&used).map(|r| format!("tests/skips.txt lists {r}, which no test uses"));
    unlisted.chain(unused).collect()
}

/// Each test file is in the manifest, which lists them by name: a file that is not there never runs.
pub fn test_files(files: &Files) -> Vec<String> {
    let manifest = files.text("tests/Cargo.toml").unwrap_or_default();
    let is_listed = |file: &str| manifest.lines().any(|line| line == format!("path = \"{file}\""));
    files
        .rust("tests/")
        .filter_map(|(path, _)| path.strip_prefix("tests/"))
        .filter(|file| !file.contains('/') && !is_listed(file))
        .map(|file| format!("tests/Cargo.toml does not list {file}: it never runs"))
        .collect()
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|l| !l.starts_with('#')).filter_map(|l| Some(l.split_once(':')?.0))
}
