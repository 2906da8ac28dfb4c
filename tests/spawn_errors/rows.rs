//! The table: step, errno, who runs it, cause.

use std::{
    ffi::{CStr, CString},
    fs::File,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use pidward_core::{
    Pid,
    image::{Packer, Table},
    spawn::{FdMap, Group, Plan, Program, Rlimit, Step},
};
use pidward_tests::seccomp::Filter;

pub(crate) fn table(strings: &[&str]) -> Table<'static> {
    let bytes = strings.iter().map(|s| s.len() + 1).sum();
    let (bytes, pointers) = (vec![0; bytes].leak(), vec![std::ptr::null(); strings.len() + 1].leak());
    let mut packer = Packer::new(bytes, pointers);
    strings.iter().for_each(|s| packer.push(s.as_bytes()).unwrap());
    packer.finish()
}

pub(crate) fn paths(list: &[&str]) -> Program<'static> {
    Program::Paths(table(list))
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn file(path: &str) -> &'static OwnedFd {
    leak(OwnedFd::from(File::open(path).unwrap()))
}

fn cwd(path: &str) -> Option<&'static CStr> {
    Some(leak(CString::new(path).unwrap()))
}

/// As whom, and how, a row is run.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Who {
    /// As whoever runs the tests.
    Any,
    /// As a user without rights; done in the child that runs the row.
    User,
    /// The same, and only by plain fork.
    Forked,
    /// The same, and only with shared memory.
    Shared,
}
pub(crate) use Who::{Any, Forked, Shared, User};

