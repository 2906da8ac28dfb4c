//! `/proc/<pid>/status`, proc_pid_status(5).
#![forbid(unsafe_code)]

use heapless::Vec;

use super::{Malformed, chain, line, number};

/// Most numbers that a process can have: one in each nested pid namespace (`MAX_PID_NS_LEVEL` in `kernel/pid_namespace.c`,
/// and the first).
pub const MAX_NAMESPACES: usize = 33;

/// The numbers of one process, from the namespace of the reading `/proc` inwards. 0 or below: none to be seen.
pub type NsPids = Vec<i32, MAX_NAMESPACES>;

/// The lines that this crate judges by.
///
/// The name of the process, which comes first, cannot fake one: the kernel writes a newline in it as two characters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// `Tgid:` the process. It differs from `pid` where the number is a thread's.
    pub tgid: u32,
    /// `Pid:`
    pub pid: u32,
    /// `PPid:` 0 where the parent is in another pid namespace.
    pub ppid: u32,
    /// `Uid:` real.
    pub uid: u32,
    /// `Uid:` effective.
    pub euid: u32,
    /// `NSpid:` empty on a kernel without pid namespaces.
    pub ns_pids: NsPids,
    /// `Threads:`
    pub threads: u32,
    /// `SigBlk:` of the first thread; bit `n - 1` stands for signal `n`.
    pub blocked: u64,
    /// `SigIgn:`
    pub ignored: u64,
    /// `SigCgt:` signals that have a handler.
    pub caught: u64,
    /// `NoNewPrivs:` since Linux 4.10.
    pub no_new_privs: bool,
}

impl Status {
    /// Parses the text. Of a name that comes twice the first line counts.
    ///
    /// # Errors
    /// A line that is wanted is missing, is not ended, or is no number that fits.
    pub fn parse(text: &[u8]) -> Result<Status, Malformed> {
        let field = |name: &[u8]| line(text, name).ok_or(Malformed);
        let mask = |name: &[u8]| {
            let digits = core::str::from_utf8(field(name)?).map_err(|_| Malformed)?;
            let plain = !digits.starts_with('+');
            u64::from_str_radix(digits, 16).ok().filter(|_| plain).ok_or(Malformed)
        };
        let uids = field(b"Uid:")?;
        let mut uids = uids.split(|&b| b == b'\t').map(number);
        let mut uid = || uids.next().unwrap_or(Err(Malformed));
        Ok(Status {
            tgid: number(field(b"Tgid:")?)?,
            pid: number(field(b"Pid:")?)?,
            ppid: number(field(b"PPid:")?)?,
            uid: uid()?,
            euid: uid()?,
            threads: number(field(b"Threads:")?)?,
            ns_pids: line(text, b"NSpid:").map_or_else(|| Ok(NsPids::new()), chain)?,
            blocked: mask(b"SigBlk:")?,
            ignored: mask(b"SigIgn:")?,
            caught: mask(b"SigCgt:")?,
            no_new_privs: match field(b"NoNewPrivs:")? {
                b"0" => false,
                b"1" => true,
                _ => return Err(Malformed),
            },
        })
    }
}
