//! Each rule finds its fault, and nothing where there is none.

use super::*;

type Rule = fn(&Files) -> Vec<String>;

#[track_caller]
fn finds(rule: Rule, files: &[(&str, &str)], what: &str) {
    let faults = rule(&Files::of(files));
    assert!(faults.iter().any(|f| f.contains(what)), "{what:?} is not in {faults:?}");
}

#[track_caller]
fn passes(rule: Rule, files: &[(&str, &str)]) {
    assert_eq!(rule(&Files::of(files)), Vec::<String>::new());
}

#[test]
fn mask_keeps_code_only() {
    assert_eq!(mask("a // b\nc"), "a     \nc");
    assert_eq!(mask("a /* b /* c */ d */ e"), "a                   e");
    assert_eq!(mask(r#"f("x // \" y") // z"#), "f(__ __ __ __)     ");
    assert_eq!(mask("r#\"a\"b\"# + 1"), "________ + 1");
    assert_eq!(mask("br\"//\" x"), "b_____ x");
    assert_eq!(mask("'{' '\\'' 'a: loop {}"), "___ ____ 'a: loop {}");
    assert_eq!(mask("'é' <'a>"), "____ <'a>");
    let text = "let s = \"a\n\n  b\";";
    assert_eq!((mask(text).len(), mask(text).lines().count()), (text.len(), 3));
}

#[test]
fn code_lines_leave_out_comments_and_blanks() {
    assert_eq!(code_lines("//! a\n\n/// b\nfn c() {} // d\n/* e\nf */\n  // g\n"), 1);
    assert_eq!(code_lines("let a = \"b\n// c\";\n"), 2);
}

#[test]
fn functions_are_found_with_their_bodies() {
    let text = mask(
        "pub(crate) unsafe fn a(x: [u8; 2]) -> u8 {\n if b { c }\n}\nfn d();\nimpl E { fn f() { } }\nlet fnx = 1;",
    );
    let list = functions(&text);
    let short: Vec<(&str, bool, usize, usize)> =
        list.iter().map(|f| (f.name.as_str(), f.public, f.line, f.lines)).collect();
    assert_eq!(short, [("a", true, 1, 3), ("f", false, 5, 1)]);
}

#[test]
fn layout_and_dependencies() {
    finds(layout, &[("scripts/a.sh", "")], "scripts");
    passes(layout, &[(".ci/run", ""), ("LICENSE-MIT", ""), ("core/a", ""), ("README.md", "")]);
    assert_eq!(dependencies("pidward v0.1.0 (/x)\nlog v1 (*)\nserde v1\n").len(), 1);
    assert!(dependencies("pidward v0.1.0 (/x)\n\nlog v1\n").is_empty());
}

#[test]
fn commands_of_std_are_found() {
    for text in [
        "use std::process::Command;",
        "use std::process::{\n    ExitStatus, Command,\n};",
        "use std::process::*;",
        "let c = std::process::Command::new(1);",
        "use std::os::unix::process::CommandExt;\nfn a(b: B) { b.exec() }",
        "use std::process::{ChildStdin, Command as Std};",
        "fn a(b: &mut std::process::Command) { b.spawn(); }",
    ] {
        finds(std_commands, &[("driver/src/a.rs", text)], "driver/src/a.rs");
    }
    for text in [
        "use std::process::{ExitStatus, Stdio};",
        "/// As std::process::Command does.\nuse crate::Command;",
        "use rustix::process::*;",
        "let c = Command::new(1).spawn();",
        "std::process::exit(1)",
        "use std::os::unix::process::CommandExt;\nfn a(b: &mut process::Command) { b.process_group(0); }",
    ] {
        passes(std_commands, &[("driver/src/a.rs", text)]);
    }
    passes(std_commands, &[("driver/src/other.rs", "use std::process::Command;")]);
    passes(std_commands, &[("driver/benches/a.rs", "use std::process::Command;")]);
}

#[test]
fn unsafe_code_out_of_place_is_found() {
    finds(unsafe_places, &[("core/src/a.rs", "fn a() {\n unsafe { b() } }")], "core/src/a.rs:2");
    finds(unsafe_places, &[("driver/src/bin/a.rs", "unsafe impl A for B {}")], "driver/src/bin/a.rs:1");
    passes(
        unsafe_places,
        &[("core/src/a.rs", "//! no unsafe here\n#![forbid(unsafe_code)]\nlet a = \"unsafe\";")],
    );
    passes(
        unsafe_places,
        &[("core/src/sys.rs", "unsafe { b() }"), ("core/src/arch/x86_64.rs", "unsafe fn a() {}")],
    );
}

#[test]
fn missing_attributes_are_found() {
    let forbid = "//! A.\n#![forbid(unsafe_code)]\nuse a;\n";
    passes(attributes, &[("core/src/a.rs", forbid), ("core/src/sys.rs", "//! B.\n")]);
    passes(attributes, &[("core/src/lib.rs", "//! A.\n#![no_std]\n#![deny(unsafe_code)]\n")]);
    finds(attributes, &[("core/src/a.rs", "//! #![forbid(unsafe_code)]\n")], "does not open");
    finds(attributes, &[("core/src/a.rs", "use a;\n#![forbid(unsafe_code)]\n")], "does not open");
    finds(attributes, &[("core/src/lib.rs", forbid)], "deny");
    finds(attributes, &[("core/src/arch/mod.rs", "")], "deny");
    finds(attributes, &[("driver/src/lib.rs", "//! A.\n")], "driver");
}

#[test]
fn unsafe_blocks_without_a_reason_are_found() {
    let path = "core/src/sys.rs";
    for text in [
        "// SAFETY: a.\nunsafe { b() };",
        "// SAFETY: a,\n// and b.\nlet c =\n    unsafe { b() };",
        "// SAFETY: a.\nmatch unit(unsafe { b() }) {",
        "// SAFETY: a.\nunsafe impl A for B {}",
        "pub unsafe fn a() {}",
    ] {
        passes(unsafe_blocks, &[(path, text)]);
    }
    for text in [
        "unsafe { b() };",
        "// SAFETY: a.\nlet c = 1;\nunsafe { b() };",
        "// SAFETY: a.\n\nunsafe { b() };",
        "// safe, believe me\nunsafe { b() };",
        "unsafe impl A for B {}",
    ] {
        finds(unsafe_blocks, &[(path, text)], "without");
    }
    let blocks = |n| [["// SAF", "ETY: a."].concat(), "unsafe { b() };\n".to_string()].join("\n").repeat(n);
    finds(unsafe_blocks, &[(path, &blocks(61))], "61 unsafe blocks");
    passes(unsafe_blocks, &[(path, &blocks(60))]);
}

#[test]
fn budgets_that_are_passed_are_found() {
    let lines = |n| "a();\n".repeat(n);
    finds(budgets, &[("core/src/a.rs", &lines(5_320))], "core: 5320");
    passes(budgets, &[("core/src/a.rs", &lines(5_319)), ("core/src/a/tests.rs", &lines(9))]);
    finds(budgets, &[("driver/src/a.rs", &lines(11_001))], "driver");
    passes(budgets, &[("driver/src/bin/a.rs", &lines(11_001)), ("driver/src/cli/a.rs", &lines(9))]);
    finds(budgets, &[("core/src/guard.rs", &lines(251))], "guard");
    finds(budgets, &[("core/src/sys.rs", &lines(901))], "unsafe");
    finds(budgets, &[("core/src/spawn/child.rs", &format!("fn start() {{\n{}}}", lines(199)))], "exec: 201");
    passes(budgets, &[("core/src/spawn/child.rs", &format!("{}fn start() {{\n{}}}", lines(50), lines(198)))]);
    finds(file_lengths, &[("tests/a.rs", &lines(301))], "tests/a.rs: 301");
    passes(
        file_lengths,
        &[("core/src/sys.rs", &lines(400)), ("tests/a.rs", &format!("{}\n// b\n", lines(300)))],
    );
    let body = |n: usize| format!("fn a() {{\n{}}}\n", "b;\n".repeat(n - 2));
    finds(function_lengths, &[("core/src/a.rs", &body(71))], "a has 71");
    passes(function_lengths, &[("core/src/a.rs", &body(70))]);
}

#[test]
fn system_calls_without_their_lines_are_found() {
    let page = "<https://man7.org/linux/man-pages/man2/kill.2.html>";
    let with = |doc: &str| format!("{doc}\n#[inline(always)]\npub(crate) fn a() {{\n syscall!(b)\n}}\n");
    let path = "core/src/sys.rs";
    passes(wrappers, &[(path, &with(&format!("/// A.\n///\n/// Since Linux 5.3. {page}")))]);
    passes(wrappers, &[(path, &with(&format!("/// Always there. {page}\n///\n/// # Errors")))]);
    finds(wrappers, &[(path, &with(&format!("/// A. {page}")))], "since when");
    finds(wrappers, &[(path, &with("/// Since Linux 5.3."))], "man page");
    let other = format!("/// Always there. {page}\nfn b() {{}}\n{}", with("/// A."));
    finds(wrappers, &[(path, &other)], "a names no man page");
    passes(wrappers, &[(path, "pub(crate) fn a() { b() }\nfn c() { syscall!(b) }")]);
}

#[test]
fn unfinished_code_is_found() {
    for text in
        [concat!("to", "do!()"), concat!("unimple", "mented!(\"a\")"), concat!("#[", "ignore]\nfn a() {}")]
    {
        finds(unfinished, &[("core/src/a.rs", text)], "unfinished");
    }
    for mark in [["FIX", "ME"].concat(), ["XX", "X"].concat(), ["TO", "DO"].concat()] {
        finds(unfinished, &[("tests/a.rs", &format!("a(); // {mark}: b"))], "unfinished");
    }
    passes(
        unfinished,
        &[("tests/a.rs", "#[ignore = \"needs a kernel\"]\nlet a = \"todo!\"; // as todo! does")],
    );
}

#[test]
fn working_notes_are_found() {
    let (hazard, place) = (["H", "07"].concat(), ["see /wo", "rk/main"].concat());
    let (section, issue) = (["as design ", "§3 says"].concat(), ["(issue", " 12)"].concat());
    for text in [hazard, place, section, issue] {
        finds(working_notes, &[("core/src/a.rs", &format!("// {text}\n"))], "core/src/a.rs:1");
        finds(working_notes, &[("README.md", &text)], "README.md:1");
        passes(working_notes, &[("Cargo.lock", &text)]);
    }
    passes(working_notes, &[("a.rs", "let h = [0xH, H1, SHA256]; // an issue of design, 12 of them; H100")]);
}

#[test]
fn a_test_file_that_never_runs_is_found() {
    let manifest = ("tests/Cargo.toml", "[[test]]\nname = \"a\"\npath = \"a.rs\"\n");
    passes(test_files, &[manifest, ("tests/a.rs", ""), ("tests/a/rows.rs", ""), ("tests/src/b.rs", "")]);
    finds(test_files, &[manifest, ("tests/a.rs", ""), ("tests/b.rs", "")], "b.rs");
}

#[test]
fn skips_that_are_not_listed_are_found() {
    let list = ("tests/skips.txt", "# a: b\nneeds-root: c\n");
    passes(skips, &[list, ("tests/a.rs", "skip!(\"needs-root: d\")")]);
    finds(
        skips,
        &[list, ("tests/a.rs", "skip!(\"needs-root\"); need!(a, \"needs-luck: d\")")],
        "not list needs-luck",
    );
    finds(skips, &[list, ("tests/a.rs", "")], "no test uses");
}

#[test]
fn fuzz_targets_without_an_oracle_are_found() {
    let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"a\"\npath = \"fuzz_targets/a.rs\"\n";
    let target = "fuzz_target!(|d: &[u8]| assert_eq!(a(d), b(d)));";
    let faults = fuzz_targets(&Files::of(&[("fuzz/Cargo.toml", manifest)]));
    assert!(faults.iter().any(|f| f.contains("no target environ")), "{faults:?}");
    let rule = |files: &Files| fuzz::targets_hold(files, &["a"]);
    finds(rule, &[], "no target a");
    let list = ("fuzz/Cargo.toml", manifest);
    let (file, corpus) = (("fuzz/fuzz_targets/a.rs", target), ("fuzz/corpus/a/1", ""));
    passes(rule, &[list, file, corpus]);
    finds(rule, &[list, file], "empty");
    finds(rule, &[list, corpus], "not there");
    let mute = ("fuzz/fuzz_targets/a.rs", "// assert\nfuzz_target!(|d: &[u8]| drop(a(d)));");
    finds(rule, &[list, mute, corpus], "asserts nothing");
    finds(rule, &[list, file, corpus, ("fuzz/fuzz_targets/b.rs", target)], "b.rs is not listed");
}

#[test]
fn hazards_without_a_test_are_found() {
    let head = "| hazard | handled | test |\n|---|---|---|\n";
    let table = |row: &str| format!("{head}{row}\n");
    let file = ("tests/a.rs", "#[test]\nfn a_is_b() {\n}\nfn helper() {}\n");
    let rule = |row: &str| hazards(&Files::of(&[("core/docs/hazards.md", &table(row)), file]));
    assert_eq!(rule("| a | `sys.rs` | `tests/a.rs::a_is_b` |"), Vec::<String>::new());
    finds(hazards, &[file], "is not there");
    for (row, fault) in [
        ("| a | b | `tests/a.rs::a_is_c` |", "no test a_is_c"),
        ("| a | b | `tests/a.rs::helper` |", "no test helper"),
        ("| a | b | `tests/b.rs::a_is_b` |", "tests/b.rs has no"),
        ("| a | b | by hand |", "names no test"),
        ("| a |  | `tests/a.rs::a_is_b` |", "empty"),
        ("| a | `tests/a.rs::a_is_b` |", "three cells"),
    ] {
        assert!(rule(row).iter().any(|f| f.contains(fault)), "{row}: {:?}", rule(row));
    }
}

const SECTION: &str = "```allow-list\nread\n```\n| `read` | same | same | same |\n## `read`\n- **Arguments.** a\n- **Returns.** b\n\
    - **Errors.** c\n- **Since.** d\n- **Refused.** e\n- **Made by.** `sys::read`, `rustix::io::read`\n";

#[test]
fn system_calls_without_a_section_are_found() {
    let (page, sys) = ("core/docs/syscalls.md", "fn read() { syscall!(__NR_read) }");
    let io = "use rustix::{fd::AsFd, io};\nfn a() { io::read(io::Errno::INTR) }";
    let files = [(page, SECTION), ("core/src/sys.rs", sys), ("core/src/a.rs", io)];
    passes(syscalls, &files);
    let with = |path, text| [&files[..], &[(path, text)]].concat();
    finds(syscalls, &[], "is not there");
    let new = with("core/src/b.rs", "fn new() { nr(raw::__NR_reboot) }");
    finds(syscalls, &new, "core/src/b.rs:1: b::new makes `reboot`, which has no section");
    finds(
        syscalls,
        &with("core/src/b.rs", "fn new() { __NR_read }"),
        "`read` does not say that `b::new` makes it",
    );
    for text in [
        "use rustix::fs;\nfn a() { fs::stat(c) }",
        "use rustix::{fd::OwnedFd, fs::{self, Mode}};\nfn a() { b.map(fs::stat) }",
        "use rustix::fs::stat;\nfn a() { stat(c) }",
        "fn a() { rustix::fs::stat(c) }",
    ] {
        finds(syscalls, &with("core/src/b.rs", text), "says which call `rustix::fs::stat` makes");
    }
    passes(
        syscalls,
        &with("core/src/b.rs", "use rustix::fs::{self, Mode};\nfn stat() { a.stat(fs::Mode::A) }"),
    );
    finds(syscalls, &files[..2], "`read` names `rustix::io::read`, which core does not use");
    let twice = SECTION.replace("read", "write").replace("io::write", "io::read") + SECTION;
    finds(syscalls, &[(page, &twice), files[1], files[2]], "the list is not that of the sections");
    finds(
        syscalls,
        &[(page, &SECTION.replace("- **Since.** d\n", "")), files[1], files[2]],
        "has not the heads",
    );
    finds(syscalls, &[(page, &SECTION.replace("| same |\n", "|\n")), files[1], files[2]], "row of refusals");
}
