//! Between fork and exec a child has a copy of all that its parent has open, listening sockets too.

use std::{ffi::OsStr, net::TcpListener, process, thread, time::Duration};

use pidward::{Spawner, Verdict, Why};
use pidward_tests::{
    fork::{self, Group, Held, Image},
    in_child, proc,
};

#[test]
fn who_calls_exec_in_time_does_not_count_and_who_does_not_leaves_it_unknown() {
    in_child!();
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("its address").port();
    let asked = || {
        let list = spawner.listeners(port).expect("an answer");
        assert_eq!(list.len(), 1, "{list:?}");
        (list[0].pid, list[0].verdict)
    };
    let image = Image::new("/bin/sleep".as_ref(), &[OsStr::new("1000")], &[]);
    let held = Held::start(None, Group::Same, &image).expect("a child");
    assert_eq!(asked(), (Some(held.pid()), Verdict::Unknown(Why::NotYetExec)));
    let late = thread::spawn(|| {
        thread::sleep(Duration::from_millis(10));
        held.let_go()
    });
    // It is seen with the socket, waited for, and seen without; unless the machine is so busy that the wait is too short.
    let (us, waited) = ((Some(process::id()), Verdict::NotOurs(Why::Us)), asked());
    assert!(waited == us || waited.1 == Verdict::Unknown(Why::NotYetExec), "{waited:?}");
    proc::eventually("exec", || asked() == us);
    fork::end(late.join().expect("its number"));
}
