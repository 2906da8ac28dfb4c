//! The search for a program against a walk byte by byte. Input: the program, and after the first newline, if
//! there is one, the value of `PATH`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::image::{PackError, Packer, candidates, candidates_size};

fn naive(program: &[u8], path: Option<&[u8]>) -> Result<Vec<Vec<u8>>, PackError> {
    if program.is_empty() {
        return Err(PackError::Program);
    }
    if program.contains(&0) {
        return Err(PackError::Nul);
    }
    if program.contains(&b'/') {
        return Ok(vec![program.to_vec()]);
    }
    let Some(path) = path else {
        return Ok(["/usr/local/bin", "/usr/bin", "/bin"]
            .map(|dir| [dir.as_bytes(), b"/", program].concat())
            .to_vec());
    };
    if path.contains(&0) {
        return Err(PackError::Nul);
    }
    let mut list = Vec::new();
    let mut dir = Vec::new();
    for byte in path.iter().chain(b":") {
        if *byte != b':' {
            dir.push(*byte);
        } else if !dir.is_empty() {
            dir.push(b'/');
            dir.extend_from_slice(program);
            list.push(std::mem::take(&mut dir));
        }
    }
    Ok(list)
}

fn packed(
    program: &[u8],
    path: Option<&[u8]>,
    bytes: usize,
    pointers: usize,
) -> Result<Vec<Vec<u8>>, PackError> {
    let (mut bytes, mut pointers) = (vec![0xAA; bytes], vec![std::ptr::dangling(); pointers]);
    let table = candidates(Packer::new(&mut bytes, &mut pointers), program, path)?;
    let starts: Vec<*const u8> = table.iter().map(|s| s.as_ptr().cast()).collect();
    assert_eq!(table.pointers(), starts);
    Ok(table.iter().map(|s| s.to_bytes().to_vec()).collect())
}

fuzz_target!(|data: &[u8]| {
    // So that the buffers of the refused cases are always large enough.
    if data.len() > 300 {
        return;
    }
    let mut halves = data.splitn(2, |b| *b == b'\n');
    let (program, path) = (halves.next().unwrap_or_default(), halves.next());
    let want = match naive(program, path) {
        Ok(want) => want,
        Err(why) => {
            assert_eq!(candidates_size(program, path), Err(why));
            assert_eq!(packed(program, path, 1 << 14, 1 << 8), Err(why));
            return;
        }
    };
    let size = candidates_size(program, path).expect("the model found no fault");
    assert_eq!(size.bytes, want.iter().map(|s| s.len() + 1).sum::<usize>());
    assert_eq!(size.pointers, want.len() + 1);
    assert_eq!(packed(program, path, size.bytes, size.pointers).as_ref(), Ok(&want));
    for candidate in &want {
        // A bare name, or one that begins with `/` where no element said so, would be another program.
        assert!(candidate.contains(&b'/') && candidate.ends_with(program));
        assert!(candidate.len() == program.len() || candidate.len() > program.len() + 1);
    }
    if !want.is_empty() {
        assert_eq!(packed(program, path, size.bytes - 1, size.pointers), Err(PackError::BytesFull));
        assert_eq!(packed(program, path, size.bytes, size.pointers - 1), Err(PackError::PointersFull));
    }
});
