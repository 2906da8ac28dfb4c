//! The core allocates nothing: not to spawn, verify, signal or reap. It has no `alloc` either, so this is about the libraries that it
//! calls.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    os::fd::AsFd,
    ptr,
};

use pidward_core::{
    Id128, Signal,
    identity::{Host, Identity, Verdict},
    image::{Packer, Table},
    marker::{ChildKind, Cookie, Names},
    signal::GroupMeans,
    spawn::{FdMap, Group, Launcher, Plan, Program, Slot},
    sweep::{self, Member, Proof, Scope},
};
use pidward_tests::{leftovers::NoLeftovers, proc};

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// Ends the process where it is asked for memory while that is forbidden: a panic would ask for more.
struct Strict;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if FORBIDDEN.get() {
            FORBIDDEN.set(false);
            eprintln!("an allocation of {} bytes", layout.size());
            std::process::abort();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Strict = Strict;

fn without<T>(body: impl FnOnce() -> T) -> T {
    FORBIDDEN.set(true);
    let answer = body();
    FORBIDDEN.set(false);
    answer
}

fn table(strings: &[&str]) -> Table<'static> {
    let bytes = vec![0; strings.iter().map(|s| s.len() + 1).sum()].leak();
    let mut packer = Packer::new(bytes, vec![ptr::null(); strings.len() + 1].leak());
    strings.iter().for_each(|s| packer.push(s.as_bytes()).expect("exact room"));
    packer.finish()
}

#[test]
fn spawn_verify_signal_and_reap_allocate_nothing() {
    let guard = NoLeftovers::new();
    let nonce = Id128::random().expect("random bytes");
    let run = "0".repeat(32);
    let entries = [
        guard.entry(),
        "PIDWARD_SUBPROCESS=1".to_owned(),
        "PIDWARD_TASK=thrifty".to_owned(),
        format!("PIDWARD_NONCE={nonce}"),
        format!("PIDWARD_TREE_{run}={run}"),
    ];
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let argv = table(&["sh", "-c", "read line"]);
    let mut plan = Plan::new(Program::Paths(table(&["/bin/sh"])), argv, table(&entries));
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let fds = [FdMap::new(reader.as_fd(), 0)];
    plan.fds = &fds;
    plan.group = Group::Own;
    let child = without(|| {
        let mut launcher = Launcher::new().expect("a launcher");
        launcher.spawn(&plan, &Slot::new()).expect("a child")
    });
    guard.watch(child.pid().get());
    proc::eventually("exec", || proc::cmdline(child.pid().get()).starts_with("sh "));
    without(|| {
        let host = Host::look();
        let identity = host.identity(&child, Some(nonce)).expect("an identity");
        let names = Names::DEFAULT;
        for identity in [identity, Identity { inode: None, ..identity }] {
            let process = host.verify(&identity, &names).expect("the same");
            assert_eq!(process.has_ended(), Ok(false));
            assert_eq!(process.signal(Signal::CONT), Ok(()));
        }
        let name = (ChildKind::Task, "thrifty");
        assert!(host.verify_named(child.pid(), &names, name, Cookie::Any).is_ok());
        let other = (ChildKind::Task, "other");
        assert!(host.verify_named(child.pid(), &names, other, Cookie::Any).is_err());
        let mut found = 0;
        let looked = sweep::each(&host, &names, Scope::Group(child.pid()), Proof::Nonce(nonce), |member| {
            let Member::Ours(process, ..) = member else { panic!("a member that is not ours") };
            found += 1;
            assert_eq!(process.signal(Signal::KILL), Ok(()));
        });
        assert!(found == 1 && looked.is_ok());
        // Ends with the child, which SIGKILL has reached.
        while !matches!(child.try_reap(), Ok(Some(_))) {
            std::thread::yield_now();
        }
        assert_eq!(host.verify(&identity, &names).map(drop), Err(Verdict::Gone));
        let _ = child.signal_group(Signal::TERM, GroupMeans::Pidfd);
    });
}
