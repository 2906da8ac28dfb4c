//! x86-64: `syscall`; number in rax, arguments in rdi, rsi, rdx, r10, r8, r9, result in rax.
//!
//! The kernel overwrites rcx (return address) and r11 (flags) and keeps every other register.

use core::arch::asm;

/// One system call. Arguments that the call does not have are zero.
///
/// # Safety
/// - Every argument that the call takes as an address is valid for what the call does with it.
/// - The call ends, replaces or remaps the process only as the caller means.
#[inline(always)]
pub(crate) unsafe fn syscall6(nr: u32, a: [usize; 6]) -> isize {
    let ret: isize;
    // SAFETY: the instruction clobbers rax, rcx and r11, all named below; what the call itself does to
    // memory is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as usize => ret,
            in("rdi") a[0],
            in("rsi") a[1],
            in("rdx") a[2],
            in("r10") a[3],
            in("r8") a[4],
            in("r9") a[5],
            lateout("rcx") _,
            lateout("r11") _,
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
    // SAFETY: as for `syscall6`. The child leaves this block by its call and never comes back, so for
    // the parent the block is one system call; entry and argument travel in registers the kernel keeps.
    unsafe {
        asm!(
            "syscall",
            // 0 in the child, which starts here with the registers of the parent and its own stack.
            "test rax, rax",
            "jnz 2f",
            // End of the frame chain, for whoever unwinds the child.
            "xor ebp, ebp",
            "mov rdi, r13",
            // A call, not a jump: the ABI wants rsp + 8 aligned at the entry. Never returns: with a
            // shadow stack the child still has the parent's.
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") nr as usize => ret,
            in("rdi") a[0],
            in("rsi") a[1],
            in("rdx") a[2],
            in("r10") a[3],
            in("r8") a[4],
            in("r12") entry,
            in("r13") arg,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    ret
}

/// Ends the process by a signal of its own: nothing else is left.
#[inline(always)]
pub(crate) fn trap() -> ! {
    // SAFETY: the instruction is none; it touches nothing, and nothing follows it.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}
