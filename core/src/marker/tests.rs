//! Blocks that look like a child's and are not, and the reverse.

use std::{format, string::ToString, vec, vec::Vec};

use super::*;
use crate::Id128;

const ID: &str = "0123456789abcdef0123456789abcdef";
const INSTALLATION: &str = "ffffffffffffffffffffffffffffff00";

#[test]
fn kinds_never_stand_in_for_each_other() {
    use ChildKind::{Agent, Api, Mcp, Task};
    let kinds = [Agent, Mcp, Api, Task];
    for carried in kinds {
        let block = format!("PIDWARD_SUBPROCESS=1\0{}=greeter\0", carried.marker_env());
        for asked in kinds {
            let markers = Markers::new(&Names::DEFAULT, asked, "greeter");
            assert_eq!(markers.are_in(block.as_bytes()), carried == asked, "{carried:?} as {asked:?}");
        }
        assert!(environ_identifies_child(block.as_bytes(), carried.marker_env(), "greeter"));
        assert!(!environ_identifies_child(block.as_bytes(), carried.marker_env(), "greet"));
        assert!(!environ_identifies_child(block.as_bytes(), carried.marker_env(), "greeter-staging"));
    }
}

#[test]
fn the_general_marker_is_needed_but_for_an_api_server() {
    assert!(!environ_identifies_child(b"AGENT_NAME=a\0", "AGENT_NAME", "a"));
    assert!(!environ_identifies_child(b"PIDWARD_SUBPROCESS=11\0AGENT_NAME=a\0", "AGENT_NAME", "a"));
    assert!(!environ_identifies_child(b"PIDWARD_SUBPROCESS=\0AGENT_NAME=a\0", "AGENT_NAME", "a"));
    assert!(environ_identifies_child(b"AGENT_NAME=a\0PIDWARD_SUBPROCESS=1", "AGENT_NAME", "a"));
    assert!(environ_identifies_api_server(b"X=y\0PIDWARD_API_SERVER=api\0", "api"));
    assert!(!environ_identifies_api_server(b"PIDWARD_API_SERVER=api2\0", "api"));
    assert!(!environ_identifies_api_server(b"PIDWARD_SUBPROCESS=1\0", "api"));
}

#[test]
fn of_a_name_that_comes_twice_the_first_entry_counts() {
    let block = b"PIDWARD_SUBPROCESS=1\0AGENT_NAME=a\0AGENT_NAME=b\0";
    assert!(environ_identifies_child(block, "AGENT_NAME", "a"));
    assert!(!environ_identifies_child(block, "AGENT_NAME", "b"));
    assert!(!environ_identifies_child(
        b"PIDWARD_SUBPROCESS=0\0AGENT_NAME=a\0PIDWARD_SUBPROCESS=1\0",
        "AGENT_NAME",
        "a"
    ));
}

#[test]
fn what_is_no_variable_name_never_matches() {
    let block = b"PIDWARD_SUBPROCESS=1\0=a\0A=B=c\0N\0V=x\0";
    for (key, name) in [("", "a"), ("A=B", "c"), ("N\0V", "x"), ("N", ""), ("V", "x\0"), ("V", "x\0Y=z")] {
        assert!(!environ_identifies_child(block, key, name), "{key:?} {name:?}");
    }
    assert!(environ_identifies_child(block, "A", "B=c"));
    assert!(environ_identifies_child(b"PIDWARD_SUBPROCESS=1\0E=\0", "E", ""));
}

fn carried(block: &[u8], cookie: Cookie) -> Carried {
    let markers = Markers::new(&Names::DEFAULT, ChildKind::Agent, "a");
    let each_piece = [1, 2, 3, 7, 33, 65, 4096].map(|piece| {
        let mut scan = Scan::new(&Names::DEFAULT, markers, cookie);
        block.chunks(piece).for_each(|piece| scan.feed(piece));
        scan.carried()
    });
    assert!(each_piece.windows(2).all(|two| two[0] == two[1]), "{each_piece:?}");
    each_piece[0]
}

