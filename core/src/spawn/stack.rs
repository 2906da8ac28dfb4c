//! The stack that a child runs on until exec, and a guard for good.
#![forbid(unsafe_code)]

use crate::{Errno, sys};

/// Far more than the child's path needs, also without optimisation.
pub(super) const SIZE: usize = 64 * 1024;

/// A mapped stack, given back when dropped. Below it as many bytes fault.
#[derive(Debug)]
pub(crate) struct Stack {
    base: usize,
    size: usize,
}

impl Stack {
    /// `size`: a multiple of the page size.
    pub(crate) fn new(size: usize) -> Result<Stack, Errno> {
        sys::map_stack(size).map(|base| Stack { base, size })
    }

    /// Its lowest usable address.
    pub(crate) const fn bottom(&self) -> usize {
        self.base.saturating_add(self.size)
    }

    /// The address above it, where it begins; aligned to a page.
    pub(crate) const fn top(&self) -> usize {
        self.bottom().saturating_add(self.size)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        sys::unmap_stack(self.base, self.size);
    }
}
