//! Processes that the kernel does not let go of, for a while.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use crate::{files::TempDir, proc};

/// A file system that whoever writes to it hangs in, beyond SIGKILL, until it is thawed: at the end of the value, and by a watchdog
/// where this process does not come to that.
#[derive(Debug)]
pub struct Frozen(PathBuf, process::Child);

fn run(program: &str, args: &[&str], path: &Path) -> bool {
    process::Command::new(program).args(args).arg(path).status().is_ok_and(|status| status.success())
}

impl Frozen {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `None` where loop devices cannot be had.
    pub fn new(dir: &TempDir) -> Option<Frozen> {
        let (image, place) = (dir.at("image"), dir.at("place"));
        fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
        fs::create_dir(&place).expect("a mount point");
        let source = image.to_str().expect("a path");
        (run("mkfs.ext4", &["-q"], &image) && run("mount", &["-o", "loop", source], &place)).then_some(())?;
        // Neither a child's descendant by what it carries, nor in this group.
        let late = format!("sleep 100; fsfreeze -u {0}; umount -l {0}", place.display());
        let mut watchdog = process::Command::new("setsid");
        let watchdog = watchdog.args(["sh", "-c", &late]).env_clear().stdin(process::Stdio::null());
        let null = || process::Stdio::null();
        let watchdog =
            watchdog.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdout(null()).stderr(null()).spawn();
        let frozen = Frozen(place, watchdog.expect("a watchdog"));
        assert!(run("fsfreeze", &["-f"], &frozen.0), "ext4 can be frozen");
        Some(frozen)
    }

    /// Lets everybody go who hangs.
    #[track_caller]
    pub fn thaw(&self) {
        assert!(run("fsfreeze", &["-u"], &self.0), "and thawed");
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may have been thawed before.
        let _ =
            process::Command::new("fsfreeze").arg("-u").arg(&self.0).stderr(process::Stdio::null()).status();
        proc::until(Duration::from_secs(10), || run("umount", &[], &self.0));
        // Its group, which it leads: the shell and its sleep.
        if let Some(group) = i32::try_from(self.1.id()).ok().filter(|pid| *pid > 1) {
            // SAFETY: a group of our own unreaped child.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.1.wait();
    }
}
