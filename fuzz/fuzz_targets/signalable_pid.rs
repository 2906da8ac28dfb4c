//! A number is one process or nobody: never 0, which is the own group, and never one whose sign would make it a group or everybody.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::{Pid, Signal};

fuzz_target!(|number: u32| {
    let expected = i32::try_from(number).ok().filter(|n| *n > 0);
    assert_eq!(Pid::new(number).map(Pid::raw), expected);
    assert_eq!(Pid::from_raw(number as i32).map(Pid::raw), expected);
    assert_eq!(Pid::new(number).map(Pid::get), expected.map(|n| n as u32));
    let signal = i32::try_from(number).ok().filter(|n| (1..=64).contains(n));
    assert_eq!(Signal::new(number as i32).map(Signal::raw), signal);
});
