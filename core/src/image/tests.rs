use std::{format, string::String, vec, vec::Vec};

use super::*;
use crate::Errno;

const TREE: &[u8] = b"PIDWARD_TREE_";

/// Buffers that own what a table borrows.
struct Room(Vec<u8>, Vec<*const u8>);

impl Room {
    fn new(bytes: usize, pointers: usize) -> Room {
        // Filled with something that is neither NUL nor NULL: what stood there must not matter.
        Room(vec![0xAA; bytes], vec![ptr::dangling(); pointers])
    }

    fn of(size: Size) -> Room {
        Room::new(size.bytes, size.pointers)
    }

    fn packer(&mut self) -> Packer<'_> {
        Packer::new(&mut self.0, &mut self.1)
    }
}

fn strings(table: Table<'_>) -> Vec<Vec<u8>> {
    // The two views of the table must agree: each pointer is where its string begins, and NULL comes last.
    let starts: Vec<*const u8> = table.iter().map(|s| s.as_ptr().cast()).collect();
    assert_eq!(table.pointers(), starts);
    assert_eq!(table.len(), starts.len());
    assert_eq!(table.is_empty(), starts.is_empty());
    assert_eq!(table.pointers.len(), starts.len() + 1);
    assert!(table.pointers[starts.len()].is_null());
    assert_eq!(table.as_ptr(), table.pointers.as_ptr());
    table.iter().map(|s| s.to_bytes().to_vec()).collect()
}

/// Packs into buffers of exactly the announced size, and holds that one byte or one slot less is refused.
fn exact(
    pack: impl for<'b> Fn(Packer<'b>) -> Result<Table<'b>, PackError>,
) -> Result<Vec<Vec<u8>>, PackError> {
    let whole = strings(pack(Room::new(1 << 20, 64).packer())?);
    let size = Size { bytes: whole.iter().map(|s| s.len() + 1).sum(), pointers: whole.len() + 1 };
    let packed = strings(pack(Room::of(size).packer()).unwrap());
    assert_eq!(packed, whole);
    if !packed.is_empty() {
        let short = pack(Room::new(size.bytes - 1, size.pointers).packer()).unwrap_err();
        assert_eq!(short, PackError::BytesFull);
        let short = pack(Room::new(size.bytes, size.pointers - 1).packer()).unwrap_err();
        assert_eq!(short, PackError::PointersFull);
    }
    Ok(packed)
}

fn argv(arg0: &[u8], args: &[&[u8]]) -> Result<Vec<Vec<u8>>, PackError> {
    exact(|mut packer| {
        packer.push(arg0)?;
        args.iter().try_for_each(|arg| packer.push(arg))?;
        Ok(packer.finish())
    })
}

fn environ(inherited: &[&[u8]], changes: &[Change<'_>]) -> Result<Vec<Vec<u8>>, PackError> {
    exact(|p| pack_environ(p, inherited.iter().copied(), changes, TREE))
}

fn search(program: &[u8], path: Option<&[u8]>) -> Result<Vec<Vec<u8>>, PackError> {
    let found = exact(|p| candidates(p, program, path));
    let size = candidates_size(program, path);
    assert_eq!(size.map(|size| size.pointers), found.as_ref().map(|list| list.len() + 1).map_err(|e| *e));
    found
}

fn set<'a>(name: &'a [u8], value: &'a [u8]) -> Change<'a> {
    Change::Set { name, value }
}

fn remove(name: &[u8]) -> Change<'_> {
    Change::Remove { name }
}

#[test]
fn a_list_without_strings_ends_in_null_even_without_a_buffer() {
    for pointers in [0, 1, 5] {
        let mut room = Room::new(0, pointers);
        assert_eq!(strings(room.packer().finish()), Vec::<Vec<u8>>::new());
    }
    let mut room = Room::new(8, 0);
    assert_eq!(room.packer().push(b"a"), Err(PackError::PointersFull));
    let mut room = Room::new(8, 1);
    assert_eq!(room.packer().push(b"a"), Err(PackError::PointersFull));
}

#[test]
fn a_refused_string_leaves_the_list_as_it_was() {
    let mut room = Room::new(6, 3);
    let mut packer = room.packer();
    packer.push(b"ab").unwrap();
    assert_eq!(packer.push(b"abc"), Err(PackError::BytesFull));
    assert_eq!(packer.push_parts(&[b"a", b"\0"]), Err(PackError::Nul));
    assert_eq!(packer.push_parts(&[b"a", b"", b"b"]), Ok(()));
    assert_eq!(packer.push(b""), Err(PackError::BytesFull));
    assert_eq!(strings(packer.finish()), [b"ab", b"ab"]);
}

