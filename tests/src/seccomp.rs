//! System calls refused on purpose: older kernels, and the sandboxes of others, made by a filter.
//!
//! Only in a process of its own (`in_child!`): a filter cannot be taken off, and every child inherits it. The
//! filter of a process that has another instruction set than this one ends it.

use std::{
    fs::File,
    os::fd::{AsRawFd, RawFd},
};

use crate::{child, os};

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;
#[cfg(target_arch = "riscv64")]
const ARCH: u32 = 0xC000_00F3;

// Offsets in `struct seccomp_data` (uapi/linux/seccomp.h); the low half of an argument comes first.
const NR_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGS_AT: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn line(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// What is answered in place of some calls; the first rule that fits counts, all other calls pass.
#[derive(Debug, Clone)]
pub struct Filter {
    rules: Vec<Rule>,
    /// What no rule fits.
    otherwise: u32,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    nr: u32,
    /// Argument number, mask, value.
    only: Option<(u32, u64, u64)>,
    answer: u32,
}

impl Filter {
    /// Lets everything pass.
    #[expect(clippy::new_without_default, reason = "nobody is to overlook that it lets everything pass")]
    pub fn new() -> Filter {
        Filter { rules: Vec::new(), otherwise: libc::SECCOMP_RET_ALLOW }
    }

    fn rule(mut self, nr: libc::c_long, only: Option<(u32, u64, u64)>, answer: u32) -> Filter {
        let nr = nr.try_into().expect("the number of a system call");
        self.rules.push(Rule { nr, only, answer });
        self
    }

    /// This call (`libc::SYS_…`) fails with this errno.
    #[must_use]
    pub fn errno(self, nr: libc::c_long, errno: i32) -> Filter {
        self.rule(nr, None, answer(errno))
    }

    /// The same, only where `argument & mask == value`. Arguments count from 0; what stands in memory, as the flags of
    /// `clone3`, cannot be seen.
    #[must_use]
    pub fn errno_if(self, nr: libc::c_long, argument: u32, mask: u64, value: u64, errno: i32) -> Filter {
        assert!(argument < 6, "a system call has six arguments");
        self.rule(nr, Some((argument, mask, value)), answer(errno))
    }

    /// This call, where its argument fits, passes whatever later rules say.
    #[must_use]
    pub fn allow_if(self, nr: libc::c_long, argument: u32, mask: u64, value: u64) -> Filter {
        assert!(argument < 6, "a system call has six arguments");
        self.rule(nr, Some((argument, mask, value)), libc::SECCOMP_RET_ALLOW)
    }

    /// This call raises SIGSYS.
    #[must_use]
    pub fn trap(self, nr: libc::c_long) -> Filter {
        self.rule(nr, None, libc::SECCOMP_RET_TRAP)
    }

    /// This call ends the process as an uncaught SIGSYS would.
    #[must_use]
    pub fn kill(self, nr: libc::c_long) -> Filter {
        self.rule(nr, None, libc::SECCOMP_RET_KILL_PROCESS)
    }

    /// Every call of this process, and of whoever it starts, waits for what the holder of a listener decides, from when this is back:
    /// [`Notices`](crate::notices::Notices). `tell` gets the descriptor that the listener will be, while all is as it was.
    #[track_caller]
    pub fn note_all(tell: impl FnOnce(RawFd)) {
        let free = File::open("/dev/null").expect("a descriptor").as_raw_fd();
        tell(free);
        let filter = Filter { rules: Vec::new(), otherwise: libc::SECCOMP_RET_USER_NOTIF };
        assert_eq!(
            filter.set(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER),
            libc::c_long::from(free),
            "the listener"
        );
    }

    fn program(&self) -> Vec<libc::sock_filter> {
        let mut list = vec![
            line(LOAD, 0, 0, ARCH_AT),
            line(IF_EQUAL, 1, 0, ARCH),
            line(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        ];
        for rule in &self.rules {
            let mut body = Vec::new();
            if let Some((argument, mask, value)) = rule.only {
                let at = ARGS_AT + 8 * argument;
                for (half, skip) in [(0_u32, 4), (1, 1)] {
                    let part = |n: u64| (n >> (32 * half)) as u32;
                    body.push(line(LOAD, 0, 0, at + 4 * half));
                    body.push(line(AND, 0, 0, part(mask)));
                    // Past the rest of this rule.
                    body.push(line(IF_EQUAL, 0, skip, part(value)));
                }
            }
            body.push(line(RETURN, 0, 0, rule.answer));
            list.push(line(LOAD, 0, 0, NR_AT));
            list.push(line(IF_EQUAL, 0, body.len() as u8, rule.nr));
            list.extend(body);
        }
        list.push(line(RETURN, 0, 0, self.otherwise));
        list
    }

    /// Puts the filter on every thread of this process, for good, after `no_new_privs`.
    ///
    /// Panics in a test runner, which would lose the calls for all its tests, and where the kernel has no filters.
    #[track_caller]
    pub fn install(&self) {
        assert_eq!(self.set(libc::SECCOMP_FILTER_FLAG_TSYNC), 0, "a thread has another filter");
    }

    #[track_caller]
    fn set(&self, flags: libc::c_ulong) -> libc::c_long {
        assert!(child::is_any(), "a filter in the test runner itself: use in_child!");
        // SAFETY: takes numbers only.
        let ret = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(ret, 0, "no_new_privs");
        let mut list = self.program();
        let program = libc::sock_fprog { len: list.len() as u16, filter: list.as_mut_ptr() };
        // SAFETY: the kernel copies the program, which stands until the call is back.
        let ret = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
        };
        os::check(ret).expect("a system call filter")
    }
}

fn answer(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA)
}
