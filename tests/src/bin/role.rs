//! A program that starts itself in a role, and what it is there.
//!
//! `role host ROLE [SHELL COMMAND]`: runs the command first, then starts itself as ROLE; prints each frame, then the exit code, or the
//! error. `role --version`: prints that. In a role it says what it sees, in frames.

use std::{
    env, fs,
    fs::File,
    io::{self, Write},
    os::fd::AsRawFd,
    process::{Command, exit},
};

use pidward::{CHANNEL_ENV, DEPTH_ENV, Event, Events, Role, SUBAGENT_ENV, ServiceName, Spawner, Stdio};

fn main() {
    if let Some(role) = Role::take() {
        exit(act(role).expect("the channel"));
    }
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--version"] => println!("version 1"),
        ["host", role] => host(role, None, &mut |line| println!("{line}")),
        ["host", role, first] => host(role, Some(first), &mut |line| println!("{line}")),
        _ => exit(99),
    }
}

fn host(role: &str, first: Option<&str>, out: &mut dyn FnMut(String)) {
    if let Some(first) = first {
        let done = Command::new("/bin/sh").args(["-c", first]).status().expect("a shell");
        assert!(done.success(), "{first}");
    }
    let (spawner, events) = (Spawner::new().expect("a spawner"), Events::new().expect("a receiver"));
    let _node = match events.spawn_self(&spawner, &ServiceName::try_new(role).expect("a name")) {
        Ok(node) => node,
        Err(e) => return out(format!("{:?} {:?}", e.kind(), e.raw_os_error())),
    };
    // Ends with the exit of the one child.
    while let Some((_, event)) = events.recv(None) {
        match event {
            Event::Frame(frame) => out(String::from_utf8_lossy(&frame).into_owned()),
            Event::Exit { status, .. } => return out(format!("exit {:?}", status.and_then(|s| s.code()))),
            _ => {}
        }
    }
}

fn act(role: Role) -> io::Result<i32> {
    let (name, depth) = (role.name().to_owned(), role.depth());
    let mut channel = File::from(role.into_channel());
    let mut say = |line: &str| {
        let length = u32::try_from(line.len()).expect("a length");
        channel.write_all(&[&length.to_be_bytes(), line.as_bytes()].concat())
    };
    say(&format!("{name} {depth}"))?;
    match name.as_str() {
        "nest" => host("nest", None, &mut |line| say(&line).expect("the channel")),
        "look" => look(&mut say)?,
        _ => return Ok(98),
    }
    Ok(7)
}

fn look(say: &mut impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    say(&format!("again {:?}", Role::take().is_some()))?;
    let written = File::options().write(true).open("/proc/self/exe").map_err(|e| e.raw_os_error());
    say(&format!("write {:?}", written.map(|file| file.as_raw_fd())))?;
    say(&format!("own {}", links("self")?))?;
    // By std alone: the variables are handed down, the channel is not.
    let links = "for fd in /proc/$$/fd/*; do readlink $fd; done";
    let below = Command::new("/bin/sh").args(["-c", links]).stdin(std::process::Stdio::null()).output()?;
    say(&format!("below {}", String::from_utf8_lossy(&below.stdout).replace('\n', " ")))?;
    let version = Command::new("/proc/self/exe").arg("--version").output()?;
    say(&format!("below {}", String::from_utf8_lossy(&version.stdout).trim_end()))?;
    // By pidward.
    let mut env = pidward::Command::new("env");
    env.stdout(Stdio::piped());
    let env = Spawner::new()?.spawn(&env)?.wait_with_output()?;
    let env = String::from_utf8_lossy(&env.stdout).into_owned();
    let of = |name: &str| env.lines().filter(|line| line.split('=').next() == Some(name)).count();
    say(&format!("inherited {} {} {}", of(SUBAGENT_ENV), of(CHANNEL_ENV), of(DEPTH_ENV)))
}

/// What a process has open.
fn links(pid: &str) -> io::Result<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(links.map(|link| link.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
}
