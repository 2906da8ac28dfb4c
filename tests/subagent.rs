//! A supervisor's handle on an agent: its payload, its end, and that nothing is sent after it.

use std::{fs, io::Write, os::unix::process::ExitStatusExt, time::Instant};

use pidward::{
    AgentMsg, ControlMsg, NodeId, SendError, SpawnErrorKind, SpawnPayload, Spawner, Stdio, Subagent,
    message::{Map, UnknownMsg, Value},
};
use pidward_tests::{channel, fixture, leftovers::NoLeftovers, proc};

mod agents;

use agents::{SECOND, Stage};

/// A script of the shell that is an agent as far as its supervisor knows.
fn script(stage: &Stage, node: u64, script: &str) -> Subagent {
    let payload = SpawnPayload::new("script", "");
    let mut cmd = stage.guard.shell(script);
    Subagent::spawn(cmd.stdin(Stdio::piped()), &payload, NodeId(node), &stage.events, &stage.spawner).unwrap()
}

#[test]
fn worker_killed_in_the_middle_of_a_turn_gives_one_exit_with_its_cause() {
    let stage = Stage::new();
    let agent = stage.start("compute", 60_000);
    assert_eq!(stage.next(), "ready");
    agent.kill();
    let mut exits = Vec::new();
    // Ends when nothing comes for a while.
    while let Some((node, event)) = stage.events.recv(Some(SECOND / 2)) {
        assert_eq!(node, agent.node);
        if let pidward::Event::Exit { status, .. } = event {
            exits.push(status.and_then(|status| status.signal()));
        }
    }
    assert_eq!(exits, [Some(libc::SIGKILL)]);
    agent.kill();
    assert!(stage.events.recv(Some(SECOND / 10)).is_none());
}

#[test]
fn payload_of_every_size_comes_whole_however_late_it_is_read() {
    let stage = Stage::new();
    let cap = 16 << 20;
    let bare = r#"{"type":"spawn","payload":{"v":1,"role":"digest","task":"","depth":0}}"#.len();
    for size in [0, 64 << 10, 1 << 20, cap - bare] {
        let payload = SpawnPayload::new("digest", "x".repeat(size));
        assert!(size < cap - bare || ControlMsg::Spawn(payload.clone()).to_bytes().len() == cap);
        let late = format!("read go; exec {}", fixture!("agent").display());
        let mut cmd = stage.guard.shell(&late);
        cmd.stdin(Stdio::piped());
        let began = Instant::now();
        let mut agent = stage.start_as(&mut cmd, &payload);
        assert!(began.elapsed() < SECOND * 5, "{size}: {:?}", began.elapsed());
        assert!(stage.events.recv(Some(SECOND / 10)).is_none(), "it does not read yet");
        agent.child().stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert_eq!(stage.to_exit(), ["ready", &format!("result {size}"), "closed", "exit 0"]);
    }
    let over = SpawnPayload::new("digest", "x".repeat(cap - bare + 1));
    let refused = pidward::spawn("/bin/true", &over, NodeId(1), &stage.events, &stage.spawner).unwrap_err();
    assert_eq!(refused.kind(), SpawnErrorKind::InvalidInput, "{refused}");
}

#[test]
fn payload_is_neither_among_the_arguments_nor_in_the_environ() {
    let stage = Stage::new();
    let mut payload = SpawnPayload::new("warm", "xyzzy-task");
    payload.depth = 3;
    for members in [&mut payload.limits, &mut payload.ids, &mut payload.extra] {
        members.insert("key".into(), "xyzzy-value".into());
    }
    let mut cmd = stage.command();
    let agent = stage.start_as(&mut cmd, &payload);
    assert_eq!([stage.next(), stage.next()], ["ready", "turn \"xyzzy-task\""]);
    let seen = ["cmdline", "environ"].map(|file| {
        String::from_utf8_lossy(&fs::read(format!("/proc/{}/{file}", agent.pid())).unwrap()).into_owned()
    });
    assert!(seen[1].contains("PIDWARD_ROLE=warm\0") && seen[1].contains("PIDWARD_CHANNEL="), "{seen:?}");
    assert!(!seen.concat().contains("xyzzy"), "{seen:?}");
    for shown in [format!("{payload:?}"), format!("{agent:?}"), format!("{cmd:?}")] {
        assert!(!shown.contains("xyzzy") && !shown.contains("warm"), "{shown}");
    }
    assert_eq!(
        (agent.node, agent.pgid(), proc::pgid(agent.pid())),
        (NodeId(1), agent.pid(), Some(agent.pid()))
    );
    let pid = agent.pid();
    drop(agent);
    proc::eventually("it is reaped", || proc::state(pid).is_none());
}

#[test]
fn nothing_is_sent_once_it_is_marked_as_reaped() {
    let stage = Stage::new();
    let agent = script(&stage, 1, "sleep 1000 <&- & exit 4");
    assert_eq!(stage.to_exit(), ["closed", "exit 4"]);
    agent.mark_reaped();
    agent.kill();
    assert_eq!(agent.send(&ControlMsg::Pause), Err(SendError::Closed));
    drop(agent);
    std::thread::sleep(SECOND / 5);
    assert_eq!(stage.guard.end_all().len(), 1, "what it has left behind lives on");
    // And without the mark what it has left goes too.
    let agent = script(&stage, 1, "sleep 1000 <&- & exit 4");
    assert_eq!(stage.to_exit(), ["closed", "exit 4"]);
    drop(agent);
    proc::eventually("nobody is left", || stage.guard.left().is_empty());
}

