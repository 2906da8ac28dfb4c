//! 128-bit identifiers: boot id, run id, installation id, nonce.
#![forbid(unsafe_code)]

use core::fmt::{self, Write};

use heapless::String;
#[cfg(pidward_linux)]
use rustix::{
    io,
    rand::{GetRandomFlags, getrandom},
};

#[cfg(pidward_linux)]
use crate::Errno;

/// A 128-bit value, shown as 32 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id128(u128);

impl Id128 {
    /// The value of these bytes, the first being the highest.
    pub const fn from_bytes(bytes: [u8; 16]) -> Id128 {
        Id128(u128::from_be_bytes(bytes))
    }

    /// The bytes, the highest first.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Parses what is shown: exactly 32 lower-case hex digits; `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<Id128> {
        Id128::of_digits(text.iter())
    }

    /// Exactly 32 lower-case hex digits.
    pub(crate) fn of_digits<'a>(digits: impl Iterator<Item = &'a u8>) -> Option<Id128> {
        let (mut value, mut count) = (0u128, 0u32);
        for &digit in digits.take(33) {
            let nibble = match digit {
                b'0'..=b'9' => digit.wrapping_sub(b'0'),
                b'a'..=b'f' => digit.wrapping_sub(b'a').wrapping_add(10),
                _ => return None,
            };
            value = value.wrapping_shl(4) | u128::from(nibble);
            count = count.saturating_add(1);
        }
        (count == 32).then_some(Id128(value))
    }

    /// A new random value: getrandom(2), which blocks early in a boot until the kernel has gathered enough.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM`: refused here. Nothing weaker is used in its place.
    #[cfg(pidward_linux)]
    pub fn random() -> Result<Id128, Errno> {
        let mut bytes = [0; 16];
        // Ends with an answer: only an interrupted call is made again.
        loop {
            match getrandom(&mut bytes, GetRandomFlags::empty()) {
                // So few bytes always come whole.
                Ok(16) => return Ok(Id128::from_bytes(bytes)),
                Ok(_) => return Err(Errno::EIO),
                Err(io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl fmt::Display for Id128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Id128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 16 lower-case hex digits.
pub(crate) fn hex64(number: u64) -> String<16> {
    let mut text = String::new();
    // Always fits.
    let _ = write!(text, "{number:016x}");
    text
}
