//! Shared memory that asynchronous copies still write or read.
//!
//! A copy is in flight from its issue until something has waited for it. Until then nothing else may read its
//! destination, or write its source or destination.

use crate::fault::Access;

/// The copies in flight, per word of a block's shared memory.
#[derive(Debug)]
pub(crate) struct Flight {
    writing: Vec<u8>,
    reading: Vec<u8>,
    /// Copies in flight. Most accesses happen while there are none, or are of kernels without such copies.
    copies: u32,
}

impl Flight {
    pub fn new(words: usize) -> Self {
        Self { writing: vec![0; words], reading: vec![0; words], copies: 0 }
    }

    /// Clears everything for the next block.
    pub fn reset(&mut self) {
        if std::mem::take(&mut self.copies) != 0 {
            self.writing.fill(0);
            self.reading.fill(0);
        }
    }

    /// Records that a copy begins to write or read `bytes` bytes.
    pub fn begin(&mut self, writes: bool, address: u32, bytes: u32) {
        self.copies += 1;
        for count in self.counts(writes, address, bytes) {
            *count = count.saturating_add(1);
        }
    }

    /// Records that a copy has arrived.
    pub fn end(&mut self, writes: bool, address: u32, bytes: u32) {
        self.copies = self.copies.saturating_sub(1);
        for count in self.counts(writes, address, bytes) {
            *count = count.saturating_sub(1);
        }
    }

    fn counts(&mut self, writes: bool, address: u32, bytes: u32) -> &mut [u8] {
        let counts = if writes { &mut self.writing } else { &mut self.reading };
        let end = (address.saturating_add(bytes).div_ceil(4) as usize).min(counts.len());
        &mut counts[(address as usize / 4).min(end)..end]
    }

    /// Returns whether an access meets a copy in flight, and then whether that copy writes.
    #[inline(always)]
    pub fn meets(&self, access: Access, address: u32, bytes: u32) -> Option<bool> {
        if self.copies == 0 || bytes == 0 {
            return None;
        }
        let words = address as usize / 4..=(address + bytes - 1) as usize / 4;
        let any = |counts: &[u8]| counts[words.clone()].iter().any(|&count| count > 0);
        if any(&self.writing) {
            return Some(true);
        }
        (access != Access::Read && any(&self.reading)).then_some(false)
    }
}
