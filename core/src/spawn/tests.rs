//! The spawn by itself, with real children.

use std::{
    fmt::Write,
    format,
    os::fd::{AsFd, AsRawFd},
    string::String,
    thread,
    time::Duration,
    vec,
    vec::Vec,
};

use super::*;
use crate::{
    Errno,
    image::{Packer, Table},
    reap::{Exit, Status},
};

fn table(strings: &[&str]) -> Table<'static> {
    let bytes = strings.iter().map(|s| s.len() + 1).sum();
    let (bytes, pointers) = (vec![0; bytes].leak(), vec![std::ptr::null(); strings.len() + 1].leak());
    let mut packer = Packer::new(bytes, pointers);
    for s in strings {
        packer.push(s.as_bytes()).unwrap();
    }
    packer.finish()
}

fn sh(script: &str) -> Plan<'static> {
    Plan::new(
        Program::Paths(table(&["/bin/sh"])),
        table(&["sh", "-c", script]),
        table(&["PATH=/usr/bin:/bin"]),
    )
}

fn end_of(child: &Child) -> Exit {
    for _ in 0..2000 {
        if let Some(exit) = child.try_reap().unwrap() {
            return exit;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("child {} has not ended", child.pid())
}

#[test]
fn a_child_runs_and_gives_its_code() {
    let child = Launcher::new().unwrap().spawn(&sh("exit 23"), &Slot::new()).unwrap();
    assert_eq!(child.mechanism().cloning, Cloning::Clone3);
    assert_eq!(child.mechanism().pidfd, Pidfd::FromClone);
    assert_eq!(child.mechanism().parent_check, ParentCheck::Ppid);
    assert_eq!(child.mechanism().closing, Closing::CloseRange);
    assert_eq!(child.pgid(), Some(child.pid()));
    assert_eq!(end_of(&child).status, Status::Exited(23));
}

#[test]
fn a_missing_program_is_an_error_and_no_child() {
    let plan = Plan::new(Program::Paths(table(&["/no/such/program"])), table(&["x"]), table(&[]));
    let error = Launcher::new().unwrap().spawn(&plan, &Slot::new()).unwrap_err();
    assert_eq!(error, SpawnError::new(Step::Exec, Errno::ENOENT));
}

#[test]
fn a_plan_with_credentials_forks_and_tells_its_errors_through_the_pipe() {
    let mut launcher = Launcher::new().unwrap();
    let mut plan = sh("exit 4");
    plan.credentials.uid = Some(rustix::process::getuid().as_raw());
    let child = launcher.spawn(&plan, &Slot::new()).unwrap();
    assert_eq!(child.mechanism().cloning, Cloning::Fork3);
    assert_eq!(end_of(&child).status, Status::Exited(4));
    plan.program = Program::Paths(table(&["/no/such/program"]));
    let error = launcher.spawn(&plan, &Slot::new()).unwrap_err();
    assert_eq!(error, SpawnError::new(Step::Exec, Errno::ENOENT));
    plan.cwd = Some(c"/no/such/directory");
    let error = launcher.spawn(&plan, &Slot::new()).unwrap_err();
    assert_eq!(error, SpawnError::new(Step::Cwd, Errno::ENOENT));
    // The next plan without them shares memory again.
    assert!(
        launcher
            .spawn(&sh("exit 0"), &Slot::new())
            .map(|c| (c.mechanism(), end_of(&c)))
            .unwrap()
            .0
            .shares_memory()
    );
}

#[test]
fn descriptors_land_where_they_were_sent_whatever_overlaps() {
    let path = std::env::temp_dir().join(format!("pidward-fds-{}", std::process::id()));
    let files: Vec<_> = (0..4)
        .map(|n| {
            let path = path.with_extension(format!("{n}"));
            std::fs::write(&path, format!("{n}")).unwrap();
            let file = std::fs::File::open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            file
        })
        .collect();
    let numbers: Vec<u32> = files.iter().map(|f| f.as_raw_fd() as u32).collect();
    // Each file goes to the number that the next one has.
    let mut maps: Vec<FdMap<'_>> =
        (0..4).map(|n| FdMap::new(files[n].as_fd(), numbers[(n + 1) % 4])).collect();
    maps.sort_by_key(FdMap::target);
    let mut script = String::new();
    for n in 0..4 {
        write!(script, "[ \"$(cat /proc/self/fd/{})\" = {n} ] || exit {};", numbers[(n + 1) % 4], n + 1)
            .unwrap();
    }
    script += "ls /proc/self/fd | wc -l | grep -qx 8 || exit 9";
    let mut plan = sh(&script);
    plan.fds = &maps;
    let child = Launcher::new().unwrap().spawn(&plan, &Slot::new()).unwrap();
    assert_eq!(end_of(&child).status, Status::Exited(0));
}

#[test]
fn an_open_file_runs_though_its_number_is_given_away() {
    let shell = std::fs::File::open("/bin/sh").unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    // The child gets something else under the number that the program has here.
    let maps = [FdMap::new(null.as_fd(), shell.as_raw_fd() as u32)];
    let mut plan = sh("exit 6");
    plan.program = Program::Open(shell.as_fd());
    plan.fds = &maps;
    let mut launcher = Launcher::new().unwrap();
    assert_eq!(end_of(&launcher.spawn(&plan, &Slot::new()).unwrap()).status, Status::Exited(6));
    plan.program = Program::Open(null.as_fd());
    let error = launcher.spawn(&plan, &Slot::new()).unwrap_err();
    assert_eq!(error, SpawnError::new(Step::Exec, Errno::EACCES));
}

#[test]
fn a_plan_that_cannot_be_meant_is_refused_before_any_child() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let unsorted = [FdMap::new(null.as_fd(), 9), FdMap::new(null.as_fd(), 5)];
    let twice = [FdMap::new(null.as_fd(), 5), FdMap::new(null.as_fd(), 5)];
    let too_high = [FdMap::new(null.as_fd(), u32::MAX)];
    let mut launcher = Launcher::new().unwrap();
    for fds in [&unsorted[..], &twice, &too_high] {
        let mut plan = sh("exit 0");
        plan.fds = fds;
        let error = launcher.spawn(&plan, &Slot::new()).unwrap_err();
        assert_eq!(error, SpawnError::new(Step::Plan, Errno::EINVAL));
    }
}
