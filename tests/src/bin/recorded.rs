//! A supervisor with a registry and without a guard: starts trees, and then does as it is told.
//!
//! `recorded DIR BOARD WHAT KIND…` opens the registry `DIR`, writes `owner PID` to the board (or `refused LINE`, and ends with 3), and
//! then, for `WHAT`
//! - `wait`: starts the fixture `tree` with `BOARD KIND…` as the agent `one`, on its main thread, writes `supervisor PID` and stays;
//! - `survive`: the same, with a tree that survives it;
//! - `stop`: the same; then stops the tree, and writes `stopped 0`;
//! - `end`: the same, waits for the end of the first of the tree, writes `ended CODE` and ends;
//! - `many:N`: starts `N` times `sleep` as tasks, writes `many N` and stays;
//! - `lasting:N`: the same, with tasks that survive it; writes `many N`.

use std::{path::Path, time::Duration};

use pidward::{ChildKind, Command, Registry, Spawner};
use pidward_tests::{
    announce::{own_dir, say},
    os,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, board, what, kinds @ ..] = &args[..] else { panic!("recorded DIR BOARD WHAT KIND...") };
    let board = Path::new(board);
    let registry = match Registry::open(dir) {
        Ok(registry) => registry,
        Err(e) => {
            say(board, &format!("refused {e}"));
            std::process::exit(3);
        }
    };
    let spawner = Spawner::builder().guard(false).registry(registry).build().expect("a spawner");
    say(board, &format!("owner {}", std::process::id()));
    let (what, number) = what.split_once(':').unwrap_or((what, "0"));
    if what == "many" || what == "lasting" {
        for at in 0..number.parse::<u32>().expect("a number") {
            let mut cmd = Command::new("sleep");
            let name = format!("sleeper-{at}").parse().expect("a name");
            cmd.arg("1000").service(&name).survives_supervisor(what == "lasting");
            spawner.spawn_supervised(cmd).expect("a child");
        }
        say(board, &format!("many {number}"));
        os::sleep_for_ever();
    }
    let mut tree = Command::new(own_dir().join("tree"));
    tree.arg(board).args(kinds).survives_supervisor(what == "survive");
    tree.kind(ChildKind::Agent).service(&"one".parse().expect("a name"));
    let mut child = spawner.spawn_on_this_thread(&tree).expect("a tree");
    say(board, &format!("supervisor {}", std::process::id()));
    match what {
        "stop" => {
            let report = child.stop(Duration::from_millis(100));
            assert!(report.is_complete(), "{report:?}");
            say(board, "stopped 0");
        }
        "end" => {
            let status = child.wait().expect("its end");
            say(board, &format!("ended {}", status.code().unwrap_or(-1)));
            return;
        }
        _ => {}
    }
    os::sleep_for_ever();
}
