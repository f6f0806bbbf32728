//! Times, and a warp's knowledge of other blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A time, in releases of the block.
pub(crate) type Time = u32;

/// The last time. Accesses at this time count as ordered before everything, so that a long block has no false races.
pub(crate) const END: Time = (1 << 23) - 1;

/// For every warp of a block, a time.
pub(crate) type Times = Box<[Time]>;

/// A warp's knowledge of other blocks: for each warp of a block, the time up to which its accesses are ordered before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Foreign(Option<Arc<BTreeMap<u32, Arc<[Time]>>>>);

impl Foreign {
    /// Returns the time of a warp of another block.
    pub fn time(&self, block: u32, warp: u32) -> Time {
        let times = self.0.as_ref().and_then(|known| known.get(&block));
        times.and_then(|times| times.get(warp as usize)).copied().unwrap_or(0)
    }

    /// Returns whether both are the same by their addresses.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Adds another warp's knowledge.
    pub fn join(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (_, None) => {}
            (None, Some(_)) => *self = other.clone(),
            (Some(own), Some(other)) if Arc::ptr_eq(own, other) => {}
            (Some(own), Some(other)) => {
                // Blocks of a chain know almost the same of thousands of others.
                let is_known = |(block, times): &(&u32, &Arc<[Time]>)| {
                    own.get(*block).is_some_and(|known| Arc::ptr_eq(known, times))
                };
                let new: Vec<(&u32, &Arc<[Time]>)> = other.iter().filter(|entry| !is_known(entry)).collect();
                new.into_iter().for_each(|(block, times)| self.insert(*block, times));
            }
        }
    }

    /// Adds the times of a block.
    pub fn insert(&mut self, block: u32, times: &Arc<[Time]>) {
        let known = Arc::make_mut(self.0.get_or_insert_default());
        let Some(own) = known.get_mut(&block) else {
            known.insert(block, times.clone());
            return;
        };
        if own.len() < times.len() {
            // A writer without a fence published nothing.
            *own = times.clone();
        } else if own.iter().zip(&**times).any(|(own, other)| own < other) {
            *own = own.iter().zip(&**times).map(|(own, other)| *own.max(other)).collect();
        }
    }
}
