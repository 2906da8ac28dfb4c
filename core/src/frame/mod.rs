//! Frames on a byte stream: a length of 4 bytes, big-endian, then that many bytes.
//!
//! Neither side allocates or copies a payload. The decoder hands out slices of the caller's own buffer, in whatever pieces
//! the stream arrives; it says the length first, and only after that length passed the cap, so a caller never makes room for
//! a length that a stray `print` made up.
//!
//! A stream that is wrong once stays wrong: nothing in it says where the next frame begins, so there is no way back.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

/// Length of what stands before each payload.
pub const HEADER_LEN: usize = 4;

/// The usual cap of a payload: 16 MiB.
pub const DEFAULT_CAP: u32 = 16 << 20;

/// Why a stream of frames ends otherwise than between two frames, or a frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is above the cap.
    TooLarge {
        /// The length asked for.
        length: u64,
        /// The longest allowed.
        cap: u32,
    },
    /// A text begins where a frame should: every length that begins so is above the cap. Something else
    /// writes to this stream. Nothing was taken: the input still begins with this byte, and what follows can be shown.
    NotAFrame {
        /// The byte that stands where a length should begin.
        first: u8,
    },
    /// The stream ended inside a length.
    CutInHeader {
        /// How many bytes of it arrived: 1, 2 or 3.
        have: usize,
    },
    /// The stream ended inside a payload.
    CutInPayload {
        /// How many bytes of it are missing.
        missing: u32,
    },
}

/// What to send before a payload of `len` bytes.
///
/// # Errors
/// [`FrameError::TooLarge`]: more than `cap`.
pub fn header(len: usize, cap: u32) -> Result<[u8; HEADER_LEN], FrameError> {
    match u32::try_from(len) {
        Ok(length) if length <= cap => Ok(length.to_be_bytes()),
        Ok(_) | Err(_) => Err(FrameError::TooLarge { length: len as u64, cap }),
    }
}

/// A part of a stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame begins; its payload has this many bytes, not above the cap.
    Header(u32),
    /// The next bytes of the payload, at least one.
    Payload(&'a [u8]),
    /// The frame is whole.
    End,
}

/// Takes a stream of frames apart.
#[derive(Clone, Debug)]
pub struct Decoder {
    cap: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header { bytes: [u8; HEADER_LEN], have: usize },
    Payload { left: u32 },
    Broken(FrameError),
}

impl State {
    const BETWEEN: State = State::Header { bytes: [0; HEADER_LEN], have: 0 };
}

impl Decoder {
    /// A decoder at the start of a stream; payloads above `cap` bytes are refused.
    pub const fn new(cap: u32) -> Decoder {
        Decoder { cap, state: State::BETWEEN }
    }

    /// Takes the next piece from the front of `input`. `None`: all of it is used, more is needed. Call it until then: the
    /// end of a frame is a piece that needs no byte.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`], [`FrameError::NotAFrame`]: as soon as they can be told. From then on the same error, and
    /// nothing more is taken from any input.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, FrameError> {
        match self.state {
            State::Broken(error) => Err(error),
            State::Payload { left: 0 } => {
                self.state = State::BETWEEN;
                Ok(Some(Piece::End))
            }
            State::Payload { left } => {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let Some((part, rest)) = input.split_at_checked(take) else { return Ok(None) };
                if part.is_empty() {
                    return Ok(None);
                }
                *input = rest;
                self.state = State::Payload { left: left.saturating_sub(take as u32) };
                Ok(Some(Piece::Payload(part)))
            }
            State::Header { mut bytes, mut have } => {
                for place in bytes.iter_mut().skip(have) {
                    let Some((byte, rest)) = input.split_first() else {
                        self.state = State::Header { bytes, have };
                        return Ok(None);
                    };
                    // Judged by its first byte alone: a stray word of three letters must not wait for a fourth.
                    if have == 0 && u32::from(*byte) << 24 > self.cap && begins_text(*byte) {
                        return self.refuse(FrameError::NotAFrame { first: *byte });
                    }
                    (*place, *input) = (*byte, rest);
                    have = have.saturating_add(1);
                }
                let length = u32::from_be_bytes(bytes);
                if length > self.cap {
                    return self.refuse(FrameError::TooLarge { length: u64::from(length), cap: self.cap });
                }
                self.state = State::Payload { left: length };
                Ok(Some(Piece::Header(length)))
            }
        }
    }

    fn refuse<'a>(&mut self, error: FrameError) -> Result<Option<Piece<'a>>, FrameError> {
        self.state = State::Broken(error);
        Err(error)
    }

    /// Whether the stream may end here. Ask once the stream is closed and [`Decoder::next`] has used all input; asked before,
    /// it tells whether a frame is cut in the middle so far.
    ///
    /// # Errors
    /// [`FrameError::CutInHeader`], [`FrameError::CutInPayload`], or the error that the decoder stopped at.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.state {
            State::Header { bytes: _, have: 0 } | State::Payload { left: 0 } => Ok(()),
            State::Header { bytes: _, have } => Err(FrameError::CutInHeader { have }),
            State::Payload { left } => Err(FrameError::CutInPayload { missing: left }),
            State::Broken(error) => Err(error),
        }
    }
}

/// Whether text, ASCII or UTF-8, can begin like this.
fn begins_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b | b' '..=b'~' | 0xc2..=0xf4)
}
