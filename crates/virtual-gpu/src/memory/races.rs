//! Detects shared-memory races by ordering, not by results, because a fixed order of the warps would hide them.
//!
//! Every warp carries a vector clock. A *release* (arriving at a barrier) advances the block's time and publishes the
//! warp's work so far; waiting joins what others published. An access is ordered after an earlier one of another warp
//! iff the warp has joined a later release (happens-before, as in FastTrack, Flanagan and Freund 2009). A warp counts
//! as one thread: here its lanes run in lock step between reconvergence points.

use crate::fault::{Access, FaultKind};

/// A time, in releases of the block.
type Time = u32;

/// A warp's vector clock: for every warp, the time of its latest joined release.
pub(crate) type Clock = Box<[Time]>;

#[derive(Debug, Clone, Copy, Default)]
struct Write {
    /// 0 if never written.
    time: Time,
    warp: u32,
    atomic: bool,
}

/// The last accesses to each granule of a block's shared memory, and the clock of every warp.
#[derive(Debug)]
pub(crate) struct Races {
    warps: usize,
    /// Log2 of the bytes of a granule: the kernel's smallest access, so that neighbours do not look alike.
    shift: u32,
    now: Time,
    clocks: Vec<Clock>,
    writes: Vec<Write>,
    /// Per granule and warp, the time of the last read.
    reads: Vec<Time>,
    /// What warps had published at their last write of a flag, by a volatile or atomic access.
    flags: Clock,
    /// What the block's warps have published at barriers of the cluster.
    cluster: Clock,
}

impl Races {
    /// Makes the record for `bytes` of shared memory of a block of `warps` warps. The kernel's smallest access is
    /// `granule_bytes`.
    pub fn new(bytes: u32, warps: u32, granule_bytes: u32) -> Self {
        let shift = granule_bytes.trailing_zeros();
        let granules = (bytes.div_ceil(granule_bytes)) as usize;
        let warps = warps as usize;
        Self {
            warps,
            shift,
            now: 1,
            clocks: vec![vec![0; warps].into(); warps],
            writes: vec![Write::default(); granules],
            reads: vec![0; granules * warps],
            flags: Clock::default(),
            cluster: Clock::default(),
        }
    }

    /// Clears everything for the next block.
    pub fn reset(&mut self) {
        self.now = 1;
        self.clocks.iter_mut().for_each(|clock| clock.fill(0));
        self.writes.fill(Write::default());
        self.reads.fill(0);
        self.flags.fill(0);
        self.cluster.fill(0);
    }

    fn is_ordered(&self, warp: u32, other: usize, time: Time) -> bool {
        other == warp as usize || time <= self.clocks[warp as usize][other]
    }

    /// Checks and records an access of `bytes` bytes at `address`.
    pub fn access(&mut self, warp: u32, access: Access, address: u32, bytes: u32) -> Result<(), FaultKind> {
        for granule in (address >> self.shift)..=((address + bytes - 1) >> self.shift) {
            self.check(warp, access, granule)?;
            self.note(warp, access, granule);
        }
        Ok(())
    }

    /// Checks an access without recording it, when an asynchronous copy is issued.
    pub fn check_only(&self, warp: u32, access: Access, address: u32, bytes: u32) -> Result<(), FaultKind> {
        (address >> self.shift..=(address + bytes - 1) >> self.shift)
            .try_for_each(|granule| self.check(warp, access, granule))
    }

    fn check(&self, warp: u32, access: Access, granule: u32) -> Result<(), FaultKind> {
        let race = |other_access, other_warp| FaultKind::Race {
            address: u64::from(granule << self.shift),
            access,
            warp,
            other_access,
            other_warp,
        };
        let write = self.writes[granule as usize];
        let both_atomic = write.atomic && access == Access::Atomic;
        if !both_atomic && !self.is_ordered(warp, write.warp as usize, write.time) {
            return Err(race(if write.atomic { Access::Atomic } else { Access::Write }, write.warp));
        }
        if access != Access::Read {
            let from = granule as usize * self.warps;
            for (other, &time) in self.reads[from..from + self.warps].iter().enumerate() {
                if !self.is_ordered(warp, other, time) {
                    return Err(race(Access::Read, other as u32));
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, warp: u32, access: Access, granule: u32) {
        if access == Access::Read {
            self.reads[granule as usize * self.warps + warp as usize] = self.now;
        } else {
            self.writes[granule as usize] = Write { time: self.now, warp, atomic: access == Access::Atomic };
        }
    }

    /// Orders `warp` by a volatile or atomic access. A warp that reads a flag is ordered after all earlier flag
    /// writers, because all flags of the block count as one. A kernel with several flags may hide a race; false races
    /// are impossible.
    pub fn order_by_flag(&mut self, warp: u32, access: Access) {
        let mut flags = std::mem::take(&mut self.flags);
        if access != Access::Write {
            self.acquire(warp, &flags);
        }
        if access != Access::Read {
            self.release(warp, &mut flags);
        }
        self.flags = flags;
    }

    /// Publishes the work and knowledge of `warp` into `clock`.
    pub fn release(&mut self, warp: u32, clock: &mut Clock) {
        let own = &mut self.clocks[warp as usize];
        own[warp as usize] = self.now;
        join(clock, own);
        self.now += 1;
    }

    /// Joins `clock` into the clock of `warp`.
    pub fn acquire(&mut self, warp: u32, clock: &Clock) {
        join(&mut self.clocks[warp as usize], clock);
    }

    /// Publishes at `barrier.cluster.arrive`.
    pub fn release_to_cluster(&mut self, warp: u32) {
        let mut clock = std::mem::take(&mut self.cluster);
        self.release(warp, &mut clock);
        self.cluster = clock;
    }

    /// Joins what the block has published into `warp` at `barrier.cluster.wait`. That may already belong to the next
    /// phase. A race may then be missed, but false races are impossible.
    pub fn acquire_from_cluster(&mut self, warp: u32) {
        join(&mut self.clocks[warp as usize], &self.cluster);
    }
}

/// Joins another clock.
pub(crate) fn join(into: &mut Clock, from: &Clock) {
    if into.len() < from.len() {
        *into = from.clone();
        return;
    }
    for (into, &from) in into.iter_mut().zip(from) {
        *into = (*into).max(from);
    }
}
