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
    /// `NSpid:` empty on a kernel without pid namespaces.
    pub ns_pids: NsPids,
    /// `Threads:` It comes after the others: a text that ends before it is cut.
    pub threads: u32,
}

impl Status {
    /// Parses the text. Of a name that comes twice the first line counts.
    ///
    /// # Errors
    /// A line that is wanted is missing, is not ended, or is no number that fits.
    pub fn parse(text: &[u8]) -> Result<Status, Malformed> {
        let field = |name: &[u8]| line(text, name).ok_or(Malformed);
        Ok(Status {
            tgid: number(field(b"Tgid:")?)?,
            pid: number(field(b"Pid:")?)?,
            ns_pids: line(text, b"NSpid:").map_or_else(|| Ok(NsPids::new()), chain)?,
            threads: number(field(b"Threads:")?)?,
        })
    }
}
