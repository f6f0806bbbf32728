//! The happens-before order of accesses: the clocks of a block's warps, and their knowledge of other blocks.
//!
//! Every warp carries a vector clock of its block (happens-before, as in FastTrack, Flanagan and Freund 2009). A
//! *release* advances the block's time and publishes the warp's work so far; waiting joins the clocks that others
//! published.
//!
//! Other blocks learn of a warp's work only through global memory, by the release and acquire patterns of the PTX
//! memory model: stores, a fence of GPU scope, a strong access to a flag; then a strong read of the flag, a fence,
//! loads. Fences are cumulative: they cover what the warp knows from barriers.
//!
//! The products of a warpgroup (`wgmma`) read shared memory on their own, until a warp waits for them. Each warpgroup
//! therefore has a place of its own in the clocks, behind the warps ([`Readers`]).
//!
//! A block's barrier after the strong read is no fence, because a plain load may find an old line in L1: GPUs have shown it.
//! It does order stores, which no machine performs early, and strong loads, which do not look into L1.

use std::sync::Arc;

use super::flags::{Flags, Seen};
pub(crate) use super::foreign::{END, Foreign, Time, Times};
use super::messages::Heard;

/// What reads shared memory in a block: its warps, and the products of its warpgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readers {
    /// The warps of the block.
    pub warps: u32,
    /// Whether the kernel has products of warpgroups.
    pub products: bool,
}

impl Readers {
    /// Returns the number of places in a clock.
    pub fn count(self) -> usize {
        (self.warps + if self.products { self.warps.div_ceil(GROUP) } else { 0 }) as usize
    }

    /// Returns the place in a clock of the products of a warp's warpgroup.
    pub fn products_of(self, warp: u32) -> u32 {
        self.warps + warp / GROUP
    }

    /// Returns the first warp of the warpgroup whose products have this place; None for the place of a warp.
    pub fn group_at(self, place: u32) -> Option<u32> {
        (place >= self.warps).then(|| (place - self.warps) * GROUP)
    }
}

/// Warps of a warpgroup.
pub(crate) const GROUP: u32 = 4;

/// The relation of a warp to other blocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Far {
    /// The work of the own block's warps that a fence of GPU scope covers.
    pub fenced: Times,
    /// Whether a fence has covered anything.
    pub publishes: bool,
    /// The work of other blocks that is ordered before.
    pub foreign: Foreign,
    /// Flags that were read, with no fence or barrier since.
    pub seen: Seen,
    /// Flags that were read before a barrier, with no fence since.
    pub unfenced: Seen,
    /// The work of other blocks that a barrier orders before stores and strong loads only.
    pub barred: Foreign,
    /// The number of strong accesses to global memory at the last strong read.
    pub strong: Time,
    /// The same at the last strong read with a fence after it.
    pub acquired: Time,
}

impl Far {
    fn join(&mut self, other: &Self) {
        join(&mut self.fenced, &other.fenced);
        self.publishes |= other.publishes;
        self.foreign.join(&other.foreign);
        self.take_flags(other);
    }

    /// Takes over which flags another warp has read.
    fn take_flags(&mut self, other: &Self) {
        self.seen.join(&other.seen);
        self.unfenced.join(&other.unfenced);
        self.barred.join(&other.barred);
        self.strong = self.strong.max(other.strong);
        self.acquired = self.acquired.max(other.acquired);
    }
}

/// How an access depends on the work of other blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordered {
    Yes,
    /// Only by a barrier, or by a flag without a fence, which does not order a plain load.
    ByBarrier,
    No,
}

/// A clock that warps publish and others join, at a barrier, an mbarrier or a flag of one block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    near: Times,
    far: Option<Box<Far>>,
}

impl Clock {
    /// Joins another clock of the same block.
    pub fn join(&mut self, other: &Self) {
        join(&mut self.near, &other.near);
        if let Some(far) = &other.far {
            self.far.get_or_insert_default().join(far);
        }
    }

