//! What a program gets of pidward, line by line, for a build of the crates as for a system that they do not know.
//!
//! `portable ask IDENTITY PID DIR`: starts children and asks about them, about the recorded process and about the MCP server "files", which
//! that number is said to be; sends no signal. `portable fork`: a forked copy of it uses what is its original's; sends none either.
//! `portable end`: ends children of its own.

use std::{
    env, fs,
    io::{self, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use pidward::{
    ChildKind, Command, Identity, Registry, ServiceName, Spawner, Stdio, environ_identifies_child,
    identity_verification_supported, is_zombie, live_environ, live_pid_is_subprocess, mark_child,
    stamp_api_server,
};

const LIMIT: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

/// Waits, for a minute at most.
fn until(done: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > LIMIT {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Starts children: codes, output, input, groups, markers, refusals.
fn start(spawner: &Spawner, name: &ServiceName, dir: &Path) -> io::Result<()> {
    let output = shell("echo out; echo err >&2; exit 7").output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    println!("output: {:?} {} {}", output.status.code(), text(&output.stdout), text(&output.stderr));
    let mut codes = Vec::new();
    for code in [0, 1, 255] {
        let mut child = spawner.spawn_owned_supervised(shell(&format!("exit {code}")))?;
        codes.extend(child.wait()?.code());
        assert_eq!(child.try_wait()?.and_then(|status| status.code()), codes.last().copied());
    }
    println!("codes: {codes:?}");
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawner.spawn(&cat)?;
    child.stdin.take().expect("a pipe").write_all(b"through")?;
    println!("input: {}", text(&child.wait_with_output()?.stdout));
    let mut marked = shell(
        "read -r _ _ _ _ group _ </proc/$$/stat
        echo $((group == $$)) $PIDWARD_SUBPROCESS $MCP_SERVICE_ID ${AGENT_NAME-none} ${PIDWARD_NONCE-none}",
    );
    marked.stdout(Stdio::piped());
    mark_child(&mut marked, ChildKind::Mcp, name);
    println!("group and markers: {}", text(&spawner.spawn(&marked)?.wait_with_output()?.stdout));
    let cleared = shell("echo ${PIDWARD_TREE_1-none} ${AGENT_NAME-none}").env_clear().output()?;
    println!("cleared: {}", text(&cleared.stdout));
    // A grandchild has the pipe for longer than anybody waits.
    let file = dir.join("held");
    fs::write(&file, "")?;
    let held = shell("while [ -e held ]; do sleep 0.1; done & echo $!").current_dir(dir).output()?;
    let pid = text(&held.stdout).parse().map_err(io::Error::other)?;
    println!("held pipe: {}", !matches!(state(pid), None | Some('Z')));
    fs::remove_file(file)?;
    assert!(until(|| matches!(state(pid), None | Some('Z'))), "the grandchild ends");
    for command in [&mut Command::new("/no/such"), shell("").current_dir("/no/such"), shell("").nice(5)] {
        println!("refused: {:?}", spawner.spawn(command).map(|child| child.id()).map_err(|e| e.kind()));
    }
    Ok(())
}

/// Who somebody is, and stops of those who are no children.
fn ask(spawner: &Spawner, known: &Identity, pid: u32, name: &ServiceName, dir: &Path) -> io::Result<()> {
    println!("supported: {}", identity_verification_supported());
    println!("shown: {}", live_pid_is_subprocess(pid, "MCP_SERVICE_ID", name.as_str()));
    println!("environ: {}", live_environ(pid).is_some_and(|block| !block.is_empty()));
    let block = format!("PIDWARD_SUBPROCESS=1\0MCP_SERVICE_ID={name}\0");
    println!("parsed: {}", environ_identifies_child(block.as_bytes(), "MCP_SERVICE_ID", name.as_str()));
    let mut child = spawner.spawn(&Command::new("true"))?;
    assert!(until(|| matches!(state(child.id()), None | Some('Z'))), "it ends");
    println!("zombie: {:?} {}", state(child.id()), is_zombie(child.id()));
    child.wait()?;
    println!("verify: {:?} {:?}", known.verify(), spawner.verify(pid, ChildKind::Mcp, name));
    println!("stop by name: {:?}", spawner.stop_owned(pid, ChildKind::Mcp, name, Duration::ZERO));
    println!("stop: {:?}", known.stop(Duration::ZERO));
    let place = dir.join("registry");
    println!("registry: {:?} {}", Registry::open(&place).err().map(|e| e.kind()), place.exists());
    println!("stamp: {:?}", stamp_api_server()?);
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped()).stdout(Stdio::null());
    let report = spawner.spawn(&cat)?.stop(LIMIT);
    println!("asked: {:?} {:?}", report.rung(), report.status().and_then(|status| status.code()));
    Ok(())
}

/// Ends children of its own.
fn end(spawner: &Spawner) -> io::Result<()> {
    let sleep = || {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000");
        sleep
    };
    // Who is ended over the first signal leaves nobody: this child ends with its input.
    let mut child = spawner.spawn(Command::new("cat").stdin(Stdio::piped()))?;
    child.kill()?;
    println!("killed: {:?}", child.wait()?);
    child.kill()?;
    let report = spawner.spawn(&sleep())?.stop(Duration::from_millis(50));
    println!("stopped: {:?} {:?} {}", report.rung(), report.status(), report.is_complete());
    let pid = spawner.spawn(sleep().kill_on_drop(true))?.id();
    println!("dropped: {}", until(|| state(pid).is_none()));
    let pid = spawner.spawn_supervised(Command::new("true"))?;
    println!("reaped: {}", until(|| state(pid).is_none()));
    let pid = spawner.spawn_supervised(sleep())?;
    let report = spawner.clone().shutdown(Duration::ZERO);
    println!("shut down: {:?} {}", report.rung(), report.children.iter().any(|child| child.pid == pid));
    let last = Spawner::builder().grace(Duration::ZERO).build()?;
    let pid = last.spawn_supervised(sleep())?;
    drop(last);
    println!("last drop: {}", until(|| state(pid).is_none()));
    Ok(())
}

/// A copy has the numbers of its original's children, and none of the children.
fn fork(spawner: &Spawner) -> io::Result<()> {
    let mut child = spawner.spawn(Command::new("cat").stdin(Stdio::piped()))?;
    io::stdout().flush()?;
    // SAFETY: the process has one thread, so the copy has all of it.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        println!(
            "copy: {:?} {:?}",
            child.kill().map_err(|e| e.kind()),
            child.try_wait().map_err(|e| e.kind())
        );
        // Our end of its input is a copy, too.
        let report = child.stop(Duration::ZERO);
        println!("copy: {:?} {:?} {}", report.rung(), report.status(), report.survivors().count());
        println!("copy: {:?}", spawner.spawn(&Command::new("true")).map(|_| ()).map_err(|e| e.kind()));
        drop((child, spawner.clone().shutdown(Duration::ZERO)));
        io::stdout().flush()?;
        // SAFETY: ends the copy, and runs nothing of the original's.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: the number is that of the copy, unreaped; -1 of a failed fork is refused before.
    let waited = unsafe { if copy > 0 { libc::waitpid(copy, &raw mut status, 0) } else { -1 } };
    println!("original: {} {status} {:?}", waited == copy && copy > 0, child.try_wait()?);
    println!("original: {:?}", child.wait()?.code());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = env::args().collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let spawner = Spawner::new()?;
    match words[1..] {
        ["ask", identity, pid, dir] => {
            let (name, dir) = (ServiceName::try_new("files")?, Path::new(dir));
            start(&spawner, &name, dir)?;
            ask(&spawner, &identity.parse()?, pid.parse()?, &name, dir)?;
        }
        ["fork"] => fork(&spawner)?,
        ["end"] => end(&spawner)?,
        _ => {
            return Err(
                format!("{}: ask IDENTITY PID DIR, fork, or end", Path::new(&args[0]).display()).into()
            );
        }
    }
    Ok(())
}
