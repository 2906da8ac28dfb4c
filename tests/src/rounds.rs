//! How often a long test goes round: `PIDWARD_ROUNDS=quick`, the default, or `full`.

use std::time::Duration;

/// The number for this run. Any other value of `PIDWARD_ROUNDS` fails the test: a typing error must not pass for the full run.
pub fn rounds(quick: usize, full: usize) -> usize {
    match std::env::var("PIDWARD_ROUNDS").as_deref() {
        Err(_) => quick,
        Ok(word) => {
            choose(word, quick, full).unwrap_or_else(|| panic!("PIDWARD_ROUNDS={word}: quick or full"))
        }
    }
}

/// The time in the middle of all rounds; says that and the longest, for whoever reads the output.
pub fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    let [median, longest] = [took[took.len() / 2], took[took.len() - 1]];
    println!("{} rounds: {median:?}, {longest:?} at most", took.len());
    median
}

/// What a word stands for.
pub fn choose(word: &str, quick: usize, full: usize) -> Option<usize> {
    match word {
        "quick" | "" => Some(quick),
        "full" => Some(full),
        _ => None,
    }
}
