//! The two streams: results, and lines about them.

use std::{
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
};

use serde::Serialize;

use crate::fault::Fault;

/// Writes a result; a reader that has gone away is no fault.
pub(crate) fn print(text: &str) -> ExitCode {
    ExitCode::from(print_code(text, 0))
}

/// The same, for an end with this code where all was written.
pub(crate) fn print_code(text: &str, code: u8) -> u8 {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => code,
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => code,
        Err(e) => {
            complain(&format!("standard output: {e}"));
            125
        }
    }
}

/// One line on standard error, whatever the text holds.
pub(crate) fn complain(text: &str) {
    let mut line = String::with_capacity(text.len() + 16);
    line.push_str("pidward: ");
    for c in text.chars() {
        if c.is_control() {
            let _ = write!(line, "{}", c.escape_default());
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    // Nobody is left to be told where this fails.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// A name or path as one line shows it: what moves the cursor, or is not to be seen, is escaped.
pub(crate) fn one_line(text: &str) -> String {
    // Quotes harm nobody, and stand in names.
    text.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

/// One object for programs, with its line end.
pub(crate) fn json(object: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(object).map(|text| text + "\n").map_err(|e| Fault::with(125, e))
}
