//! Exits with the code in its argument; `signal N` ends it by that signal.

use pidward_tests::os;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = args.last().and_then(|a| a.parse().ok()).expect("a number");
    if args.first().is_some_and(|a| a == "signal") {
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(number, libc::SIG_DFL) };
        // SAFETY: signals this thread only.
        unsafe { libc::raise(number) };
        // A signal that ends nobody.
        os::sleep_for_ever();
    }
    std::process::exit(number);
}
