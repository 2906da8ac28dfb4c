//! The line, and verdicts on real processes. What needs other users, namespaces or recycled numbers stands in the tests package.

use std::{
    format,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    string::ToString,
    vec::Vec,
};

use super::*;
use crate::{
    marker::{ChildKind, Cookie, Names},
    text::fnv1a,
};

fn identity() -> Identity {
    Identity {
        boot: Id128::from_bytes([0x1b; 16]),
        pid_ns: 4_026_531_836,
        pid: Pid::new(4711).unwrap(),
        start_ticks: 123_456,
        inode: Some(99),
        pgid: Pid::new(4711),
        nonce: Some(Id128::from_bytes([0xfe; 16])),
    }
}

#[test]
fn a_line_is_what_the_docs_say_and_comes_back() {
    let text = identity().to_string();
    let ids = ["1b", "fe"].map(|byte| byte.repeat(16));
    let body = format!(
        "pidward-identity v=1 boot={} ns=4026531836 pid=4711 ticks=123456 inode=99 pgid=4711 nonce={} sum=",
        ids[0], ids[1]
    );
    assert_eq!(text.strip_suffix(&text[body.len()..]), Some(body.as_str()));
    assert_eq!(Identity::parse(text.as_bytes()), Ok(identity()));
    assert_eq!(Identity::parse(format!("{text}\n").as_bytes()), Ok(identity()));
    let least = Identity { inode: None, pgid: None, nonce: None, ..identity() };
    assert!(least.to_string().contains(" inode=- pgid=- nonce=- sum="));
    assert_eq!(Identity::parse(least.to_string().as_bytes()), Ok(least));
    let most = Identity {
        pid_ns: u64::MAX,
        pid: Pid::new(i32::MAX as u32).unwrap(),
        start_ticks: u64::MAX,
        inode: Some(u64::MAX),
        pgid: Pid::new(i32::MAX as u32),
        ..identity()
    };
    assert_eq!(most.to_string().len(), 227);
    assert_eq!(Identity::parse(most.to_string().as_bytes()), Ok(most));
}

#[test]
fn a_line_that_is_cut_or_changed_anywhere_is_torn() {
    let text = identity().to_string();
    for end in 0..text.len() {
        let error = Identity::parse(&text.as_bytes()[..end]).unwrap_err();
        let expected =
            if end == "pidward-identity v=".len() { LineError::Malformed } else { LineError::Torn };
        assert_eq!(error, expected, "{end}");
    }
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            assert!(Identity::parse(&bytes).is_err(), "{at} {bit}");
        }
    }
}

/// The line with another body and the right sum.
fn summed(body: &str) -> std::string::String {
    format!("{body} sum={:016x}", fnv1a(body.as_bytes()))
}

#[test]
fn each_other_fault_has_its_own_error() {
    let text = identity().to_string();
    let (body, _) = text.rsplit_once(" sum=").unwrap();
    assert_eq!(Identity::parse(summed(body).as_bytes()), Ok(identity()));
    let newer = body.replace("v=1", "v=2");
    for line in [newer.clone(), summed(&newer), format!("{} and=more", summed(&newer))] {
        assert_eq!(Identity::parse(line.as_bytes()), Err(LineError::Newer), "{line}");
    }
    let long = format!("{text}{}", " ".repeat(LINE_MAX));
    assert_eq!(Identity::parse(long.as_bytes()), Err(LineError::TooLong));
    for junk in ["hello", "4711", "pidward-identity", " pidward-identity v=1", "pidward-identity v=0 "] {
        let error = Identity::parse(junk.as_bytes()).unwrap_err();
        let cut = "pidward-identity v=".starts_with(junk);
        assert_eq!(error, if cut { LineError::Torn } else { LineError::Malformed }, "{junk}");
    }
    for (from, to) in [
        ("pid=4711", "pid=0"),
        ("pid=4711", "pid=-1"),
        ("pid=4711", "pid=2147483648"),
        ("pid=4711", "pid=04711"),
        ("pid=4711", "pid=+4711"),
        ("pid=4711", "pid=-"),
        ("pid=4711", "pid="),
        ("pgid=4711", "pgid=0"),
        ("ticks=123456", "ticks=18446744073709551616"),
        ("ticks=123456", "ticks=-"),
        ("inode=99", "inode=x"),
        (" inode=99", ""),
        ("inode=99", "inode=99 inode=99"),
        ("boot=1b", "boot=1B"),
        ("nonce=fe", "nonce=f"),
    ] {
        let line = summed(&body.replacen(from, to, 1));
        assert_eq!(Identity::parse(line.as_bytes()), Err(LineError::Malformed), "{line}");
    }
}

