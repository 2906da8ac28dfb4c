//! Error numbers of the kernel, as values.
//!
//! Numbers only: words are made by whoever shows an error to a person.
#![forbid(unsafe_code)]

use core::fmt;

use linux_raw_sys::errno;

/// A kernel error number, `1..=4095` (`include/uapi/asm-generic/errno.h`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(u16);

macro_rules! errnos {
    ($($name:ident: $what:literal;)*) => {
        impl Errno {
            $(#[doc = $what] pub const $name: Errno = Errno(errno::$name as u16);)*

            /// The name that `errno.h` gives the number, where this crate acts on it or a spawn can
            /// commonly show it.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    E2BIG: "Argument list or one string of it too long; also: unknown fields in an extensible struct.";
    EACCES: "Permission denied.";
    EAGAIN: "A limit on processes is reached, or nothing is ready yet.";
    EBADF: "Not an open descriptor.";
    EBUSY: "Still in use.";
    ECHILD: "No such child, or its status was taken by somebody else.";
    ECONNRESET: "The other end closed with bytes unread.";
    EEXIST: "Exists already.";
    EFAULT: "Bad address.";
    EINTR: "Interrupted by a signal.";
    EINVAL: "Invalid argument; often: this kernel does not know a flag.";
    EIO: "Input or output error.";
    EISDIR: "Is a directory.";
    ELOOP: "Too many symbolic links.";
    EMFILE: "The process has no descriptor left.";
    ENAMETOOLONG: "A path or one part of it is too long.";
    ENFILE: "The system has no open file left.";
    ENODEV: "No such device, or the operation is not supported by it.";
    ENOENT: "No such file or directory.";
    ENOEXEC: "Not a program format this kernel runs.";
    ENOMEM: "Out of memory.";
    ENOSPC: "No space left.";
    ENOSYS: "No such system call here: an older kernel or a filter.";
    ENOTCONN: "Not connected.";
    ENOTDIR: "A part of the path is not a directory.";
    ENOTTY: "Not a terminal, or the request is unknown here.";
    ENXIO: "No such device or address.";
    EOPNOTSUPP: "Operation not supported.";
    EPERM: "Operation not permitted.";
    EPIPE: "Nobody reads the other end.";
    ERANGE: "Result does not fit.";
    EROFS: "Read-only file system.";
    ESRCH: "No such process.";
    ESTALE: "Stale file of a network file system.";
    ETIMEDOUT: "Timed out.";
    ETXTBSY: "The program file is open for writing.";
    EUSERS: "Too many users or nested namespaces.";
    EXDEV: "On another device.";
}

impl Errno {
    /// The number as a value; `None` outside `1..=4095`, which no system call returns.
    pub const fn from_raw(raw: i32) -> Option<Errno> {
        if raw >= 1 && raw <= 4095 { Some(Errno(raw as u16)) } else { None }
    }

    /// The number.
    pub const fn raw(self) -> i32 {
        self.0 as i32
    }

    /// The error of a system call's return value; `None` when the value is a result.
    #[inline(always)]
    pub(crate) const fn of_return(ret: isize) -> Option<Errno> {
        if ret < 0 && ret >= -4095 { Some(Errno(ret.wrapping_neg() as u16)) } else { None }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Errno {
        // rustix returns what the kernel returned; a number outside the range would be its defect, and
        // EINVAL is then as good an answer as any.
        Errno::from_raw(e.raw_os_error()).unwrap_or(Errno::EINVAL)
    }
}
