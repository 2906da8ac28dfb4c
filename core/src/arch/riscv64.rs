//! riscv64: `ecall`; number in a7, arguments in a0 to a5, result in a0.
//!
//! The kernel keeps every other register.

use core::arch::asm;

/// One system call. Arguments that the call does not have are zero.
///
/// # Safety
/// - Every argument that the call takes as an address is valid for what the call does with it.
/// - The call ends, replaces or remaps the process only as the caller means.
#[inline(always)]
pub(crate) unsafe fn syscall6(nr: u32, a: [usize; 6]) -> isize {
    let ret: isize;
    // SAFETY: the instruction changes a0 only; what the call itself does to memory is the caller's
    // promise.
    unsafe {
        asm!(
            "ecall",
            in("a7") nr as usize,
            inlateout("a0") a[0] => ret,
            in("a1") a[1],
            in("a2") a[2],
            in("a3") a[3],
            in("a4") a[4],
            in("a5") a[5],
            options(nostack, preserves_flags)
        );
    }
    ret
}

/// `clone` or `clone3` onto another stack: returns the call's result in the parent; the child runs
/// `entry(arg)` and never returns.
///
/// # Safety
/// - `nr` is `clone` or `clone3`; `a` are its arguments, valid, and they name a stack that nothing else
///   uses until the child has ended or called exec; its top is aligned to 16 bytes.
/// - With shared memory (`CLONE_VM`) also `CLONE_VFORK` is set, or `arg` outlives the child.
/// - `entry` may be called with `arg`, on a thread without thread-local storage of its own.
#[inline(always)]
pub(crate) unsafe fn clone_onto(
    nr: u32,
    a: [usize; 5],
    entry: unsafe extern "C" fn(usize) -> !,
    arg: usize,
) -> isize {
    let ret: isize;
    // SAFETY: as for `syscall6`. The child leaves this block by its jump and never comes back, so for
    // the parent the block is one system call; entry and argument travel in registers the kernel keeps.
    unsafe {
        asm!(
            "ecall",
            // 0 in the child, which starts here with the registers of the parent and its own stack.
            "bnez a0, 2f",
            // End of the frame chain, for whoever unwinds the child.
            "mv fp, zero",
            "mv ra, zero",
            "mv a0, t1",
            // A jump with link, so that a return would land on the trap below.
            "jalr t0",
            "ebreak",
            "2:",
            in("a7") nr as usize,
            inlateout("a0") a[0] => ret,
            in("a1") a[1],
            in("a2") a[2],
            in("a3") a[3],
            in("a4") a[4],
            in("t0") entry,
            in("t1") arg,
            options(nostack)
        );
    }
    ret
}

/// Ends the process by a signal of its own: nothing else is left.
#[inline(always)]
pub(crate) fn trap() -> ! {
    // SAFETY: the instruction is none; it touches nothing, and nothing follows it.
    unsafe { asm!("unimp", options(noreturn, nomem, nostack)) }
}
