//! Strong stores to global memory that no fence has published: what was there before, and who has seen what was stored later.

use std::collections::HashMap;

use super::foreign::Time;

/// The most stores, and the most atomics on a word. Later ones are not recorded.
const MAX_STORES: usize = 1 << 20;
const MAX_ATOMICS: usize = 1 << 12;

/// A strong store of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Store {
    /// The word before.
    pub before: u32,
    /// Index of the block in the grid.
    pub block: u32,
    /// Warp of the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The block's time.
    pub time: Time,
    /// The number of strong accesses of the launch, with this one.
    pub count: Time,
}

/// The stores of a launch whose old values may still be seen.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    stores: HashMap<u64, Store>,
    /// The atomics on each word since there are such stores: blocks, and counts of strong accesses.
    atomics: HashMap<u64, Vec<(u32, Time)>>,
}

impl Messages {
    /// Returns whether no old value may be seen.
    pub fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    /// Records a store at an address.
    pub fn store(&mut self, address: u64, store: Store) {
        if self.stores.len() < MAX_STORES {
            self.stores.insert(address, store);
        }
    }

    /// Returns the store at an address.
    pub fn get(&self, address: u64) -> Option<&Store> {
        self.stores.get(&address)
    }

    /// Forgets the store at an address: its old value has been seen, or can no longer be.
    pub fn forget(&mut self, address: u64) {
        self.stores.remove(&address);
    }

    /// Records an atomic of a block. It finds the current value, and so do all after it.
    pub fn atomic(&mut self, address: u64, block: u32, count: Time) {
        self.forget(address);
        if !self.is_empty() {
            let atomics = self.atomics.entry(address).or_default();
            if atomics.len() < MAX_ATOMICS {
                atomics.push((block, count));
            }
        }
    }
}

/// The latest strong store or atomic of each other block that a block has seen.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    counts: HashMap<u32, Time>,
    /// How many atomics on each word it has seen.
    atomics: HashMap<u64, usize>,
}

impl Heard {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.atomics.clear();
    }

    /// Returns whether the block has seen something that a block stored later.
    pub fn is_after(&self, store: &Store) -> bool {
        self.counts.get(&store.block).is_some_and(|&count| count > store.count)
    }

    /// Notes what the block sees of a block.
    pub fn note(&mut self, block: u32, count: Time) {
        let latest = self.counts.entry(block).or_default();
        *latest = count.max(*latest);
    }

    /// Notes the atomics on a word that the block sees.
    pub fn note_atomics(&mut self, address: u64, messages: &Messages) {
        let Some(atomics) = messages.atomics.get(&address) else { return };
        let seen = self.atomics.insert(address, atomics.len()).unwrap_or(0);
        atomics[seen.min(atomics.len())..].iter().for_each(|&(block, count)| self.note(block, count));
    }
}
