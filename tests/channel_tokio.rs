//! The example that awaits a receiver and a pidfd in tokio does so, with the receiver's thread and without.

use pidward_tests::{command::finish, fixture, leftovers::NoLeftovers};

#[test]
fn example_awaits_frames_exits_and_a_pidfd() {
    for word in ["", "thread"] {
        let guard = NoLeftovers::new();
        let mut cmd = guard.command(fixture!("awaits"));
        let output = finish(cmd.arg(word));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let of = |id: &str| -> Vec<&str> { text.lines().filter_map(|line| line.strip_prefix(id)).collect() };
        let ends = [
            ("1: ", "Some(ExitStatus(unix_wait_status(0))), Itself, None"),
            ("2: ", "Some(ExitStatus(unix_wait_status(15))), Stopped, Some(Term)"),
            ("3: ", "Some(ExitStatus(unix_wait_status(9))), Stopped, Some(Kill)"),
        ];
        for (id, end) in ends {
            assert_eq!(of(id), [&format!("hello {}", &id[..1]), "Closed", end], "{text}");
        }
        assert_eq!(text.lines().last(), Some("by its pidfd: ExitStatus(unix_wait_status(768))"), "{text}");
    }
}
