//! Real processes that make themselves hard to read.
#![forbid(unsafe_code)]

use std::{
    format, fs,
    io::{BufRead, BufReader, Read},
    os::fd::OwnedFd,
    process::{Child, ChildStdout, Command, Stdio},
    string::String,
    thread,
    time::Duration,
    vec::Vec,
};

use rustix::fd::{AsFd, AsRawFd};

use crate::{
    Errno, Pid,
    marker::{ChildKind, Markers, Names, Run, Tails},
    procfs::{Environ, Malformed, Proc, ProcError, State, Status, Target, is_zombie},
    sys,
};

/// A shell that says `ready` after `script` and stays until its input ends.
struct Shell(Child, BufReader<ChildStdout>);

impl Shell {
    fn new(script: &str, command: &mut Command) -> Shell {
        let script = format!("{script}\necho ready\nread line");
        let command = command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Shell(child, out)
    }

    fn pid(&self) -> Pid {
        Pid::new(self.0.id()).unwrap()
    }

    /// Lets it end and waits until it is a zombie; not reaped.
    fn end(&mut self) {
        drop(self.0.stdin.take());
        for _ in 0..6000 {
            if is_zombie(self.pid()) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.1.read_to_end(&mut Vec::new()).unwrap();
        self.0.wait().unwrap();
    }
}

fn sh() -> Command {
    let mut command = Command::new("/bin/sh");
    command.env_clear();
    command
}

#[test]
fn a_process_that_names_itself_like_fields_is_read_right() {
    let shell = Shell::new("printf 'x) Z 1 (\\ny' > /proc/$$/comm", &mut sh());
    let name = fs::read(format!("/proc/{}/comm", shell.pid())).unwrap();
    assert_eq!(name, b"x) Z 1 (\ny\n");
    let dir = Proc::open().unwrap().process(shell.pid()).unwrap();
    let stat = dir.stat().unwrap();
    assert_eq!((stat.pid, stat.ppid), (shell.0.id(), std::process::id()));
    assert!(!matches!(stat.state, State::ZOMBIE | State::DEAD) && !stat.is_ended());
    assert!(!is_zombie(shell.pid()));
    let text = fs::read(format!("/proc/{}/status", shell.pid())).unwrap();
    let status = Status::parse(&text).unwrap();
    assert_eq!((status.tgid, status.pid, status.threads), (shell.0.id(), shell.0.id(), 1));
    assert_eq!(status.ns_pids, [shell.pid().raw()]);
}

fn info(fd: &impl AsFd) -> Result<Target, Malformed> {
    let number = fd.as_fd().as_raw_fd();
    Target::parse(&fs::read(format!("/proc/thread-self/fdinfo/{number}")).unwrap())
}

#[test]
fn a_pinned_process_is_ended_as_a_zombie_and_gone_once_reaped() {
    let mut shell = Shell::new("", &mut sh());
    let proc = Proc::open().unwrap();
    let dir = proc.process(shell.pid()).unwrap();
    let pidfd = sys::pidfd_open(shell.pid()).unwrap();
    assert_eq!(info(&pidfd).unwrap(), Target::Pid(shell.pid()));
    shell.end();
    let stat = dir.stat().unwrap();
    assert_eq!((stat.state, stat.threads, stat.is_ended()), (State::ZOMBIE, 1, true));
    // By error or by nothing, depending on the kernel.
    assert_eq!(dir.environ(|_| panic!("a zombie has no environ")), Ok(Environ::Ended));
    shell.0.wait().unwrap();
    assert_eq!(dir.stat(), Err(ProcError::Gone));
    assert_eq!(dir.environ(|_| panic!("nobody has no environ")), Err(ProcError::Gone));
    assert_eq!(info(&pidfd).unwrap(), Target::Gone);
    assert_eq!(info(&proc), Err(Malformed));
}

#[test]
fn markers_behind_two_hundred_kilobytes_of_a_living_environ_are_found() {
    let id = "0123456789abcdef0123456789abcdef";
    let mut command = sh();
    for n in 0..2 {
        command.env(format!("BIG{n}"), "x".repeat(100_000));
    }
    // The environ of a command is sorted by name.
    command.env("PIDWARD_SUBPROCESS", "1").env("PIDWARD_TASK", "far").env(format!("PIDWARD_TREE_{id}"), id);
    let shell = Shell::new("", &mut command);
    let mut matcher = Markers::new(&Names::DEFAULT, ChildKind::Task, "far").matcher();
    let mut found = Vec::new();
    let mut runs = Tails::<{ Run::LEN }>::new(Names::DEFAULT.tree);
    let dir = Proc::open().unwrap().process(shell.pid()).unwrap();
    let read = dir.environ(|piece| {
        matcher.feed(piece);
        runs.feed(piece, |ids| found.extend(Run::parse(ids)));
    });
    assert!(matches!(read, Ok(Environ::Bytes(200_000..))), "{read:?}");
    assert!(Markers::new(&Names::DEFAULT, ChildKind::Task, "far").proven(matcher.found()));
    assert_eq!(found, [Run::parse(format!("{id}={id}").as_bytes()).unwrap()]);
}

#[test]
fn a_process_without_an_environ_is_empty_and_not_ended() {
    let mut command = Command::new("/bin/cat");
    let mut child = command.env_clear().stdin(Stdio::piped()).spawn().unwrap();
    let dir = Proc::open().unwrap().process(Pid::new(child.id()).unwrap()).unwrap();
    assert_eq!(dir.environ(|_| panic!("there is nothing")), Ok(Environ::Empty));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn a_kernel_thread_is_one_where_it_can_be_seen() {
    let proc = Proc::open().unwrap();
    let dir = match proc.process(Pid::new(2).unwrap()) {
        Ok(dir) if fs::read("/proc/2/comm").unwrap() == b"kthreadd\n" => dir,
        // In a pid namespace of its own the number is anybody's: nobody there is one.
        other => {
            let thread = other.and_then(|dir| dir.stat()).is_ok_and(|stat| stat.is_kernel_thread());
            assert!(!thread);
            return;
        }
    };
    assert!(dir.stat().unwrap().is_kernel_thread());
    match dir.environ(|_| panic!("a kernel thread has no environ")) {
        Ok(Environ::KernelThread) | Err(ProcError::Errno(Errno::EACCES)) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_that_is_no_proc_is_refused() {
    let dir: OwnedFd = fs::File::open("/").unwrap().into();
    assert_eq!(Proc::check(dir).err(), Some(ProcError::NoProc));
    // A directory of the right file system that is not its root: our own number is not in it.
    let below: OwnedFd = fs::File::open("/proc/self/task").unwrap().into();
    assert_eq!(Proc::check(below).err(), Some(ProcError::OtherPidNamespace));
    let right: OwnedFd = fs::File::open("/proc").unwrap().into();
    assert!(Proc::check(right).is_ok());
}

#[test]
fn boot_id_is_that_of_the_kernel() {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let id = Proc::open().unwrap().boot_id().unwrap();
    assert_eq!(format!("{id}"), text.trim().replace('-', ""));
}