#[test]
fn empty_strings_are_strings() {
    assert_eq!(argv(b"", &[b"", b"x", b""]).unwrap(), [&b""[..], b"", b"x", b""]);
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let all: Vec<u8> = (1..=255).collect();
    assert_eq!(argv(b"p", &[&all]).unwrap(), [&b"p"[..], &all]);
    assert_eq!(environ(&[&all], &[]).unwrap(), [&all[..]]);
}

#[test]
fn an_empty_argument_list_still_has_the_program_as_its_first() {
    assert_eq!(argv(b"prog", &[]).unwrap(), [b"prog"]);
}

#[test]
fn a_nul_in_any_string_is_refused_and_nothing_is_cut() {
    assert_eq!(argv(b"a\0b", &[]), Err(PackError::Nul));
    assert_eq!(argv(b"a", &[b"ok", b"x\0y"]), Err(PackError::Nul));
    assert_eq!(argv(b"a", &[b"x\0"]), Err(PackError::Nul));
    assert_eq!(environ(&[], &[set(b"A", b"v\0w")]), Err(PackError::Nul));
    assert_eq!(environ(&[b"A=v\0w"], &[]), Err(PackError::Nul));
    assert_eq!(search(b"a\0b", Some(b"/bin")), Err(PackError::Nul));
    assert_eq!(search(b"a\0b", Some(b"")), Err(PackError::Nul));
    assert_eq!(search(b"/a\0b", None), Err(PackError::Nul));
    assert_eq!(search(b"a", Some(b"/bin:/x\0y")), Err(PackError::Nul));
}

#[test]
fn a_variable_name_that_is_none_is_refused() {
    for name in [&b""[..], b"=", b"A=", b"=A", b"A=B", b"A\0B", b"\0"] {
        assert_eq!(environ(&[], &[set(name, b"1")]), Err(PackError::Name));
        assert_eq!(environ(&[b"A=1"], &[remove(name)]), Err(PackError::Name));
    }
}

#[test]
fn a_refused_change_stays_refused_when_a_later_one_undoes_it() {
    assert_eq!(environ(&[], &[set(b"", b"1"), Change::Clear]), Err(PackError::Name));
    assert_eq!(environ(&[], &[set(b"A", b"\0"), set(b"A", b"1")]), Err(PackError::Nul));
}

#[test]
fn a_string_over_the_kernels_limit_is_packed_whole_for_the_kernel_to_refuse() {
    for len in [MAX_STRING - 2, MAX_STRING - 1, 3 * MAX_STRING] {
        let value = vec![b'v'; len];
        let packed = environ(&[], &[set(b"A", &value)]).unwrap();
        assert_eq!(packed[0].len(), len + 2);
        assert_eq!(argv(b"p", &[&value]).unwrap()[1], value);
    }
}

