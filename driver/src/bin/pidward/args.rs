//! The words of the command line: what there is, and its help.

use clap::{Arg, ArgAction, Command, builder::OsStringValueParser};

pub(crate) const RUN: &str = "run";
pub(crate) const DOCTOR: &str = "doctor";
pub(crate) const VERIFY: &str = "verify";
pub(crate) const LS: &str = "ls";
pub(crate) const STOP: &str = "stop";
pub(crate) const RECONCILE: &str = "reconcile";
/// All of them, for a line that expects one.
pub(crate) const COMMANDS: &str = "run, ls, stop, reconcile, verify or doctor";

const RUN_EXIT: &str = "\
Signals: every signal that can be caught is passed on to the program's process group, but for SIGCHLD. SIGTERM
stops the group: SIGTERM, SIGKILL after the grace. SIGINT and SIGHUP are passed on as they are; whoever has not
ended within the grace is then stopped. A SIGHUP that was ignored from the start (nohup) stays so. A second SIGINT or
SIGTERM sends SIGKILL at once. What the program leaves behind, in its group or out of it, is stopped when it ends.
pidward is two processes: where the one that was started is killed, the other one does that, and where both are, the
guard.

The program is written down in a registry while it runs: in the directory that --registry names, which has one owner at a
time, or in one of its own below $XDG_RUNTIME_DIR/pidward or /run/pidward. What a run that was killed has left in the named
directory is stopped first.

Exit codes:
  N        the program's own
  128+N    signal N ended it
  4        something survived the stop; each is named on standard error
  124      --timeout has passed
  125      bad input, the registry cannot be used, or pidward itself failed
  126      the program is there and cannot be executed
  127      no such program

Variables: PIDWARD_REGISTRY, PIDWARD_GRACE and PIDWARD_LOG stand for --registry, --grace and --log where these are not given.";

const LS_EXIT: &str = "\
A record is an allegation: the verdict says whether the child lives. Without --registry every directory of the caller's
runs is looked at, below $XDG_RUNTIME_DIR/pidward, /run/pidward and the temporary directory. What is no record is one line on
standard error.

Exit codes:
  0    also where nothing is written down
  2    bad input
  125  the directory that was named cannot be used

Variables: PIDWARD_REGISTRY and PIDWARD_LOG stand for --registry and --log where these are not given.";

const STOP_EXIT: &str = "\
Every child of that name is stopped with its tree, whether its supervisor lives or not: SIGTERM, SIGKILL after the
grace, all at once. Whoever is signalled was verified before. What this command runs below is left alone.

Exit codes, the worst of several, in this order from the mildest:
  0    stopped, or ended before
  1    no child of that name is written down
  3    the number is somebody else's: untouched
  5    it cannot be told who it is: untouched
  4    something survived the stop; each is named on standard error
  2    bad input
  125  the directory that was named cannot be used

Variables: PIDWARD_REGISTRY, PIDWARD_GRACE and PIDWARD_LOG stand for --registry, --grace and --log where these are not given.";

const RECONCILE_EXIT: &str = "\
Children of supervisors that have ended are stopped with their trees, and so is whoever descends from such a
supervisor without a record; records of those that have ended are removed, and empty directories. A directory with a living
owner is reported and not touched. Of whom it cannot be told who it is, and what is no record, is kept.

Exit codes:
  0    nothing is left
  2    bad input
  4    something survived its stop; each is named on standard error
  5    something was kept
  125  the directory that was named cannot be used

Variables: PIDWARD_REGISTRY, PIDWARD_GRACE and PIDWARD_LOG stand for --registry, the grace (5s) and --log where these are not
given.";

const DOCTOR_EXIT: &str = "\
Exit codes:
  0    every promise is kept by its first mechanism
  1    some are kept by a fallback
  2    bad input
  4    some are not kept

Variables: PIDWARD_LOG stands for --log where it is not given; NO_COLOR (not empty) turns colours off.";

const VERIFY_EXIT: &str = "\
Without --identity the number must be that of a child which is written down by that kind and name, or carry the markers of
these and of a supervisor's run, of whatever installation. What is absent or cannot be read proves nothing: then the answer is
unknown.

Exit codes:
  0    same: it is that process, and it lives
  1    it is not: recycled, gone or not-ours
  2    bad input
  5    unknown
  125  the directory that was named cannot be used

Variables: PIDWARD_REGISTRY and PIDWARD_LOG stand for --registry and --log where these are not given.";

/// Everything that can be said.
pub(crate) fn command() -> Command {
    Command::new("pidward")
        .about("Runs programs that cannot outlive their supervisor")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .after_help("Exit codes: see the help of each command; 2 for a command that is not known.")
        .subcommands([run(), ls(), stop(), reconcile(), verify(), doctor()])
}

fn value(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).value_parser(OsStringValueParser::new()).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn registry(help: &'static str) -> Arg {
    value("registry", "DIR", help)
}

fn json(help: &'static str) -> Arg {
    flag("json", help)
}

const GRACE: &str = "From SIGTERM to SIGKILL, as 250ms, 5s, 2m, 1h [default: 5s]";
const WHERE: &str =
    "Looks in this directory, or in those of runs that stand in it [default: all of the caller's]";

