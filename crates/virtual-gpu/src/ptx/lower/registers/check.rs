//! Checks an allocation along random paths: every source must hold the last value of its virtual register.

use std::collections::HashMap;

use super::Draft;
use crate::program::flow::is_guarded;
use crate::program::visit::{File, Role};
use crate::program::{CONSTANT, Op, Slot};

/// A value: the step and the operand that wrote it.
type Value = (usize, usize);

/// Walks both forms of a kernel side by side.
pub(crate) fn walk(before: &Draft, after: &Draft) {
    for seed in [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03, 0x2545_f491_4f6c_dd1d] {
        path(before, after, seed);
    }
    for index in 0..after.instructions.len() {
        separate(before, after, index);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit
    }
}

fn operands(draft: &Draft, index: usize) -> Vec<(Slot, File, Role)> {
    let instruction = &draft.instructions[index];
    let mut list = vec![(instruction.guard, File::Predicate, Role::Read)];
    instruction.op.clone().visit_operands(&mut |slot, file, role| list.push((*slot, file, role)));
    list
}

fn path(before: &Draft, after: &Draft, seed: u64) {
    let mut random = Random(seed);
    let (mut virtuals, mut slots) = (HashMap::<u32, Value>::new(), HashMap::<(File, Slot), Value>::new());
    let mut at = 0;
    for step in 0..20_000 {
        let (from, to) = (operands(before, at), operands(after, at));
        let register = |slot: Slot| before.registers[before.first[at] as usize + usize::from(slot)];
        for ((old, file, role), (new, ..)) in from.iter().zip(&to) {
            if *old < CONSTANT && *role != Role::Write {
                let register = register(*old);
                assert_eq!(before.files[register as usize], *file, "file of an operand of instruction {at}");
                if let Some(value) = virtuals.get(&register) {
                    assert_eq!(Some(value), slots.get(&(*file, *new)), "a source of instruction {at}");
                }
            } else if *old >= CONSTANT {
                assert_eq!(old, new);
            }
        }
        let instruction = &after.instructions[at];
        let happens = !is_guarded(instruction) || random.below(2) == 0;
        for (operand, ((old, file, role), (new, ..))) in from.iter().zip(&to).enumerate() {
            if happens && *old < CONSTANT && *role != Role::Read {
                virtuals.insert(register(*old), (step, operand));
                slots.insert((*file, *new), (step, operand));
            }
        }
        at = match &instruction.op {
            Op::Branch { target, .. } if happens => *target as usize,
            Op::BranchIndexed { targets, .. } if happens => targets[random.below(targets.len())] as usize,
            Op::Exit | Op::Trap if happens => return,
            _ => at + 1,
        };
    }
}

/// Checks that destinations differ from each other, and from the sources where the executor relies on it.
fn separate(before: &Draft, after: &Draft, index: usize) {
    let list = operands(after, index);
    let op = &after.instructions[index].op;
    for (position, (slot, file, role)) in list.iter().enumerate() {
        if *role == Role::Read || *slot >= CONSTANT {
            continue;
        }
        for (other, (other_slot, other_file, other_role)) in list.iter().enumerate().skip(1) {
            if other == position || (slot, file) != (other_slot, other_file) {
                continue;
            }
            let accumulates = matches!(op, Op::Mma(_)) && *other_role == Role::Read && {
                let old = operands(before, index);
                let name = |slot: Slot| before.registers[before.first[index] as usize + usize::from(slot)];
                name(old[position].0) == name(old[other].0)
            };
            let matters = *other_role != Role::Read || op.writes_early();
            assert!(!matters || accumulates, "operands {position} and {other} of {op:?}");
        }
    }
}

mod tests {
    use crate::ptx::load;
    use proptest::prelude::*;

    const SAMPLES: [&str; 4] = [
        include_str!("../../../../tests/ptx/nested.ptx"),
        include_str!("../../../../tests/ptx/attention.ptx"),
        include_str!("../../../../tests/ptx/ampere.ptx"),
        include_str!("../../../../tests/ptx/hopper.ptx"),
    ];

    #[test]
    fn slots_hold_what_the_registers_hold() {
        // In this build the loader walks every kernel that it allocates.
        for sample in SAMPLES {
            load("sample.ptx", sample).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        #[test]
        fn also_when_lines_change_places(sample in 0..4_usize, moves in prop::collection::vec(any::<[prop::sample::Index; 2]>(), 1..40)) {
            let mut lines: Vec<&str> = SAMPLES[sample].lines().collect();
            let is_instruction = |line: &str| line.starts_with('\t') && line.ends_with(';') && !line.contains(".reg");
            for [from, to] in moves {
                let places: Vec<usize> = (0..lines.len()).filter(|&at| is_instruction(lines[at])).collect();
                lines.swap(*from.get(&places), *to.get(&places));
            }
            let _ = load("moved.ptx", &lines.join("\n"));
        }
    }
}
