//! How often a long test goes round: `PIDWARD_ROUNDS=quick`, the default, or `full`.

/// The number for this run. Any other value of `PIDWARD_ROUNDS` fails the test: a typing error must not pass for the full run.
pub fn rounds(quick: usize, full: usize) -> usize {
    match std::env::var("PIDWARD_ROUNDS").as_deref() {
        Err(_) => quick,
        Ok(word) => {
            choose(word, quick, full).unwrap_or_else(|| panic!("PIDWARD_ROUNDS={word}: quick or full"))
        }
    }
}

/// What a word stands for.
pub fn choose(word: &str, quick: usize, full: usize) -> Option<usize> {
    match word {
        "quick" | "" => Some(quick),
        "full" => Some(full),
        _ => None,
    }
}