    /// Clears the clock.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The clocks of a block.
#[derive(Debug)]
pub(crate) struct Order {
    /// Index in the grid.
    pub block: u32,
    /// The time.
    pub now: Time,
    /// Whether there was an access at this time.
    pub used: bool,
    /// What the block has seen of others.
    pub heard: Heard,
    clocks: Vec<Times>,
    /// Per warp, the time before which its lanes know of each other's accesses.
    synced: Vec<Time>,
    /// The clocks that warps published at their last write of a flag, by a volatile or atomic access.
    flags: Times,
    /// Per warp; empty for a kernel whose blocks cannot order each other.
    far: Vec<Far>,
}

impl Order {
    /// Makes the clocks of a block. `talks`: whether blocks may order each other.
    pub fn new(readers: Readers, talks: bool) -> Self {
        let (warps, places) = (readers.warps as usize, readers.count());
        Self {
            block: 0,
            now: 1,
            used: false,
            heard: Heard::default(),
            clocks: vec![vec![0; places].into(); warps],
            synced: vec![0; warps],
            flags: Times::default(),
            far: vec![Far { fenced: vec![0; places].into(), ..Far::default() }; if talks { warps } else { 0 }],
        }
    }

    /// Clears everything for the next block.
    pub fn reset(&mut self, block: u32) {
        self.block = block;
        self.now = 1;
        self.used = false;
        self.heard.clear();
        self.clocks.iter_mut().for_each(|clock| clock.fill(0));
        self.synced.fill(0);
        self.flags.fill(0);
        for far in &mut self.far {
            far.fenced.fill(0);
            *far = Far { fenced: std::mem::take(&mut far.fenced), ..Far::default() };
        }
    }

    fn advance(&mut self) {
        // If there were no accesses at this time, it can be reused.
        if std::mem::take(&mut self.used) {
            self.now = (self.now + 1).min(END);
        }
    }

    /// Ends the reads of a product and returns their time. Those of the next product have a later one.
    pub fn end_product(&mut self) -> Time {
        let time = self.now;
        self.used = true;
        self.advance();
        time
    }

    /// Orders a warp after the products with this place in the clocks, up to a time: it has waited for them.
    pub fn await_products(&mut self, warp: u32, place: u32, time: Time) {
        let known = &mut self.clocks[warp as usize][place as usize];
        *known = time.max(*known);
    }

    /// Returns whether what the warp `other` of the block (or the products with that place) did at `time` is ordered before the warp's next access.
    #[inline(always)]
    pub fn is_ordered(&self, warp: u32, other: u32, time: Time) -> bool {
        other == warp || time <= self.clocks[warp as usize][other as usize] || time == END
    }

    /// Returns whether what another lane of the warp did at `time` is ordered before the warp's next access.
    #[inline(always)]
    pub fn is_synced(&self, warp: u32, time: Time) -> bool {
        time < self.synced[warp as usize] || time == END
    }

    /// Returns whether what a warp of another block did at `time` is ordered before the warp's next access.
    pub fn is_ordered_far(&self, warp: u32, (block, other): (u32, u32), time: Time) -> Ordered {
        let far = self.far.get(warp as usize);
        if time == END || far.is_some_and(|far| time <= far.foreign.time(block, other)) {
            Ordered::Yes
        } else if far.is_some_and(|far| time <= far.barred.time(block, other)) {
            Ordered::ByBarrier
        } else {
            Ordered::No
        }
    }

    /// Returns whether what a warp of another block did at `time` is ordered before the warp's next strong load. A flag
    /// that it has read needs no fence behind it: the load waits for the flag's value, and does not look into L1.
    pub fn is_ordered_for_strong(&self, warp: u32, other: (u32, u32), time: Time, flags: &Flags) -> bool {
        let Some(far) = self.far.get(warp as usize) else { return false };
        let mut known = Foreign::default();
        flags.expand(&far.seen, self.block, &mut known);
        flags.expand(&far.unfenced, self.block, &mut known);
        self.is_ordered_far(warp, other, time) != Ordered::No || time <= known.time(other.0, other.1) || flags.is_full()
    }

    /// Returns how the strong write with a number is ordered before the warp's next access. A plain load needs a fence after the
    /// strong read, as it needs one behind a barrier.
    pub fn is_ordered_strong(&self, warp: u32, time: Time) -> Ordered {
        match self.far.get(warp as usize) {
            Some(far) if time <= far.acquired => Ordered::Yes,
            Some(far) if time <= far.strong => Ordered::ByBarrier,
            _ => Ordered::No,
        }
    }

    /// Orders the lanes of a warp: `bar.warp.sync`, and other instructions at which they wait for each other.
    #[inline(always)]
    pub fn sync(&mut self, warp: u32) {
        self.advance();
        self.synced[warp as usize] = self.now;
    }

