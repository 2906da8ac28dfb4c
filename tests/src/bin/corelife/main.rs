//! Lives the whole life of the core, part by part, and tells how each went: for tests that refuse system calls, or note them.
//!
//! `corelife DIR LEAVES all`, `corelife DIR LEAVES refuse CALL ERRNO…`, `corelife DIR LEAVES note`: in `DIR` are the programs `seven`, which
//! exits with 7, and `stay`; `LEAVES` is the directory of a cgroup, or `none`. Standard output is the file of a story, where each part
//! comes as the part, a tab and the outcome. At the end one child is left, which carries the run entry of a guard.
//!
//! It has one thread, and leans on nothing that a refused call could take away: a filter that refuses `read` or `mmap` refuses
//! them to the program too.

mod life;
mod options;
mod others;

use std::os::fd::AsFd;

use life::Life;
use pidward_tests::{calls, seccomp::Filter, story::Story};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [dir, leaves, how, what @ ..] = words.as_slice() else { panic!("corelife DIR LEAVES HOW") };
    // SAFETY: back to the default, as in a program that is not Rust's.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut story = Story::of(std::io::stdout().as_fd()).expect("a file in memory");
    let mut life = Life::prepare(dir, leaves);
    match (*how, what) {
        ("all", []) => {}
        ("refuse", calls) => {
            let filter = calls.chunks(2).fold(Filter::new(), |filter, pair| {
                let [call, errno] = pair else { panic!("a call without its errno") };
                let number = calls::number(call).expect("a call of this machine");
                filter.errno(number, errno.parse().expect("a number"))
            });
            filter.install();
        }
        ("note", []) => Filter::note_all(|number| story.say(&format!("listener {number}"))),
        _ => panic!("corelife DIR LEAVES all|refuse CALL ERRNO…|note"),
    }
    let mut say = |part: &str, outcome: &str| story.say(&format!("{part}\t{outcome}"));
    life.plain(&mut say);
    others::all(&mut life, &mut say);
    options::all(&mut life, &mut say);
    if life.is_fertile() {
        others::pipe(&life, &mut say);
    }
    life.last(&mut say);
    say("end", "reached");
}
