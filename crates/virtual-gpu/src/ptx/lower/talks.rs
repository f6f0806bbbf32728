//! Finds whether the blocks of a kernel may synchronise with each other.

use std::collections::HashSet;

use super::registers::Draft;
use crate::program::visit::Role;
use crate::program::{AtomOp, BulkOp, CONSTANT, Op, Slot, Space, Ty};

/// Returns whether blocks may synchronise with each other: by atomics or other strong stores in global memory.
///
/// Sums of integers do not depend on the order of the blocks. If no block can see how far such a sum is, the blocks do not
/// synchronise.
pub(super) fn talks(draft: &Draft) -> bool {
    let global = |space: Space| !matches!(space, Space::Shared | Space::SharedCluster | Space::Local);
    let (mut sums, mut reads) = (Vec::new(), false);
    for (index, instruction) in draft.instructions.iter().enumerate() {
        match instruction.op {
            Op::Atom { space, op, ty, d, .. } if global(space) => {
                if !commutes(op, ty) {
                    return true;
                }
                sums.push((index, d));
            }
            Op::St { space, semantics, .. } if semantics.is_strong() && global(space) => return true,
            // The heap's addresses depend on the order of the blocks.
            Op::Bulk { op: BulkOp::ReduceToGlobal { .. }, .. } | Op::Malloc { .. } => return true,
            Op::Ld { space, semantics, .. } if semantics.is_strong() && global(space) => reads = true,
            _ => {}
        }
    }
    if sums.is_empty() || reads {
        return !sums.is_empty();
    }
    // NVRTC writes `atom` with a result even if nothing reads it.
    let read = read(draft);
    sums.into_iter().any(|(index, d)| register(draft, index, d).is_some_and(|result| read.contains(&result)))
}

/// Returns whether an atomic of a 32-bit integer gives the same value in any order. The virtual GPU updates wider ones in two
/// steps.
fn commutes(op: AtomOp, ty: Ty) -> bool {
    let any_order = matches!(op, AtomOp::Add | AtomOp::Min | AtomOp::Max | AtomOp::And | AtomOp::Or | AtomOp::Xor);
    any_order && matches!(ty, Ty::U32 | Ty::S32 | Ty::B32)
}

/// Returns the virtual register of an instruction's slot; None for a constant, or none.
fn register(draft: &Draft, index: usize, slot: Slot) -> Option<u32> {
    (slot < CONSTANT).then(|| draft.registers[draft.first[index] as usize + usize::from(slot)])
}

/// Returns the virtual registers that are read.
fn read(draft: &Draft) -> HashSet<u32> {
    let mut read = HashSet::new();
    for (index, instruction) in draft.instructions.iter().enumerate() {
        read.extend(register(draft, index, instruction.guard));
        instruction.op.clone().visit_operands(&mut |slot, _, role| {
            if role != Role::Write {
                read.extend(register(draft, index, *slot));
            }
        });
    }
    read
}

#[cfg(test)]
mod tests {
    use crate::ptx;

    fn talks(body: &str) -> bool {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n{{\n\
             .reg .b32 %r<9>;\n.reg .b64 %rd<9>;\nld.param.u64 %rd1, [data];\nmov.u32 %r1, 1;\nmov.u64 %rd2, 1;\n\
             {body}\nret;\n}}\n"
        );
        ptx::load("k.ptx", &text).unwrap().kernel("k").unwrap().talks
    }

    #[test]
    fn sums_of_integers_keep_no_block_waiting() {
        for sum in ["red.global.add.u32 [%rd1], %r1;", "atom.global.max.s32 %r2, [%rd1], %r1;"] {
            assert!(!talks(sum), "{sum}");
            assert!(talks(&format!("{sum} ld.volatile.global.u32 %r3, [%rd1];")), "others see how far it is");
        }
        for other in [
            "atom.global.add.u32 %r2, [%rd1], %r1; st.global.u32 [%rd1+4], %r2;",
            "red.global.add.f32 [%rd1], 0f3F800000;",
            "red.global.inc.u32 [%rd1], %r1;",
            "red.global.add.u64 [%rd1], %rd2;",
            "st.release.gpu.global.u32 [%rd1], %r1;",
        ] {
            assert!(talks(other), "{other}");
        }
        assert!(!talks("st.global.u32 [%rd1], %r1; ld.volatile.global.u32 %r3, [%rd1+4];"));
    }
}