    /// Publishes the work and knowledge of `warp` into `clock`.
    pub fn release(&mut self, warp: u32, clock: &mut Clock) {
        let own = &mut self.clocks[warp as usize];
        own[warp as usize] = self.now;
        join(&mut clock.near, own);
        if let Some(far) = self.far.get(warp as usize) {
            clock.far.get_or_insert_default().join(far);
        }
        self.used = true;
        self.advance();
    }

    /// Publishes the work of `warp` to a clock of its `own` block, or of another block of the cluster.
    pub fn publish(&mut self, warp: u32, own: bool, clock: &mut Clock) {
        if own {
            self.release(warp, clock);
        } else {
            self.release_far(warp, clock);
        }
    }

    /// Publishes the work of `warp` to a clock of another block of the cluster.
    pub fn release_far(&mut self, warp: u32, clock: &mut Clock) {
        let times: Arc<[Time]> = self.all(warp).into();
        if let Some(own) = self.far.get(warp as usize) {
            let far = clock.far.get_or_insert_default();
            far.foreign.join(&own.foreign);
            far.foreign.insert(self.block, &times);
            far.take_flags(own);
        }
        self.used = true;
        self.advance();
    }

    /// Returns the warp's clock with its own work up to now.
    fn all(&mut self, warp: u32) -> Times {
        let own = &mut self.clocks[warp as usize];
        own[warp as usize] = self.now;
        own.clone()
    }

    /// Joins `clock` into the clock of `warp`.
    pub fn acquire(&mut self, warp: u32, clock: &Clock) {
        join(&mut self.clocks[warp as usize], &clock.near);
        if let (Some(own), Some(far)) = (self.far.get_mut(warp as usize), &clock.far) {
            own.join(far);
        }
    }

    /// A fence of GPU scope: covers the work that the warp knows, and orders it after the flags that it has read.
    pub fn fence(&mut self, warp: u32, flags: &Flags) {
        let all = self.all(warp);
        let Some(far) = self.far.get_mut(warp as usize) else { return };
        join(&mut far.fenced, &all);
        far.publishes = true;
        self.used = true;
        self.advance();
        self.learn(warp, flags);
    }

    /// Orders a warp after the flags that it has read.
    pub fn learn(&mut self, warp: u32, flags: &Flags) {
        let block = self.block;
        let Some(far) = self.far.get_mut(warp as usize) else { return };
        far.acquired = far.strong;
        for seen in [&mut far.seen, &mut far.unfenced] {
            if !seen.is_empty() {
                flags.expand(&std::mem::take(seen), block, &mut far.foreign);
            }
        }
    }

    /// Orders stores and strong loads of a warp after the flags that were read before a barrier.
    pub fn pass_barrier(&mut self, warp: u32, flags: &Flags) {
        let block = self.block;
        let Some(far) = self.far.get_mut(warp as usize) else { return };
        if !far.seen.is_empty() {
            flags.expand(&far.seen, block, &mut far.barred);
            far.unfenced.join(&std::mem::take(&mut far.seen));
        }
    }

    /// Orders `warp` by a volatile or atomic access within its block. A warp that reads a flag is ordered after all
    /// earlier flag writers, because all flags of the block count as one. A kernel with several flags may hide a race;
    /// false races are impossible.
    pub fn order_by_flag(&mut self, warp: u32, reads: bool, writes: bool) {
        let mut flags = std::mem::take(&mut self.flags);
        if reads {
            join(&mut self.clocks[warp as usize], &flags);
        }
        if writes {
            let own = &mut self.clocks[warp as usize];
            own[warp as usize] = self.now;
            join(&mut flags, own);
            self.used = true;
            self.advance();
        }
        self.flags = flags;
    }

    /// A strong read of the global flag at `address`.
    pub fn read_flag(&mut self, warp: u32, address: u64, flags: &Flags) {
        let Some(far) = self.far.get_mut(warp as usize) else { return };
        far.strong = flags.strong();
        flags.read(address, &mut far.seen);
    }

    /// A strong write of the global flag at `address`; `keeps` if it is an atomic, which continues what others
    /// released.
    pub fn write_flag(&self, warp: u32, address: u64, keeps: bool, flags: &mut Flags) {
        if let Some(far) = self.far.get(warp as usize) {
            flags.write(address, keeps, self.block, (far.publishes.then_some(&far.fenced), &far.foreign));
        }
    }
}

/// Joins other times.
pub(crate) fn join(into: &mut Times, from: &[Time]) {
    if into.len() < from.len() {
        *into = from.into();
        return;
    }
    for (into, &from) in into.iter_mut().zip(from) {
        *into = (*into).max(from);
    }
}