#[test]
fn number_of_a_node_is_given_once_at_a_time() {
    let stage = Stage::new();
    let payload = SpawnPayload::new("script", "");
    let mut cmd = stage.guard.shell("read never");
    cmd.stdin(Stdio::piped());
    let mut start = |node| Subagent::spawn(&mut cmd, &payload, NodeId(node), &stage.events, &stage.spawner);
    let seven = start(7).unwrap();
    for node in [7, 0, 1 << 62, u64::MAX] {
        let refused = start(node).unwrap_err();
        assert_eq!(refused.kind(), SpawnErrorKind::NodeInUse, "{refused}");
    }
    // Before anything is started.
    let missing = pidward::Command::new("/no/such");
    let refused = stage.events.spawn_as(NodeId(7), &stage.spawner, &missing).unwrap_err();
    assert_eq!(refused.kind(), SpawnErrorKind::NodeInUse);
    let node = stage.events.spawn(&stage.spawner, &stage.guard.shell("exit")).unwrap();
    assert_eq!(node.id(), NodeId(8), "higher than any before");
    assert!(matches!(channel::next(&stage.events), (NodeId(8), pidward::Event::Exit { .. })));
    drop(seven);
    // Ends with its exit.
    while !matches!(channel::next(&stage.events), (NodeId(7), pidward::Event::Exit { .. })) {}
    drop(start(7).unwrap());
}

#[test]
fn of_two_that_want_one_number_one_has_it() {
    let stage = Stage::new();
    let cmd = stage.guard.shell("exec sleep 1000");
    for _ in 0..20 {
        let start = || stage.events.spawn_as(NodeId(1), &stage.spawner, &cmd);
        let both = std::thread::scope(|scope| {
            [scope.spawn(start), scope.spawn(start)].map(|one| one.join().unwrap())
        });
        let (nodes, refused): (Vec<_>, Vec<_>) = both.into_iter().partition(Result::is_ok);
        assert!(refused.into_iter().all(|e| e.unwrap_err().kind() == SpawnErrorKind::NodeInUse));
        let [Ok(node)] = &mut { nodes }[..] else { panic!("one of them") };
        node.child().kill().unwrap();
        assert_eq!(stage.to_exit(), ["exit -1"]);
        proc::eventually("the other was ended", || stage.guard.left().is_empty());
    }
}

#[test]
fn commands_that_cannot_be_agents_are_refused() {
    let stage = Stage::new();
    let refused = |cmd: &mut pidward::Command, role: &str| {
        let payload = SpawnPayload::new(role, "");
        Subagent::spawn(cmd, &payload, NodeId(1), &stage.events, &stage.spawner).unwrap_err().kind()
    };
    assert_eq!(refused(&mut stage.command(), ""), SpawnErrorKind::InvalidInput);
    assert_eq!(refused(&mut stage.command(), "a\0b"), SpawnErrorKind::Nul);
    assert_eq!(refused(stage.command().own_group(false), "warm"), SpawnErrorKind::InvalidInput);
    assert_eq!(
        refused(stage.command().stderr_events(true).stderr(Stdio::null()), "w"),
        SpawnErrorKind::InvalidInput
    );
    assert_eq!(refused(&mut pidward::Command::new("/no/such"), "w"), SpawnErrorKind::ProgramMissing);
    // One that does not listen is none of these.
    let payload = SpawnPayload::new("none", "x".repeat(1 << 20));
    let agent = pidward::spawn("/bin/true", &payload, NodeId(1), &stage.events, &stage.spawner).unwrap();
    assert_eq!(stage.to_exit(), ["closed", "exit 0"]);
    drop(agent);
}

#[test]
fn agent_of_a_spawner_with_names_of_its_own_is_told_its_role_by_them() {
    let guard = NoLeftovers::new();
    let names = pidward::MarkerNames::default().role("ACME_ROLE").channel("ACME_FD");
    let spawner = Spawner::builder().markers(names).build().unwrap();
    let stage = Stage { events: pidward::Events::new().unwrap(), spawner, guard };
    let script = "test -n \"$ACME_FD\" && test \"$ACME_ROLE\" = script && test -z \"$PIDWARD_ROLE\"";
    let _agent = self::script(&stage, 1, script);
    assert_eq!(stage.to_exit(), ["closed", "exit 0"]);
}

#[test]
fn public_types_can_be_shown_and_sent() {
    fn all<T: std::fmt::Debug + Send + Sync>() {}
    all::<(Subagent, SpawnPayload, ControlMsg, AgentMsg, UnknownMsg, pidward::MessageError)>();
    all::<(pidward::agent::Agent, pidward::agent::AgentError, pidward::agent::AgentSettings)>();
    all::<(pidward::agent::Input, pidward::agent::Refused, Map<String, Value>)>();
}
