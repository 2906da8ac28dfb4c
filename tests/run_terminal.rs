//! `pidward run` at a terminal, under an interactive shell: the keys, the modes, the size, and a line that is closed.

use std::{
    process::{Child, Command},
    time::Duration,
};

use pidward_tests::{
    command,
    leftovers::NoLeftovers,
    need, os,
    proc::{self, LIMIT, eventually},
    pty::Pty,
};

const PROMPT: &[u8] = b"PS> ";

/// An interactive bash in a terminal of its own.
struct Shell {
    pty: Pty,
    bash: Child,
    guard: NoLeftovers,
}

impl Shell {
    #[track_caller]
    fn start() -> Shell {
        let guard = NoLeftovers::new();
        let mut pty = Pty::open().expect("a terminal");
        let mut command = guard.command("bash");
        command.args(["--norc", "--noprofile", "-i"]);
        command.env("P", command::path()).env("PS1", "PS> ").env("TERM", "xterm").env("HISTFILE", "");
        let bash = pty.spawn(&mut command).expect("bash");
        assert!(pty.read_until(PROMPT, LIMIT).is_some(), "a prompt");
        Shell { pty, bash, guard }
    }

    #[track_caller]
    fn types(&mut self, text: &str) {
        self.pty.write(text.as_bytes()).expect("a terminal to write to");
    }

    /// What comes until these words.
    #[track_caller]
    fn until(&mut self, words: &str) -> String {
        match self.pty.read_until(words.as_bytes(), LIMIT) {
            Some(text) => String::from_utf8_lossy(&text).into_owned(),
            None => panic!("waited in vain for {words:?}, got {:?}", self.pty.pending()),
        }
    }

    /// What a command prints until the next prompt.
    #[track_caller]
    fn says(&mut self, line: &str) -> String {
        self.types(&format!("{line}\n"));
        self.until("\n");
        self.until("PS> ")
    }

    /// Waits until a program that was started so is in front.
    #[track_caller]
    fn in_front(&self, words: &str) -> u32 {
        let mut front = 0;
        eventually(&format!("{words} in front"), || {
            front = self.pty.foreground().unwrap_or(0);
            front > 1 && proc::cmdline(front).starts_with(words)
        });
        front
    }

    #[track_caller]
    fn ends(mut self) {
        assert!(self.pty.modes().expect("modes").keys.len() > 4);
        self.types("exit\n");
        self.bash.wait().expect("bash's end");
        assert_eq!(self.guard.left(), Vec::<u32>::new());
    }
}

#[test]
fn ctrl_c_reaches_the_program() {
    let mut shell = Shell::start();
    shell.types("$P run -- sh -c 'echo u\"\"p; exec cat'\n");
    shell.until("up\r\n");
    shell.in_front("cat");
    shell.types("hello\n");
    shell.until("hello\r\nhello\r\n");
    shell.types("\x03");
    shell.until("PS> ");
    assert!(shell.says("echo code=$?").contains("code=130"));
    shell.ends();
}

#[test]
fn ctrl_z_stops_and_fg_goes_on() {
    let mut shell = Shell::start();
    for _ in 0..3 {
        shell.types("$P run -- cat\n");
        let cat = shell.in_front("cat");
        shell.types("\x1a");
        shell.until("Stopped");
        shell.until("PS> ");
        assert_eq!(proc::state(cat), Some('T'));
        assert!(shell.says("jobs").contains("Stopped"));
        shell.types("fg\n");
        shell.in_front("cat");
        shell.types("again\n");
        shell.until("again\r\nagain\r\n");
        shell.types("\x04");
        shell.until("PS> ");
        assert!(shell.says("echo code=$?").contains("code=0"));
    }
    shell.ends();
}

#[test]
fn a_job_in_the_background_stops_for_the_terminal_and_gets_it_by_fg() {
    let mut shell = Shell::start();
    shell.says("$P run -- cat &");
    eventually("the job is stopped", || shell.says("jobs").contains("Stopped"));
    shell.types("fg\n");
    shell.in_front("cat");
    shell.types("line\n");
    shell.until("line\r\nline\r\n");
    shell.types("\x04");
    shell.until("PS> ");
    shell.ends();
}

#[test]
fn a_program_that_touches_the_terminal_from_a_pipeline_gets_it() {
    let mut shell = Shell::start();
    let said = shell.says("$P run -- sh -c 'stty sane </dev/tty; echo do\"\"ne' | cat");
    assert!(said.contains("done"), "{said}");
    shell.types("$P run -- seq 200 | sh -c 'read x </dev/tty; echo got $x; cat >/dev/null'\n");
    shell.until("\n");
    shell.types("word\n");
    shell.until("got word");
    shell.until("PS> ");
    shell.ends();
}

