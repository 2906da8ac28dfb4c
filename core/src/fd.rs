//! An open descriptor that is closed by a system call and nothing else, as a guard needs it: the standard library's closes through the C
//! library, which reads thread-local storage.
#![forbid(unsafe_code)]

use core::{ffi::CStr, mem::ManuallyDrop};

use linux_raw_sys::general::O_CLOEXEC;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::{Errno, sys};

#[derive(Debug)]
pub(crate) struct Fd(ManuallyDrop<OwnedFd>);

impl Fd {
    /// Opens a file from an open directory on.
    pub(crate) fn open_at(dir: RawFd, path: &CStr, flags: u32) -> Result<Fd, Errno> {
        sys::open_at(dir, path, flags | O_CLOEXEC).map(Fd::from)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Fd {
        Fd(ManuallyDrop::new(fd))
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let _ = sys::close(self.raw());
    }
}
