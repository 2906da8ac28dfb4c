//! The rows as text and as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::rows::{Rank, Row};

#[derive(Serialize)]
struct Report<'a> {
    v: u8,
    kernel: String,
    promises: &'a [Row],
}

/// One object, on one line.
pub(super) fn json(rows: &[Row]) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(&Report { v: 1, kernel: kernel(), promises: rows })?;
    text.push('\n');
    Ok(text)
}

/// One line a promise, with why and what to do below it where it is not kept by the first choice.
pub(super) fn table(rows: &[Row], colour: bool) -> String {
    let width = |of: fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let (first, second) = (width(|row| row.promise.len()), width(|row| row.mechanism.len()));
    let mut text = format!("Linux {}\n", kernel());
    for row in rows {
        let rank = row.rank.words();
        let (on, off) = if colour { (colour_of(row.rank), "\x1b[0m") } else { ("", "") };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:first$}  {:second$}  {on}{rank}{off}", row.promise, row.mechanism);
        if row.rank != Rank::First {
            let _ = writeln!(text, "    why: {}\n    what to do: {}", row.why, row.what_to_do);
        }
    }
    text
}

/// Green, yellow, red (ECMA-48).
const fn colour_of(rank: Rank) -> &'static str {
    match rank {
        Rank::First => "\x1b[32m",
        Rank::Fallback => "\x1b[33m",
        Rank::NotKept => "\x1b[31m",
    }
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
