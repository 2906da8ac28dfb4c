//! The command, linked static against musl, is the same command.

use std::{
    path::{Path, PathBuf},
    process::{self, Output},
};

use pidward_tests::{
    command::{code, finish, path, plain},
    leftovers::NoLeftovers,
    need,
};

/// The target, if this compiler has its standard library.
fn target() -> Option<String> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let cargo = Path::new(env!("CARGO"));
    let rustc = cargo.with_file_name("rustc");
    let asked = process::Command::new(rustc).args(["--print", "target-libdir", "--target", &target]).output();
    let libraries = String::from_utf8(asked.ok()?.stdout).ok()?;
    Path::new(libraries.trim()).join("self-contained").is_dir().then_some(target)
}

fn build(target: &str) -> PathBuf {
    let place = path().ancestors().nth(2).expect("target/<profile>/pidward");
    let built = process::Command::new(env!("CARGO"))
        .args(["build", "-q", "-p", "pidward", "--bin", "pidward", "--features", "cli", "--target", target])
        .arg("--target-dir")
        .arg(place)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    place.join(target).join("debug/pidward")
}

/// Whether the file names a dynamic loader (`PT_INTERP` of elf(5)). Numbers of a 64 bit ELF file, low byte first.
fn has_loader(elf: &[u8]) -> bool {
    let number = |at: usize, length: usize| {
        elf[at..at + length].iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    };
    assert_eq!(&elf[..6], b"\x7fELF\x02\x01");
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    assert!(count > 0, "a program has segments");
    (0..count).any(|segment| number(table + segment * size, 4) == 3)
}

/// What it printed.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_command_runs_static() {
    let target = target();
    need!(target.is_some(), "needs-musl: this compiler's standard library for musl");
    let guard = NoLeftovers::new();
    let musl = build(&target.unwrap_or_default());
    let elf = std::fs::read(&musl).expect("the program");
    assert!(!has_loader(&elf) && has_loader(&std::fs::read(path()).expect("the usual program")));
    let command = |args: &[&str]| {
        let usual = plain(&guard);
        let mut command = guard.command(&musl);
        command.args(args).envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(process::Stdio::null());
        finish(&mut command)
    };
    let run = command(&["run", "--", "/bin/sh", "-c", "echo out; exit 7"]);
    assert_eq!((code(&run), said(&run)), (7, "out\n".to_owned()), "{run:?}");
    let signalled = command(&["run", "--", "/bin/sh", "-c", "kill -9 $$"]);
    assert_eq!(code(&signalled), 128 + libc::SIGKILL, "{signalled:?}");
    assert_eq!(code(&command(&["run", "--", "/no/such"])), 127);
    // Each promise by the same mechanism: nothing depends on the C library.
    let (doctor, usual) = (command(&["doctor"]), finish(plain(&guard).arg("doctor")));
    assert_eq!((code(&doctor), said(&doctor)), (code(&usual), said(&usual)));
}
