//! status, fdinfo and boot id as bytes.
#![forbid(unsafe_code)]

use std::{format, string::String};

use crate::{
    Id128, Pid,
    procfs::{Malformed, Status, Target, boot_id},
};

const STATUS: &str = "Name:\tx) Z 1 (\\ny\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\nPid:\t4711\n\
    PPid:\t42\nTracerPid:\t0\nUid:\t1000\t65534\t65534\t65534\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t0 4 \n\
    NStgid:\t4711\t7\t1\nNSpid:\t4711\t7\t1\nNSpgid:\t4711\t7\t1\nKthread:\t0\nVmPeak:\t    3016 kB\nThreads:\t3\n\
    SigQ:\t0/31427\nSigPnd:\t0000000000000000\nSigBlk:\t0000000000010000\nSigIgn:\t0000008000005000\n\
    SigCgt:\tffffffffffffffff\nNoNewPrivs:\t1\nSeccomp:\t0\n";

#[test]
fn status_lines_are_found_by_their_whole_name() {
    let status = Status::parse(STATUS.as_bytes()).unwrap();
    assert_eq!((status.tgid, status.pid, status.threads), (4711, 4711, 3));
    assert_eq!(status.ns_pids, [4711, 7, 1]);
    let old = STATUS.replace("NSpid:\t4711\t7\t1\n", "");
    assert!(Status::parse(old.as_bytes()).unwrap().ns_pids.is_empty());
}

#[test]
fn a_name_with_a_newline_fakes_no_status_line() {
    let text = STATUS.replace("x) Z 1 (\\ny", "a\\nTgid:\\t1\\nPid:\\t1");
    assert_eq!(Status::parse(text.as_bytes()).unwrap().tgid, 4711);
}

#[test]
fn a_cut_status_is_an_error_at_every_byte() {
    let needed = STATUS.find("SigQ").unwrap();
    for cut in 0..needed {
        assert_eq!(Status::parse(&STATUS.as_bytes()[..cut]), Err(Malformed), "cut at {cut}");
    }
    assert!(Status::parse(&STATUS.as_bytes()[..needed]).is_ok());
}

#[test]
fn a_status_number_that_does_not_fit_is_an_error() {
    for (from, to) in [
        ("Tgid:\t4711", "Tgid:\t4294967296"),
        ("Tgid:\t4711", "Tgid:\t-1"),
        ("NSpid:\t4711", "NSpid:\t4711x"),
        ("Threads:\t3", "Threads:\t+3"),
    ] {
        let text = STATUS.replace(from, to);
        assert_eq!(Status::parse(text.as_bytes()), Err(Malformed), "{to}");
    }
    let deep: String = (0..34).map(|n| format!("\t{n}")).collect();
    assert_eq!(
        Status::parse(STATUS.replace("NSpid:\t4711", &format!("NSpid:{deep}")).as_bytes()),
        Err(Malformed)
    );
}

#[test]
fn a_pidfd_says_living_gone_or_not_visible() {
    let head = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t2071\n";
    let info = |tail: &str| Target::parse(format!("{head}{tail}").as_bytes());
    let living = Target::Pid(Pid::new(812).unwrap());
    assert_eq!(info("Pid:\t812\nNSpid:\t812\t1\n"), Ok(living));
    assert_eq!(info("Pid:\t-1\nNSpid:\t-1\n"), Ok(Target::Gone));
    assert_eq!(info("Pid:\t0\nNSpid:\t0\n"), Ok(Target::NotVisible));
    assert_eq!(info("Pid:\t812\n"), Ok(living));
    for bad in [
        "",
        "Pid:\t812",
        "Pid:\t\n",
        "Pid:\t-2\n",
        "Pid:\t2147483648\n",
        "pid:\t1\n",
        "xPid:\t1\n",
        "Pid:\t8 1\n",
    ] {
        assert_eq!(info(bad), Err(Malformed), "{bad}");
    }
}

#[test]
fn a_boot_id_is_36_characters() {
    let id = Id128::parse(b"0123456789abcdef0123456789abcdef").unwrap();
    for good in ["01234567-89ab-cdef-0123-456789abcdef", "01234567-89ab-cdef-0123-456789abcdef\n"] {
        assert_eq!(boot_id(good.as_bytes()), Ok(id));
    }
    for bad in [
        "",
        "\n",
        "0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef----",
        "01234567-89ab-cdef-0123-456789abcde",
        "01234567-89ab-cdef-0123-456789abcdef0",
        "01234567-89AB-cdef-0123-456789abcdef",
        "01234567-89ab-cdef-01234-56789abcdef",
        "01234567-89ab-cdef-0123-456789abcdef\n\n",
        "01234567-89ab-cdef-0123-456789abcdeg",
    ] {
        assert_eq!(boot_id(bad.as_bytes()), Err(Malformed), "{bad}");
    }
}
