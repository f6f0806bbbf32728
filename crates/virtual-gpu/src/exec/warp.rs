//! The state of one warp: its registers and the position of each lane.

use std::collections::VecDeque;

use super::lanes::{ALL, LANES, W32, W64};
use super::warpgroup::Products;
use crate::program::{AT_EXIT, CONSTANT, Kernel, Slot, TRUE};

/// Lanes that wait at a place to run or to be joined.
#[derive(Debug, Clone, Copy)]
struct Suspended {
    pc: u32,
    mask: u32,
    reconverge: u32,
}

/// Lanes that wait at a `bar.warp.sync` for others, which are on other paths.
#[derive(Debug, Clone, Copy)]
struct Gathering {
    lanes: Suspended,
    members: u32,
}

/// An issued `cp.async` copy that was not waited for yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    /// Shared address.
    pub to: u32,
    /// Bytes written: 4, 8 or 16.
    pub bytes: u32,
    /// The bytes to write.
    pub data: [u32; 4],
    /// Lane that issued it.
    pub lane: u32,
    /// The instruction.
    pub pc: u32,
}

/// The state of one warp.
#[derive(Debug)]
pub(crate) struct Warp {
    /// Index in its block.
    pub index: u32,
    /// Index of lane 0's thread in its block.
    pub first_thread: u32,
    /// The 32-bit file.
    pub r32: Vec<W32>,
    /// The 64-bit file.
    pub r64: Vec<W64>,
    /// The predicates, a bit per lane.
    pub predicates: Vec<u32>,
    /// Position of the active lanes.
    pub pc: u32,
    /// The active lanes.
    pub active: u32,
    /// The lanes that have not exited.
    pub live: u32,
    reconverge: u32,
    suspended: Vec<Suspended>,
    gathering: Vec<Gathering>,
    /// Warp instructions executed.
    pub executed: u64,
    /// Multiply-add instructions that its matrix products stand for.
    pub product_instructions: u64,
    /// Local memory: word-major, lane-minor.
    pub local: Vec<u32>,
    /// Words of local memory that were written, a bit per lane.
    pub local_written: Vec<u32>,
    /// Copies of the group that is still open.
    pub copies: Vec<Copy>,
    /// Committed groups, oldest first.
    pub groups: VecDeque<Vec<Copy>>,
    /// Number of committed groups of bulk copies to global memory.
    pub bulk_groups: u32,
    /// Number of arrivals at the cluster's barrier.
    pub cluster_arrivals: u64,
    /// The products of its warpgroup that it has not waited for.
    pub products: Products,
}

impl Warp {
    /// Makes the warp `index` of a block of `threads` threads.
    pub fn new(kernel: &Kernel, index: u32, threads: u32) -> Self {
        let words = kernel.local_bytes.div_ceil(4) as usize;
        let mut warp = Self {
            index,
            first_thread: index * LANES as u32,
            r32: vec![W32::splat(0); kernel.slots32 as usize],
            r64: vec![W64::splat(0); kernel.slots64 as usize],
            predicates: vec![0; kernel.predicates as usize],
            pc: 0,
            active: 0,
            live: 0,
            reconverge: AT_EXIT,
            suspended: Vec::new(),
            gathering: Vec::new(),
            executed: 0,
            product_instructions: 0,
            local: vec![0; words * LANES],
            local_written: vec![0; words],
            copies: Vec::new(),
            groups: VecDeque::new(),
            bulk_groups: 0,
            cluster_arrivals: 0,
            products: Products::default(),
        };
        warp.restart(threads);
        warp
    }

    /// Moves the warp to the start of the next block. Registers are cleared: PTX leaves them undefined, but their
    /// contents must not depend on which block ran here before.
    pub fn restart(&mut self, threads: u32) {
        self.r32.fill(W32::splat(0));
        self.r64.fill(W64::splat(0));
        self.predicates.fill(0);
        let lanes = (threads - self.first_thread).min(LANES as u32);
        self.live = ALL >> (LANES as u32 - lanes);
        self.active = self.live;
        self.pc = 0;
        self.reconverge = AT_EXIT;
        self.suspended.clear();
        self.gathering.clear();
        self.executed = 0;
        self.local_written.fill(0);
        self.copies.clear();
        self.groups.clear();
        self.bulk_groups = 0;
        self.cluster_arrivals = 0;
        self.products = Products::default();
    }

    /// Returns whether all its lanes have exited.
    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    /// Returns whether the active lanes have reached their reconvergence point.
    #[inline(always)]
    pub fn is_at_reconvergence(&self) -> bool {
        self.pc == self.reconverge
    }

