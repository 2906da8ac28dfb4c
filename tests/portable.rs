//! Systems that pidward does not know: their code, forced on Linux, starts programs, takes output and gives codes; knows nobody, and signals
//! nobody but its own unreaped children.

use std::{
    ffi::OsStr,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{self, Output},
    sync::OnceLock,
};

use pidward::{ChildKind, Command, ServiceName, Spawner, Stdio, Verdict, identity_verification_supported};
use pidward_tests::{files::TempDir, in_child, leftovers::NoLeftovers, seccomp::Filter};

/// The fixture, with the crates built as for a system that they do not know. In a target directory of its own.
fn portable() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let own = std::env::current_exe().expect("the path of the test binary");
        let target = own.ancestors().nth(3).expect("target/<profile>/deps/<test>").join("portable");
        let built = process::Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "pidward-portable", "--target-dir"])
            .arg(&target)
            .env("RUSTFLAGS", "--cfg pidward_portable")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug/portable")
    });
    path.clone()
}

fn run(guard: &NoLeftovers, program: impl AsRef<OsStr>, args: &[&str]) -> Output {
    // What says who the program itself is, and what supervisors further out find their descendants by.
    let outer = [
        ("PIDWARD_SUBPROCESS", "1"),
        ("AGENT_NAME", "it"),
        ("PIDWARD_NONCE", "its"),
        ("PIDWARD_TREE_1", "yes"),
    ];
    guard.command(program).envs(outer).args(args).stdin(process::Stdio::null()).output().expect("the fixture")
}

/// Every call by which a process signals one. Who makes one ends by SIGSYS, and so does whatever it starts.
fn trap_signals() {
    let calls = [
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_pidfd_send_signal,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
    ];
    calls.into_iter().fold(Filter::new(), Filter::trap).install();
}

#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The fixture asks about a child that its build for Linux would know and stop. All that it and its children do is under a filter that ends
/// whoever sends a signal; that the filter sees one is shown by the same program where it ends a child of its own.
#[test]
fn programs_run_nobody_is_known_and_nobody_is_signalled() {
    let portable = portable();
    in_child!();
    let (guard, dir) = (NoLeftovers::alone(), TempDir::new());
    let name = ServiceName::try_new("files").expect("a name");
    let mut server = Command::new("cat");
    server.kind(ChildKind::Mcp).service(&name).stdin(Stdio::piped()).stdout(Stdio::null());
    let spawner = Spawner::builder().guard(false).build().expect("a spawner");
    let mut child = spawner.spawn(&server).expect("a child");
    let identity = child.identity().expect("who it is");
    assert_eq!((identity.verify(), identity_verification_supported()), (Verdict::Same, true));
    let (identity, pid) = (identity.to_string(), child.id().to_string());
    trap_signals();
    let asked = run(&guard, &portable, &["ask", &identity, &pid, dir.at("").to_str().expect("a path")]);
    let expected = [
        "output: Some(7) out err",
        "codes: [0, 1, 255]",
        "input: through",
        "group and markers: 1 1 files none none",
        "cleared: yes none",
        "held pipe: true",
        "refused: Err(ProgramMissing)",
        "refused: Err(WorkingDirectoryMissing)",
        "refused: Err(Unsupported)",
        "supported: false",
        "shown: false",
        "environ: false",
        "parsed: true",
        "zombie: Some('Z') false",
        "verify: Unknown(Unsupported) Unknown(Unsupported)",
        "stop by name: Unverifiable(Unknown(Unsupported))",
        "stop: Unverifiable(Unknown(Unsupported))",
        "registry: Some(Unsupported) false",
        "stamp: Unverifiable",
        "asked: Some(Ask) Some(0)",
    ];
    assert_eq!(lines(&asked), expected);
    let copied = [
        "copy: Err(Unsupported) Err(Unsupported)",
        "copy: None None 1",
        "copy: Err(ForkedCopy)",
        "original: true 0 None",
        "original: Some(0)",
    ];
    assert_eq!(lines(&run(&guard, &portable, &["fork"])), copied);
    assert_eq!(run(&guard, &portable, &["end"]).status.signal(), Some(libc::SIGSYS));
    assert!(child.try_wait().expect("its state").is_none(), "it was asked about, and lives");
    // It ends with its input.
    assert_eq!(child.wait().expect("its status").code(), Some(0));
}

#[test]
fn own_children_are_ended_and_reaped() {
    let guard = NoLeftovers::new();
    let expected = [
        "killed: ExitStatus(unix_wait_status(9))",
        "stopped: Some(Kill) Some(ExitStatus(unix_wait_status(9))) true",
        "dropped: true",
        "reaped: true",
        "shut down: Some(Kill) true",
        "last drop: true",
    ];
    assert_eq!(lines(&run(&guard, portable(), &["end"])), expected);
}
