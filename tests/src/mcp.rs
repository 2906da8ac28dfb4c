//! Published MCP servers of two languages, as their packages are had from the registries, each to be started directly and by the launcher
//! that people use.
//!
//! They are installed once, below the tests' own directory in the build's target, and nothing is fetched after that.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use crate::os;

/// Versions that are known to speak as the tests expect.
const PYTHON: [&str; 2] = ["mcp-server-time==2026.10.19", "uv==0.13.9"];
const NODE: &str = "@modelcontextprotocol/server-everything@2026.8.31";

/// How many seconds one step of an installation may take.
const LIMIT: &str = "300";

/// How one server is started.
#[derive(Debug, Clone)]
pub struct Server {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Variables beside those of the test.
    pub env: Vec<(&'static str, OsString)>,
    /// Where it is started.
    pub dir: PathBuf,
    /// A tool that it has.
    pub tool: &'static str,
    /// How many processes it is at least: a launcher stays beside what it has started.
    pub processes: usize,
}

/// A server in Python: by its interpreter, and by `uvx`. `None`: skip the test, for `needs-mcp-python`.
pub fn python(dir: &Path) -> Option<[Server; 2]> {
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    let home = HOME.get_or_init(|| {
        installed(&dir.join("mcp-python"), |home| {
            let interpreter = home.join("bin/python");
            let pip = |command: &mut Command| runs(command.args(["install", "--quiet"]).args(PYTHON));
            runs(bounded("python3").args(["-m", "venv"]).arg(home))
                && pip(bounded(&interpreter).args(["-m", "pip"]))
                && runs(bounded(home.join("bin/uvx")).args(uvx(home, false)).arg("--help").envs(uv(home)))
        })
    });
    let home = home.as_ref()?;
    let server = |words, processes| Server {
        words,
        env: uv(home),
        dir: home.clone(),
        tool: "get_current_time",
        processes,
    };
    let launched = [home.join("bin/uvx").into()].into_iter().chain(uvx(home, true)).collect();
    let direct = vec![home.join("bin/python").into(), "-m".into(), "mcp_server_time".into()];
    Some([server(direct, 1), server(launched, 2)])
}

/// The arguments of `uvx`. What it runs is resolved anew each time, from its cache where that is all it may use.
fn uvx(home: &Path, offline: bool) -> Vec<OsString> {
    let mut args: Vec<OsString> = if offline { vec!["--offline".into()] } else { Vec::new() };
    args.extend(["--python".into(), home.join("bin/python").into(), PYTHON[0].into()]);
    args
}

fn uv(home: &Path) -> Vec<(&'static str, OsString)> {
    vec![("UV_CACHE_DIR", home.join("cache").into())]
}

/// A server in JavaScript: by node, and by `npx`. `None`: skip the test, for `needs-mcp-node`.
pub fn node(dir: &Path) -> Option<[Server; 2]> {
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    let home = HOME.get_or_init(|| {
        installed(&dir.join("mcp-node"), |home| {
            let quiet = [
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--fetch-retry-mintimeout=1000",
                "--prefix",
            ];
            let there = |package: &str| home.join("node_modules").join(package).is_dir();
            runs(bounded("npm").args(quiet).arg(home).arg(NODE).envs(npm(home)))
                && there("@modelcontextprotocol/server-everything")
        })
    });
    let home = home.as_ref()?;
    let server =
        |words, processes| Server { words, env: npm(home), dir: home.clone(), tool: "echo", processes };
    let program = home.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let launched = ["npx", "--offline", "-y", "@modelcontextprotocol/server-everything"].map(OsString::from);
    // npx asks a shell to start it.
    Some([server(vec!["node".into(), program.into()], 1), server(launched.to_vec(), 2)])
}

fn npm(home: &Path) -> Vec<(&'static str, OsString)> {
    vec![("npm_config_cache", home.join("cache").into()), ("npm_config_update_notifier", "false".into())]
}

/// A directory in which all steps were taken, now or by an earlier run. One run at a time is at it.
fn installed(home: &Path, steps: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let done = home.join("installed");
    let lock = File::create(home.with_extension("lock")).ok()?;
    // SAFETY: takes numbers only; the file is open as long as the lock is needed.
    os::check(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }.into()).ok()?;
    if done.exists() {
        return Some(home.to_path_buf());
    }
    // What a run has left that did not come to its end; it may not be there.
    let _ = fs::remove_dir_all(home);
    fs::create_dir(home).ok()?;
    (steps(home) && File::create(done).is_ok()).then(|| home.to_path_buf())
}

/// A step of an installation, by a program that ends it in time, with all that it has started.
fn bounded(program: impl Into<OsString>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT]).arg(program.into()).stdin(Stdio::null());
    command
}

/// Takes the step. What it says of a failure is for whoever looks into a skipped test.
fn runs(command: &mut Command) -> bool {
    let output = command.output();
    let failed = match &output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(e) => e.to_string(),
    };
    eprintln!("{command:?}: {failed}");
    false
}
