//! What the benches share: medians of ratios, and budgets.

use std::{env, process::ExitCode};

/// 1.5 where `CI` is set, whose machines are noisy.
pub(crate) fn slack() -> f64 {
    if env::var_os("CI").is_some() { 1.5 } else { 1.0 }
}

/// The rounds to take: fewer where `PIDWARD_ROUNDS` is `quick`.
pub(crate) fn rounds(quick: usize, full: usize) -> usize {
    if env::var("PIDWARD_ROUNDS").is_ok_and(|rounds| rounds == "quick") { quick } else { full }
}

/// How the bench ends: with 1 where it was to check and something is over its budget.
pub(crate) fn end(over: u32) -> ExitCode {
    let check = env::args().any(|arg| arg == "--check");
    if check && over > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints a ratio beside its budget; 1 if it is over.
pub(crate) fn verdict(what: &str, ratio: f64, budget: Option<f64>) -> u32 {
    let Some(budget) = budget else { return 0 };
    let kept = ratio <= budget;
    println!("    {what}: {ratio:.2}, budget {budget:.2}{}", if kept { "" } else { ": OVER" });
    u32::from(!kept)
}

/// The one in the middle.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
