//! A plain life: spawn, wait, verify, stop.

use std::{
    fmt::Debug,
    fs::{File, OpenOptions},
    net::{SocketAddr, TcpListener},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    ptr, thread,
    time::{Duration, Instant},
};

use pidward_core::{
    Id128, Pid, Signal,
    guard::{Charge, Guard},
    identity::{Host, Identity, Verdict, Why},
    image::{Packer, Table},
    marker::{ChildKind, Cookie, Names},
    reap::{ReapError, Status},
    signal::{self, GroupMeans},
    spawn::{Child, Launcher, Plan, Program, Slot, SpawnError},
};
use pidward_tests::{leftovers::TOKEN, pty::Pty};

/// How long a part may wait for somebody's end.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) const NAME: (ChildKind, &str) = (ChildKind::Task, "life");

pub(crate) type Say<'s> = &'s mut dyn FnMut(&str, &str);

pub(crate) struct Life {
    launcher: Option<Launcher>,
    seven: Table<'static>,
    stay: Table<'static>,
    environ: Table<'static>,
    /// This program's own number.
    pub(crate) own: Pid,
    pub(crate) nonce: Id128,
    pub(crate) run: Id128,
    pub(crate) files: &'static Files,
    /// The directory of a cgroup.
    pub(crate) leaves: Option<File>,
}

/// What was opened before anything was refused.
pub(crate) struct Files {
    pub(crate) null: File,
    pub(crate) seven: File,
    pub(crate) terminal: Option<(Pty, File)>,
    /// A pipe that nobody reads.
    pub(crate) pipe: File,
    /// One that listens, and where.
    pub(crate) port: Option<(TcpListener, SocketAddr)>,
}

fn table(strings: &[String]) -> Table<'static> {
    let bytes = vec![0; strings.iter().map(|s| s.len() + 1).sum()].leak();
    let mut packer = Packer::new(bytes, vec![ptr::null(); strings.len() + 1].leak());
    strings.iter().for_each(|s| packer.push(s.as_bytes()).expect("exact room"));
    packer.finish()
}

