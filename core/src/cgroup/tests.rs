use std::{
    env, format, fs,
    io::Write,
    process,
    string::{String, ToString},
    thread,
    time::Duration,
    vec::Vec,
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    io::ioctl_fionread,
};

use super::{Cgroup, Mount, own_path, unescaped, value};
use crate::procfs::Proc;

#[test]
fn the_path_of_the_v2_tree_is_the_one_without_controllers() {
    let rows: [(&[u8], Option<&[u8]>); 8] = [
        (b"0::/user.slice/app.scope", Some(b"/user.slice/app.scope")),
        (b"0::/", Some(b"/")),
        (b"0::/a:b", Some(b"/a:b")),
        (b"12:pids:/user.slice", None),
        (b"1:name=systemd:/x", None),
        (b"0::/../outside", None),
        (b"0::/gone (deleted)", None),
        (b"0::", None),
    ];
    for (line, path) in rows {
        assert_eq!(own_path(line), path, "{}", line.escape_ascii());
    }
}

#[test]
fn mounts_of_v2_are_told_from_all_others() {
    let one =
        b"35 24 0:30 / /sys/fs/cgroup/unified rw,nosuid shared:10 master:3 - cgroup2 cgroup2 rw,nsdelegate";
    let mount = Mount::parse(one).unwrap();
    assert_eq!((mount.root, mount.place), (&b"/"[..], &b"/sys/fs/cgroup/unified"[..]));
    assert!(Mount::parse(b"35 24 0:30 / /x rw - cgroup2 none rw").is_some(), "without optional fields");
    for other in [
        &b"36 24 0:31 / /sys/fs/cgroup/pids rw shared:11 - cgroup cgroup rw,pids"[..],
        b"37 24 0:32 / /sys/fs/cgroup rw shared:12 - tmpfs tmpfs rw",
        b"38 24 0:32 / /cgroup2 rw - tmpfs cgroup2 rw",
        b"35 24 0:30 / /x rw",
        b"35 24 0:30 / /x rw -",
        b"",
    ] {
        assert_eq!(Mount::parse(other), None, "{}", other.escape_ascii());
    }
}

#[test]
fn a_mount_shows_what_is_below_its_root_by_whole_names() {
    let below = |root: &'static str, path: &'static str| {
        let mount = Mount { root: root.as_bytes(), place: b"/x" };
        mount.below(path.as_bytes()).map(|rest| String::from_utf8(rest.into()).unwrap())
    };
    assert_eq!(below("/", "/a/b").as_deref(), Some("a/b"));
    assert_eq!(below("/", "/").as_deref(), Some(""));
    assert_eq!(below("/a", "/a").as_deref(), Some(""));
    assert_eq!(below("/a", "/a/b").as_deref(), Some("b"));
    assert_eq!(below("/a", "/ab"), None);
    assert_eq!(below("/a/b", "/a"), None);
}

#[test]
fn escapes_of_the_mount_table_are_undone() {
    let plain = |word: &[u8]| unescaped(word).collect::<Vec<u8>>();
    assert_eq!(plain(br"/a\040b\011c\134d"), b"/a b\tc\\d");
    assert_eq!(plain(br"\377\000"), b"\xff\0");
    // No such escape: as it stands.
    assert_eq!(plain(br"\4\400\08x\"), br"\4\400\08x\");
}

#[test]
fn a_key_counts_only_as_a_whole_line_with_a_number() {
    assert_eq!(value(b"populated 1\nfrozen 0\n", b"populated"), Some(1));
    assert_eq!(value(b"populated 1\nfrozen 0\n", b"frozen"), Some(0));
    assert_eq!(value(b"max 18446744073709551615\n", b"max"), Some(u64::MAX));
    for (text, key) in [
        (&b"oom_kill_group 3\n"[..], &b"oom_kill"[..]),
        (b"oom 3\n", b"oom_kill"),
        (b"populated 1", b"populated"),
        (b"populated x\n", b"populated"),
        (b"populated +1\n", b"populated"),
        (b"populated -1\n", b"populated"),
        (b"max 18446744073709551616\n", b"max"),
        (b"", b"max"),
    ] {
        assert_eq!(value(text, key), None, "{}", text.escape_ascii());
    }
}

/// Between the look at the list and the one at the process its number may have become somebody else's.
#[test]
fn who_is_not_listed_any_more_when_it_is_pinned_is_no_member() {
    let place = env::temp_dir().join(format!("pidward-members-{}", process::id()));
    fs::create_dir(&place).unwrap();
    let list = place.join("cgroup.procs");
    rustix::fs::mknodat(CWD, &list, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let dir = rustix::fs::open(&place, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let (group, proc) = (Cgroup(dir.into()), Proc::open().unwrap());
    let own = process::id().to_string();
    // Who reads the list gets the one text at first, and the other when it opens the list again.
    let members = |texts: [&str; 2]| {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = fs::OpenOptions::new().write(true).open(&list).unwrap();
                for text in texts {
                    file.write_all(format!("{text}\n").as_bytes()).unwrap();
                    while ioctl_fionread(&file).unwrap() > 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let mut seen = Vec::new();
            group.members(&proc, |process, _| seen.push(process.pid().to_string()));
            seen
        })
    };
    assert_eq!(members([&own, &own]).len(), 1);
    assert_eq!(members([&own, "1"]), [] as [String; 0]);
    fs::remove_dir_all(&place).unwrap();
}
