//! Signal numbers, real-time signals included.
//!
//! rustix's `Signal` cannot hold real-time signals safely, and an init has to forward `SIGRTMIN+3`.
#![forbid(unsafe_code)]

use core::{fmt, num::NonZeroU8};

use linux_raw_sys::general as raw;

/// A signal number, `1..=64`. "No signal" (0) is not one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(NonZeroU8);

/// The first real-time signal as programs count them: the C library keeps 32 and 33 for itself.
const RTMIN: u8 = 34;

macro_rules! signals {
    ($($short:ident = $name:ident;)*) => {
        impl Signal {
            $(#[doc = concat!("`", stringify!($name), "`, see signal(7).")]
              pub const $short: Signal = Signal::known(raw::$name);)*

            /// The name that signal(7) gives the number; `None` for real-time signals.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Signal::$short => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

signals! {
    HUP = SIGHUP; INT = SIGINT; QUIT = SIGQUIT; ILL = SIGILL; TRAP = SIGTRAP; ABRT = SIGABRT; BUS = SIGBUS;
    FPE = SIGFPE; KILL = SIGKILL; USR1 = SIGUSR1; SEGV = SIGSEGV; USR2 = SIGUSR2; PIPE = SIGPIPE;
    ALRM = SIGALRM; TERM = SIGTERM; STKFLT = SIGSTKFLT; CHLD = SIGCHLD; CONT = SIGCONT; STOP = SIGSTOP;
    TSTP = SIGTSTP; TTIN = SIGTTIN; TTOU = SIGTTOU; URG = SIGURG; XCPU = SIGXCPU; XFSZ = SIGXFSZ;
    VTALRM = SIGVTALRM; PROF = SIGPROF; WINCH = SIGWINCH; IO = SIGIO; PWR = SIGPWR; SYS = SIGSYS;
}

impl Signal {
    /// The highest number the kernel has on the architectures this crate knows (`_NSIG`).
    pub const LAST: i32 = 64;

    /// The number as a value; `None` outside `1..=64`.
    pub const fn new(number: i32) -> Option<Signal> {
        if number < 1 || number > Signal::LAST {
            return None;
        }
        match NonZeroU8::new(number as u8) {
            Some(n) => Some(Signal(n)),
            None => None,
        }
    }

    const fn known(number: u32) -> Signal {
        match Signal::new(number as i32) {
            Some(s) => s,
            // Not reached: every constant of the header is in range, and this runs at compile time only.
            None => Signal(NonZeroU8::MIN),
        }
    }

    /// The number.
    pub const fn raw(self) -> i32 {
        self.0.get() as i32
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.0.get().checked_sub(RTMIN)) {
            (Some(name), _) => f.write_str(name),
            (None, Some(0)) => f.write_str("SIGRTMIN"),
            (None, Some(n)) => write!(f, "SIGRTMIN+{n}"),
            (None, None) => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
