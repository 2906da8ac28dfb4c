//! Names and installation of the markers are the spawner's: what its children carry, what they do not, and who knows them again.

use std::{io, time::Duration};

use pidward::{
    ChildKind, Command, MarkerNames, MarkerNamesError, ServiceName, Spawner, Stdio, StopOwned, Verdict, Why,
};
use pidward_tests::{fixture, in_child, leftovers::NoLeftovers, proc, report::Report};

const INSTALLATION: &str = "0123456789abcdef0123456789abcdef";
const LONG: Duration = Duration::from_secs(10);

fn acme() -> MarkerNames {
    MarkerNames::default()
        .general("ACME_CHILD")
        .agent("ACME_AGENT")
        .mcp("ACME_MCP")
        .api("ACME_API")
        .task("ACME_TASK")
        .nonce("ACME_NONCE")
        .role("ACME_ROLE")
        .channel("ACME_CHANNEL")
        .tree("ACME_TREE_")
}

fn name() -> ServiceName {
    "one".parse().expect("a name")
}

/// The environ of a child that ends at once.
fn environ(spawner: &Spawner, cmd: &mut Command) -> Vec<String> {
    let child = spawner.spawn(cmd.stdout(Stdio::piped())).expect("a child");
    let output = child.wait_with_output().expect("its output");
    let report = Report::parse(&output.stdout);
    report.all("env").iter().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

fn of<'a>(environ: &'a [String], prefix: &str) -> Vec<&'a str> {
    environ.iter().map(String::as_str).filter(|entry| entry.starts_with(prefix)).collect()
}

#[test]
fn children_carry_the_names_of_their_spawner_and_no_others() {
    in_child!();
    // What an outer supervisor of each kind of names has given this process.
    for (name, value) in [
        ("ACME_CHILD", "1"),
        ("ACME_MCP", "outer"),
        ("ACME_NONCE", "outer"),
        ("ACME_ROLE", "outer"),
        ("ACME_TREE_0", "outer"),
        ("PIDWARD_SUBPROCESS", "1"),
        ("AGENT_NAME", "outer"),
        ("PIDWARD_NONCE", "outer"),
        ("PIDWARD_TREE_0", "outer"),
    ] {
        // SAFETY: this process runs this one test, which has not made a thread yet.
        unsafe { std::env::set_var(name, value) };
    }
    let plain = Spawner::new().expect("a spawner");
    let other = Spawner::builder().markers(acme()).installation(INSTALLATION).build().expect("a spawner");
    let mut cmd = Command::new(fixture!("report"));
    cmd.kind(ChildKind::Agent).service(&name());
    let seen = environ(&other, &mut cmd);
    assert_eq!(of(&seen, "ACME_CHILD="), ["ACME_CHILD=1"]);
    assert_eq!(of(&seen, "ACME_AGENT="), ["ACME_AGENT=one"]);
    assert!(of(&seen, "ACME_MCP=").is_empty() && of(&seen, "ACME_ROLE=").is_empty(), "{seen:?}");
    let nonces = of(&seen, "ACME_NONCE=");
    assert!(nonces.len() == 1 && nonces[0] != "ACME_NONCE=outer", "{nonces:?}");
    let (tree, installation) = other.tree_entry();
    assert!(tree.starts_with("ACME_TREE_") && installation == INSTALLATION);
    assert_eq!(of(&seen, tree), [format!("{tree}={INSTALLATION}")]);
    assert_eq!(of(&seen, "ACME_TREE_0="), ["ACME_TREE_0=outer"]);
    // The default names are ordinary variables to it.
    for entry in ["PIDWARD_SUBPROCESS=1", "AGENT_NAME=outer", "PIDWARD_NONCE=outer", "PIDWARD_TREE_0=outer"] {
        assert!(seen.iter().any(|seen| seen == entry), "{entry}: {seen:?}");
    }
    // And the other way round.
    let seen = environ(&plain, &mut cmd);
    assert_eq!(of(&seen, "AGENT_NAME="), ["AGENT_NAME=one"]);
    assert_eq!(of(&seen, "ACME_MCP="), ["ACME_MCP=outer"]);
    assert_ne!(of(&seen, "PIDWARD_NONCE="), ["PIDWARD_NONCE=outer"]);
    // A cleared environment keeps the run entries of all who are further out, under these names and the usual ones.
    cmd.env_clear();
    let seen = environ(&other, &mut cmd);
    assert_eq!(of(&seen, "ACME_TREE_").len(), 2, "{seen:?}");
    assert_eq!(of(&seen, "PIDWARD_"), ["PIDWARD_TREE_0=outer"]);
    assert_eq!(of(&seen, "ACME_").len(), 5, "{seen:?}");
}

#[test]
fn a_later_spawner_of_the_installation_knows_and_stops_the_child() {
    let guard = NoLeftovers::new();
    let build = |names: MarkerNames| Spawner::builder().markers(names).installation(INSTALLATION).build();
    let first = build(acme()).expect("a spawner");
    let mut cmd = Command::new("cat");
    cmd.kind(ChildKind::Agent).service(&name()).stdin(Stdio::piped()).env(guard.token().0, guard.token().1);
    let mut child = first.spawn(&cmd).expect("a child");
    proc::eventually("exec", || proc::cmdline(child.id()).starts_with("cat"));
    // Others: of this name and another installation, and of this installation under other names.
    let stranger = Spawner::builder().markers(acme()).build().expect("a spawner");
    assert_eq!(stranger.verify(child.id(), ChildKind::Agent, &name()), Verdict::NotOurs(Why::OtherTree));
    let renamed = build(MarkerNames::default()).expect("a spawner");
    assert_eq!(renamed.verify(child.id(), ChildKind::Agent, &name()), Verdict::Unknown(Why::NoMarker));
    for other in [&stranger, &renamed] {
        let stop = other.stop_owned(child.id(), ChildKind::Agent, &name(), LONG);
        assert!(matches!(stop, StopOwned::NotOurs(_) | StopOwned::Unverifiable(_)), "{stop:?}");
    }
    assert!(proc::alive(child.id()));
    // As after a restart: it has no handle of the child.
    let second = build(acme()).expect("a spawner");
    assert_eq!(second.verify(child.id(), ChildKind::Agent, &name()), Verdict::Same);
    for (kind, service) in [(ChildKind::Mcp, name()), (ChildKind::Agent, "two".parse().expect("a name"))] {
        assert_eq!(second.verify(child.id(), kind, &service), Verdict::Unknown(Why::NoMarker));
    }
    let stop = second.stop_owned(child.id(), ChildKind::Agent, &name(), LONG);
    assert!(matches!(stop, StopOwned::Stopped(ref stopped) if stopped.status.is_none()), "{stop:?}");
    assert!(!pidward::is_running(child.id()), "it has ended, whoever reaps it");
    assert!(child.wait().expect("a status that nobody took").code().is_none());
}

#[test]
fn what_is_no_name_or_installation_is_one_clear_error() {
    let error = Spawner::builder().markers(acme().task("ACME_MCP")).build().expect_err("two of a name");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<MarkerNamesError>()).expect("it is inside");
    assert!(inner.to_string().contains("'task'") && !inner.to_string().contains('\n'), "{inner}");
    for bad in
        ["", "0123", "0123456789ABCDEF0123456789ABCDEF", &"0".repeat(33), "0123456789abcdef0123456789abcde\n"]
    {
        let error = Spawner::builder().installation(bad).build().expect_err(bad);
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(
            error.to_string().contains("32 lower-case hex digits") && !error.to_string().contains('\n'),
            "{error}"
        );
    }
}
