//! The house rules that a look at the sources can check. Each rule takes the files as text and gives its faults, one
//! line each: none where it holds. So each can be shown to fail, on files made up for it.

mod code;
mod fuzz;
mod hazards;
mod layout;
mod size;
mod syscalls;
mod unsafety;
mod words;
mod wrappers;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

pub use code::{Function, code_lines, functions, mask};
pub use fuzz::fuzz_targets;
pub use hazards::hazards;
pub use layout::{dependencies, layout, std_commands};
pub use size::{budgets, file_lengths, function_lengths};
pub use syscalls::{Page, syscalls};
pub use unsafety::{attributes, unsafe_blocks, unsafe_places};
pub use words::{skips, test_files, unfinished, working_notes};
pub use wrappers::wrappers;

/// The files of the project: path from its root, and text. What is no text is there with an empty one.
#[derive(Debug, Clone, Default)]
pub struct Files(BTreeMap<String, String>);

impl Files {
    /// Files made up for a test of a rule.
    pub fn of(list: &[(&str, &str)]) -> Files {
        Files(list.iter().map(|(path, text)| ((*path).to_string(), (*text).to_string())).collect())
    }

    /// What git knows of the project, and what it would add; without git everything but build results.
    pub fn of_project() -> Files {
        let root = root();
        let paths = tracked(&root).unwrap_or_else(|| walk(&root, &root));
        let text = |path: &String| {
            let bytes = std::fs::read(root.join(path)).ok()?;
            Some((path.clone(), String::from_utf8(bytes).unwrap_or_default()))
        };
        Files(paths.iter().filter_map(text).collect())
    }

    /// Path and text, in order of path.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust files below a directory.
    pub fn rust<'a>(&'a self, below: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all().filter(move |(path, _)| path.starts_with(below) && path.ends_with(".rs"))
    }

    /// The same without unit tests.
    pub fn product<'a>(&'a self, below: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.rust(below).filter(|(path, _)| !path.ends_with("tests.rs") && !path.contains("/tests/"))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }
}

/// The project's directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is one of a workspace").to_path_buf()
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let out = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    let text = String::from_utf8(out.stdout).ok().filter(|_| out.status.success())?;
    Some(text.split('\0').filter(|p| !p.is_empty()).map(str::to_string).collect())
}

fn walk(root: &Path, dir: &Path) -> Vec<String> {
    let mut list = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != ".git" && name != "artifacts" {
            list.extend(walk(root, &path));
        } else if path.is_file() {
            list.extend(path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_string));
        }
    }
    list
}