    /// Resumes the lanes that were suspended last. Returns false when none can run: all have ended, or the rest
    /// gathers.
    pub fn resume(&mut self) -> bool {
        while let Some(top) = self.next_suspended() {
            let mask = top.mask & self.live;
            if mask != 0 {
                self.pc = top.pc;
                self.active = mask;
                self.reconverge = top.reconverge;
                return true;
            }
        }
        self.active = 0;
        // Lanes that were waited for may have ended.
        let complete = self.gathering.iter().map(|one| one.members).find(|&members| self.have_gathered(members));
        complete.is_some_and(|members| {
            self.release(members);
            self.resume()
        })
    }

    /// Takes the lanes that were suspended last and need not wait for lanes that gather.
    #[inline(always)]
    fn next_suspended(&mut self) -> Option<Suspended> {
        if self.gathering.is_empty() {
            return self.suspended.pop();
        }
        let waiting = self.gathering.iter().fold(0, |mask, one| mask | one.lanes.mask);
        let index = self.suspended.iter().rposition(|suspended| suspended.mask & self.live & waiting == 0)?;
        Some(self.suspended.remove(index))
    }

    /// Lets the active lanes wait for the other `members`, which are on other paths (`bar.warp.sync`). Returns whether
    /// all have come. If not, other lanes are active, if there are any that can run.
    pub fn gather(&mut self, members: u32) -> bool {
        let lanes = Suspended { pc: self.pc + 1, mask: self.active, reconverge: self.reconverge };
        self.gathering.push(Gathering { lanes, members });
        let complete = self.have_gathered(members);
        if complete {
            self.release(members);
        }
        self.resume();
        complete
    }

    fn have_gathered(&self, members: u32) -> bool {
        let came = self.gathering.iter().filter(|one| one.members == members);
        came.fold(0, |mask, one| mask | one.lanes.mask) & self.live == members & self.live
    }

    fn release(&mut self, members: u32) {
        self.suspended.extend(self.gathering.extract_if(.., |one| one.members == members).map(|one| one.lanes));
    }

    /// Returns the lanes that gather, with the instruction at which they do and its members, if there are any.
    pub fn gathered(&self) -> Option<(u32, u32, u32)> {
        self.gathering.first().map(|one| (one.lanes.mask, one.lanes.pc - 1, one.members))
    }

    /// Branches to `target` in the lanes of `taken`; the other active lanes fall through. Returns whether the warp
    /// diverged.
    #[inline(always)]
    pub fn branch(&mut self, taken: u32, target: u32, reconverge: u32) -> bool {
        if taken == self.active {
            self.pc = target;
            return false;
        }
        if taken == 0 {
            self.pc += 1;
            return false;
        }
        self.diverge(&[(taken, target), (self.active & !taken, self.pc + 1)], reconverge);
        true
    }

    /// Splits the active lanes over several targets. They reconverge at `reconverge`.
    pub fn diverge(&mut self, paths: &[(u32, u32)], reconverge: u32) {
        // Lanes that leave a loop one after the other all wait at the same place, so one entry is enough.
        if reconverge != self.reconverge {
            self.suspended.push(Suspended { pc: reconverge, mask: self.active, reconverge: self.reconverge });
        }
        for &(mask, pc) in paths.iter().rev() {
            if mask != 0 && pc != reconverge {
                self.suspended.push(Suspended { pc, mask, reconverge });
            }
        }
        self.resume();
    }

    /// Ends the lanes of `mask`. Returns false when no lane is left.
    pub fn exit(&mut self, mask: u32) -> bool {
        self.live &= !mask;
        self.active &= !mask;
        if self.active != 0 {
            self.pc += 1;
            return true;
        }
        self.resume()
    }

    /// Returns a predicate operand.
    #[inline(always)]
    pub fn predicate(&self, slot: Slot) -> u32 {
        if slot < CONSTANT {
            self.predicates[usize::from(slot)]
        } else if slot == TRUE {
            ALL
        } else {
            0
        }
    }

    /// Returns a predicate operand, negated if asked.
    #[inline(always)]
    pub fn predicate_or_not(&self, slot: Slot, negated: bool) -> u32 {
        self.predicate(slot) ^ if negated { ALL } else { 0 }
    }

    /// Overwrites a predicate in the lanes of `mask`.
    #[inline(always)]
    pub fn set_predicate(&mut self, slot: Slot, value: u32, mask: u32) {
        if slot < CONSTANT {
            let predicate = &mut self.predicates[usize::from(slot)];
            *predicate = *predicate & !mask | value & mask;
        }
    }

    /// Overwrites a 32-bit slot in the lanes of `mask`.
    #[inline(always)]
    pub fn set32(&mut self, slot: Slot, value: &W32, mask: u32) {
        if slot < CONSTANT {
            self.r32[usize::from(slot)].set(value, mask);
        }
    }

    /// Overwrites a 64-bit slot in the lanes of `mask`.
    #[inline(always)]
    pub fn set64(&mut self, slot: Slot, value: &W64, mask: u32) {
        if slot < CONSTANT {
            self.r64[usize::from(slot)].set(value, mask);
        }
    }
}
