//! The record that a supervisor keeps of one child, as text: a small file that a person can read.
//!
//! One `key=value` a line, in one order, ASCII, at most [`RECORD_MAX`] bytes. Numbers are decimal, ids 32 lower-case hex digits, `-`
//! stands for what is absent or not known. In `name` and `leaf` a backslash and every byte outside `0x20..=0x7e` is `\xNN`, so any
//! bytes come back. The last line is the sum of all before it: 16 hex digits of FNV-1a (64 bit), against torn writes and
//! typing errors, not against anybody who means it.
//!
//! What is taken is written as the same bytes again; what is written is taken and comes back, if it keeps to the rules of its fields. A
//! record that is cut anywhere, or has one byte changed, is an error and never another record. Nothing is guessed, and nothing of
//! a later version is read.
//!
//! This makes no system call: it opens and removes no file. And what it gives is an allegation: it says who the child was, not that the
//! number is still the child's ([`identity`](crate::identity)).
//!
//! ```
//! use pidward_core::record::{Record, RecordError, State};
//!
//! let text = r"v=1
//! state=running
//! kind=mcp
//! name=caf\xc3\xa9
//! pid=4711
//! pgid=4711
//! ticks=123456
//! inode=-
//! boot=1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b
//! ns=4026531836
//! nonce=fefefefefefefefefefefefefefefefe
//! cookie=0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a=0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b
//! leaf=/sys/fs/cgroup/pidward/1
//! status=-
//! sum=327980ebfa1846fa
//! ";
//! let record = Record::parse(text.as_bytes()).unwrap();
//! assert_eq!((record.state, record.name.as_str()), (State::Running, "café"));
//! assert_eq!(record.to_string(), text);
//! assert_eq!(Record::parse(&text.as_bytes()[..99]), Err(RecordError::Torn));
//! ```
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use core::fmt::{self, Write};

use heapless::{String, Vec};

use crate::{
    Id128, Pid,
    id::hex64,
    identity::Identity,
    marker::{ChildKind, Run},
    name::{self, MAX_NAME},
    procfs,
    text::{Known, Summed, fnv1a, known, number},
};

/// Most bytes of a record's text. Every field at its longest makes 4943.
pub const RECORD_MAX: usize = 5 << 10;

/// Most bytes of a leaf's path.
pub const LEAF_MAX: usize = 1024;

const HEAD: &[u8] = b"v=";
const SUM: &[u8] = b"sum=";

/// Why a text is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordError {
    /// No byte, or none but NUL: what a crash of the system leaves of a file that was made but not written out yet.
    Empty,
    /// More than [`RECORD_MAX`] bytes.
    TooLong,
    /// It is cut, or a byte of it was changed.
    Torn,
    /// Its first line says a later version than 1. Nothing else of it is looked at, not even how long it is.
    Newer,
    /// Something else: another file, or a whole record that breaks a rule.
    Malformed,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Empty => f.write_str("is empty or holds NUL bytes alone"),
            RecordError::TooLong => write!(f, "has more than {RECORD_MAX} bytes"),
            RecordError::Torn => f.write_str("is cut, or was changed after it was written"),
            RecordError::Newer => f.write_str("was written by a later version"),
            RecordError::Malformed => f.write_str("is no record of a child"),
        }
    }
}

impl core::error::Error for RecordError {}

/// How far the child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It is about to be started, or was being started when its supervisor ended: nobody knows its number.
    Intent,
    /// It was started.
    Running,
    /// It was started, and is to end.
    Stopping,
    /// It has ended.
    Ended,
}

impl State {
    const ALL: [State; 4] = [State::Intent, State::Running, State::Stopping, State::Ended];

    /// As the record has it.
    pub const fn word(self) -> &'static str {
        match self {
            State::Intent => "intent",
            State::Running => "running",
            State::Stopping => "stopping",
            State::Ended => "ended",
        }
    }
}

