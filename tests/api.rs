//! Every public call of spawner, child and error is used once; what holds for all types. Commands: `api_command.rs`.

use std::{
    error::Error,
    fmt::Debug,
    fs,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::ExitStatusExt,
    },
    path::Path,
    time::Duration,
};

use pidward::{
    ChildKind, Command, OnLastDrop, Resource, ServiceName, SpawnErrorKind, Spawner, Stdio, StopOwned, Verdict,
};
use pidward_tests::leftovers::NoLeftovers;

const SECOND: Duration = Duration::from_secs(1);

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/src").join(file);
    fs::read_to_string(path).expect("a source file")
}

#[test]
fn spawner_and_child_have_their_calls() {
    let guard = NoLeftovers::new();
    let builder = Spawner::builder().threads(2).queue(9).deadline(Some(SECOND * 9)).spin(Duration::ZERO);
    let spawner = builder.grace(SECOND).on_last_drop(OnLastDrop::Stop).build().unwrap();
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawner.spawn_owned_supervised(cat).unwrap();
    assert!(child.id() > 1 && child.as_fd().as_raw_fd() > 2 && child.pgid() == Some(child.id()));
    assert!(child.try_wait().unwrap().is_none());
    child.stdin.as_mut().unwrap().write_all(b"text").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"text");
    let sleep = || {
        let mut cmd = Command::new("sleep");
        cmd.arg("1000").env(guard.token().0, guard.token().1);
        cmd
    };
    let mut child = spawner.spawn(&sleep()).unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    let mut child = spawner.spawn(sleep().stdout(Stdio::piped())).unwrap();
    assert_eq!(child.stop(SECOND * 5).status().and_then(|s| s.signal()), Some(libc::SIGTERM));
    assert_eq!(child.stdout.take().unwrap().read(&mut [0]).unwrap(), 0);
    let pid = spawner.spawn_supervised(sleep()).unwrap();
    assert_eq!(spawner.shutdown(SECOND * 5).children.iter().map(|c| c.pid).collect::<Vec<_>>(), [pid]);
}

#[test]
fn spawn_error_says_all_in_one_line_and_survives_as_io_error() {
    let mut cmd = Command::new("/bin/true");
    let error = Spawner::new().unwrap().spawn(cmd.current_dir("/no\nsuch")).unwrap_err();
    let text = error.to_string();
    for part in ["/bin/true", "change directory", r"/no\nsuch", "ENOENT"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\n'), "{text}");
    let _: &dyn Error = &error;
    let io = io::Error::from(error.clone());
    assert_eq!((io.kind(), io.to_string()), (io::ErrorKind::NotFound, text));
    let inner = io.get_ref().and_then(|e| e.downcast_ref::<pidward::SpawnError>()).expect("it is inside");
    assert_eq!((inner.kind(), inner.raw_os_error()), (error.kind(), Some(libc::ENOENT)));
}

#[test]
fn identities_and_stamps_have_their_calls() {
    let guard = NoLeftovers::new();
    let spawner = Spawner::new().unwrap();
    let service: ServiceName = "one".parse().unwrap();
    let mut cat = Command::new("cat");
    pidward::mark_child(
        cat.stdin(Stdio::piped()).env(guard.token().0, guard.token().1),
        ChildKind::Agent,
        &service,
    );
    let mut child = spawner.spawn(&cat).unwrap();
    let identity: pidward::Identity = child.identity().unwrap().to_string().parse().unwrap();
    assert_eq!((identity, identity.pid()), (child.identity().unwrap(), child.id()));
    assert_eq!([identity.verify(), spawner.verify_identity(&identity)], [Verdict::Same; 2]);
    assert_eq!(spawner.verify(child.id(), ChildKind::Agent, &service), Verdict::Same);
    assert!(spawner.owns(child.id(), ChildKind::Agent, &service) && pidward::is_running(child.id()));
    assert_eq!(spawner.listeners(0).unwrap(), []);
    assert!(pidward::live_environ(child.id()).is_some_and(|e| ChildKind::Agent.identifies(&e, &service)));
    assert!(matches!(spawner.stop_identity(&identity, SECOND * 5), StopOwned::Stopped(_)));
    assert!(matches!(identity.stop(SECOND), StopOwned::NotRunning));
    assert!(matches!(
        spawner.stop_owned(child.id(), ChildKind::Agent, &service, SECOND),
        StopOwned::NotRunning
    ));
    assert_eq!(pidward::verify(child.id(), ChildKind::Agent, &service), Verdict::Gone);
    assert!(child.try_wait().unwrap().is_some() && pidward::identity_verification_supported());
    let error = "no line".parse::<pidward::Identity>().unwrap_err();
    let _: &dyn Error = &error;
    assert!(!error.to_string().contains('\n') && error.to_string().contains("pidward-identity"));
    assert_eq!(pidward::api_server_service().as_str(), pidward::API_SERVER_SERVICE);
    // Called for real by a program of its own.
    let _: fn() -> io::Result<pidward::ApiServerStamp> = pidward::stamp_api_server;
    match pidward::ApiServerStamp::Stamped {
        pidward::ApiServerStamp::Stamped | pidward::ApiServerStamp::Unverifiable => {}
    }
}

#[test]
fn public_types_can_be_shown_and_sent() {
    fn all<T: Debug + Send + Sync>() {}
    all::<(Command, pidward::Child, pidward::ChildState, Spawner, pidward::SpawnerBuilder, OnLastDrop)>();
    all::<(pidward::SpawnError, SpawnErrorKind, pidward::Limit, Resource, Stdio, ChildKind, ServiceName)>();
    all::<(pidward::ChildStdin, pidward::ChildStdout, pidward::ChildStderr, pidward::ServiceNameError)>();
    all::<(pidward::StopReport, pidward::Stopped, pidward::Stopping, pidward::Survivor)>();
    all::<(pidward::Identity, pidward::IdentityError, Verdict, pidward::Why, pidward::Field)>();
    all::<(pidward::Events, pidward::Event, pidward::Node, pidward::Transport, pidward::ChannelLimits)>();
    all::<(pidward::ProtocolError, pidward::ProtocolErrorKind, pidward::SendError)>();
    all::<(StopOwned, pidward::ApiServerStamp, pidward::Errno, pidward::Listener)>();
}

#[test]
fn public_enums_may_grow() {
    for file in [
        "child.rs",
        "names.rs",
        "command/settings.rs",
        "error/kind.rs",
        "error/limit.rs",
        "spawner/builder.rs",
        "identity.rs",
        "channel/event.rs",
        "channel/out.rs",
        "channel/settings.rs",
        "agent/error.rs",
        "agent/mod.rs",
        "message/error.rs",
        "message/mod.rs",
        "../../core/src/identity/mod.rs",
    ] {
        let text = source(file);
        for (head, _) in text.match_indices("\npub enum ") {
            let before = text[..head].rsplit("\n\n").next().unwrap_or_default();
            // The one that is complete: there is a stamp, or it cannot be told.
            let is_complete = text[head..].starts_with("\npub enum ApiServerStamp {");
            assert!(is_complete != before.contains("#[non_exhaustive]"), "{file}: {before}");
        }
    }
}
