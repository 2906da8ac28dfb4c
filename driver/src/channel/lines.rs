//! Standard error of a child, line by line.

use super::{
    event::Event,
    hub::{Hub, Work},
    slot::{Got, Slot, queued, read},
};

impl Slot {
    /// One read of standard error.
    pub(super) fn read_stderr(&mut self, hub: &Hub, work: &mut Work) {
        let Some((fd, part)) = &mut self.stderr else { return };
        match read(fd, &mut work.chunk) {
            Got::Bytes(n) => self.lines(work, n),
            Got::Nothing => {}
            Got::End => {
                hub.forget(fd);
                let rest = std::mem::take(part);
                self.stderr = None;
                self.last_line(work, rest);
            }
        }
    }

    fn last_line(&self, work: &mut Work, rest: Vec<u8>) {
        if !rest.is_empty() {
            work.pending.push_back((self.node, Event::Stderr(rest)));
        }
    }

    /// The first `n` bytes of the chunk are of standard error.
    fn lines(&mut self, work: &mut Work, n: usize) {
        let Some((_, part)) = &mut self.stderr else { return };
        let cap = self.limits.stderr_line.max(1);
        for line in work.chunk[..n].split_inclusive(|byte| *byte == b'\n') {
            let (line, is_whole) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
            let mut rest = line;
            // Ends with the line; each turn gives a piece as long as the cap.
            while part.len() + rest.len() > cap {
                let (more, after) = rest.split_at(cap - part.len());
                part.extend_from_slice(more);
                rest = after;
                work.pending.push_back((self.node, Event::Stderr(std::mem::take(part))));
            }
            part.extend_from_slice(rest);
            if is_whole {
                work.pending.push_back((self.node, Event::Stderr(std::mem::take(part))));
            }
        }
    }

    /// The child has ended: what is there of its standard error, and no more.
    pub(super) fn drain_stderr(&mut self, hub: &Hub, work: &mut Work) {
        let mut left = self.stderr.as_ref().map_or(0, |(fd, _)| queued(fd));
        // Ends when so much was read.
        while let Some((fd, _)) = self.stderr.as_ref().filter(|_| left > 0) {
            let most = left.min(work.chunk.len());
            let Got::Bytes(n) = read(fd, &mut work.chunk[..most]) else { break };
            left -= n;
            self.lines(work, n);
        }
        if let Some((fd, rest)) = self.stderr.take() {
            hub.forget(&fd);
            self.last_line(work, rest);
        }
    }
}
