//! Places where `/proc` misleads. They change the whole process: only in one with mounts of its own
//! ([`in_pid_namespace`](crate::child::Again::in_pid_namespace), [`in_mount_namespace`](crate::child::Again::in_mount_namespace)).

use std::{
    ffi::{CString, OsStr},
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    process::Command,
    ptr,
};

use crate::{child, files::TempDir, os, strange::Strange};

const PROC: &str = "/proc";

/// The user and group that own nothing.
pub const NOBODY: u32 = 65534;

/// How much `/proc` keeps from whoever is not root, proc(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hide {
    /// Other users' directories are there, and cannot be looked into.
    Contents = 1,
    /// Other users' processes are not there.
    Processes = 2,
}

/// From now on `/proc` hides other users' processes.
#[track_caller]
pub fn hide_processes(hide: Hide) {
    mount("proc", &format!("hidepid={}", hide as u8)).expect("a new /proc");
}

/// From now on there is an empty file system where `/proc` was.
#[track_caller]
pub fn empty_proc() {
    mount("tmpfs", "mode=755").expect("a tmpfs");
}

/// From now on nothing is mounted on `/proc`. Not in a user namespace of its own: what it came with stays.
#[track_caller]
pub fn without_proc() {
    child::assert_own_mounts();
    // Ends at the last one.
    while unmount().is_ok() {}
    assert!(!Path::new("/proc/self").exists(), "a mount that stays");
}

/// From now on `/proc` is that of the pid namespace above: this process is there by another number. Only after
/// [`in_pid_namespace`](crate::child::Again::in_pid_namespace), by which it lies below.
#[track_caller]
pub fn proc_from_above() {
    child::assert_own_mounts();
    unmount().expect("a /proc of its own on top");
}

/// From now on `/proc` is that of a pid namespace below, in which this process has no number at all; it has processes as long as
/// the value lives.
#[track_caller]
pub fn proc_from_below() -> Strange {
    child::assert_own_mounts();
    // `cat` is pid 1 there. The number that is said is that of `unshare`.
    let script = "mount -t proc proc /proc && echo ready \"$0\" && exec cat";
    let mut command = Command::new("sh");
    let inner = format!("exec unshare --pid --fork --kill-child sh -c '{script}' $$");
    Strange::start(command.args(["-c", &inner]))
}

/// From now on there is nothing at all below `/`: no `/proc`, not even as a directory.
#[track_caller]
pub fn empty_root() {
    child::assert_own_mounts();
    mount_at("tmpfs", PROC, "mode=755").expect("a tmpfs");
    std::os::unix::fs::chroot(PROC).and_then(|()| std::env::set_current_dir("/")).expect("root may");
}

/// Becomes another user, for good, that may be looked at as any program of that user.
#[track_caller]
pub fn become_user(id: u32) {
    assert!(child::is_any(), "only in a process of its own: in_child!");
    // SAFETY: an empty list.
    os::check(unsafe { libc::setgroups(0, ptr::null()) }.into()).expect("root may");
    // SAFETY: takes a number only; libc does it for all threads.
    os::check(unsafe { libc::setgid(id) }.into()).expect("root may");
    // SAFETY: as above.
    os::check(unsafe { libc::setuid(id) }.into()).expect("root may");
    // The change has taken it away, as an exec would give it back.
    // SAFETY: takes numbers only.
    os::check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }.into()).expect("any process may");
}

/// A copy of a program that every user can reach and execute. The directory becomes this user's, who can take it away again.
pub fn copy_for(user: u32, dir: &TempDir, program: &Path) -> PathBuf {
    let copy = dir.at(program.file_name().expect("a program's name"));
    fs::copy(program, &copy).expect("a copy");
    for path in [&dir.at(""), &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
        chown(path, Some(user), Some(user)).expect("root may");
    }
    copy
}

fn mount(kind: &str, options: &str) -> io::Result<()> {
    mount_at(kind, PROC, options)
}

#[track_caller]
fn mount_at(kind: &str, place: impl AsRef<OsStr>, options: &str) -> io::Result<()> {
    child::assert_own_mounts();
    let [kind, options] = [kind, options].map(|text| CString::new(text).expect("no NUL"));
    let place = CString::new(place.as_ref().as_bytes())?;
    // SAFETY: strings with their ends.
    let ret =
        unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) };
    os::check(ret.into()).map(drop)
}

/// Takes away the topmost mount, with what is mounted in it.
fn unmount() -> io::Result<()> {
    // SAFETY: a string with its end.
    os::check(unsafe { libc::umount2(c"/proc".as_ptr(), libc::MNT_DETACH) }.into()).map(drop)
}