fn log() -> Arg {
    value("log", "LEVEL", "What is said on standard error: off, error, warn (default), info, debug or trace")
}

fn run() -> Command {
    Command::new(RUN)
        .display_name("pidward")
        .about("Runs a program in a process group of its own and stops the group when it is told to")
        .override_usage("pidward run [OPTIONS] -- PROGRAM [ARG]...")
        .args([
            value("name", "NAME", "The name it can be recognised by [default: base name of the program]"),
            value("kind", "KIND", "agent, mcp, api or task [default: task]"),
            registry(
                "Writes the program down in this directory, whose only owner this run is [default: its own]",
            ),
            flag(
                "registry-optional",
                "Runs the program all the same where it cannot be written down, with a warning",
            ),
            value("grace", "DURATION", GRACE),
            value("stdin", "WHAT", "inherit or null [default: inherit]"),
            value("pass-fd", "N", "Passes descriptor N (3 or higher) on; may be repeated")
                .action(ArgAction::Append),
            value("user", "USER", "Runs as this user, a number or a name; a name brings its groups"),
            value("group", "GROUP", "Runs with this group id, a number or a name"),
            value("chdir", "DIR", "Starts the program in this directory"),
            value("env", "NAME=VALUE", "Sets a variable; may be repeated").action(ArgAction::Append),
            flag("clear-env", "Starts from an empty environment"),
            flag("no-new-privs", "Exec grants no rights (set-id bits, file capabilities) any more"),
            value(
                "cgroup",
                "WHERE",
                "A cgroup v2 leaf for the program: auto, off, or below this group [default: auto]",
            ),
            value(
                "memory",
                "SIZE",
                "Memory of the program and all it starts, as 64K, 512M, 2G; needs a leaf",
            ),
            value("pids", "N", "Processes and threads of all of them; needs a leaf"),
            flag(
                "no-guard",
                "No guard: a crash of pidward itself then ends the program alone, not what it started",
            ),
            value(
                "ready-fd",
                "N",
                "The program is ready when it writes a newline to this descriptor; NOTIFY_SOCKET is told",
            ),
            value(
                "restart",
                "WHEN",
                "Whether the program is started again: no, or on-failure: after 500 ms, then longer, until it has failed too often",
            ),
            value("timeout", "DURATION", "Stops the program after this long"),
            value("outer", "PID", "").hide(true),
            log(),
            Arg::new("program")
                .value_name("PROGRAM [ARG]...")
                .value_parser(OsStringValueParser::new())
                .num_args(1..)
                .required(true)
                .last(true)
                .help("The program and its arguments"),
        ])
        .after_help(RUN_EXIT)
}

fn ls() -> Command {
    Command::new(LS)
        .display_name("pidward")
        .about("Lists the children that are written down, and says who of them lives")
        .override_usage("pidward ls [OPTIONS]")
        .args([registry(WHERE), json("One JSON object a line"), log()])
        .after_help(LS_EXIT)
}

fn stop() -> Command {
    Command::new(STOP)
        .display_name("pidward")
        .about("Stops children by name, from whatever process")
        .override_usage("pidward stop [OPTIONS] NAME...")
        .args([
            Arg::new("names")
                .value_name("NAME")
                .value_parser(OsStringValueParser::new())
                .num_args(1..)
                .required(true)
                .help("The name; there may be several"),
            value("kind", "KIND", "agent, mcp, api or task [default: any]"),
            registry(WHERE),
            value("grace", "DURATION", GRACE).conflicts_with("force"),
            flag("force", "No grace: SIGKILL at once"),
            json("One JSON object a line for each child"),
            log(),
        ])
        .after_help(STOP_EXIT)
}

fn reconcile() -> Command {
    Command::new(RECONCILE)
        .display_name("pidward")
        .about("Takes care of what supervisors that have ended left behind")
        .override_usage("pidward reconcile [OPTIONS]")
        .args([
            registry(WHERE),
            flag("dry-run", "Only says what would be done, and touches nothing"),
            json("One JSON object a line, also for records that were only removed"),
            log(),
        ])
        .after_help(RECONCILE_EXIT)
}

fn verify() -> Command {
    Command::new(VERIFY)
        .display_name("pidward")
        .about("Says whether a number is the process that it is said to be")
        .override_usage(
            "pidward verify [OPTIONS] PID (--name NAME [--kind KIND] [--registry DIR] | --identity LINE)",
        )
        .args([
            Arg::new("pid")
                .value_name("PID")
                .value_parser(OsStringValueParser::new())
                .allow_hyphen_values(true)
                .required(true)
                .help("The number"),
            value("name", "NAME", "The name that the process is said to have").conflicts_with("identity"),
            value("kind", "KIND", "agent, mcp, api or task [default: task]").requires("name"),
            registry(WHERE).requires("name").conflicts_with("identity"),
            value("identity", "LINE", "What was written down about it when it was started"),
            json("One JSON object"),
            log(),
        ])
        .after_help(VERIFY_EXIT)
}

fn doctor() -> Command {
    Command::new(DOCTOR)
        .display_name("pidward")
        .about("Says which mechanism keeps each promise here, why, and what to do")
        .args([json("One JSON object"), log()])
        .after_help(DOCTOR_EXIT)
}
