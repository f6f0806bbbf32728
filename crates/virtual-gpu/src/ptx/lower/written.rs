//! Finds which of a launch's memory a kernel may write: where the addresses of its stores come from.
//!
//! A value comes from all that the instructions read which compute it, whatever they do with it. The order of the
//! instructions does not count. So the answer may name too much, and an address that is loaded may be any.

use super::registers::Draft;
use crate::program::visit::{File, Role};
use crate::program::{BulkOp, CONSTANT, Constant, NONE, Op, Origin, Slot, Space};

/// A set of origins, a bit each.
type Origins = u64;

/// The value may be any address.
const UNKNOWN: Origins = 1 << 63;

/// Passes over the instructions, at most. A compiler's order needs two, and one more for each loop around another.
const MOST_PASSES: u32 = 64;

/// An instruction that computes registers from others.
#[derive(Debug, Default)]
struct Step {
    origins: Origins,
    reads: Vec<u32>,
    writes: Vec<u32>,
}

#[derive(Debug, Default)]
struct Finder {
    /// The meaning of the bits.
    origins: Vec<Origin>,
    /// Per register.
    of: Vec<Origins>,
}

/// Returns the origins of the addresses to which a kernel may write in global memory; None if they may be any.
pub(super) fn written(draft: &Draft, constants: [&[Constant]; 2]) -> Option<Vec<Origin>> {
    let mut finder = Finder { of: vec![0; draft.files.len()], ..Finder::default() };
    let steps: Vec<Step> = (0..draft.instructions.len()).map(|index| finder.step(draft, constants, index)).collect();
    if !(0..MOST_PASSES).any(|_| !finder.pass(&steps)) {
        return None;
    }
    let mut written = 0;
    for (index, instruction) in draft.instructions.iter().enumerate() {
        if let Some((base, wide)) = target(&instruction.op) {
            written |= finder.origins_of(draft, constants, index, (base, File::wide(wide)));
        }
    }
    let named = finder.origins.into_iter().enumerate().filter(|(bit, _)| written >> bit & 1 == 1);
    (written & UNKNOWN == 0).then(|| named.map(|(_, origin)| origin).collect())
}

/// Returns the base of the address to which an instruction writes, if that may be in global memory.
fn target(op: &Op) -> Option<(Slot, bool)> {
    let global = |space: &Space| !matches!(space, Space::Shared | Space::SharedCluster | Space::Local);
    let address = match op {
        Op::St { space, addr, .. } | Op::Atom { space, addr, .. } if global(space) => addr,
        Op::Bulk { op: BulkOp::SharedToGlobal | BulkOp::ReduceToGlobal { .. }, to, .. } => to,
        Op::BulkTensor(copy) if !copy.load && !copy.prefetch => &copy.map,
        _ => return None,
    };
    Some((address.base, address.wide))
}

impl Finder {
    /// Lets the origins flow through all instructions once. Returns whether that changed any.
    fn pass(&mut self, steps: &[Step]) -> bool {
        let mut changes = false;
        for step in steps {
            let origins = step.reads.iter().fold(step.origins, |origins, &read| origins | self.of[read as usize]);
            for &register in &step.writes {
                let of = &mut self.of[register as usize];
                changes |= *of | origins != *of;
                *of |= origins;
            }
        }
        changes
    }

    fn step(&mut self, draft: &Draft, constants: [&[Constant]; 2], index: usize) -> Step {
        let mut step = Step::default();
        let mut op = draft.instructions[index].op.clone();
        let is_load = matches!(op, Op::Ld { .. } | Op::Atom { .. } | Op::Malloc { .. });
        op.visit_operands(&mut |slot, file, role| {
            if *slot == NONE || file == File::Predicate {
                return;
            }
            if role != Role::Read && *slot < CONSTANT {
                step.writes.push(register(draft, index, *slot));
                step.origins |= if is_load && file == File::Wide { UNKNOWN } else { 0 };
            }
            if role == Role::Write || is_load {
                return;
            }
            if *slot < CONSTANT {
                step.reads.push(register(draft, index, *slot));
            } else {
                step.origins |= self.origin(constants, *slot, file);
            }
        });
        step
    }

    fn origins_of(&mut self, draft: &Draft, constants: [&[Constant]; 2], index: usize, at: (Slot, File)) -> Origins {
        let (slot, file) = at;
        if slot < CONSTANT {
            self.of[register(draft, index, slot) as usize]
        } else {
            self.origin(constants, slot, file)
        }
    }

    /// Returns the origin of a constant.
    fn origin(&mut self, constants: [&[Constant]; 2], slot: Slot, file: File) -> Origins {
        let constants = constants[usize::from(file == File::Wide)];
        let origin = match constants.get(usize::from(slot - CONSTANT)) {
            Some(&Constant::Param { offset, .. }) => Origin::Param(offset),
            Some(&Constant::ParamAddress(offset)) => Origin::TensorMap(offset),
            Some(&Constant::Global(index, _)) => Origin::Global(index),
            _ => return 0,
        };
        let known = self.origins.iter().position(|&known| known == origin);
        let bit = known.unwrap_or_else(|| {
            self.origins.push(origin);
            self.origins.len() - 1
        });
        if bit < 63 { 1 << bit } else { UNKNOWN }
    }
}

fn register(draft: &Draft, index: usize, slot: Slot) -> u32 {
    draft.registers[draft.first[index] as usize + usize::from(slot)]
}