#[test]
fn odd_inherited_entries_go_along_byte_for_byte() {
    let odd: [&[u8]; 9] =
        [b"JUNK", b"=weird", b"XM=1", b"MX=1", b"A=v\nM=1", b"TWICE=1", b"TWICE=2", b"", b"B=\xFF\xFE"];
    assert_eq!(environ(&odd, &[]).unwrap(), odd);
    // A change of the name `M` meets none of them, and neither does one of `JUNK`, which is no variable.
    let changed = environ(&odd, &[remove(b"M"), remove(b"JUNK"), set(b"M", b"2")]).unwrap();
    assert_eq!(changed[..9], odd);
    assert_eq!(changed[9..], [b"M=2"]);
    assert_eq!(environ(&odd, &[Change::Clear]).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_variable_there_twice_is_replaced_or_removed_as_one() {
    let twice: [&[u8]; 4] = [b"A=1", b"B=1", b"A=2", b"AA=3"];
    assert_eq!(environ(&twice, &[set(b"A", b"9")]).unwrap(), [&b"B=1"[..], b"AA=3", b"A=9"]);
    assert_eq!(environ(&twice, &[remove(b"A")]).unwrap(), [&b"B=1"[..], b"AA=3"]);
}

#[test]
fn later_changes_win() {
    let inherited: [&[u8]; 2] = [b"A=0", b"B=0"];
    let list = |changes: &[Change<'_>]| environ(&inherited, changes).unwrap();
    assert_eq!(list(&[set(b"A", b"1"), set(b"A", b"2")]), [b"B=0", b"A=2"]);
    assert_eq!(list(&[set(b"A", b"1"), remove(b"A")]), [b"B=0"]);
    assert_eq!(list(&[remove(b"A"), set(b"A", b"1")]), [b"B=0", b"A=1"]);
    assert_eq!(list(&[set(b"C", b"1"), Change::Clear]), Vec::<Vec<u8>>::new());
    assert_eq!(list(&[Change::Clear, set(b"C", b"")]), [b"C="]);
    assert_eq!(list(&[set(b"C", b"1"), set(b"D", b"=x=")]), [&b"A=0"[..], b"B=0", b"C=1", b"D==x="]);
}

#[test]
fn a_cleared_environ_keeps_the_entries_of_supervisors_further_out() {
    let inherited: [&[u8]; 6] = [
        b"A=1",
        b"PIDWARD_TREE_outer=i1",
        b"PIDWARD_TREE_junk",
        b"XPIDWARD_TREE_a=1",
        b"PIDWARD_TREE=1",
        b"PIDWARD_TREE_mid=i2",
    ];
    let kept = [&b"PIDWARD_TREE_outer=i1"[..], b"PIDWARD_TREE_mid=i2"];
    assert_eq!(environ(&inherited, &[Change::Clear]).unwrap(), kept);
    // The order of clearing and marking is of no matter, and being named is.
    let own = set(b"PIDWARD_TREE_own", b"i3");
    let with_own = [kept[0], kept[1], b"PIDWARD_TREE_own=i3"];
    assert_eq!(environ(&inherited, &[own, Change::Clear]).unwrap(), with_own);
    assert_eq!(environ(&inherited, &[Change::Clear, own]).unwrap(), with_own);
    let named = [Change::Clear, remove(b"PIDWARD_TREE_outer")];
    assert_eq!(environ(&inherited, &named).unwrap(), [kept[1]]);
    // An empty prefix keeps nothing, though every name starts with it.
    let mut room = Room::new(64, 8);
    let table = pack_environ(room.packer(), inherited.iter().copied(), &[Change::Clear], b"").unwrap();
    assert!(table.is_empty());
}

#[test]
fn a_name_with_a_slash_is_never_searched() {
    for program in [&b"/bin/tool"[..], b"./tool", b"dir/tool", b"tool/", b"/"] {
        assert_eq!(search(program, Some(b"/d1:/d2")).unwrap(), [program]);
        assert_eq!(search(program, None).unwrap(), [program]);
        assert_eq!(search(program, Some(b"")).unwrap(), [program]);
    }
}

#[test]
fn an_empty_program_name_is_refused() {
    assert_eq!(search(b"", Some(b"/d1")), Err(PackError::Program));
    assert_eq!(search(b"", Some(b"")), Err(PackError::Program));
}

#[test]
fn a_child_without_path_is_served_by_the_fixed_default() {
    let want = [&b"/usr/local/bin/tool"[..], b"/usr/bin/tool", b"/bin/tool"];
    assert_eq!(search(b"tool", None).unwrap(), want);
}

#[test]
fn an_empty_path_element_is_never_the_current_directory() {
    for path in [&b":/d1"[..], b"/d1:", b"::/d1", b":/d1:", b"/d1"] {
        assert_eq!(search(b"tool", Some(path)).unwrap(), [b"/d1/tool"]);
    }
    assert_eq!(search(b"tool", Some(b"/d1::/d2")).unwrap(), [b"/d1/tool", b"/d2/tool"]);
    for path in [&b""[..], b":", b":::"] {
        assert_eq!(search(b"tool", Some(path)).unwrap(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_relative_path_element_is_used_as_written() {
    assert_eq!(search(b"tool", Some(b".:bin:/d/")).unwrap(), [&b"./tool"[..], b"bin/tool", b"/d//tool"]);
}

#[test]
fn the_search_goes_on_only_where_a_path_leads_to_no_program() {
    let on = ["ENOENT", "ENOTDIR", "EACCES", "ENAMETOOLONG", "ELOOP", "ENODEV", "ETIMEDOUT", "ESTALE"];
    let mut seen = Vec::new();
    for errno in (1..=4095).filter_map(Errno::from_raw).filter(|e| search_goes_on(*e)) {
        seen.push(errno.name().unwrap());
    }
    seen.sort_unstable();
    let mut want = Vec::from(on);
    want.sort_unstable();
    assert_eq!(seen, want);
    // Format not known: no shell is tried, the search ends.
    const { assert!(!search_goes_on(Errno::ENOEXEC)) }
}

#[test]
fn debug_output_shows_no_argument_and_no_value() {
    let mut room = Room::new(64, 4);
    let mut packer = room.packer();
    packer.push(b"A=secret").unwrap();
    let mut out = format!("{packer:?}");
    out += &format!("{:?} {:?}", packer.finish(), [set(b"A", b"secret"), remove(b"B"), Change::Clear]);
    assert!(!out.contains("secret") && out.contains("Set(A)"), "{out}");
    assert_eq!(String::from("Set(\\xff)"), format!("{:?}", set(b"\xFF", b"secret")));
}
