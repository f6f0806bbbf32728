//! Detects shared-memory races by ordering, not by results, because a fixed order of the warps would hide them.
//!
//! An access is ordered after an earlier one of another warp iff the warp has joined a later release ([`Order`]). It is
//! ordered after one of another lane of its own warp iff the lanes have waited for each other in between: since Volta
//! the lanes of a warp may run one after the other, although here they run in lock step.

use std::ops::Range;

use super::order::{Clock, END, GROUP, Order, Readers, Time};
use crate::fault::{Access, FaultKind, Found};

/// The lane or lanes that make an access.
pub(crate) type Lane = u8;

/// All lanes together: the bytes do not belong to the lane that has the address.
pub(crate) const TOGETHER: Lane = 32;

/// Not the lanes: an asynchronous copy. Lanes are not ordered by such accesses, nor in conflict with them.
pub(crate) const APART: Lane = 33;

/// Bits of a read that hold the lane.
const LANE_BITS: u32 = 6;

/// The last read of a reader.
#[derive(Debug, Clone, Copy, Default)]
struct Read {
    /// Its time and lane; 0 if there was none.
    at: u32,
    /// The instruction.
    pc: u32,
}

impl Read {
    fn new(time: Time, lane: Lane, pc: u32) -> Self {
        Self { at: time << LANE_BITS | u32::from(lane), pc }
    }

    #[inline(always)]
    fn time(self) -> Time {
        self.at >> LANE_BITS
    }