const KINDS: [ChildKind; 4] = [ChildKind::Agent, ChildKind::Mcp, ChildKind::Api, ChildKind::Task];

const fn kind_word(kind: ChildKind) -> &'static str {
    match kind {
        ChildKind::Agent => "agent",
        ChildKind::Mcp => "mcp",
        ChildKind::Api => "api",
        ChildKind::Task => "task",
    }
}

/// What is known of a child once it was started; each as in [`Identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Born {
    /// Its number.
    pub pid: Pid,
    /// Clock ticks since boot at which it was made.
    pub start_ticks: u64,
    /// Inode of its pidfd.
    pub inode: Option<u64>,
    /// The group that it was started as the leader of.
    pub pgid: Option<Pid>,
}

/// What is kept of one child. One that breaks a rule of a field has a text too, but it never comes back from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// How far it is.
    pub state: State,
    /// What it is to its supervisor.
    pub kind: ChildKind,
    /// Its name; keeps to [`name::check`].
    pub name: String<MAX_NAME>,
    /// The nonce of its spawn.
    pub nonce: Id128,
    /// The run whose entry it carries; `None`: it carries none, and may live on after its supervisor.
    pub cookie: Option<Run>,
    /// The boot in which it is started.
    pub boot: Id128,
    /// Inode of the pid namespace in which its number counts.
    pub pid_ns: u64,
    /// `None` in [`State::Intent`], and only there.
    pub born: Option<Born>,
    /// Path of its cgroup leaf: begins with `/` and holds no NUL.
    pub leaf: Option<Vec<u8, LEAF_MAX>>,
    /// Its wait status, raw; `None` before [`State::Ended`], and where it was lost.
    pub status: Option<i32>,
}

impl Record {
    /// Parses a whole record, with its last newline.
    ///
    /// # Errors
    /// [`RecordError`]; nothing is guessed.
    pub fn parse(text: &[u8]) -> Result<Record, RecordError> {
        if text.iter().all(|&byte| byte == 0) {
            return Err(RecordError::Empty);
        }
        if is_newer(text) {
            return Err(RecordError::Newer);
        }
        if text.len() > RECORD_MAX {
            return Err(RecordError::TooLong);
        }
        if !text.starts_with(HEAD) {
            return Err(if HEAD.starts_with(text) { RecordError::Torn } else { RecordError::Malformed });
        }
        if !is_whole(text) {
            return Err(RecordError::Torn);
        }
        fields(text).filter(|record| record.is_sound() && record.is_text(text)).ok_or(RecordError::Malformed)
    }

    /// Whom to verify before anything is sent to the number; `None` in [`State::Intent`].
    pub fn identity(&self) -> Option<Identity> {
        let Born { pid, start_ticks, inode, pgid } = self.born?;
        let (boot, pid_ns, nonce) = (self.boot, self.pid_ns, Some(self.nonce));
        Some(Identity { boot, pid_ns, pid, start_ticks, inode, pgid, nonce })
    }

    /// The rules that the types do not keep.
    fn is_sound(&self) -> bool {
        self.born.is_none() == (self.state == State::Intent)
            && (self.status.is_none() || self.state == State::Ended)
            && self.leaf.as_deref().is_none_or(|leaf| leaf.starts_with(b"/") && !leaf.contains(&0))
    }

    /// Whether it is written as exactly this: so no record has two texts, whatever else [`fields`] would let pass.
    fn is_text(&self, text: &[u8]) -> bool {
        let mut rest = Expected(text);
        write!(rest, "{self}").is_ok() && rest.0.is_empty()
    }
}

/// Whether the first line says a version above 1, of however many digits.
fn is_newer(text: &[u8]) -> bool {
    let first = text.split(|&byte| byte == b'\n').next();
    let version = first.and_then(|line| line.strip_prefix(HEAD)).unwrap_or_default();
    version != b"1" && matches!(version.first(), Some(b'1'..=b'9')) && version.iter().all(u8::is_ascii_digit)
}

