//! Recycled numbers, made on demand: a process, a group or a thread that gets the number which somebody else has just given up.
//!
//! Only in a pid namespace of its own ([`in_pid_namespace`](crate::child::Again::in_pid_namespace)), whose root may choose numbers.

use std::{
    cell::{Cell, RefCell},
    ffi::OsStr,
    fs,
    io::{self, Write},
    os::{fd::OwnedFd, linux::fs::MetadataExt},
    path::{Path, PathBuf},
};

pub use crate::fork::{Group, end, reap};
use crate::{
    announce::Board,
    fork::{self, Image},
    os, proc,
};

/// Starts a program under this number, as the leader of a group of its own, with exactly this environ.
///
/// # Errors
/// - `EEXIST`: somebody has the number, as process, thread, group or session.
/// - `EPERM`: not root of the pid namespace.
/// - What exec says.
pub fn exec_as(pid: u32, program: &Path, args: &[&OsStr], environ: &[String]) -> io::Result<u32> {
    fork::exec(Some(pid), Group::Own, &Image::new(program, args, environ))
}

/// A process of this number that has the test's own image and environ and waits for ever.
///
/// # Errors
/// As [`exec_as`].
pub fn paused_as(pid: u32, group: Group) -> io::Result<u32> {
    fork::paused(Some(pid), group)
}

/// A number that nobody has: that of a child that has ended. The kernel gives it to nobody else until it has gone round all others.
pub fn free_pid() -> u32 {
    let pid = fork::paused(None, Group::Same).expect("a child");
    end(pid);
    pid
}

/// Waits until a number can be had. A thread's is free only a moment after its process was reaped, and `/proc` shows it no more by then.
#[track_caller]
pub fn wait_free(pid: u32) {
    proc::eventually("the number is free", || match fork::paused(Some(pid), Group::Same) {
        Ok(made) => {
            end(made);
            true
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EEXIST), "{error}");
            false
        }
    });
}

/// Ends and reaps a child, lets the caller make the next one of its number, and says whether both have the same start tick.
///
/// # Errors
/// Those of `make`.
#[track_caller]
pub fn same_tick<T>(old: u32, make: impl FnOnce(u32) -> io::Result<T>) -> io::Result<(T, bool)> {
    let before = proc::start_time(old).expect("a child not yet reaped");
    end(old);
    let made = make(old)?;
    Ok((made, proc::start_time(old) == Some(before)))
}

/// Lets the kernel give this number to the next process or thread of the namespace.
///
/// # Errors
/// `EPERM`: not root of the pid namespace.
pub fn next_is(pid: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open("/proc/sys/kernel/ns_last_pid")?;
    file.write_all((pid - 1).to_string().as_bytes())
}

/// The inode of its pidfd; since Linux 6.9 that of one process only.
pub fn inode(pid: u32) -> u64 {
    inode_of(os::pidfd(pid).expect("a pidfd"))
}

fn inode_of(pidfd: OwnedFd) -> u64 {
    fs::File::from(pidfd).metadata().expect("its inode").st_ino()
}

/// Somebody who has nothing to do with the test's children: takes down every signal, of each of its threads.
///
/// The fixture `trapall`, a child of the test.
#[derive(Debug)]
pub struct Stranger {
    pid: u32,
    inode: u64,
    ticks: u64,
    threads: Vec<u32>,
    log: PathBuf,
    expected: RefCell<String>,
    fences: Cell<i32>,
}

impl Stranger {
    /// Started under this number as the leader of a group of its own, ready.
    ///
    /// # Errors
    /// As [`exec_as`].
    pub fn take(pid: u32, trapall: &Path, log: PathBuf, environ: &[String]) -> io::Result<Stranger> {
        Stranger::start(Some(pid), Group::Own, trapall, log, environ)
    }

    /// The same with any number, or in another group.
    ///
    /// # Errors
    /// As [`exec_as`]; `EPERM` too where there is no such group in the test's session.
    pub fn start(
        pid: Option<u32>,
        group: Group,
        trapall: &Path,
        log: PathBuf,
        environ: &[String],
    ) -> io::Result<Stranger> {
        let _ = fs::remove_file(&log);
        let made = fork::exec(pid, group, &Image::new(trapall, &[log.as_os_str()], environ))?;
        assert!(pid.is_none_or(|pid| pid == made), "the number that was asked for");
        Ok(Stranger::ready(made, None, log))
    }

    /// Has another number as process, and this one as its second *thread*.
    ///
    /// # Errors
    /// As [`exec_as`]. Fails the test where the thread does not get the number: it is not free.
    pub fn with_thread(tid: u32, trapall: &Path, log: PathBuf, environ: &[String]) -> io::Result<Stranger> {
        let _ = fs::remove_file(&log);
        let number = tid.to_string();
        let image = Image::new(trapall, &[log.as_os_str(), number.as_ref()], environ);
        // The process itself must not be the next to have the number.
        let taken = fork::paused(Some(tid), Group::Same)?;
        let held = fork::Held::start(None, Group::Own, &image);
        end(taken);
        Ok(Stranger::ready(held?.let_go(), Some(tid), log))
    }