#[test]
fn an_editor_starts_stops_and_quits() {
    need!(
        Command::new("vim").arg("--version").output().is_ok_and(|o| o.status.success()),
        "needs-vim: an editor"
    );
    let mut shell = Shell::start();
    let before = shell.pty.modes().expect("modes");
    let cooked = || before.clone();
    shell.types("$P run -- vim -u NONE -i NONE -n\n");
    shell.in_front("vim");
    shell.until("~");
    shell.types("\x1a");
    shell.until("Stopped");
    shell.until("PS> ");
    shell.types("fg\n");
    shell.in_front("vim");
    shell.until("~");
    shell.types("ihello\x1b:q!\r");
    shell.until("PS> ");
    assert!(shell.says("echo code=$?").contains("code=0"));
    assert_eq!(shell.pty.modes().expect("modes"), cooked());
    shell.ends();
}

#[test]
fn a_change_of_size_reaches_the_program() {
    let mut shell = Shell::start();
    let script = "trap 'stty size' WINCH; trap 'exit 0' INT; echo u\"\"p; while :; do sleep 0.05; done";
    shell.types(&format!("$P run -- bash -c '{}'\n", script.replace('\'', "'\\''")));
    shell.until("up\r\n");
    shell.pty.resize(33, 99).expect("a new size");
    shell.until("33 99");
    shell.types("\x03");
    shell.until("PS> ");
    shell.ends();
}

#[test]
fn the_shell_has_terminal_and_modes_back_after_sigkill_of_the_program() {
    let mut shell = Shell::start();
    shell.says("true");
    let before = shell.pty.modes().expect("modes");
    shell.types("$P run -- sh -c 'stty raw -echo; kill -9 $$'\n");
    shell.until("PS> ");
    assert_eq!(shell.pty.foreground().expect("a group"), shell.bash.id());
    assert_eq!(shell.pty.modes().expect("modes"), before);
    assert!(shell.says("echo code=$?; stty -a | grep -o '[-]*icanon'").contains("code=137\r\nicanon"));
    shell.ends();
}

#[test]
fn the_shell_has_its_terminal_back_where_no_program_started() {
    let mut shell = Shell::start();
    let said = shell.says("$P run -- no-such-program");
    assert!(said.contains("no such program"), "{said}");
    assert_eq!(shell.pty.foreground().expect("a group"), shell.bash.id());
    assert!(shell.says("echo code=$?").contains("code=127"));
    shell.ends();
}

#[test]
fn an_interactive_bash_has_its_own_jobs() {
    let mut shell = Shell::start();
    shell.says("export PS1='inner> '; PS1='PS> '");
    shell.types("PS1='in'\"ner> \" $P run -- bash --norc -i\n");
    shell.until("inner> ");
    shell.types("sleep 1000\n");
    shell.in_front("sleep");
    shell.types("\x1a");
    shell.until("Stopped");
    shell.until("inner> ");
    shell.types("fg\n");
    shell.in_front("sleep");
    shell.types("\x03");
    shell.until("inner> ");
    shell.types("exit 5\n");
    shell.until("PS> ");
    assert!(shell.says("echo code=$?").contains("code=5"));
    shell.ends();
}

#[test]
fn a_closed_terminal_stops_even_what_is_deaf_to_it() {
    let mut shell = Shell::start();
    shell.types(
        "$P run --grace 300ms -- sh -c 'trap \"\" HUP TERM; echo p\"\"id=$$; while :; do sleep 0.05; done'\n",
    );
    shell.until("pid=");
    let program: u32 = shell.until("\r\n").trim().parse().expect("a pid");
    let pidward = proc::ppid(program).expect("a parent");
    let Shell { pty, mut bash, guard } = shell;
    drop(pty);
    // It would else pass SIGHUP on by itself.
    os::signal_pid(bash.id(), libc::SIGKILL).expect("bash");
    bash.wait().expect("bash's end");
    eventually("the end of both", || !proc::alive(program) && !proc::alive(pidward));
    drop(guard);
}

#[test]
fn without_a_shell_nothing_stays_stopped() {
    let guard = NoLeftovers::new();
    let mut pty = Pty::open().expect("a terminal");
    let mut child = pty.spawn(&mut command::run(&guard, &[], &["cat"])).expect("pidward");
    eventually("cat in front", || {
        pty.foreground().is_ok_and(|front| front > 1 && proc::cmdline(front) == "cat")
    });
    pty.write(b"\x1a").expect("a terminal");
    // The program is stopped and continued at once: it still answers.
    pty.write(b"word\n").expect("a terminal");
    assert!(pty.read_until(b"word\r\nword\r\n", LIMIT).is_some(), "{}", pty.pending());
    pty.write(b"\x04").expect("a terminal");
    assert_eq!(child.wait().expect("pidward's end").code(), Some(0));
    assert!(pty.read_until(b"nobody writes this", Duration::from_millis(1)).is_none());
}