/// What brings the failure about.
pub(crate) enum Cause {
    /// Something that is so in the world.
    Real(fn(&mut Plan<'static>, &Path)),
    /// No cause is known; the filter answers in place of the kernel. It sees the child's stack.
    Injected(fn(Filter, &[u64]) -> Filter),
}
pub(crate) use Cause::{Injected, Real};

pub(crate) const ROWS: &[(Step, i32, Who, Cause)] = &[
    (Step::Plan, libc::EINVAL, Any, Real(|plan, _| plan.nice = Some(20))),
    (Step::Plan, libc::EINVAL, Any, Real(|plan, _| plan.oom_score_adj = Some(1001))),
    (
        Step::Plan,
        libc::EINVAL,
        Any,
        Real(|plan, _| {
            plan.fds = leak([7, 7].map(|n| FdMap::new(file("/dev/null").as_fd(), n)));
        }),
    ),
    (Step::Prepare, libc::EMFILE, Forked, Real(|_, _| use_up_descriptors(1))),
    (Step::Clone, libc::EMFILE, Shared, Real(|_, _| use_up_descriptors(0))),
    (Step::Clone, libc::EAGAIN, User, Real(|_, _| limit(libc::RLIMIT_NPROC, 0))),
    (
        // Another answer than that of a filter, which the record would tell.
        Step::Dispositions,
        libc::EACCES,
        Any,
        Injected(|f, _| f.errno_if(libc::SYS_rt_sigaction, 0, u64::MAX, 40, libc::EACCES)),
    ),
    (
        Step::Group,
        libc::EPERM,
        Any,
        Real(|plan, _| plan.group = Group::Join(Pid::from_raw(4_194_303).unwrap())),
    ),
    (Step::Terminal, libc::ENOTTY, Any, Real(|plan, _| plan.terminal = Some(file("/dev/null").as_fd()))),
    (Step::Cgroup, libc::ENOENT, Any, Real(|plan, _| plan.cgroup = Some(file("/dev").as_fd()))),
    (
        Step::Rlimits,
        libc::EINVAL,
        Any,
        Real(|plan, _| {
            plan.rlimits = &[Rlimit { resource: libc::RLIMIT_CORE, soft: 2, hard: 1 }];
        }),
    ),
    (Step::Nice, libc::EACCES, User, Real(|plan, _| plan.nice = Some(-5))),
    (Step::OomScore, libc::EACCES, User, Real(|plan, _| plan.oom_score_adj = Some(-1000))),
    (Step::Groups, libc::EPERM, User, Real(|plan, _| plan.credentials.groups = Some(&[0]))),
    (Step::Gid, libc::EPERM, User, Real(|plan, _| plan.credentials.gid = Some(0))),
    (Step::Uid, libc::EPERM, User, Real(|plan, _| plan.credentials.uid = Some(0))),
    (Step::Cwd, libc::ENOENT, Any, Real(|plan, _| plan.cwd = cwd("/no/such"))),
    (Step::Cwd, libc::ENOTDIR, Any, Real(|plan, _| plan.cwd = cwd("/dev/null"))),
    (Step::Cwd, libc::EACCES, User, Real(|plan, dir| plan.cwd = cwd(dir.join("closed").to_str().unwrap()))),
    (
        Step::DeathSignal,
        libc::EACCES,
        Any,
        Injected(|f, _| {
            f.errno_if(libc::SYS_prctl, 0, u64::MAX, libc::PR_SET_PDEATHSIG as u64, libc::EACCES)
        }),
    ),
    // A parent that may not be asked for is looked at by its pidfd.
    (
        Step::ParentCheck,
        libc::EACCES,
        Any,
        Injected(|f, _| f.errno(libc::SYS_getppid, libc::ENOSYS).errno(libc::SYS_ppoll, libc::EACCES)),
    ),
    (
        Step::NoNewPrivs,
        libc::EINVAL,
        Any,
        Injected(|f, _| {
            f.errno_if(libc::SYS_prctl, 0, u64::MAX, libc::PR_SET_NO_NEW_PRIVS as u64, libc::EINVAL)
        }),
    ),
    (
        Step::Fds,
        libc::EINVAL,
        Any,
        Real(|plan, _| {
            plan.fds = leak([FdMap::new(file("/dev/null").as_fd(), 60)]);
            plan.rlimits = &[Rlimit { resource: libc::RLIMIT_NOFILE, soft: 50, hard: 50 }];
        }),
    ),
    // The child's own stack tells its calls from those of its parent.
    (
        Step::Mask,
        libc::EPERM,
        Any,
        Injected(|f, pages| {
            let deny =
                |f: Filter, page: &u64| f.errno_if(libc::SYS_rt_sigprocmask, 1, !0xFFF, *page, libc::EPERM);
            pages.iter().fold(f, deny)
        }),
    ),
    (Step::Exec, libc::ENOENT, Any, Real(|plan, _| plan.program = paths(&["/no/such", "/no/such/either"]))),
    (
        Step::Exec,
        libc::ENOENT,
        Any,
        Real(|plan, dir| plan.program = paths(&[dir.join("scriptless").to_str().unwrap()])),
    ),
    (Step::Exec, libc::EACCES, Any, Real(|plan, _| plan.program = paths(&["/dev/null", "/no/such"]))),
    (Step::Exec, libc::ENOTDIR, Any, Real(|plan, _| plan.program = paths(&["/dev/null/true"]))),
    (
        Step::Exec,
        libc::ENOEXEC,
        Any,
        Real(|plan, dir| plan.program = paths(&[dir.join("text").to_str().unwrap()])),
    ),
    (
        Step::Exec,
        libc::ELOOP,
        Any,
        Real(|plan, dir| plan.program = paths(&[dir.join("loop").to_str().unwrap()])),
    ),
    (
        Step::Exec,
        libc::ENAMETOOLONG,
        Any,
        Real(|plan, _| plan.program = paths(&["/x".repeat(3000).as_str()])),
    ),
    (
        Step::Exec,
        libc::ETXTBSY,
        Any,
        Real(|plan, dir| {
            let path = dir.join("busy");
            leak(File::options().append(true).open(&path).unwrap());
            plan.program = paths(&[path.to_str().unwrap()]);
        }),
    ),
    (Step::Exec, libc::E2BIG, Any, Real(|plan, _| plan.argv = table(&["true", &"x".repeat(1 << 20)]))),
    (Step::Exec, libc::EMFILE, Shared, Injected(|f, _| f.errno(libc::SYS_execve, libc::EMFILE))),
    (Step::Exec, libc::ENOMEM, Forked, Injected(|f, _| f.errno(libc::SYS_execve, libc::ENOMEM))),
];

/// Steps that have no row, because nothing makes them fail.
pub(crate) const NEVER: &[Step] = &[Step::CloseOthers];

fn limit(which: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: to };
    // SAFETY: reads one rlimit.
    assert_eq!(unsafe { libc::setrlimit(which, &raw const limit) }, 0);
}

fn use_up_descriptors(but: usize) {
    limit(libc::RLIMIT_NOFILE, 64);
    let mut all = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
    all.truncate(all.len() - but);
    leak(all);
}
