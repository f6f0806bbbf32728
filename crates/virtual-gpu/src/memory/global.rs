//! Global memory. Allocations are far apart, so an access out of bounds never hits a neighbour.
//!
//! Blocks run on several threads, so words are atomics with relaxed ordering. On the supported machines a relaxed load
//! or store costs as much as a plain one, and a racing kernel stays defined behaviour here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::accesses::{Accesses, LAUNCHES};

/// Address of the first allocation. Nothing is mapped below it, so small offsets from null fault.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;

/// Unmapped bytes after each allocation. An index that is off by up to this much is detected.
const GUARD_BYTES: u64 = 1 << 20;

/// Addresses between two allocations. A difference of two addresses does not fit 32 bits, as may be on a machine.
const SPACING: u64 = 1 << 32;

/// Allocations start at multiples of this, as `cudaMalloc`'s do.
const ALIGNMENT: u64 = 256;

/// Allocations start at multiples of this, beyond the offset that is asked for.
const SPAN: u64 = 1 << 14;

/// Bytes of a sector, the unit of L2 and memory traffic.
pub(crate) const SECTOR_BYTES: u64 = 32;

/// What an address refers to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Inside the allocation of this index.
    Inside(usize),
    /// Inside an allocation that was freed.
    Freed,
    /// Outside all allocations, with a sentence about the nearest one.
    Outside(String),
}

/// An allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Its first address.
    pub base: u64,
    /// Its size in bytes. The storage is rounded up to whole words.
    pub bytes: u64,
    /// Its contents; empty once freed, and for memory that stores nothing.
    words: Box<[AtomicU32]>,
    /// One bit per byte, set once the byte was written.
    initialised: Box<[AtomicU32]>,
    /// One bit per sector: touched since the last [`GlobalMemory::forget_touched`].
    touched: Box<[AtomicU32]>,
    /// The last writers, for race detection.
    pub writers: Accesses,
    /// A reader of every granule, for race detection.
    pub readers: Accesses,
    freed: bool,
    /// Whether the next allocation follows without a gap, and belongs to this one.
    continues: bool,
}

fn zeros(count: u64) -> Result<Box<[AtomicU32]>, String> {
    let mut words = Vec::new();
    let full = |_| format!("this machine has no memory for {} bytes more", count.saturating_mul(4));
    words.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX)).map_err(full)?;
    words.extend((0..count).map(|_| AtomicU32::new(0)));
    Ok(words.into())
}

impl Allocation {
    fn new(base: u64, bytes: u64) -> Result<Self, String> {
        let words = bytes.div_ceil(4);
        Ok(Self {
            base,
            bytes,
            words: zeros(words)?,
            initialised: zeros(words.div_ceil(8))?,
            touched: zeros(bytes.div_ceil(SECTOR_BYTES).div_ceil(32))?,
            writers: Accesses::default(),
            readers: Accesses::default(),
            freed: false,
            continues: false,
        })
    }

    /// Makes memory that stores nothing: reads return zeros, and writes are lost.
    fn hollow(base: u64, bytes: u64) -> Self {
        let (words, initialised, touched) = (Box::default(), Box::default(), Box::default());
        let (writers, readers) = Default::default();
        Self { base, bytes, words, initialised, touched, writers, readers, freed: false, continues: false }
    }

