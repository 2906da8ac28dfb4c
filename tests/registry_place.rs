//! Directories that a registry cannot be kept in: refused in one line, and nothing that is written is lost.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink},
    path::Path,
};

use pidward::{Registry, SpawnErrorKind, Spawner, registry::RegistryErrorKind};
use pidward_tests::{
    child::assert_own_mounts, files::TempDir, in_child, leftovers::NoLeftovers, need, os, proc,
    records::records, skip,
};

#[test]
fn directories_that_cannot_be_trusted_are_refused_in_one_line() {
    let dir = TempDir::new();
    let make = |name: &str, mode: u32| {
        fs::DirBuilder::new().create(dir.at(name)).expect("ours");
        fs::set_permissions(dir.at(name), fs::Permissions::from_mode(mode)).expect("ours");
        dir.at(name)
    };
    let open = make("open", 0o777);
    let group = make("group", 0o770);
    let linked = dir.at("linked");
    symlink(make("fine", 0o700), &linked).expect("ours");
    let file = dir.at("file");
    fs::write(&file, "").expect("ours");
    let long = dir.at("x".repeat(300));
    let io = RegistryErrorKind::Io;
    for (path, kind, errno) in [
        (open, RegistryErrorKind::OthersCanWrite, None),
        (group, RegistryErrorKind::OthersCanWrite, None),
        (linked, io, Some(libc::ENOTDIR)),
        (file, io, Some(libc::ENOTDIR)),
        (dir.at("missing/deeper"), io, Some(libc::ENOENT)),
        (long, io, Some(libc::ENAMETOOLONG)),
    ] {
        let error = Registry::open(&path).expect_err("not to be trusted");
        assert_eq!((error.kind(), error.raw_os_error()), (kind, errno), "{path:?}");
        let line = error.to_string();
        assert!(line.contains(path.file_name().and_then(|name| name.to_str()).expect("text")), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    if os::is_root() {
        let foreign = make("foreign", 0o700);
        chown(&foreign, Some(65534), None).expect("root may");
        let error = Registry::open(&foreign).expect_err("another user's");
        assert_eq!(error.kind(), RegistryErrorKind::NotOwned(65534));
    }
}

#[test]
fn a_full_or_read_only_disk_refuses_the_spawn_and_keeps_what_is_written() {
    need!(os::is_root() && skip::has_namespaces(), "needs-namespaces");
    in_child!(|again| again.in_pid_namespace());
    assert_own_mounts();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let disk = dir.at("disk");
    fs::DirBuilder::new().mode(0o700).create(&disk).expect("ours");
    let mount = |options: &str| {
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&disk)
            .status();
        assert!(done.expect("mount").success());
    };
    mount("size=64k,mode=700");
    let registry = Registry::open(disk.join("r")).expect("a registry");
    let builder = || Spawner::builder().guard(false).registry(registry.clone());
    let strict = builder().build().expect("a spawner");
    let optional = builder().registry_optional(true).build().expect("a spawner");
    let mut first = strict.spawn(&guard.shell("exec sleep 1000")).expect("a child");
    let before = records(registry.path());
    fill(&disk);
    let error = strict.spawn(&guard.shell("exec sleep 1000")).expect_err("no room for its record");
    assert_eq!((error.kind(), error.raw_os_error()), (SpawnErrorKind::Registry, Some(libc::ENOSPC)));
    let mut second = optional.spawn(&guard.shell("exit 6")).expect("without a record");
    assert_eq!(second.wait().expect("its end").code(), Some(6));
    assert_eq!(records(registry.path()), before, "what is written stays whole");
    // The end of a child needs no room.
    first.kill().expect("ours");
    first.wait().expect("its end");
    proc::eventually("its record is gone", || records(registry.path()).is_empty());
    fs::remove_file(disk.join("filler")).expect("ours");
    drop((strict, optional, first, second, registry));
    let done = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(&disk).status();
    assert!(done.expect("mount").success());
    let error = Registry::open(disk.join("new")).expect_err("read only");
    assert_eq!((error.kind(), error.raw_os_error()), (RegistryErrorKind::Io, Some(libc::EROFS)));
    let done = std::process::Command::new("umount").arg("-l").arg(&disk).status();
    assert!(done.expect("umount").success());
}

fn fill(disk: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(disk.join("filler")).expect("ours");
    // Ends when the disk is full.
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn the_lock_is_the_directorys_and_cannot_be_removed() {
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    // A cleaner of temporary files asks for this lock before it takes anything away.
    let held = std::process::Command::new("flock").args(["-n", "-s"]).arg(dir.at("r")).arg("true").status();
    assert!(held.is_ok_and(|status| status.code() == Some(1)), "flock(1) of the directory");
    fs::remove_file(dir.at("r").join("lock")).expect("ours");
    let error = Registry::open(dir.at("r")).expect_err("it has an owner all the same");
    assert!(matches!(error.kind(), RegistryErrorKind::AlreadyRunning(_)), "{error}");
    drop(registry);
    assert!(!dir.at("r").exists());
}

#[test]
fn whoever_waits_for_a_directory_that_goes_gets_a_new_one() {
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    std::thread::scope(|scope| {
        let next = scope.spawn(|| Registry::open(dir.at("r")));
        // It has opened the directory and waits for the lock, unless this machine is very slow: then it finds none.
        std::thread::sleep(std::time::Duration::from_millis(60));
        drop(registry);
        let next = next.join().expect("no panic").expect("a registry");
        assert!(dir.at("r").join("lock").exists());
        drop(next);
    });
    assert!(!dir.at("r").exists());
}

#[test]
fn another_directory_in_its_place_is_left_alone() {
    let dir = TempDir::new();
    let registry = Registry::open(dir.at("r")).expect("a registry");
    fs::rename(dir.at("r"), dir.at("away")).expect("ours");
    fs::create_dir(dir.at("r")).expect("ours");
    drop(registry);
    assert!(dir.at("r").exists(), "it is somebody else's");
    assert_eq!(fs::read_dir(dir.at("away")).expect("there").count(), 0);
}

#[test]
fn a_directory_that_is_no_registry_is_not_made_one_by_who_only_looks() {
    let dir = TempDir::new();
    fs::DirBuilder::new().mode(0o700).create(dir.at("d")).expect("ours");
    fs::write(dir.at("d").join("letter"), "").expect("ours");
    let error = Registry::open_existing(dir.at("d")).expect_err("no registry");
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    assert_eq!(fs::read_dir(dir.at("d")).expect("there").count(), 1);
}

#[test]
fn an_odd_umask_makes_no_file_that_its_owner_cannot_read() {
    let (guard, dir) = (NoLeftovers::new(), TempDir::new());
    let board = pidward_tests::announce::Board::at(dir.at("board"));
    let mut cmd = guard.command("sh");
    // The board is there before.
    fs::write(board.path(), "").expect("ours");
    cmd.args(["-c", "umask 0777; exec \"$@\"", "sh"]).arg(pidward_tests::fixture!("recorded"));
    let mut supervisor = cmd.arg(dir.at("r")).arg(board.path()).arg("many:1").spawn().expect("a supervisor");
    board.wait_for("many");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&dir.at("r")), 0o700);
    for entry in fs::read_dir(dir.at("r")).expect("there").map(|entry| entry.expect("an entry").path()) {
        assert_eq!(mode(&entry), 0o600, "{entry:?}");
    }
    supervisor.kill().expect("it lives");
    supervisor.wait().expect("ours");
    proc::eventually("its death signal ends the child", || guard.left().is_empty());
}
