//! Allocates virtual registers to slots.
//!
//! Writes are masked per lane, so the liveness of a single thread decides. Two registers share a slot if no thread
//! needs both at once. Few slots keep a warp's register file in the first-level cache.

#[cfg(test)]
pub(crate) mod check;
mod liveness;

use std::collections::HashSet;

use liveness::{Accesses, Ranges, ranges};

use crate::program::flow::{Block, is_guarded};
use crate::program::visit::{File, Role};
use crate::program::{CONSTANT, Instruction, Slot};
use crate::ptx::Problem;

/// Maximum slots of one file; a real machine has 255 registers per thread.
const MAX_SLOTS: usize = 4096;

/// A kernel before allocation. The slots of an instruction are indices into its part of `registers`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// Virtual registers of all instructions, concatenated.
    pub registers: Vec<u32>,
    /// Index of each instruction's first register.
    pub first: Vec<u32>,
    /// File of each virtual register.
    pub files: Vec<File>,
    /// Virtual registers made by the loader. They are read only right after they are written.
    pub temporaries: HashSet<u32>,
}

/// Number of slots of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// 32-bit lanes.
    pub narrow: u16,
    /// 64-bit lanes.
    pub wide: u16,
    /// Predicates.
    pub predicates: u16,
}

/// Replaces virtual registers by slots and returns the number of slots.
pub(crate) fn allocate(draft: &mut Draft, blocks: &[Block]) -> Result<Counts, Problem> {
    let (names, files) = compact(draft);
    let accesses = accesses(draft, &names);
    let ranges = ranges(&accesses, blocks, names.len())?;
    let mut order: Vec<usize> = (0..names.len()).filter(|&register| !ranges[register].is_empty()).collect();
    order.sort_unstable_by_key(|&register| ranges[register][0]);
    let mut slots = vec![0; names.len()];
    let mut pools = [Pool::default(), Pool::default(), Pool::default()];
    for register in order {
        slots[register] = pools[files[register] as usize].place(&ranges[register])?;
    }
    let Draft { instructions, registers, first, .. } = draft;
    for (instruction, &start) in instructions.iter_mut().zip(first.iter()) {
        let slot_of = |slot: Slot| {
            if slot < CONSTANT { slots[registers[start as usize + usize::from(slot)] as usize] } else { slot }
        };
        instruction.guard = slot_of(instruction.guard);
        instruction.op.visit_operands(&mut |slot, _, _| *slot = slot_of(*slot));
    }
    let [narrow, wide, predicates] = pools.map(|pool| pool.slots.len() as u16);
    Ok(Counts { narrow, wide, predicates })
}

/// Renumbers the used registers densely. Returns their old numbers and their files.
fn compact(draft: &mut Draft) -> (Vec<u32>, Vec<File>) {
    let mut new = vec![u32::MAX; draft.files.len()];
    let mut names = Vec::new();
    for register in &mut draft.registers {
        let old = *register;
        if new[old as usize] == u32::MAX {
            new[old as usize] = names.len() as u32;
            names.push(old);
        }
        *register = new[old as usize];
    }
    let files = names.iter().map(|&old| draft.files[old as usize]).collect();
    (names, files)
}

/// Collects what each instruction reads and writes.
fn accesses(draft: &mut Draft, names: &[u32]) -> Accesses {
    let mut accesses = Accesses::default();
    let Draft { instructions, registers, first, temporaries, .. } = draft;
    for (instruction, &start) in instructions.iter_mut().zip(first.iter()) {
        accesses.first.push(accesses.list.len() as u32);
        let begin = accesses.list.len();
        let guarded = is_guarded(instruction);
        let register_of = |slot: Slot| (slot < CONSTANT).then(|| registers[start as usize + usize::from(slot)]);
        if let Some(guard) = register_of(instruction.guard) {
            accesses.list.push((guard, Role::Read));
        }
        instruction.op.visit_operands(&mut |slot, _, role| {
            if let Some(register) = register_of(*slot) {
                // A guarded write keeps the old value where the guard is false.
                let keeps = guarded && role == Role::Write && !temporaries.contains(&names[register as usize]);
                accesses.list.push((register, if keeps { Role::Update } else { role }));
            }
        });
        let written = accesses.list[begin..].iter().filter(|(_, role)| *role != Role::Read).count();
        accesses.early.push(written > 1 || instruction.op.writes_early());
    }
    accesses.first.push(accesses.list.len() as u32);
    accesses
}

/// The slots of one file, and the ranges in which each is taken.
#[derive(Debug, Default)]
struct Pool {
    /// For each slot, its taken ranges that end after the current position, ordered by start.
    slots: Vec<Ranges>,
}

impl Pool {
    /// Places a register in the first slot that is free over all its ranges. Registers must come ordered by start.
    fn place(&mut self, ranges: &Ranges) -> Result<Slot, Problem> {
        let start = ranges[0].0;
        for (index, taken) in self.slots.iter_mut().enumerate() {
            if taken.last().is_none_or(|last| last.1 <= start) {
                taken.clear();
            } else if overlap(taken, ranges) {
                continue;
            }
            taken.extend_from_slice(ranges);
            taken.sort_unstable();
            return Ok(index as Slot);
        }
        if self.slots.len() == MAX_SLOTS {
            return Err(Problem::Syntax(format!("a kernel that needs more than {MAX_SLOTS} registers at once")));
        }
        self.slots.push(ranges.clone());
        Ok(self.slots.len() as Slot - 1)
    }
}

/// Returns whether two ascending lists of disjoint ranges overlap.
fn overlap(left: &[(u32, u32)], right: &[(u32, u32)]) -> bool {
    let (Some(first), Some(last)) = (right.first(), right.last()) else { return false };
    let from = left.partition_point(|range| range.1 <= first.0);
    let mut right = right.iter().peekable();
    for range in &left[from..] {
        if range.0 >= last.1 {
            return false;
        }
        while right.next_if(|other| other.1 <= range.0).is_some() {}
        if right.peek().is_some_and(|other| other.0 < range.1) {
            return true;
        }
    }
    false
}
