//! Becomes a program for which some system calls fail: `under CALL,CALL… ERRNO PROGRAM ARG…`.

use std::os::unix::process::CommandExt;

use pidward_tests::{calls, seccomp::Filter};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [refused, errno, program, args @ ..] = words.as_slice() else {
        panic!("under CALL,CALL… ERRNO PROGRAM ARG…")
    };
    let errno = errno.parse().expect("a number");
    let refused = refused.split(',').map(|call| calls::number(call).expect("a call of this machine"));
    refused.fold(Filter::new(), |filter, call| filter.errno(call, errno)).install();
    panic!("{program}: {}", std::process::Command::new(program).args(args).exec());
}
