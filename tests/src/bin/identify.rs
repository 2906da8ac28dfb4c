//! Is asked about an identity: prints the verdict, then what a stop comes to.
//!
//! `identify LINE`. A signal that reaches it ends it.

use std::time::Duration;

use pidward::Identity;

fn main() {
    let line = std::env::args().nth(1).expect("an identity");
    let identity: Identity = line.parse().expect("an identity");
    println!("{:?}", identity.verify());
    println!("{:?}", identity.stop(Duration::from_millis(10)));
}
