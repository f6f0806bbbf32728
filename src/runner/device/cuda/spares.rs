//! Freed device memory that is kept for the next buffer of its size.
//!
//! Every variant has buffers of the same sizes. The driver takes about a millisecond to allocate or to free memory, and does so
//! for one process at a time, even if these use different GPUs.

use std::collections::VecDeque;
use std::mem;

use cudarc::driver::sys::CUdeviceptr;

use super::memory::Region;

/// The share of the device's memory that is kept at most. The baseline's process needs memory, too.
const MOST_SHARE: u64 = 8;

/// Regions that no buffer uses, the longest unused first.
pub(super) struct Spares {
    unused: VecDeque<Region>,
    bytes: usize,
    most_bytes: usize,
}

impl Spares {
    /// Keeps up to an eighth of a device's memory.
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self { unused: VecDeque::new(), bytes: 0, most_bytes: (memory_bytes / MOST_SHARE) as usize }
    }

    /// Takes the region of exactly this size that was used last.
    pub(super) fn take(&mut self, bytes: usize) -> Option<CUdeviceptr> {
        let place = self.unused.iter().rposition(|(_, size)| *size == bytes)?;
        self.bytes -= bytes;
        self.unused.remove(place).map(|(address, _)| address)
    }

    /// Keeps a region. Returns those that the caller must free in return.
    pub(super) fn keep(&mut self, region: Region) -> Vec<Region> {
        self.unused.push_back(region);
        self.bytes += region.1;
        let mut excess = Vec::new();
        while self.bytes > self.most_bytes
            && let Some(oldest) = self.unused.pop_front()
        {
            self.bytes -= oldest.1;
            excess.push(oldest);
        }
        excess
    }

    /// Returns all regions, which the caller must free.
    pub(super) fn take_all(&mut self) -> VecDeque<Region> {
        self.bytes = 0;
        mem::take(&mut self.unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_for_its_size_and_the_longest_unused_is_freed() {
        let mut spares = Spares::new(8 * 100);
        assert!(spares.keep((1, 40)).is_empty());
        assert!(spares.keep((2, 40)).is_empty());
        assert_eq!(spares.take(41), None);
        assert_eq!(spares.keep((3, 30)), [(1, 40)]);
        assert_eq!(spares.take(40), Some(2));
        assert_eq!(spares.keep((4, 101)), [(3, 30), (4, 101)]);
        assert!(spares.keep((5, 100)).is_empty());
        assert_eq!(spares.take_all(), [(5, 100)]);
        assert_eq!(spares.take(100), None);
    }
}
