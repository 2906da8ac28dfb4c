//! The command under the filters of others: a refused call changes neither what it does nor what it answers, and is told in one line at most.

use std::process::Command;

use pidward_tests::{
    command::{code, finish, run},
    fixture, in_child,
    leftovers::NoLeftovers,
    need,
    rounds::rounds,
    skip,
};

/// Calls of the core that the C library and the standard library can do without.
const CALLS: [&str; 14] = [
    "close_range",
    "getdents64",
    "getpgid",
    "kill",
    "madvise",
    "pidfd_open",
    "pidfd_send_signal",
    "prctl",
    "readlinkat",
    "rt_sigpending",
    "setpgid",
    "setsid",
    "umask",
    "waitid",
];

const ANSWERS: [i32; 3] = [libc::ENOSYS, libc::EPERM, libc::EINVAL];

/// `command`, for which these calls fail.
fn under(calls: &str, errno: i32, command: &Command) -> Command {
    let mut under = Command::new(fixture!("under"));
    under.args([calls, &errno.to_string()]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => under.env(name, value),
            None => under.env_remove(name),
        };
    }
    under
}

/// The exit code, and what is wrong with what was said.
fn said(command: &mut Command, faults: &mut Vec<String>) -> i32 {
    let output = finish(command);
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    if lines.len() < text.lines().count() || lines.len() > 3 {
        faults.push(format!("{command:?} says {text}"));
    }
    code(&output)
}

#[test]
fn a_run_under_a_filter_is_a_run() {
    need!(skip::has_pid_namespace(), "needs-namespaces: whoever is left ends with it");
    in_child!(|again| again.in_pid_namespace());
    let guard = NoLeftovers::alone();
    let mut faults = Vec::new();
    for call in CALLS {
        for errno in ANSWERS {
            for cgroup in ["auto", "off"] {
                let seven =
                    run(&guard, &["--cgroup", cgroup], &[fixture!("exitwith").as_os_str(), "7".as_ref()]);
                let options = ["--cgroup", cgroup, "--timeout", "100ms", "--grace", "20s"];
                let late = run(&guard, &options, &["sleep", "1000"]);
                for (command, wanted) in [(seven, 7), (late, 124)] {
                    let got = said(&mut under(call, errno, &command), &mut faults);
                    if got != wanted {
                        faults.push(format!("{call}, {errno}: {got} in place of {wanted}: {command:?}"));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whoever cannot be signalled is a survivor, and is named once.
#[test]
fn who_cannot_be_signalled_is_named_and_not_complained_of_without_end() {
    need!(skip::has_pid_namespace(), "needs-namespaces: whoever is left ends with it");
    in_child!(|again| again.in_pid_namespace());
    let mut faults = Vec::new();
    for errno in ANSWERS.into_iter().take(rounds(1, 3)) {
        let guard = NoLeftovers::alone();
        // The program itself, which nobody can end but the kernel, when its parent has.
        let program = ["sh", "-c", "exec sleep 1000 >/dev/null 2>&1"];
        let late = run(&guard, &["--cgroup", "off", "--timeout", "100ms", "--grace", "100ms"], &program);
        assert_eq!(said(&mut under("pidfd_send_signal,kill", errno, &late), &mut faults), 4);
        // And one that has left its group, for whom a number is no proof.
        let script =
            "setsid sleep 1000 >/dev/null 2>&1 & while [ $(ps -o comm= -p $!) != sleep ]; do :; done; exit 7";
        let away = run(&guard, &["--cgroup", "off", "--grace", "100ms"], &["sh", "-c", script]);
        assert_eq!(said(&mut under("pidfd_send_signal", errno, &away), &mut faults), 4);
        assert_eq!(guard.end_all().len(), 1, "the survivor");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
