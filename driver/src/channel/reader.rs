//! From the bytes of a stream to its frames or lines. Nothing here reads; memory is taken for what has come, not for what a length promises.

use std::mem;

use pidward_core::frame::{Decoder, FrameError, HEADER_LEN, Piece};

use super::event::{ProtocolError, ProtocolErrorKind};

#[cfg(test)]
mod tests;

/// What a frame gets at its beginning, if it is that long.
const FIRST: usize = 64 << 10;

/// How frames are told apart.
#[derive(Debug)]
enum Codec {
    Frames(Decoder),
    Lines,
}

/// Puts the frames of one stream together.
#[derive(Debug)]
pub(crate) struct Reader {
    codec: Codec,
    cap: u32,
    /// Of the frame that is under way.
    length: usize,
    part: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(lines: bool, cap: u32) -> Reader {
        let codec = if lines { Codec::Lines } else { Codec::Frames(Decoder::new(cap)) };
        Reader { codec, cap, length: 0, part: Vec::new() }
    }

    /// Takes all of `input`, and gives each frame that it completes.
    ///
    /// # Errors
    /// It is no such stream. Nothing more can be taken.
    pub(crate) fn feed(&mut self, input: &[u8], mut give: impl FnMut(Vec<u8>)) -> Result<(), ProtocolError> {
        let Codec::Frames(decoder) = &mut self.codec else { return self.feed_lines(input, give) };
        let mut rest = input;
        // Ends when all is taken: every piece but the end of a frame takes a byte.
        loop {
            match decoder.next(&mut rest) {
                Ok(None) => return Ok(()),
                Ok(Some(Piece::Header(length))) => {
                    self.length = usize::try_from(length).unwrap_or(usize::MAX);
                    self.part = Vec::with_capacity(self.length.min(FIRST));
                }
                Ok(Some(Piece::Payload(bytes))) => {
                    let (have, more) = (self.part.len(), bytes.len());
                    if self.part.capacity() - have < more {
                        // Twice as much as there is, but not more than the whole.
                        let missing = self.length.saturating_sub(have);
                        self.part.reserve_exact(more.max(have).min(missing));
                    }
                    self.part.extend_from_slice(bytes);
                }
                Ok(Some(Piece::End)) => give(mem::take(&mut self.part)),
                Err(error) => return Err(ProtocolError::of(error, rest)),
            }
        }
    }

    fn feed_lines(&mut self, input: &[u8], mut give: impl FnMut(Vec<u8>)) -> Result<(), ProtocolError> {
        let mut rest = input;
        // Ends with the last newline.
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(at);
            self.append(line)?;
            give(mem::take(&mut self.part));
            rest = after.get(1..).unwrap_or_default();
        }
        self.append(rest)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let length = self.part.len().saturating_add(bytes.len()) as u64;
        if length > u64::from(self.cap) {
            let kind = ProtocolErrorKind::TooLarge { length, cap: self.cap };
            return Err(ProtocolError::new(kind, &self.part, bytes));
        }
        self.part.extend_from_slice(bytes);
        Ok(())
    }

    /// Whether the stream may end here.
    ///
    /// # Errors
    /// It is inside a frame.
    pub(super) fn finish(&self) -> Result<(), ProtocolError> {
        let cut = || ProtocolError::new(ProtocolErrorKind::Cut, &[], &[]);
        match &self.codec {
            Codec::Frames(decoder) => decoder.finish().map_err(|_| cut()),
            Codec::Lines if self.part.is_empty() => Ok(()),
            Codec::Lines => Err(cut()),
        }
    }

    /// How many bytes may be read without reading into the frame after the one that is under way. Of a line it cannot be known; see
    /// [`of_this`](Self::of_this).
    pub(super) fn missing(&self) -> usize {
        let Codec::Frames(decoder) = &self.codec else { return usize::MAX };
        match decoder.finish() {
            Err(FrameError::CutInHeader { have }) => HEADER_LEN.saturating_sub(have),
            Err(FrameError::CutInPayload { missing }) => usize::try_from(missing).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// What of `input` belongs to the frame that is under way, or is at least not known to belong to another.
    pub(super) fn of_this<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        match &self.codec {
            Codec::Frames(_) => input,
            Codec::Lines => input.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default(),
        }
    }
}
