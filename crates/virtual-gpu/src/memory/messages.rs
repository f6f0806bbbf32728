//! Strong stores and atomics in global memory that no fence has published: what was there before, and who has seen what was stored
//! later.

use std::collections::HashMap;

use super::foreign::Time;

/// The most stores, and the most changes of a word by atomics and of all words. Later ones are not recorded.
const MAX_STORES: usize = 1 << 20;
const MAX_CHANGES: usize = 1 << 12;

/// A strong store of a word, or an atomic that has changed it.
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
    /// Whether it was an atomic, which continues what was there.
    pub is_atomic: bool,
}

/// What the current value of a word continues, oldest first: a strong store, and the atomics after it.
#[derive(Debug, Default)]
struct Log {
    /// Blocks, and counts of strong accesses.
    changes: Vec<(u32, Time)>,
    /// The first that the value continues. The others are of values that a store has replaced.
    first: usize,
}

/// The stores of a launch whose old values may still be seen.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    stores: HashMap<u64, Store>,
    /// The words with atomics since there are such stores.
    logs: HashMap<u64, Log>,
    /// The changes in all logs.
    changes: usize,
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

    /// Notes that an atomic comes to an address. It finds the current value, which may be that of a store, and so do all after it.
    pub fn reach(&mut self, address: u64) {
        if let Some(store) = self.stores.remove(&address)
            && !store.is_atomic
        {
            let log = self.logs.entry(address).or_default();
            log.first = log.changes.len();
            self.change(address, store.block, store.count);
        }
    }

    /// Records an atomic of a block, and what it has changed.
    pub fn atomic(&mut self, address: u64, (block, count): (u32, Time), changed: Option<Store>) {
        if changed.is_some() || !self.is_empty() {
            self.change(address, block, count);
        }
        if let Some(store) = changed {
            self.store(address, store);
        }
    }

    fn change(&mut self, address: u64, block: u32, count: Time) {
        let log = self.logs.entry(address).or_default();
        if log.changes.len() < MAX_CHANGES && self.changes < MAX_STORES {
            log.changes.push((block, count));
            self.changes += 1;
        }
    }
}

/// The latest strong store or atomic of each other block that a block has seen.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    counts: HashMap<u32, Time>,
    /// How many changes of each word it has seen.
    changes: HashMap<u64, usize>,
    /// The stores whose new values it has loaded. It never sees an older one again.
    words: HashMap<u64, Time>,
}

impl Heard {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.changes.clear();
        self.words.clear();
    }

    /// Returns whether the block has seen something that a block stored later, but not what it stored here.
    pub fn is_after(&self, address: u64, store: &Store) -> bool {
        let is_later = self.counts.get(&store.block).is_some_and(|&count| count > store.count);
        is_later && self.words.get(&address).is_none_or(|&count| count < store.count)
    }

    /// Notes what the block sees of a block.
    pub fn note(&mut self, block: u32, count: Time) {
        let latest = self.counts.entry(block).or_default();
        *latest = count.max(*latest);
    }

    /// Notes that the block has loaded what a store has left.
    pub fn note_word(&mut self, address: u64, store: &Store) {
        if self.words.len() < MAX_STORES {
            self.words.insert(address, store.count);
        }
    }

    /// Notes the changes of a word that the block sees.
    pub fn note_changes(&mut self, address: u64, messages: &Messages) {
        let Some(Log { changes, first }) = messages.logs.get(&address) else { return };
        let seen = self.changes.insert(address, changes.len()).unwrap_or(0).max(*first);
        changes[seen.min(changes.len())..].iter().for_each(|&(block, count)| self.note(block, count));
    }
}
