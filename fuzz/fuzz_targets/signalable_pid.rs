//! No number that kill(2) takes for a group or for everybody becomes a pid. Input: eight bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pidward_core::Pid;

fuzz_target!(|bytes: [u8; 8]| {
    let wide = i64::from_le_bytes(bytes);
    let (unsigned, signed) = (wide as u32, wide as i32);
    for (pid, number) in
        [(Pid::new(unsigned), i64::from(unsigned)), (Pid::from_raw(signed), i64::from(signed))]
    {
        match pid {
            Some(pid) => {
                assert!(pid.raw() >= 1);
                assert_eq!((i64::from(pid.get()), i64::from(pid.raw())), (number, number));
            }
            None => assert!(number <= 0 || number > i64::from(i32::MAX)),
        }
    }
    assert_eq!(Pid::new(1), Some(Pid::INIT));
});
