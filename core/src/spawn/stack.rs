//! The stack that a child runs on until exec.
#![forbid(unsafe_code)]

use crate::{Errno, sys};

/// Far more than the child's path needs, also without optimisation; below it as many bytes that fault.
pub(super) const SIZE: usize = 64 * 1024;

/// A mapped stack, given back when dropped.
#[derive(Debug)]
pub(super) struct Stack {
    base: usize,
}

impl Stack {
    pub(super) fn new() -> Result<Stack, Errno> {
        sys::map_stack(SIZE).map(|base| Stack { base })
    }

    /// Its lowest usable address.
    pub(super) const fn bottom(&self) -> usize {
        self.base.saturating_add(SIZE)
    }

    /// The address above it, where it begins; aligned to a page.
    pub(super) const fn top(&self) -> usize {
        self.bottom().saturating_add(SIZE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        sys::unmap_stack(self.base, SIZE);
    }
}