/// Whether the last line is the sum of all before it.
fn is_whole(text: &[u8]) -> bool {
    let Some((body, sum)) = text.strip_suffix(b"\n").and_then(|text| text.split_last_chunk::<16>()) else {
        return false;
    };
    // The sum is of all before its line; the newline before it belongs to that.
    let body = body.strip_suffix(SUM).filter(|body| body.ends_with(b"\n"));
    body.is_some_and(|body| hex64(fnv1a(body)).as_bytes() == sum)
}

/// What stands between version and sum, in its one order.
fn fields(text: &[u8]) -> Option<Record> {
    let mut lines = text.split(|&byte| byte == b'\n').skip(1);
    let mut value = |key: &str| lines.next()?.strip_prefix(key.as_bytes())?.strip_prefix(b"=");
    let pid = |text: &[u8]| number(text).and_then(Pid::new);
    let state = value("state")?;
    let kind = value("kind")?;
    let name = unescaped::<MAX_NAME>(value("name")?)?;
    let number_of = known(value("pid")?, pid)?;
    let pgid = known(value("pgid")?, pid)?;
    let ticks = known(value("ticks")?, number)?;
    let inode = known(value("inode")?, number)?;
    Some(Record {
        state: State::ALL.into_iter().find(|s| s.word().as_bytes() == state)?,
        kind: KINDS.into_iter().find(|&k| kind_word(k).as_bytes() == kind)?,
        name: name::check(&name).ok()?.try_into().ok()?,
        // One without the other is written as neither, which is not the text.
        born: number_of.zip(ticks).map(|(pid, start_ticks)| Born { pid, start_ticks, inode, pgid }),
        boot: Id128::parse(value("boot")?)?,
        pid_ns: number(value("ns")?)?,
        nonce: Id128::parse(value("nonce")?)?,
        cookie: known(value("cookie")?, Run::parse)?,
        leaf: known(value("leaf")?, unescaped)?,
        status: known(value("status")?, |text| procfs::number(text).ok())?,
    })
}

/// What [`Escaped`] shows; `None` for a backslash that begins no `\xNN`, and for more than `N` bytes.
fn unescaped<const N: usize>(text: &[u8]) -> Option<Vec<u8, N>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let (mut bytes, mut rest) = (Vec::new(), text);
    // Each round takes at least one byte.
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) => ((nibble(*high)? << 4 | nibble(*low)?) as u8, after),
            (b'\\', _) => return None,
            plain => plain,
        };
        bytes.push(byte).ok()?;
        rest = after;
    }
    Some(bytes)
}

/// Bytes as ASCII that a person can read.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| match byte {
            b'\\' | ..0x20 | 0x7f.. => write!(f, "\\x{byte:02x}"),
            _ => f.write_char(char::from(byte)),
        })
    }
}

/// Takes exactly these bytes.
struct Expected<'a>(&'a [u8]);

impl Write for Expected<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text.as_bytes()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// The text, with its last newline. [`Record::parse`] takes it.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { state, kind, name, nonce, cookie, boot, pid_ns, born, leaf, status } = self;
        let mut out = Summed::new(f);
        writeln!(out, "v=1\nstate={}\nkind={}", state.word(), kind_word(*kind))?;
        writeln!(out, "name={}\npid={}", Escaped(name.as_bytes()), Known(born.map(|born| born.pid)))?;
        writeln!(out, "pgid={}", Known(born.and_then(|born| born.pgid)))?;
        writeln!(out, "ticks={}", Known(born.map(|born| born.start_ticks)))?;
        writeln!(out, "inode={}", Known(born.and_then(|born| born.inode)))?;
        writeln!(out, "boot={boot}\nns={pid_ns}\nnonce={nonce}\ncookie={}", Known(*cookie))?;
        writeln!(out, "leaf={}\nstatus={}", Known(leaf.as_deref().map(Escaped)), Known(*status))?;
        let sum = hex64(out.sum);
        writeln!(f, "sum={sum}")
    }
}
