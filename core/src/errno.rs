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
    ($($name:ident)*) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "`, see errno(3).")]
              pub const $name: Errno = Errno(errno::$name as u16);)*

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
    E2BIG EACCES EAGAIN EBADF EBUSY ECHILD ECONNRESET EEXIST EFAULT EINTR EINVAL EIO EISDIR ELOOP EMFILE
    ENAMETOOLONG ENFILE ENODEV ENOENT ENOEXEC ENOMEM ENOSPC ENOSYS ENOTCONN ENOTDIR ENOTTY ENXIO EOPNOTSUPP
    EPERM EPIPE ERANGE EROFS ESRCH ESTALE ETIMEDOUT ETXTBSY EUSERS EXDEV
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
    #[cfg(pidward_linux)]
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

#[cfg(pidward_linux)]
impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Errno {
        // rustix returns what the kernel returned; a number outside the range would be its defect, and
        // EINVAL is then as good an answer as any.
        Errno::from_raw(e.raw_os_error()).unwrap_or(Errno::EINVAL)
    }
}
