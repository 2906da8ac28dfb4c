//! The stamp of an API server: an entry in the environ that the kernel shows of this very process.
//!
//! A program cannot change what `/proc/<pid>/environ` shows but by exec, so the stamp is a re-exec in place: the same program file, held
//! open, with the same arguments and environment and one name more. Beside the name stand pid and start ticks of the process that was
//! stamped: an entry that a shell exported, or a parent handed down, is somebody else's.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::{
        fd::AsFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    process,
};

use pidward_core::{
    Pid,
    marker::{self, ChildKind, Markers, Names},
    procfs::{Environ, Proc},
    signal,
    spawn::{self, Keep, Plan, Program},
};

use crate::{
    error::{SpawnError, SpawnErrorKind},
    names::{API_SERVER_ENV, API_SERVER_SERVICE, API_SERVER_STAMP_ENV, ApiServerStamp},
    prepare::{Strings, tables},
    spawner::live,
};

/// Marks this process as the API server, by exec in place if it is not: the call then does not return, and `main` begins anew.
///
/// Across the exec stay pid, parent, start time, group, session, working directory, umask, descriptors without close-on-exec, signal mask,
/// ignored signals, niceness, arguments and every other entry of the environment. It happens at most once; call it early in `main`,
/// before there are children, threads or files to lose. What pidward starts afterwards does not inherit the stamp.
///
/// # Errors
/// - [`SpawnErrorKind::ChildrenLive`](crate::SpawnErrorKind::ChildrenLive) (inside the [`io::Error`]): supervised children live, and the end
///   of this process's threads would end them.
/// - What the kernel answers to exec. Nothing has changed then, and the process can go on.
pub fn stamp_api_server() -> io::Result<ApiServerStamp> {
    let Some((shown, mark)) = Pid::new(process::id()).and_then(shown) else {
        return Ok(ApiServerStamp::Unverifiable);
    };
    if holds(&shown, &mark) {
        return Ok(ApiServerStamp::Stamped);
    }
    let stamp = format!("{API_SERVER_STAMP_ENV}={mark}");
    // It was done, and the kernel does not show it: once more would be for ever.
    if env::var_os(API_SERVER_STAMP_ENV).is_some_and(|value| value.as_bytes() == mark.as_bytes()) {
        return Ok(ApiServerStamp::Unverifiable);
    }
    if live::children() > 0 {
        return Err(SpawnError::refused(SpawnErrorKind::ChildrenLive)
            .of_program(&env::args_os().next().unwrap_or_default())
            .into());
    }
    Err(again(&shown, &stamp))
}

/// Whether the process shows a stamp of its own: no descendant of it does.
pub(crate) fn is_stamped(pid: Pid) -> bool {
    shown(pid).is_some_and(|(shown, mark)| holds(&shown, &mark))
}

fn holds(shown: &[u8], mark: &str) -> bool {
    let stamp = format!("{API_SERVER_STAMP_ENV}={mark}");
    Markers::new(&Names::DEFAULT, ChildKind::Api, API_SERVER_SERVICE).are_in(shown)
        && shown.split(|byte| *byte == 0).any(|entry| entry == stamp.as_bytes())
}

/// What the kernel shows as the environ of a process, and what its stamp must hold: pid and start ticks.
fn shown(pid: Pid) -> Option<(Vec<u8>, String)> {
    let mut block = Vec::new();
    let looked = Proc::open().and_then(|proc| {
        let own = proc.process(pid)?;
        let stat = own.stat()?;
        Ok((own.environ(|piece| block.extend_from_slice(piece))?, stat))
    });
    match looked {
        // None at all is an environ, too.
        Ok((environ, stat))
            if marker::environ_has_entries(&block) || environ == Environ::Empty && stat.has_environ() =>
        {
            Some((block, format!("{pid}:{}", stat.start_ticks)))
        }
        other => {
            log::debug!("the environ of process {pid}: {other:?}");
            None
        }
    }
}

/// Exec of the running program in place; returns where that failed.
fn again(shown: &[u8], stamp: &str) -> io::Error {
    // Not by its path: the file may have been replaced or deleted.
    let exe = match fs::File::open("/proc/self/exe") {
        Ok(exe) => exe,
        Err(error) => return error,
    };
    let (argv, environ) = match (argv(), environ(shown, stamp)) {
        (Some(argv), Some(environ)) => (argv, environ),
        _ => return io::ErrorKind::InvalidInput.into(),
    };
    let mask = match signal::blocked() {
        Ok(mask) => mask,
        Err(e) => return io::Error::from_raw_os_error(e.raw()),
    };
    let error = tables([&argv, &environ], |[argv, environ]| {
        let mut plan = Plan::new(Program::Open(exe.as_fd()), argv, environ);
        plan.keep = Keep { mask: Some(mask), ignored: true };
        spawn::replace(&plan)
    });
    io::Error::from_raw_os_error(error.errno.raw())
}

/// The arguments as the kernel was given them. A program that was started through its dynamic loader (`ld.so … program …`) does
/// not see the first of them, and the file to exec is the loader; one that changed what the kernel shows is asked itself.
fn argv() -> Option<Strings> {
    let own: Vec<Vec<u8>> = env::args_os().map(OsString::into_vec).collect();
    let shown = fs::read("/proc/self/cmdline").unwrap_or_default();
    let shown: Vec<&[u8]> = strings(&shown).collect();
    let loader = shown.len().saturating_sub(own.len());
    // The program's name is its path, or what an option of the loader says.
    let is_loaded = loader > 0
        && own.iter().skip(1).eq(shown.iter().skip(loader + 1))
        && own.first().is_some_and(|name| shown.iter().take(loader + 1).any(|arg| arg == name));
    let mut argv = Strings::default();
    if is_loaded {
        shown.iter().try_for_each(|arg| argv.push(&[arg]).ok())?;
    } else {
        own.iter().try_for_each(|arg| argv.push(&[arg]).ok())?;
    }
    Some(argv)
}

/// The environment as the program has it, what std does not show of it (entries without a name or without `=`), and the two entries.
fn environ(shown: &[u8], stamp: &str) -> Option<Strings> {
    let mut environ = Strings::default();
    let ours = |name: &[u8]| [API_SERVER_ENV, API_SERVER_STAMP_ENV].iter().any(|own| name == own.as_bytes());
    for (name, value) in env::vars_os().filter(|(name, _)| !ours(name.as_bytes())) {
        environ.push(&[name.as_bytes(), b"=", value.as_bytes()]).ok()?;
    }
    // In the words of std a name has one byte or more, whatever that is.
    for entry in strings(shown).filter(|entry| !entry.iter().skip(1).any(|byte| *byte == b'=')) {
        environ.push(&[entry]).ok()?;
    }
    environ.push(&[API_SERVER_ENV.as_bytes(), b"=", API_SERVER_SERVICE.as_bytes()]).ok()?;
    environ.push(&[stamp.as_bytes()]).ok()?;
    Some(environ)
}

/// What a block of strings that each end in NUL holds.
fn strings(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split_inclusive(|byte| *byte == 0).map(|string| string.strip_suffix(&[0]).unwrap_or(string))
}
