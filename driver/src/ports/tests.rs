use std::{
    io::Read,
    iter,
    net::{TcpListener, UdpSocket},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use super::*;
use crate::{Child, Command, Spawner, Stdio, spawner::Ground};

/// A child that holds these beside its pipe, and the same child, verified.
fn holder(spawner: &Spawner, sockets: [OwnedFd; 2]) -> (Child, Process) {
    let [one, two] = sockets.map(Stdio::from);
    let mut cat = Command::new("cat");
    let child = spawner.spawn(cat.stdin(Stdio::piped()).stdout(one).stderr(two)).unwrap();
    let known = child.identity().unwrap();
    let process = Ground::default().verify(&known.0).unwrap();
    (child, process)
}

#[test]
fn each_process_has_its_own_addresses_sorted_and_once() {
    let spawner = Spawner::builder().guard(false).build().unwrap();
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (one, two, datagrams) = (bind(), bind(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut both = [one.local_addr().unwrap(), two.local_addr().unwrap()];
    let first = one.local_addr().unwrap();
    both.sort_unstable();
    let copy = |socket: &TcpListener| OwnedFd::from(socket.try_clone().unwrap());
    let (mut a, with_both) = holder(&spawner, [copy(&two), copy(&one)]);
    let (mut b, with_one_twice) = holder(&spawner, [copy(&one), copy(&one)]);
    let (mut c, with_none) = holder(&spawner, [datagrams.try_clone().unwrap().into(), datagrams.into()]);
    let list = of_processes([&with_none, &with_both, &with_one_twice].into_iter());
    assert_eq!(list, [vec![], both.to_vec(), vec![first]]);
    // The table of their namespace is read once for all of them.
    let began = Instant::now();
    let many = of_processes(iter::repeat_n(&with_both, 1000));
    assert!(many.len() == 1000 && many.iter().all(|addresses| *addresses == both));
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    for child in [&mut a, &mut b, &mut c] {
        assert!(child.stop(Duration::from_secs(5)).is_complete());
    }
    assert_eq!(of_processes([&with_both, &with_one_twice].into_iter()), [vec![], vec![]], "they have ended");
}

#[test]
fn a_process_of_another_network_namespace_has_what_is_there() {
    let spawner = Spawner::builder().guard(false).build().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "sh", "-c", "echo ready; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let spawned = spawner.spawn(unshare.stderr(Stdio::from(OwnedFd::from(socket.try_clone().unwrap()))));
    let Ok(mut apart) = spawned else { return };
    if apart.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).is_err() {
        // It may not.
        return;
    }
    let apart_process = Ground::default().verify(&apart.identity().unwrap().0).unwrap();
    let copy = || OwnedFd::from(socket.try_clone().unwrap());
    let (mut here, here_process) = holder(&spawner, [copy(), copy()]);
    let address = socket.local_addr().unwrap();
    let list = of_processes([&apart_process, &here_process, &apart_process].into_iter());
    assert_eq!(list, [vec![], vec![address], vec![]]);
    for child in [&mut apart, &mut here] {
        assert!(child.stop(Duration::from_secs(5)).is_complete());
    }
}