#[test]
fn one_pass_finds_name_nonce_and_the_wanted_run() {
    let other = "f".repeat(32);
    let block = format!(
        "PIDWARD_SUBPROCESS=1\0AGENT_NAME=a\0PIDWARD_NONCEX={other}\0PIDWARD_NONCE={ID}\0PIDWARD_NONCE={other}\0\
         PIDWARD_TREE_{other}={other}\0PIDWARD_TREE_{ID}={INSTALLATION}\0"
    );
    let [id, installation] = [ID, INSTALLATION].map(|text| Id128::parse(text.as_bytes()).unwrap());
    for (cookie, tree) in [
        (Cookie::Any, Tree::Ours),
        (Cookie::Installation(installation), Tree::Ours),
        (Cookie::Installation(id), Tree::Other),
        (Cookie::Run(id), Tree::Ours),
        (Cookie::Run(installation), Tree::Other),
    ] {
        let wanted = Carried { named: true, nonce: Some(id), tree };
        assert_eq!(carried(block.as_bytes(), cookie), wanted, "{cookie:?}");
    }
    let nothing = Carried { named: false, nonce: None, tree: Tree::None };
    // The last entry of each may be cut.
    for block in ["", "A=b\0", "PIDWARD_SUBPROCESS=1\0AGENT_NAME=a", &format!("PIDWARD_NONCE={ID}")] {
        assert_eq!(carried(block.as_bytes(), Cookie::Any), nothing, "{block:?}");
    }
}

#[test]
fn other_names_are_a_matter_of_configuration() {
    let names = Names { general: "ACME_CHILD", agent: "ACME_AGENT", ..Names::DEFAULT };
    let markers = Markers::new(&names, ChildKind::Agent, "a");
    assert!(markers.are_in(b"ACME_CHILD=1\0ACME_AGENT=a\0"));
    assert!(!markers.are_in(b"PIDWARD_SUBPROCESS=1\0AGENT_NAME=a\0"));
}

#[test]
fn an_overwritten_block_has_no_entries() {
    assert!(environ_has_entries(b"A=b\0") && environ_has_entries(b"x\0=\0"));
    for block in [&b""[..], b"\0\0\0\0", b"redis-server *:6379\0\0\0", b"JUNK\0"] {
        assert!(!environ_has_entries(block), "{}", block.escape_ascii());
    }
}

fn runs(block: &[u8], piece: usize) -> Vec<(Id128, Id128)> {
    let mut list = Vec::new();
    let mut tails = Tails::<{ Run::LEN }>::new(Names::DEFAULT.tree);
    for piece in block.chunks(piece) {
        tails.feed(piece, |ids| list.extend(Run::parse(ids).map(|run| (run.id, run.installation))));
    }
    list
}

#[test]
fn every_run_above_a_process_is_found_and_nothing_like_one() {
    let upper = ID.to_uppercase();
    let block = format!(
        "A=b\0PIDWARD_TREE_{ID}={INSTALLATION}\0PIDWARD_TREE={ID}\0PIDWARD_TREE_={ID}\0\
         PIDWARD_TREE_{upper}={INSTALLATION}\0PIDWARD_TREE_{ID}={INSTALLATION}0\0XPIDWARD_TREE_{ID}={INSTALLATION}\0\
         PIDWARD_TREE_{ID}0={INSTALLATION}\0PIDWARD_TREE_{ID}={ID}junk\0V=PIDWARD_TREE_{ID}={ID}\0\
         PIDWARD_TREE_{INSTALLATION}={ID}\0PIDWARD_TREE_{ID}={ID}"
    );
    let [id, installation] = [ID, INSTALLATION].map(|text| Id128::parse(text.as_bytes()).unwrap());
    for piece in [1, 2, 3, 7, 64, 65, 66, 4096] {
        // The last one may be cut.
        assert_eq!(
            runs(block.as_bytes(), piece),
            [(id, installation), (installation, id)],
            "pieces of {piece}"
        );
    }
    let mut far = vec![b'x'; 200_000];
    far.extend_from_slice(format!("\0PIDWARD_TREE_{ID}={ID}\0").as_bytes());
    assert_eq!(runs(&far, 4096), [(id, id)]);
}

#[test]
fn ids_are_32_lower_case_digits_and_random_ones_differ() {
    let id = Id128::parse(ID.as_bytes()).unwrap();
    assert_eq!(id.to_string(), ID);
    assert_eq!(Id128::from_bytes(id.to_bytes()), id);
    assert_eq!(id.to_bytes()[..3], [0x01, 0x23, 0x45]);
    assert_eq!(Id128::from_bytes([0; 16]).to_string(), "0".repeat(32));
    for bad in
        ["", &ID[1..], &format!("{ID}0"), &ID.to_uppercase(), &ID.replace('0', "+"), &ID.replace('0', "g")]
    {
        assert_eq!(Id128::parse(bad.as_bytes()), None, "{bad}");
    }
    let run = Run { id, installation: id };
    assert_eq!(Run::parse(run.to_string().as_bytes()), Some(run));
    assert_ne!(Id128::random().unwrap(), Id128::random().unwrap());
}
