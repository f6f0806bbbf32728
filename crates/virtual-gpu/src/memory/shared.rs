//! Shared memory of one block.

use super::flight::Flight;
use super::proxies::Proxies;
use super::races::Races;

/// Shared memory of one block: its contents, its written bytes, and its accesses.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    bytes: u32,
    words: Vec<u32>,
    /// One bit per byte of each word, set once the byte was written.
    initialised: Vec<u8>,
    /// The accesses, for race detection; None without it.
    pub races: Option<Races>,
    /// Writes that are not visible to the asynchronous proxy, for race detection; None without it.
    pub proxies: Option<Proxies>,
    /// What asynchronous copies still write or read, for race detection; None without it.
    pub flight: Option<Flight>,
}

impl SharedMemory {
    /// Makes uninitialised memory of `bytes` bytes.
    pub fn new(bytes: u32, races: Option<Races>, warps: u32) -> Self {
        let words = bytes.div_ceil(4) as usize;
        let proxies = races.is_some().then(|| Proxies::new(words, warps));
        let flight = races.is_some().then(|| Flight::new(words));
        Self { bytes, words: vec![0; words], initialised: vec![0; words], races, proxies, flight }
    }

    /// Resets the memory for the block with this index in the grid.
    pub fn reset(&mut self, block: u32) {
        // The result of reading unwritten memory must not depend on which block ran here before.
        self.words.fill(0);
        self.initialised.fill(0);
        if let Some(races) = &mut self.races {
            races.reset(block);
        }
        if let Some(proxies) = &mut self.proxies {
            proxies.reset();
        }
        if let Some(flight) = &mut self.flight {
            flight.reset();
        }
    }

    /// Returns its size in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns the word that holds `address`, which must be inside.
    #[inline(always)]
    pub fn load_word(&self, address: u32) -> u32 {
        self.words[(address / 4) as usize]
    }

    /// Overwrites the bits of `mask` in the word that holds `address`, and marks those bytes as written.
    #[inline(always)]
    pub fn store_bits(&mut self, address: u32, value: u32, mask: u32) {
        let index = (address / 4) as usize;
        let word = &mut self.words[index];
        *word = *word & !mask | value & mask;
        // Gathers one bit of each byte of the mask to the low nibble.
        self.initialised[index] |= (((mask & 0x0101_0101).wrapping_mul(0x0102_0408)) >> 24) as u8 & 15;
    }

    /// Overwrites an aligned word.
    #[inline(always)]
    pub fn store_word(&mut self, address: u32, value: u32) {
        let index = (address / 4) as usize;
        self.words[index] = value;
        self.initialised[index] = 15;
    }

    /// Returns whether `bytes` bytes at `address` (aligned to them, or whole words) are those of `word`s, by index.
    pub fn holds(&self, address: u32, bytes: u32, word: impl Fn(usize) -> u32) -> bool {
        if bytes < 4 {
            let mask = u32::MAX >> (32 - 8 * bytes);
            return (self.load_word(address) >> (address % 4 * 8) ^ word(0)) & mask == 0;
        }
        (0..bytes / 4).all(|index| self.load_word(address + 4 * index) == word(index as usize))
    }

    /// Returns whether `bytes` bytes at `address` (aligned to them, or whole words) were all written.
    #[inline(always)]
    pub fn is_initialised(&self, address: u32, bytes: u32) -> bool {
        let index = (address / 4) as usize;
        if bytes < 4 {
            let mask = ((1u8 << bytes) - 1) << (address % 4);
            return self.initialised[index] & mask == mask;
        }
        self.initialised[index..index + (bytes / 4) as usize].iter().all(|&flags| flags == 15)
    }
}
