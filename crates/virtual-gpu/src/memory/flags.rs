//! Work that blocks have published through flags in global memory: the addresses of strong accesses (atomics, volatile,
//! relaxed, acquire, release).
//!
//! A flag keeps a log of the work that its writers had fenced. A reader only records how much of the log it has seen; a
//! fence expands that. This keeps counters that a thousand blocks share cheap.

use std::collections::HashMap;
use std::sync::Arc;

use super::foreign::{END, Foreign, Time, Times};

/// The most entries of all logs, about 100 bytes each. Beyond that, every read counts as ordered after every write.
const MAX_ENTRIES: usize = 1 << 20;

/// The fenced work of a writer.
#[derive(Debug)]
struct Entry {
    block: u32,
    times: Arc<[Time]>,
    foreign: Foreign,
}

#[derive(Debug, Default)]
struct Flag {
    log: Vec<Entry>,
    /// The first entry that the current value continues.
    first: usize,
}

/// The flags that a warp has read, with the part of their logs that it saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Vec<(u64, usize, usize)>);

impl Seen {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|&seen| self.add(seen));
    }

    fn add(&mut self, (address, first, end): (u64, usize, usize)) {
        match self.0.iter_mut().find(|seen| seen.0 == address) {
            Some(seen) => (seen.1, seen.2) = (seen.1.min(first), seen.2.max(end)),
            None => self.0.push((address, first, end)),
        }
    }
}

/// All flags of a launch.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    flags: HashMap<u64, Flag>,
    entries: usize,
    strong: Time,
}

impl Flags {
    /// Returns the number of strong accesses so far.
    pub fn strong(&self) -> Time {
        self.strong
    }

    /// Counts a strong access and returns the count.
    pub fn count(&mut self) -> Time {
        self.strong = (self.strong + 1).min(END);
        self.strong
    }

    /// Returns whether the limit of entries is exceeded.
    pub fn is_full(&self) -> bool {
        self.entries >= MAX_ENTRIES
    }

    /// Notes a read.
    pub fn read(&self, address: u64, seen: &mut Seen) {
        if let Some(flag) = self.flags.get(&address)
            && flag.first < flag.log.len()
        {
            seen.add((address, flag.first, flag.log.len()));
        }
    }

    /// Publishes a writer's work: the work covered by its fences, and what it knows of other blocks.
    pub fn write(&mut self, address: u64, keeps: bool, block: u32, (fenced, foreign): (Option<&Times>, &Foreign)) {
        // Most kernels with atomics have no fence, and then an atomic publishes nothing.
        if self.is_full() || (fenced.is_none() && (keeps || !self.flags.contains_key(&address))) {
            return;
        }
        let flag = self.flags.entry(address).or_default();
        if !keeps {
            flag.first = flag.log.len();
        } else if flag.log.len() > flag.first && flag.log.last().is_some_and(|last| last.block == block) {
            // The new entry contains everything in this one.
            flag.log.pop();
            self.entries -= 1;
        }
        let times = fenced.map_or_else(|| Arc::from([]), |fenced| fenced.as_ref().into());
        flag.log.push(Entry { block, times, foreign: foreign.clone() });
        self.entries += 1;
    }

    /// Adds to `known` what a block learns from the flags that it has seen.
    pub fn expand(&self, seen: &Seen, own: u32, known: &mut Foreign) {
        // Words that a warp has stored together come with the same knowledge.
        let mut last: Option<&Foreign> = None;
        for &(address, first, end) in &seen.0 {
            let Some(flag) = self.flags.get(&address) else { continue };
            for entry in &flag.log[first.min(flag.log.len())..end.min(flag.log.len())] {
                if !last.replace(&entry.foreign).is_some_and(|last| last.is_same(&entry.foreign)) {
                    known.join(&entry.foreign);
                }
                if entry.block != own {
                    known.insert(entry.block, &entry.times);
                }
            }
        }
    }
}