/// A shell that has announced itself, with these entries in its environ.
fn shell(entries: &[(&str, &str)]) -> Child {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo ready; read line"]).env_clear().envs(entries.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = std::string::String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn named(pid: u32, kind: ChildKind, service: &str, cookie: Cookie) -> Verdict {
    let host = Host::look();
    match host.verify_named(Pid::new(pid).unwrap(), &Names::DEFAULT, (kind, service), cookie) {
        Ok((process, _)) => {
            assert_eq!(process.pid().get(), pid);
            Verdict::Same
        }
        Err(verdict) => verdict,
    }
}

#[test]
fn a_name_needs_both_markers_and_the_cookie() {
    let [run, installation] = ["0a", "0b"].map(|byte| byte.repeat(16));
    let [id, other] = [&installation, &run].map(|text| Id128::parse(text.as_bytes()).unwrap());
    let tree = format!("PIDWARD_TREE_{run}");
    let all = [("PIDWARD_SUBPROCESS", "1"), ("AGENT_NAME", "a"), (tree.as_str(), installation.as_str())];
    let unknown = Verdict::Unknown(Why::NoMarker);
    for (entries, verdict) in [
        (&all[..], Verdict::Same),
        (&all[..2], unknown),
        (&all[1..], unknown),
        (&[all[0], all[2]], unknown),
        (&[("A", "b")], unknown),
        (&[], unknown),
    ] {
        let mut child = shell(entries);
        let agent = |cookie| named(child.id(), ChildKind::Agent, "a", cookie);
        // A shell without any variable makes one or two of its own for its children, not for itself.
        assert_eq!(agent(Cookie::Installation(id)), verdict, "{entries:?}");
        if verdict == Verdict::Same {
            assert_eq!(agent(Cookie::Any), Verdict::Same);
            assert_eq!(agent(Cookie::Installation(other)), Verdict::NotOurs(Why::OtherTree));
            assert_eq!(named(child.id(), ChildKind::Mcp, "a", Cookie::Any), unknown);
            assert_eq!(named(child.id(), ChildKind::Agent, "ab", Cookie::Any), unknown);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(named(child.id(), ChildKind::Agent, "a", Cookie::Any), Verdict::Gone);
    }
}

#[test]
fn ourselves_and_pid_1_are_nobodys_children() {
    let own = std::process::id();
    assert_eq!(named(own, ChildKind::Task, "a", Cookie::Any), Verdict::NotOurs(Why::Us));
    assert_eq!(named(1, ChildKind::Task, "a", Cookie::Any), Verdict::NotOurs(Why::OtherTree));
    let host = Host::look();
    let (boot, pid_ns) = host.here().unwrap();
    let us = Identity { boot, pid_ns, pid: Pid::new(own).unwrap(), ..identity() };
    assert_eq!(host.verify(&us, &Names::DEFAULT).map(|_| ()), Err(Verdict::NotOurs(Why::Us)));
    let elsewhere = Identity { pid_ns: pid_ns ^ 1, ..us };
    assert_eq!(
        host.verify(&elsewhere, &Names::DEFAULT).map(|_| ()),
        Err(Verdict::Unknown(Why::OtherPidNamespace))
    );
    let before = Identity { boot: identity().boot, ..us };
    assert_eq!(host.verify(&before, &Names::DEFAULT).map(|_| ()), Err(Verdict::NotOurs(Why::OtherBoot)));
}

#[test]
fn public_errors_are_plain_values() {
    let verdicts: Vec<Verdict> = [
        ProcError::Gone,
        ProcError::ThreadId,
        ProcError::Hidden,
        ProcError::NoProc,
        ProcError::OtherPidNamespace,
        ProcError::Malformed,
        ProcError::Errno(Errno::EACCES),
    ]
    .map(Verdict::from)
    .into();
    // Only a process that is not there is gone.
    assert_eq!(verdicts.iter().filter(|v| **v == Verdict::Gone).count(), 1);
    assert!(verdicts.iter().all(|v| *v != Verdict::Same));
}