    #[inline(always)]
    fn lane(self) -> Lane {
        (self.at & ((1 << LANE_BITS) - 1)) as Lane
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Write {
    /// 0 if never written.
    time: Time,
    /// The instruction.
    pc: u32,
    warp: u8,
    lane: Lane,
    atomic: bool,
    /// Several warps or lanes wrote the same value, in no order.
    several: bool,
}

/// The last accesses to each granule of a block's shared memory, and the order of the block's accesses.
#[derive(Debug)]
pub(crate) struct Races {
    readers: Readers,
    /// The number of readers.
    places: usize,
    /// Log2 of the bytes of a granule: the kernel's smallest access, so that neighbouring elements are distinct.
    shift: u32,
    /// The order of the block's accesses.
    pub order: Order,
    writes: Vec<Write>,
    /// Per granule and reader, the last read.
    reads: Vec<Read>,
    /// The instruction that makes the current access.
    pub pc: u32,
    /// What the block's warps have published at barriers of the cluster.
    cluster: Clock,
}

impl Races {
    /// Makes the record for `bytes` of shared memory of a block. The kernel's smallest access is `granule_bytes`.
    /// `talks`: whether blocks may order each other.
    pub fn new(bytes: u32, readers: Readers, granule_bytes: u32, talks: bool) -> Self {
        let shift = granule_bytes.trailing_zeros();
        let granules = (bytes.div_ceil(granule_bytes)) as usize;
        Self {
            readers,
            places: readers.count(),
            shift,
            order: Order::new(readers, talks),
            writes: vec![Write::default(); granules],
            reads: vec![Read::default(); granules * readers.count()],
            pc: 0,
            cluster: Clock::default(),
        }
    }

    /// Clears everything for the block with this index in the grid.
    pub fn reset(&mut self, block: u32) {
        self.order.reset(block);
        self.writes.fill(Write::default());
        self.reads.fill(Read::default());
        self.cluster.clear();
    }

    /// Checks and records an access of `bytes` bytes at `address`.
    pub fn access(&mut self, by: (u32, Lane), access: Access, address: u32, bytes: u32) -> Result<(), Found> {
        for granule in (address >> self.shift)..=((address + bytes - 1) >> self.shift) {
            self.check(by, access, granule)?;
            self.note(by, access, granule);
        }
        Ok(())
    }

    /// Checks an access without recording it, when an asynchronous copy is issued.
    pub fn check_only(&self, by: (u32, Lane), access: Access, address: u32, bytes: u32) -> Result<(), Found> {
        (address >> self.shift..=(address + bytes - 1) >> self.shift)
            .try_for_each(|granule| self.check(by, access, granule))
    }

    /// Checks and records a volatile access, which only lanes of the same warp can race with: a warp that polls on
    /// purpose waits for another warp.
    pub fn volatile(&mut self, by: (u32, Lane), access: Access, address: u32, bytes: u32) -> Result<(), Found> {
        let (warp, lane) = by;
        for granule in (address >> self.shift)..=((address + bytes - 1) >> self.shift) {
            let write = self.writes[granule as usize];
            if u32::from(write.warp) == warp && self.are_lanes_apart(warp, lane, write.lane, write.time) {
                return Err(self.lane_race(granule, (access, lane), (Access::Write, write.lane)).after(write.pc));
            }
            if access == Access::Write {
                self.order.used = true;
                let (time, pc) = (self.order.now, self.pc);
                self.writes[granule as usize] = Write { time, pc, warp: warp as u8, lane, atomic: true, several: true };
            }
        }
        Ok(())
    }

    /// Checks and records the read of `bytes` bytes at `address` by a product, which needs `warps` of one warpgroup to
    /// be ordered after the last write. It lasts until a warp has waited for the product.
    pub fn read_by_product(&mut self, warps: Range<u32>, address: u32, bytes: u32) -> Result<(), Found> {
        let place = self.readers.products_of(warps.start) as usize;
        for granule in (address >> self.shift)..=((address + bytes - 1) >> self.shift) {
            for warp in warps.clone() {
                self.check((warp, APART), Access::Read, granule)?;
            }
            self.reads[granule as usize * self.places + place] = Read::new(self.order.now, APART, self.pc);
        }
        Ok(())
    }

    /// Orders a warp after the products of its warpgroup, up to a time: it has waited for them.
    pub fn await_products(&mut self, warp: u32, time: Time) {
        self.order.await_products(warp, self.readers.products_of(warp), time);
    }

    /// Records that more lanes of a warp have read what its last read was of.
    pub fn read_by_several(&mut self, warp: u32, address: u32, bytes: u32) {
        for granule in (address >> self.shift)..=((address + bytes - 1) >> self.shift) {
            let read = &mut self.reads[granule as usize * self.places + warp as usize];
            *read = Read::new(read.time(), TOGETHER, read.pc);
        }
    }

    /// Records a store of the value that is already there. Such stores may be in any order.
    pub fn note_same(&mut self, (warp, lane): (u32, Lane), address: u32, bytes: u32) {
        self.order.used = true;
        for granule in (address >> self.shift)..=((address + bytes - 1) >> self.shift) {
            let write = &mut self.writes[granule as usize];
            let (time, pc) = (self.order.now, self.pc);
            *write = Write { time, pc, warp: warp as u8, lane, atomic: false, several: true };
        }
    }

    /// Returns whether two accesses are of lanes of a warp that have not waited for each other in between.
    #[inline(always)]
    fn are_lanes_apart(&self, warp: u32, lane: Lane, other: Lane, time: Time) -> bool {
        time != 0
            && lane != APART
            && other != APART
            && (lane != other || lane == TOGETHER)
            && !self.order.is_synced(warp, time)
    }

    #[inline(always)]
    fn check(&self, (warp, lane): (u32, Lane), access: Access, granule: u32) -> Result<(), Found> {
        let write = self.writes[granule as usize];
        let other = u32::from(write.warp);
        let harmless = write.atomic && access == Access::Atomic || write.several && access == Access::Read;
        if !harmless {
            let kind = if write.atomic { Access::Atomic } else { Access::Write };
            if !self.order.is_ordered(warp, other, write.time) {
                return Err(self.race(granule, (access, warp), (kind, other)).after(write.pc));
            }
            if other == warp && self.are_lanes_apart(warp, lane, write.lane, write.time) {
                return Err(self.lane_race(granule, (access, lane), (kind, write.lane)).after(write.pc));
            }
        }
        if access != Access::Read {
            let from = granule as usize * self.places;
            for (other, &read) in self.reads[from..from + self.places].iter().enumerate() {
                let (time, by) = (read.time(), read.lane());
                if !self.order.is_ordered(warp, other as u32, time) {
                    return Err(self.race(granule, (access, warp), (Access::Read, other as u32)).after(read.pc));
                }
                if other == warp as usize && self.are_lanes_apart(warp, lane, by, time) {
                    return Err(self.lane_race(granule, (access, lane), (Access::Read, by)).after(read.pc));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn race(
        &self,
        granule: u32,
        (access, warp): (Access, u32),
        (other_access, other_warp): (Access, u32),
    ) -> FaultKind {
        if let Some(first) = self.readers.group_at(other_warp) {
            let last = (first + GROUP).min(self.readers.warps) - 1;
            return FaultKind::ProductRace {
                address: u64::from(granule << self.shift),
                access,
                warp,
                group: [first, last],
            };
        }
        FaultKind::Race { address: u64::from(granule << self.shift), access, warp, other_access, other_warp }
    }

    #[cold]
    fn lane_race(
        &self,
        granule: u32,
        (access, lane): (Access, Lane),
        (other_access, other): (Access, Lane),
    ) -> FaultKind {
        lane_race("shared", u64::from(granule << self.shift), (access, lane), (other_access, other))
    }

    #[inline(always)]
    fn note(&mut self, (warp, lane): (u32, Lane), access: Access, granule: u32) {
        self.order.used = true;
        let time = self.order.now;
        if access == Access::Read {
            let read = &mut self.reads[granule as usize * self.places + warp as usize];
            // `ldmatrix` reads its rows for all lanes at once, so no store can come in between.
            let lane = if lane == TOGETHER { APART } else { lane };
            let same = read.time() == time && read.lane() != lane;
            let lane = if same && lane != APART { TOGETHER } else { lane };
            *read = Read::new(time, lane, self.pc);
        } else {
            let atomic = access == Access::Atomic;
            self.writes[granule as usize] = Write { time, pc: self.pc, warp: warp as u8, lane, atomic, several: false };
        }
    }

    /// Publishes at `barrier.cluster.arrive`.
    pub fn release_to_cluster(&mut self, warp: u32) {
        self.order.sync(warp);
        self.order.release(warp, &mut self.cluster);
    }

    /// Joins what the block has published into `warp` at `barrier.cluster.wait`. That may already belong to the next
    /// phase. A race may then be missed, but false races are impossible.
    pub fn acquire_from_cluster(&mut self, warp: u32) {
        self.order.sync(warp);
        self.order.acquire(warp, &self.cluster);
    }
}

/// Describes a race between lanes of a warp.
#[cold]
pub(crate) fn lane_race(
    space: &'static str,
    address: u64,
    (access, lane): (Access, Lane),
    (other_access, other): (Access, Lane),
) -> FaultKind {
    let one = |lane: Lane| if lane < TOGETHER { Some(lane) } else { None };
    FaultKind::LaneRace { space, address, access, lane: one(lane), other_access, other_lane: one(other) }
}

/// A time must fit next to a lane.
const _: () = assert!(END < 1 << (32 - LANE_BITS));
