//! The house rules, on the project as it is. That each rule can fail is shown beside it, in this package's library.

use std::process::Command;

use pidward_tests::tidy::{self, Files};

#[track_caller]
fn holds(rule: fn(&Files) -> Vec<String>) {
    let files = Files::of_project();
    assert!(files.text("core/src/lib.rs").is_some(), "the project's files are there");
    let faults = rule(&files);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn top_level_is_the_layout() {
    holds(tidy::layout);
}

#[test]
fn default_dependencies_are_the_named_ones() {
    for package in ["pidward-core", "pidward"] {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "-p", package, "-e", "normal", "--prefix", "none", "--offline"])
            .current_dir(tidy::root())
            .output()
            .expect("cargo");
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let text = String::from_utf8_lossy(&tree.stdout).into_owned();
        assert!(text.contains("rustix "), "a tree: {text}");
        let faults = tidy::dependencies(&text);
        assert!(faults.is_empty(), "{package}: {}", faults.join("\n"));
    }
}

#[test]
fn no_process_is_started_by_std() {
    holds(tidy::std_commands);
}

#[test]
fn unsafe_code_stands_in_its_places() {
    holds(tidy::unsafe_places);
}

#[test]
fn files_open_with_their_attribute() {
    holds(tidy::attributes);
}

#[test]
fn unsafe_blocks_are_few_and_argued() {
    holds(tidy::unsafe_blocks);
}

#[test]
fn line_budgets_are_kept() {
    holds(tidy::budgets);
}

#[test]
fn files_are_short() {
    holds(tidy::file_lengths);
}

#[test]
fn functions_are_short() {
    holds(tidy::function_lengths);
}

#[test]
fn system_calls_say_since_when() {
    holds(tidy::wrappers);
}

#[test]
fn system_calls_have_their_sections() {
    holds(tidy::syscalls);
}

#[test]
fn nothing_is_unfinished() {
    holds(tidy::unfinished);
}

#[test]
fn nothing_speaks_of_working_notes() {
    holds(tidy::working_notes);
}

#[test]
fn test_files_are_listed() {
    holds(tidy::test_files);
}

#[test]
fn skips_are_listed() {
    holds(tidy::skips);
}

#[test]
fn fuzz_targets_have_an_oracle() {
    holds(tidy::fuzz_targets);
}

#[test]
fn hazards_name_tests_that_exist() {
    holds(tidy::hazards);
}