    #[track_caller]
    fn ready(pid: u32, thread: Option<u32>, log: PathBuf) -> Stranger {
        let words = thread.map_or_else(|| format!("{pid}"), |tid| format!("{pid} {tid}"));
        let board = Board::at(log.clone());
        proc::eventually("the stranger is ready", || !board.lines().is_empty());
        assert_eq!(board.lines(), [format!("ready {words}")]);
        Stranger {
            pid,
            inode: inode(pid),
            ticks: proc::start_time(pid).expect("its stat line"),
            threads: [pid].into_iter().chain(thread).collect(),
            log,
            expected: RefCell::new(format!("ready {words}\n")),
            fences: Cell::new(0),
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The inode of its pidfd.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Fails unless it runs, is the same process, and got no signal since its start. A signal on its way counts as well.
    #[track_caller]
    pub fn is_untouched(&self) {
        if let Some(fault) = self.fault() {
            panic!("the stranger {}: {fault}", self.pid);
        }
    }

    /// What has been done to it.
    pub fn fault(&self) -> Option<String> {
        let runs = || matches!(proc::state(self.pid), Some('R' | 'S' | 'D'));
        // What was sent is taken by a thread, which writes it down before it answers.
        proc::until(proc::LIMIT, || !runs() || self.nothing_pends());
        let fence = self.fences.get() + 1;
        self.fences.set(fence);
        let mut expected = self.expected.take();
        let mut answers = Vec::new();
        for tid in self.threads.iter().filter(|_| runs()) {
            answers.push(format!("fence {fence} {tid}\n"));
            if let Err(error) = ask(self.pid, *tid, fence) {
                return Some(format!("thread {tid}: {error}"));
            }
        }
        let text = || fs::read_to_string(&self.log).unwrap_or_default();
        proc::until(proc::LIMIT, || !runs() || answers.iter().all(|answer| text().contains(answer)));
        // Threads answer in any order.
        answers.sort_by_key(|answer| text().find(answer));
        expected.extend(answers);
        let (seen, letter) = (text(), proc::state(self.pid));
        let fault = if !runs() {
            Some(format!("in state {letter:?}, after {seen:?}"))
        } else if inode(self.pid) != self.inode || proc::start_time(self.pid) != Some(self.ticks) {
            Some("somebody else by now".to_string())
        } else if seen != expected {
            Some(format!("signals have reached it: {seen:?} is not {expected:?}"))
        } else {
            None
        };
        *self.expected.borrow_mut() = expected;
        fault
    }

    fn nothing_pends(&self) -> bool {
        let none = |set: &str| u64::from_str_radix(set, 16) == Ok(0);
        self.threads.iter().all(|tid| {
            ["SigPnd", "ShdPnd"].iter().all(|name| proc::status(*tid, name).is_some_and(|set| none(&set)))
        })
    }

    /// Ends and reaps it; its number, and that of its thread, is free then unless a group keeps it.
    #[track_caller]
    pub fn end(self) {
        end(self.pid);
        self.threads.iter().filter(|tid| **tid != self.pid).for_each(|tid| wait_free(*tid));
    }
}

/// Asks a thread for a line in the log, by a signal with a value that says so (`rt_tgsigqueueinfo`).
fn ask(pid: u32, tid: u32, fence: i32) -> io::Result<()> {
    assert!(pid > 1 && tid > 1, "one thread of one process");
    // `siginfo_t` of a queued signal on 64-bit machines: signal, errno, code, a gap, sender and user, the value.
    let mut info = [0_i64; 16];
    info[0] = libc::SIGRTMAX().into();
    info[1] = i64::from(libc::SI_QUEUE as u32);
    info[3] = fence.into();
    // SAFETY: reads 128 bytes, and the number is that of a child not yet reaped.
    let ret =
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, libc::SIGRTMAX(), info.as_ptr()) };
    os::check(ret).map(drop)
}

/// A group that has nothing to do with the test's children: a leader whose number is the group's, and one more stranger.
#[derive(Debug)]
pub struct StrangeGroup {
    id: u32,
    leader: Option<Stranger>,
    member: Stranger,
}

impl StrangeGroup {
    /// Started under this number, both ready; logs are made in this directory.
    ///
    /// # Errors
    /// As [`exec_as`].
    pub fn take(id: u32, trapall: &Path, logs: &Path, environ: &[String]) -> io::Result<StrangeGroup> {
        let leader = Stranger::take(id, trapall, logs.join("leader"), environ)?;
        let group = Group::Of(id);
        match Stranger::start(None, group, trapall, logs.join("member"), environ) {
            Ok(member) => Ok(StrangeGroup { id, leader: Some(leader), member }),
            Err(error) => {
                leader.end();
                Err(error)
            }
        }
    }

    /// The number of the group.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Who is in it beside the leader.
    pub fn member(&self) -> &Stranger {
        &self.member
    }

    /// Ends and reaps the leader: now the number is the group's, and no process has it.
    #[track_caller]
    pub fn end_leader(&mut self) {
        self.leader.take().expect("a leader").end();
    }

    /// Fails unless all that is left of it is untouched and still in the group.
    #[track_caller]
    pub fn is_untouched(&self) {
        for stranger in self.leader.iter().chain([&self.member]) {
            stranger.is_untouched();
            assert_eq!(proc::pgid(stranger.pid()), Some(self.id));
        }
    }

    /// Ends and reaps them all.
    #[track_caller]
    pub fn end(self) {
        if let Some(leader) = self.leader {
            leader.end();
        }
        self.member.end();
    }
}
