//! `pidward doctor`: a row for each promise, as text and as JSON, and what changes where a call is refused.

use std::process::Stdio;

use pidward_tests::{
    child::Again,
    command::{self, code, finish, plain},
    leftovers::NoLeftovers,
    need,
    proc::LIMIT,
    pty::Pty,
    seccomp::Filter,
    skip, this_test,
};

const PROMISES: usize = 11;

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

/// What the filter puts in the place of one call: with this errno.
type Refusal = fn(i32) -> Filter;

/// One call refused, in some ways, each in a process of its own: exactly these rows change, in text and in JSON, each with its
/// reason, and the exit code follows.
#[track_caller]
fn changes(test: &str, errnos: &[i32], refusal: Refusal, rows: &[usize], worst: &str, why: &str) {
    const ERRNO: &str = "PIDWARD_TEST_ERRNO";
    command::path();
    let Some(errno) = std::env::var(ERRNO).ok().and_then(|errno| errno.parse().ok()) else {
        for errno in errnos {
            Again::of(test).env(ERRNO, &errno.to_string()).run().check();
        }
        return;
    };
    let (_, before) = json();
    refusal(errno).install();
    let (code, after) = json();
    let guard = NoLeftovers::new();
    let text = String::from_utf8(finish(plain(&guard).arg("doctor")).stdout).expect("text");
    let [old, new, ranks, reasons] =
        [(&before, "mechanism"), (&after, "mechanism"), (&after, "rank"), (&after, "why")]
            .map(|(json, name)| fields(json, name));
    let was = fields(&before, "rank");
    assert_eq!(new.len(), PROMISES, "{after}");
    let changed: Vec<usize> = (0..PROMISES).filter(|n| old[*n] != new[*n] || ranks[*n] != was[*n]).collect();
    assert_eq!(changed, rows, "{errno}: {after}");
    for row in rows {
        assert!(reasons[*row].contains(why), "{errno}: {}: {}", new[*row], reasons[*row]);
        assert!(text.contains(&new[*row]) && text.contains(&reasons[*row]), "{errno}: {text}");
    }
    assert!(rows.iter().any(|row| ranks[*row] == worst), "{errno}: {ranks:?}");
    assert_eq!(code, if worst == "not-kept" { 4 } else { 1 }, "{errno}: {after}");
}

const ALL: [i32; 3] = [libc::ENOSYS, libc::EPERM, libc::EINVAL];
/// The C library, too, starts threads by clone3, and takes no other answer for "not here".
const ABSENT: [i32; 1] = [libc::ENOSYS];

/// `ioctl(PIDFD_GET_INFO)` with the first size of its struct.
const GET_INFO: u64 = 0xc040_ff0b;
/// `PIDFD_SIGNAL_PROCESS_GROUP`.
const TO_GROUP: u64 = 4;
const P_PIDFD: u64 = 3;

#[test]
fn a_refused_clone3_is_a_fallback() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(&this_test!(), &ABSENT, |e| Filter::new().errno(libc::SYS_clone3, e), &[0], "fallback", "clone3");
}

#[test]
fn a_refused_close_range_is_a_fallback() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ALL,
        |e| Filter::new().errno(libc::SYS_close_range, e),
        &[10],
        "fallback",
        "close_range",
    );
}

#[test]
fn a_refused_pidfd_open_leaves_what_the_clone_gives() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ALL,
        |e| Filter::new().errno(libc::SYS_pidfd_open, e),
        &[2, 4, 5, 8],
        "fallback",
        "pidfd_open",
    );
}

#[test]
fn without_any_pidfd_the_number_of_the_unreaped_child_is_used() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ABSENT,
        |e| {
            let pidfds = 0x1000;
            Filter::new().errno(libc::SYS_clone3, e).errno(libc::SYS_pidfd_open, e).errno_if(
                libc::SYS_clone,
                0,
                pidfds,
                pidfds,
                e,
            )
        },
        &[0, 1, 2, 3, 4, 5, 8],
        "fallback",
        "filter",
    );
}

#[test]
fn a_refused_signal_by_pidfd_is_one_by_number_and_a_guard_can_send_none() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ALL,
        |e| Filter::new().errno(libc::SYS_pidfd_send_signal, e),
        &[1, 2, 8],
        "not-kept",
        "pidfd_send_signal",
    );
}

#[test]
fn a_child_without_a_group_of_its_own_is_told() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(&this_test!(), &ALL, |e| Filter::new().errno(libc::SYS_setpgid, e), &[2], "not-kept", "setpgid");
}

#[test]
fn a_refused_death_signal_leaves_the_guard() {
    const ARM: u64 = libc::PR_SET_PDEATHSIG as u64;
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ALL,
        |e| Filter::new().errno_if(libc::SYS_prctl, 0, u64::MAX, ARM, e),
        &[7],
        "fallback",
        "prctl",
    );
}

#[test]
fn a_refused_signal_to_a_group_keeps_the_leader() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ALL,
        |e| Filter::new().errno_if(libc::SYS_pidfd_send_signal, 3, TO_GROUP, TO_GROUP, e),
        &[2],
        "fallback",
        "PIDFD_SIGNAL_PROCESS_GROUP",
    );
}

#[test]
fn a_refused_wait_by_pidfd_is_one_by_number() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ALL,
        |e| Filter::new().errno_if(libc::SYS_waitid, 0, u64::from(u32::MAX), P_PIDFD, e),
        &[3],
        "fallback",
        "waitid",
    );
}

#[test]
fn a_refused_exit_info_loses_statuses_that_others_take() {
    need!(skip::has_first_choices(), "needs-kernel-6.15");
    changes(
        &this_test!(),
        &ALL,
        |e| Filter::new().errno_if(libc::SYS_ioctl, 1, u64::from(u32::MAX), GET_INFO, e),
        &[4],
        "fallback",
        "PIDFD_GET_INFO",
    );
}

#[test]
fn without_proc_nobody_elses_process_is_known() {
    need!(skip::has_namespaces(), "needs-namespaces");
    let guard = NoLeftovers::new();
    let mut command = guard.command("unshare");
    // An empty directory in the place of /proc.
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" doctor --json"]);
    let output = finish(command.arg(command::path()));
    let json = String::from_utf8(output.stdout.clone()).expect("JSON is UTF-8");
    let (ranks, why) = (fields(&json, "rank"), fields(&json, "why"));
    assert_eq!(code(&output), 4, "{output:?}");
    for row in [5, 6, 8, 9] {
        assert!(ranks[row] == "not-kept" && why[row].contains("/proc"), "{json}");
    }
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
