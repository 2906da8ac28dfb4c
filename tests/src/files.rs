//! Places and program files for tests.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::leftovers::random_word;

/// A fresh directory that goes away with the value.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes one below the system's directory for temporary files, mode 0700.
    #[expect(clippy::new_without_default, reason = "it makes something outside the program")]
    pub fn new() -> TempDir {
        // In namespaces of their own many tests have the same pid.
        let path = std::env::temp_dir().join(format!("pidward-test-{}", random_word()));
        fs::create_dir(&path).expect("a temporary directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
        TempDir(path)
    }

    /// Its path, or that of something in it.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What stays is in the way of nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes an executable file. Another process does it: were it open for writing here, a child that some
/// other thread forks at that moment would hold it open, and the exec would fail with "text file busy".
pub fn program(path: &Path, bytes: &[u8]) {
    let mut sh = Command::new("/bin/sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    sh.stdin.take().expect("its input").write_all(bytes).expect("the bytes of a program");
    assert!(sh.wait().expect("the shell's end").success(), "cannot write {}", path.display());
}

/// The smallest static program there is: no libc, no interpreter, it only exits with `code`. For x86-64 and
/// aarch64; elsewhere `None`.
pub fn tiny_program(code: u8) -> Option<Vec<u8>> {
    if cfg!(target_arch = "x86_64") {
        // mov edi, code; mov eax, 231 (exit_group); syscall; ud2
        Some(elf(62, &[0xBF, code, 0, 0, 0, 0xB8, 231, 0, 0, 0, 0x0F, 0x05, 0x0F, 0x0B]))
    } else if cfg!(target_arch = "aarch64") {
        // mov x0, code; mov x8, 94 (exit_group); svc 0; udf 0
        let mov = 0xD280_0000_u32 | u32::from(code) << 5;
        Some(elf(183, &[mov, 0xD280_0008 | 94 << 5, 0xD400_0001, 0].map(u32::to_le_bytes).concat()))
    } else {
        None
    }
}

/// The same that stays, and makes no call that matters to anybody.
pub fn tiny_sleeper() -> Option<Vec<u8>> {
    if cfg!(target_arch = "x86_64") {
        // mov eax, 34 (pause); syscall; jmp back
        Some(elf(62, &[0xB8, 34, 0, 0, 0, 0x0F, 0x05, 0xEB, 0xF7]))
    } else if cfg!(target_arch = "aarch64") {
        // mov x0, 0; mov x1, 0; mov x2, 0; mov x3, 0; mov x8, 73 (ppoll); svc 0; b back
        let words = [
            0xD280_0000_u32,
            0xD280_0001,
            0xD280_0002,
            0xD280_0003,
            0xD280_0008 | 73 << 5,
            0xD400_0001,
            0x17FF_FFFA,
        ];
        Some(elf(183, &words.map(u32::to_le_bytes).concat()))
    } else {
        None
    }
}

/// Laid out as elf(5) says: one header, one segment, the code.
fn elf(machine: u16, text: &[u8]) -> Vec<u8> {
    let (base, headers) = (0x40_0000_u64, 64 + 56_u64);
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [2, machine] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for long in [base + headers, 64, 0] {
        file.extend(long.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // One segment to load, readable and executable.
    for word in [1_u32, 5] {
        file.extend(word.to_le_bytes());
    }
    let size = headers + text.len() as u64;
    for long in [0, base, base, size, size, 0x1000] {
        file.extend(long.to_le_bytes());
    }
    file.extend(text);
    file
}
