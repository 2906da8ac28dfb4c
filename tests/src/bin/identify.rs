//! Is asked about an identity that names its own number: prints the verdict, then what a stop comes to.
//!
//! `identify LINE`. A signal that reaches it ends it.

use std::time::Duration;

use pidward::Identity;

fn main() {
    let line = std::env::args().nth(1).expect("an identity");
    let identity: Identity = line.parse().expect("an identity");
    assert_eq!(identity.pid(), std::process::id(), "the number is this process's");
    println!("{:?}", identity.verify());
    println!("{:?}", identity.stop(Duration::from_millis(10)));
}