    /// Returns whether `bytes` bytes at `address` are inside.
    #[inline(always)]
    pub fn contains(&self, address: u64, bytes: u32) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.bytes && offset + u64::from(bytes) <= self.bytes
    }

    /// Returns the word that holds `address`, which must be inside.
    #[inline(always)]
    pub fn load_word(&self, address: u64) -> u32 {
        self.words.get(((address - self.base) / 4) as usize).map_or(0, |word| word.load(Relaxed))
    }

    /// Overwrites an aligned word.
    #[inline(always)]
    pub fn store_word(&self, address: u64, value: u32) {
        if let Some(word) = self.words.get(((address - self.base) / 4) as usize) {
            word.store(value, Relaxed);
        }
    }

    /// Overwrites the bits of `mask` in the word that holds `address`.
    #[inline]
    pub fn store_bits(&self, address: u64, value: u32, mask: u32) {
        let Some(word) = self.words.get(((address - self.base) / 4) as usize) else { return };
        let _ = word.fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | value & mask));
    }

    /// Replaces an aligned word by `f` of it and returns the old word.
    pub fn update_word(&self, address: u64, f: impl Fn(u32) -> u32) -> u32 {
        let Some(word) = self.words.get(((address - self.base) / 4) as usize) else { return 0 };
        match word.fetch_update(Relaxed, Relaxed, |old| Some(f(old))) {
            Ok(old) | Err(old) => old,
        }
    }

    /// Returns whether `bytes` (1, 2, 4, 8 or 16, aligned) bytes at `address` were all written.
    #[inline(always)]
    pub fn is_initialised(&self, address: u64, bytes: u32) -> bool {
        let offset = address - self.base;
        let mask = (((1u64 << bytes) - 1) as u32) << (offset % 32);
        self.initialised.get((offset / 32) as usize).is_none_or(|word| word.load(Relaxed) & mask == mask)
    }

    /// Marks `bytes` (1, 2, 4, 8 or 16, aligned) bytes at `address` as written.
    #[inline(always)]
    pub fn set_initialised(&self, address: u64, bytes: u32) {
        let offset = address - self.base;
        let mask = (((1u64 << bytes) - 1) as u32) << (offset % 32);
        let Some(word) = self.initialised.get((offset / 32) as usize) else { return };
        // The bits are mostly set already, and a read-modify-write costs many times as much as a load.
        if word.load(Relaxed) & mask != mask {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// Marks the sector of `address` as touched.
    #[inline(always)]
    pub fn touch(&self, address: u64) {
        let sector = (address - self.base) / SECTOR_BYTES;
        let bit = 1 << (sector % 32);
        let Some(word) = self.touched.get((sector / 32) as usize) else { return };
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    fn each_byte(&self, range: std::ops::Range<u64>, mut value: impl FnMut(u64) -> u8) {
        let mut at = range.start;
        while at < range.end {
            if at.is_multiple_of(4) && at + 4 <= range.end {
                let bytes = std::array::from_fn(|byte| value(at + byte as u64));
                self.store_word(self.base + at, u32::from_le_bytes(bytes));
                at += 4;
            } else {
                let shift = at % 4 * 8;
                self.store_bits(self.base + at, u32::from(value(at)) << shift, 0xff << shift);
                at += 1;
            }
        }
    }

    fn mark(&self, range: std::ops::Range<u64>, initialised: bool) {
        let mut at = range.start;
        while at < range.end {
            let count = (32 - at % 32).min(range.end - at);
            let mask = (((1u64 << count) - 1) as u32) << (at % 32);
            let Some(word) = self.initialised.get((at / 32) as usize) else { return };
            if initialised {
                word.fetch_or(mask, Relaxed);
            } else {
                word.fetch_and(!mask, Relaxed);
            }
            at += count;
        }
    }
}

/// All allocations of a GPU.
#[derive(Debug, Default)]
pub(crate) struct GlobalMemory {
    /// In address order. Freed ones stay, so a use after free is recognised.
    allocations: Vec<Allocation>,
    live_bytes: u64,
    launches: AtomicU64,
}

impl GlobalMemory {
    /// Allocates uninitialised memory, `offset` bytes beyond a multiple of [`SPAN`]. `limit` is the GPU's memory in bytes.
    pub fn alloc(&mut self, bytes: u64, offset: u64, limit: u64) -> Result<u64, String> {
        if offset >= SPAN || !offset.is_multiple_of(ALIGNMENT) {
            return Err(format!("an offset of {offset} bytes is no multiple of {ALIGNMENT} below {SPAN}"));
        }
        if bytes == 0 {
            return Err("an allocation of 0 bytes has no address; ask for at least 1".to_owned());
        }
        if self.live_bytes.saturating_add(bytes) > limit {
            return Err(format!("out of memory: {bytes} bytes requested, {} of {limit} in use", self.live_bytes));
        }
        let base = self
            .allocations
            .last()
            .map_or(FIRST_ADDRESS, |last| (last.base + last.bytes + GUARD_BYTES + SPACING).next_multiple_of(SPAN));
        let base = base + offset;
        self.allocations.push(Allocation::new(base, bytes)?);
        self.live_bytes += bytes;
        Ok(base)
    }

    /// Allocates zeros of which only about `window` bytes at either end are stored. Between them, reads return
    /// zeros and writes are lost. It counts as little memory, whatever its size.
    pub fn alloc_hollow(&mut self, bytes: u64, window: u64, limit: u64) -> Result<u64, String> {
        let window = window.next_multiple_of(ALIGNMENT);
        let between = bytes.saturating_sub(2 * window) / ALIGNMENT * ALIGNMENT;
        if between == 0 {
            let base = self.alloc(bytes, 0, limit)?;
            return self.fill(base, bytes, 0).map(|()| base);
        }
        let base = self.alloc(window, 0, limit)?;
        let last = Allocation::new(base + window + between, bytes - window - between)?;
        self.live_bytes += last.bytes;
        if let Some(first) = self.allocations.last_mut() {
            first.continues = true;
        }
        let hollow = Allocation { continues: true, ..Allocation::hollow(base + window, between) };
        let end = last.base;
        self.allocations.extend([hollow, last]);
        self.fill(base, window, 0)?;
        self.fill(end, base + bytes - end, 0)?;
        Ok(base)
    }

    /// Frees the allocation that starts at `address`.
    pub fn free(&mut self, address: u64) -> Result<(), String> {
        let is_meant = |allocation: &Allocation| allocation.base == address && !allocation.freed;
        let Some(first) = self.allocations.iter().position(is_meant) else {
            return Err(format!("{address:#x} is not the start of a live allocation"));
        };
        for allocation in &mut self.allocations[first..] {
            self.live_bytes -= if allocation.words.is_empty() { 0 } else { allocation.bytes };
            let continues = allocation.continues;
            *allocation = Allocation { freed: true, ..Allocation::hollow(allocation.base, allocation.bytes) };
            if !continues {
                break;
            }
        }
        Ok(())
    }

    /// Returns the allocation with this index.
    #[inline(always)]
    pub fn allocation(&self, index: usize) -> &Allocation {
        &self.allocations[index]
    }

    /// Returns whether `bytes` bytes at `address` are in the live allocation with this index.
    #[inline(always)]
    pub fn is_inside(&self, index: usize, address: u64, bytes: u32) -> bool {
        self.allocations.get(index).is_some_and(|allocation| !allocation.freed && allocation.contains(address, bytes))
    }

    /// Returns what an address refers to.
    pub fn find(&self, address: u64) -> Place {
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        let Some(index) = after.checked_sub(1) else {
            return Place::Outside(
                if address < FIRST_ADDRESS { "near null" } else { "before every allocation" }.to_owned(),
            );
        };
        let allocation = &self.allocations[index];
        let past = address - allocation.base;
        if past < allocation.bytes {
            return if allocation.freed { Place::Freed } else { Place::Inside(index) };
        }
        if let Some(next) = self.allocations.get(after).filter(|next| next.base - address < past - allocation.bytes) {
            return Place::Outside(format!(
                "{} bytes before allocation {after} of {} bytes",
                next.base - address,
                next.bytes
            ));
        }
        Place::Outside(format!(
            "{} bytes past the end of allocation {index} of {} bytes",
            past - allocation.bytes,
            allocation.bytes
        ))
    }

    fn range(&self, address: u64, bytes: u64) -> Result<(&Allocation, std::ops::Range<u64>), String> {
        match self.find(address) {
            Place::Inside(index) => {
                let allocation = &self.allocations[index];
                let offset = address - allocation.base;
                if bytes <= allocation.bytes - offset {
                    return Ok((allocation, offset..offset + bytes));
                }
                Err(format!("{bytes} bytes at {address:#x} end past the allocation of {} bytes", allocation.bytes))
            }
            Place::Freed => Err(format!("{address:#x} was freed")),
            Place::Outside(detail) => Err(format!("{address:#x} is not allocated ({detail})")),
        }
    }

    /// Writes bytes from the host.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let (allocation, range) = self.range(address, bytes.len() as u64)?;
        let start = range.start;
        allocation.each_byte(range.clone(), |at| bytes[(at - start) as usize]);
        allocation.mark(range, true);
        Ok(())
    }

    /// Sets bytes from the host.
    pub fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), String> {
        let (allocation, range) = self.range(address, bytes)?;
        allocation.each_byte(range.clone(), |_| value);
        allocation.mark(range, true);
        Ok(())
    }

    /// Marks bytes as uninitialised.
    pub fn mark_uninitialised(&self, address: u64, bytes: u64) -> Result<(), String> {
        let (allocation, range) = self.range(address, bytes)?;
        allocation.mark(range, false);
        Ok(())
    }

    /// Reads bytes from the host.
    pub fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, String> {
        let (allocation, range) = self.range(address, bytes)?;
        let mut result = Vec::with_capacity(bytes as usize);
        let mut at = range.start;
        while at < range.end {
            let word = allocation.load_word(allocation.base + at).to_le_bytes();
            let from = (at % 4) as usize;
            let count = (4 - from).min((range.end - at) as usize);
            result.extend_from_slice(&word[from..from + count]);
            at += count as u64;
        }
        Ok(result)
    }

    /// Counts a launch, and returns how many there were before.
    pub fn count_launch(&self) -> u64 {
        let before = self.launches.fetch_add(1, Relaxed);
        if before > 0 && before.is_multiple_of(LAUNCHES) {
            for allocation in &self.allocations {
                allocation.writers.clear();
                allocation.readers.clear();
            }
        }
        before
    }

    /// Starts a new count of touched sectors.
    pub fn forget_touched(&self) {
        for word in self.allocations.iter().flat_map(|allocation| allocation.touched.iter()) {
            word.store(0, Relaxed);
        }
    }

    /// Returns the bytes of the touched sectors. If only one block in `scale` was executed, each allocation's bytes are
    /// scaled up, capped at its size.
    pub fn touched_bytes(&self, scale: f64) -> u64 {
        let touched = |allocation: &Allocation| {
            let sectors: u32 = allocation.touched.iter().map(|word| word.load(Relaxed).count_ones()).sum();
            let bytes = f64::from(sectors) * scale * SECTOR_BYTES as f64;
            (bytes as u64).min(allocation.bytes.next_multiple_of(SECTOR_BYTES))
        };
        self.allocations.iter().map(touched).sum()
    }
}
