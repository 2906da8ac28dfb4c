//! What a process has to tell while it may not even write: lines in a file in memory that it has mapped.

use std::{
    fs::File,
    io::{self, Read, Seek},
    os::fd::{AsRawFd, BorrowedFd},
};

use crate::os;

/// The size of such a file: more than any story.
const SIZE: usize = 1 << 16;

/// An empty file for one story.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub fn file() -> io::Result<File> {
    let file = os::memory_file("story")?;
    file.set_len(SIZE as u64)?;
    Ok(file)
}

/// The lines that were told so far.
///
/// # Errors
/// As reading a file.
pub fn lines(mut file: &File) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    bytes.retain(|byte| *byte != 0);
    Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect())
}

/// Where a process tells.
#[derive(Debug)]
pub struct Story {
    place: *mut u8,
    used: usize,
}

impl Story {
    /// Maps the file that is open as this descriptor.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Story> {
        let (access, shared, fd) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd.as_raw_fd());
        // SAFETY: a new map, at an address of the kernel's choice.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, access, shared, fd, 0) };
        if place == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Story { place: place.cast(), used: 0 })
        }
    }

    /// One more line, without a system call. What has no room is lost.
    pub fn say(&mut self, line: &str) {
        for byte in line.bytes().chain([b'\n']).take(SIZE - self.used) {
            // SAFETY: inside the map.
            let place = unsafe { self.place.add(self.used) };
            // SAFETY: the map stays for good, and this process alone writes to it.
            unsafe { place.write_volatile(byte) };
            self.used += 1;
        }
    }
}
