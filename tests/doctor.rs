//! `pidward doctor`: a row for each promise, as text and as JSON, and what changes where a call is refused.

use std::process::Stdio;

use pidward_tests::{
    command::{self, code, finish, plain},
    in_child,
    leftovers::NoLeftovers,
    proc::LIMIT,
    pty::Pty,
    seccomp::Filter,
};

const PROMISES: usize = 5;

/// The value of a text field in each row of the JSON report, without a parser: no value holds a quote.
fn fields(json: &str, name: &str) -> Vec<String> {
    let key = format!("\"{name}\":\"");
    json.split(&key).skip(1).filter_map(|rest| Some(rest.split('"').next()?.to_owned())).collect()
}

fn json() -> (i32, String) {
    let guard = NoLeftovers::new();
    let output = finish(plain(&guard).args(["doctor", "--json"]));
    assert!(output.stderr.is_empty(), "{output:?}");
    (code(&output), String::from_utf8(output.stdout).expect("JSON is UTF-8"))
}

#[test]
fn text_and_json_say_the_same() {
    let guard = NoLeftovers::new();
    let (json_code, json) = json();
    assert!(json.starts_with("{\"v\":1,") && json.ends_with("]}\n") && json.lines().count() == 1, "{json}");
    let ranks = fields(&json, "rank");
    assert_eq!(ranks.len(), PROMISES);
    let worst = match ranks.iter() {
        mut all if all.clone().any(|rank| rank == "not-kept") => all.next().map(|_| 4),
        mut all if all.clone().any(|rank| rank == "fallback") => all.next().map(|_| 1),
        _ => Some(0),
    };
    assert_eq!(Some(json_code), worst);
    let output = finish(plain(&guard).arg("doctor"));
    assert_eq!(code(&output), json_code);
    let text = String::from_utf8(output.stdout).expect("text");
    for name in ["promise", "mechanism"] {
        let values = fields(&json, name);
        assert_eq!(values.len(), PROMISES);
        assert!(values.iter().all(|value| text.contains(value.as_str())), "{name}: {text}");
    }
    assert!(!text.contains('\x1b'), "no colours in a pipe: {text}");
}

/// The row that differs from that of the same system without the filter, and the code.
fn under(filter: Filter) -> (i32, String) {
    // What stands in the way of the call itself is built before.
    command::path();
    filter.install();
    json()
}

#[test]
fn a_refused_clone3_is_a_fallback() {
    in_child!();
    let (code, json) = under(Filter::new().errno(libc::SYS_clone3, libc::ENOSYS));
    assert!(fields(&json, "mechanism").iter().any(|m| m == "clone with shared memory"), "{json}");
    assert_eq!(fields(&json, "rank").first().map(String::as_str), Some("fallback"), "{json}");
    let (why, todo) = (fields(&json, "why"), fields(&json, "what_to_do"));
    assert!(why[0].contains("clone3") && todo[0].contains("clone3"), "{json}");
    assert_eq!(code, 1);
}

#[test]
fn a_refused_close_range_is_a_fallback() {
    in_child!();
    let (code, json) = under(Filter::new().errno(libc::SYS_close_range, libc::ENOSYS));
    let last = |name| fields(&json, name).pop().unwrap_or_default();
    assert_eq!((last("rank").as_str(), code), ("fallback", 1), "{json}");
    assert!(last("mechanism").contains("/proc/self/fd") && last("why").contains("close_range"), "{json}");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let guard = NoLeftovers::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = finish(plain(&guard).arg("doctor").stdout(writer));
    assert!(matches!(code(&output), 0 | 1 | 4) && output.stderr.is_empty(), "{output:?}");
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
    let output = finish(plain(&guard).arg("doctor").stdout(full).stderr(Stdio::piped()));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 125);
    assert!(text.starts_with("pidward: standard output: ") && text.lines().count() == 1, "{text}");
}

#[test]
fn colours_are_for_terminals_without_no_color() {
    for (no_color, coloured) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let guard = NoLeftovers::new();
        let mut pty = Pty::open().expect("a terminal");
        let mut command = plain(&guard);
        command.arg("doctor").envs(no_color.map(|value| ("NO_COLOR", value)));
        let mut child = pty.spawn(&mut command).expect("pidward");
        let text = pty.read_until(b"descriptor but", LIMIT).expect("the last row");
        child.wait().expect("pidward's end");
        assert_eq!(text.contains(&0x1b), coloured, "{no_color:?}: {}", String::from_utf8_lossy(&text));
    }
}
