//! An access to every granule of an allocation, to find races between blocks, warps and lanes: the last write, and a read.
//!
//! Reads are recorded only where the launch may write. Of the readers that nothing orders, the first stays on record: a
//! later one in another block has the same races, except with the first.

use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::order::{END, Time};
use super::races::Lane;

/// Granules of a page, which is allocated when one of them is first written.
const PAGE: usize = 1024;

/// Number of launches after which their numbers are reused.
pub(crate) const LAUNCHES: u64 = 511;

/// The most warps of a launch; accesses of later ones are not recorded.
const WARPS: u64 = 1 << 24;

/// A write or a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accessed {
    /// Index of the warp in the launch.
    pub warp: u64,
    /// The lane or lanes.
    pub lane: Lane,
    /// Whether it was an atomic, or another strong access that other blocks may race with.
    pub strong: bool,
    /// Whether several warps or lanes wrote the same value, in no order.
    pub several: bool,
    /// The block's time, or for a strong write the number of strong accesses before.
    pub time: Time,
    /// The instruction.
    pub pc: u32,
}

impl Accessed {
    fn pack(self, launch: u64) -> u64 {
        let flags = u64::from(self.strong) << 1 | u64::from(self.several);
        launch << 55 | self.warp << 31 | u64::from(self.lane) << 25 | flags << 23 | u64::from(self.time.min(END))
    }

    fn unpack(bits: u64, pc: u32) -> Self {
        Self {
            pc,
            warp: bits >> 31 & (WARPS - 1),
            lane: (bits >> 25 & 63) as Lane,
            strong: bits >> 24 & 1 == 1,
            several: bits >> 23 & 1 == 1,
            time: (bits & u64::from(END)) as Time,
        }
    }
}

/// Some granules. If several warps access one at the same time, the instruction may be of another one of them.
#[derive(Debug)]
struct Granules {
    bits: [AtomicU64; PAGE],
    pcs: [AtomicU32; PAGE],
}

impl Granules {
    fn new() -> Box<Self> {
        let (bits, pcs) = ([const { AtomicU64::new(0) }; PAGE], [const { AtomicU32::new(0) }; PAGE]);
        Box::new(Self { bits, pcs })
    }
}

type Page = OnceLock<Box<Granules>>;

/// Accesses to an allocation: its last writers, or its readers.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    pages: OnceLock<Box<[Page]>>,
    /// The last launch with an access, and in the low two bits the logarithm of its granules' bytes.
    last: AtomicU32,
}

impl Accesses {
    /// Returns whether a launch has an access here.
    #[inline(always)]
    pub fn is_of(&self, launch: u64) -> bool {
        u64::from(self.last.load(Relaxed) >> 2) == launch
    }

    /// Returns the logarithm of the bytes of a granule in a launch, if that was the last with an access.
    pub fn shift_of(&self, launch: u64) -> Option<u32> {
        let last = self.last.load(Relaxed);
        (u64::from(last >> 2) == launch).then_some(last & 3)
    }

    /// Returns the access of a granule in a launch.
    #[inline(always)]
    pub fn get(&self, granule: u64, launch: u64) -> Option<Accessed> {
        let page = self.pages.get()?.get(granule as usize / PAGE)?.get()?;
        let index = granule as usize % PAGE;
        let bits = page.bits[index].load(Acquire);
        (bits >> 55 == launch).then(|| Accessed::unpack(bits, page.pcs[index].load(Relaxed)))
    }

    /// Records an access of a granule of `1 << shift` bytes, after it has happened. The allocation has `bytes` bytes.
    #[inline(always)]
    pub fn set(&self, (granule, shift): (u64, u32), launch: u64, accessed: Accessed, bytes: u64) {
        if accessed.warp >= WARPS {
            return;
        }
        let pages = self.pages.get_or_init(|| (0..(bytes as usize).div_ceil(PAGE)).map(|_| Page::new()).collect());
        // The smallest access of another kernel may be smaller.
        let Some(page) = pages.get(granule as usize / PAGE) else { return };
        let (page, index) = (page.get_or_init(Granules::new), granule as usize % PAGE);
        page.pcs[index].store(accessed.pc, Relaxed);
        page.bits[index].store(accessed.pack(launch), Release);
        if !self.is_of(launch) {
            self.last.store((launch as u32) << 2 | shift, Relaxed);
        }
    }

    /// Forgets all accesses.
    pub fn clear(&self) {
        self.last.store(0, Relaxed);
        let pages = self.pages.get().into_iter().flatten().filter_map(Page::get);
        pages.flat_map(|page| &page.bits).for_each(|bits| bits.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_comes_back_in_its_launch_only() {
        let accesses = Accesses::default();
        let accessed = Accessed { warp: WARPS - 1, lane: 33, strong: true, several: false, time: END, pc: 7 };
        accesses.set((1500, 2), LAUNCHES, accessed, 2000);
        assert_eq!(accesses.get(1500, LAUNCHES), Some(accessed));
        assert_eq!((accesses.get(1500, 1), accesses.get(1501, LAUNCHES)), (None, None));
        assert!(accesses.is_of(LAUNCHES));
        assert_eq!((accesses.shift_of(LAUNCHES), accesses.shift_of(1)), (Some(2), None));
        accesses.clear();
        assert_eq!(accesses.get(1500, LAUNCHES), None);
    }
}
