//! `/proc/<pid>/stat`, proc_pid_stat(5).
#![forbid(unsafe_code)]

use super::{Malformed, number};

/// The state letter of a thread, as proc_pid_stat(5) lists them; older and newer kernels have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u8);

impl State {
    /// `Z`: ended, its status not taken.
    pub const ZOMBIE: State = State(b'Z');
    /// `X`: being removed; `x` before Linux 4.14.
    pub const DEAD: State = State(b'X');

    /// The letter.
    pub const fn letter(self) -> u8 {
        self.0
    }
}

/// The fields that this crate judges by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Field 1.
    pub pid: u32,
    /// Field 3: of the thread with that number, which is not the whole process.
    pub state: State,
    /// Field 4; 0 where the parent is in another pid namespace.
    pub ppid: u32,
    /// Field 5.
    pub pgrp: i32,
    /// Field 6.
    pub session: i32,
    /// Field 9: `PF_` bits of the kernel.
    pub flags: u32,
    /// Field 20: threads that are not removed yet, the first included; 0 once what was opened is removed.
    pub threads: u32,
    /// Field 22: ticks since boot at which it was made.
    pub start_ticks: u64,
    /// Field 50: where its environ begins; 0 while it is in exec, where it has no memory, and where it may not be looked at.
    pub env_start: u64,
}

/// `PF_KTHREAD` of `include/linux/sched.h`; field 9 has shown it since Linux 2.6.
const KERNEL_THREAD: u32 = 0x0020_0000;
/// `PF_FORKNOEXEC`, likewise.
const FORKED_NO_EXEC: u32 = 0x40;

impl Stat {
    /// Parses the line. The name in the second field may hold anything, blanks, newlines and `)` too, so fields are counted after
    /// the *last* `)`.
    ///
    /// # Errors
    /// A field that is wanted is missing, is followed by nothing (it may be cut), or is no number that fits.
    pub fn parse(line: &[u8]) -> Result<Stat, Malformed> {
        let open = line.iter().position(|&b| b == b'(').ok_or(Malformed)?;
        let close = line.iter().rposition(|&b| b == b')').ok_or(Malformed)?;
        let pid = line.get(..open).and_then(|head| head.strip_suffix(b" ")).ok_or(Malformed)?;
        let rest = line.get(close.saturating_add(1)..).and_then(|rest| rest.strip_prefix(b" "));
        // What follows the last blank or newline may be cut.
        let whole = rest.and_then(|rest| {
            rest.iter().rposition(|b| matches!(b, b' ' | b'\n')).and_then(|end| rest.get(..end))
        });
        let mut fields = whole.ok_or(Malformed)?.split(|&b| b == b' ');
        // `field` counts from the one after the name, which is number 3.
        let mut field = |number: usize| fields.nth(number).ok_or(Malformed);
        let [letter] = *field(0)? else { return Err(Malformed) };
        Ok(Stat {
            pid: number(pid)?,
            state: State(if letter == b'x' { b'X' } else { letter }),
            ppid: number(field(0)?)?,
            pgrp: number(field(0)?)?,
            session: number(field(0)?)?,
            flags: number(field(2)?)?,
            threads: number(field(10)?)?,
            start_ticks: number(field(1)?)?,
            env_start: number(field(27)?)?,
        })
    }

    /// Whether the whole process has ended: its first thread is a zombie or going, and it is the only one left.
    ///
    /// A first thread can end before the others; it then stays, as a zombie, and is counted. No thread at all is no proof: another
    /// thread has the process where it called exec.
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, State::ZOMBIE | State::DEAD) && self.threads == 1
    }

    /// Whether it has called exec since it was made. Until then its memory, and with it its environ, is its parent's or a copy.
    pub const fn has_execed(&self) -> bool {
        self.flags & FORKED_NO_EXEC == 0
    }

    /// Whether it has a place for an environ, be it an empty one: not so while it is in exec.
    pub const fn has_environ(&self) -> bool {
        self.env_start != 0
    }

    /// Whether it is a thread of the kernel.
    pub const fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }
}