/// Looks again for a while.
pub(crate) fn until(mut yes: impl FnMut() -> bool) {
    let began = Instant::now();
    while !yes() && began.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// One word for an answer.
pub(crate) fn word<T, E: Debug>(answer: &Result<T, E>) -> String {
    match answer {
        Ok(_) => "ok".to_string(),
        Err(e) => format!("{e:?}"),
    }
}

pub(crate) fn refusal(error: SpawnError) -> String {
    format!("refused at `{}`: {}", error.step.name(), error.errno)
}

/// How a child ends that does so by itself, or was told to.
pub(crate) fn end_of(child: &Child) -> String {
    let began = Instant::now();
    loop {
        match child.try_reap() {
            Ok(None) if began.elapsed() < LIMIT => thread::sleep(Duration::from_millis(1)),
            Ok(None) => return "late".to_string(),
            Ok(Some(exit)) => {
                return match exit.status {
                    Status::Exited(code) => format!("exited {code}"),
                    Status::Signaled { signal, .. } => format!("signal {}", signal.raw()),
                };
            }
            Err(ReapError::Errno(e)) => return format!("no status: {e}"),
            Err(e) => return format!("no status: {e:?}"),
        }
    }
}

/// Ends it, whatever is refused.
pub(crate) fn put_away(child: &Child) {
    let _ = child.signal(Signal::KILL);
    let _ = end_of(child);
}

impl Life {
    pub(crate) fn prepare(dir: &str, leaves: &str) -> Life {
        let (nonce, run) = (Id128::random().expect("random bytes"), Id128::random().expect("random bytes"));
        let entries = [
            "PIDWARD_SUBPROCESS=1".to_string(),
            "PIDWARD_TASK=life".to_string(),
            format!("PIDWARD_NONCE={nonce}"),
            format!("PIDWARD_TREE_{run}={run}"),
        ];
        let of_test = std::env::var(TOKEN).map(|value| format!("{TOKEN}={value}"));
        let entries: Vec<String> = entries.into_iter().chain(of_test).collect();
        let (seven, stay) = (format!("{dir}/seven"), format!("{dir}/stay"));
        let (reader, pipe) = std::io::pipe().expect("a pipe");
        drop(reader);
        let files = Files {
            null: File::open("/dev/null").expect("it is there"),
            seven: File::open(&seven).expect("it is there"),
            terminal: Pty::open().ok().and_then(|pty| {
                let other =
                    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(pty.slave());
                Some((pty, other.ok()?))
            }),
            pipe: OwnedFd::from(pipe).into(),
            port: TcpListener::bind("127.0.0.1:0").ok().and_then(|port| {
                let address = port.local_addr().ok()?;
                Some((port, address))
            }),
        };
        let files = Box::leak(Box::new(files));
        let leaves = (leaves != "none").then(|| File::open(leaves).expect("a directory"));
        let own = Pid::new(std::process::id()).expect("a pid");
        let (seven, stay) = (table(&[seven]), table(&[stay]));
        Life { launcher: None, seven, stay, environ: table(&entries), own, nonce, run, files, leaves }
    }

    fn spawn_of(
        &mut self,
        program: Table<'static>,
        with: impl FnOnce(&mut Plan<'_>),
    ) -> Result<Child, SpawnError> {
        let mut plan = Plan::new(Program::Paths(program), program, self.environ);
        with(&mut plan);
        let launcher = match &mut self.launcher {
            Some(launcher) => launcher,
            empty => empty.insert(Launcher::new()?),
        };
        launcher.spawn(&plan, &Slot::new())
    }

    /// A child that exits with 7.
    pub(crate) fn seven(&mut self, with: impl FnOnce(&mut Plan<'_>)) -> Result<Child, SpawnError> {
        self.spawn_of(self.seven, with)
    }

    /// A child that stays.
    pub(crate) fn stay(&mut self, with: impl FnOnce(&mut Plan<'_>)) -> Result<Child, SpawnError> {
        self.spawn_of(self.stay, with)
    }

    /// Whether children can be had at all.
    pub(crate) fn is_fertile(&self) -> bool {
        self.launcher.is_some()
    }

    pub(crate) fn plain(&mut self, say: Say<'_>) {
        let child = match self.seven(|_| {}) {
            Ok(child) => child,
            Err(error) => {
                self.launcher = None;
                return say("spawn", &refusal(error));
            }
        };
        let how = child.mechanism();
        say("spawn", "ok");
        say("cloning", &format!("{:?}", how.cloning));
        say("pidfd", &format!("{:?}", how.pidfd));
        say("parent check", &format!("{:?}", how.parent_check));
        say("closing", &format!("{:?}", how.closing));
        let refused = how.refused;
        for (part, refused) in [
            ("dispositions", refused.dispositions),
            ("own group", refused.group),
            ("death signal", refused.death_signal),
        ] {
            say(part, if refused { "refused" } else { "ok" });
        }
        say("wait", &end_of(&child));
        let Ok(child) = self.stay(|_| {}) else { return say("stop", "no child") };
        self.verify(&child, say);
        let means = signal::group_means();
        say("group means", &format!("{means:?}"));
        stop(&child, means, say);
    }

    fn verify(&self, child: &Child, say: Say<'_>) {
        let host = Host::look();
        let names = Names::DEFAULT;
        // What it shows may lag behind its exec.
        until(|| {
            let seen = host.verify_named(child.pid(), &names, NAME, Cookie::Any);
            !matches!(seen, Err(Verdict::Unknown(Why::NotYetExec)))
        });
        let out = |whose: &str| std::fs::read_link(format!("/proc/{whose}/fd/1")).ok();
        say("standard output", if out(&child.pid().to_string()) == out("self") { "ours" } else { "another" });
        let identity = host.identity(child, Some(self.nonce));
        say("identity", &word(&identity));
        let verdict =
            |answer: Result<_, Verdict>| answer.err().map_or("Same".to_string(), |v| format!("{v:?}"));
        if let Ok(identity) = identity {
            say("inode", if identity.inode.is_some() { "some" } else { "none" });
            let process = host.verify(&identity, &names);
            if let Ok(process) = &process {
                say("signal to led group", &word(&process.signal_group(Signal::CONT)));
            }
            say("verify", &verdict(process.map(drop)));
            let by_nonce = Identity { inode: None, ..identity };
            say("verify by nonce", &verdict(host.verify(&by_nonce, &names).map(drop)));
        }
        let by_name = || host.verify_named(child.pid(), &names, NAME, Cookie::Any).map(drop);
        say("verify by name", &verdict(by_name()));
    }

    /// Leaves a child to a guard, which finds it when this process has ended.
    pub(crate) fn last(&mut self, say: Say<'_>) {
        if !self.is_fertile() {
            return;
        }
        let (grace, limit) = (Duration::from_millis(100), LIMIT);
        let charge = Charge { names: Names::DEFAULT, run: self.run, grace, limit, cgroup: None };
        let child = self.stay(|plan| plan.death_signal = None);
        let (Ok(child), Ok(_guard)) = (&child, Guard::start(&charge)) else {
            return child.iter().for_each(put_away);
        };
        say("left to the guard", &child.pid().to_string());
    }
}

/// SIGTERM to the group; SIGKILL where that does not reach it.
fn stop(child: &Child, means: GroupMeans, say: Say<'_>) {
    let sent = child.signal_group(Signal::TERM, means);
    say("signal to group", &word(&sent));
    if sent.is_err() {
        say("signal", &word(&child.signal(Signal::TERM)));
    }
    say("stop", &end_of(child));
    put_away(child);
}
