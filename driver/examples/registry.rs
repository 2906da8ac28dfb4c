//! A supervisor that crashes, and the next one: the first, a process of its own, starts two servers in a registry and is aborted. Of
//! them one ends with it, and one is meant to outlive it. The next supervisor reads what is written down, stops who lives, and clears
//! the records.
//!
//! `cargo run --example registry`

use std::{env, error::Error, fs, path::Path, process, time::Duration};

use pidward::{
    Command, Registry, Spawner, Stdio,
    registry::{Action, Policy},
};

const GRACE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    if let (Some(word), Some(dir)) = (args.next(), args.next())
        && word == "crash"
    {
        return crash(dir.as_ref());
    }
    let dir = env::temp_dir().join(format!("pidward-example-{}", process::id()));
    let reconciled = reconcile(&dir);
    // The registry has removed what was its own; where it was left, the error says why.
    let _ = fs::remove_dir_all(&dir);
    reconciled
}

/// The first supervisor: starts two, and is gone without a word to anybody.
fn crash(dir: &Path) -> Result<(), Box<dyn Error>> {
    let spawner = Spawner::builder().registry(Registry::open(dir)?).build()?;
    for (name, survives) in [("tied", false), ("survivor", true)] {
        let mut server = Command::new("sleep");
        server.arg("600").service(&name.parse()?).stdout(Stdio::null()).survives_supervisor(survives);
        let child = spawner.spawn(&server)?;
        println!("{name}: pid {}", child.id());
    }
    process::abort()
}

/// The next one.
fn reconcile(dir: &Path) -> Result<(), Box<dyn Error>> {
    let spawner = Spawner::new()?;
    let mut first = Command::new(env::current_exe()?);
    let status = spawner.spawn(first.arg("crash").arg(dir))?.wait()?;
    println!("the first supervisor: {status}");
    let registry = Registry::open_existing(dir)?;
    let found = registry.reconcile(GRACE, |_| Policy::Stop)?;
    for child in &found.children {
        let (name, verdict) = (child.record.name(), child.verdict);
        let done = match &child.action {
            Action::Stopped(stopped) => format!("stopped, {:?} was needed", stopped.rung),
            Action::Cleared(_) => "had ended, its record was cleared".to_string(),
            other => format!("{other:?}"),
        };
        println!("{}: {verdict:?}: {done}", name.as_str());
    }
    if found.has_survivors() {
        return Err("somebody is left".into());
    }
    println!("{} records, and nobody is left", found.children.len());
    Ok(())
}
