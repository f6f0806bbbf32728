//! Loads from shared memory that ptxas merges into wider ones.

use std::collections::{HashMap, HashSet};

use crate::program::{Instruction, Kernel, NONE, Op, Semantics, Slot, Space, TRUE};

/// Maximum elements of a merged load: four 16-bit halves became one LDS.64 in every inspected kernel.
const MAX_MERGED: i32 = 4;

/// Properties that merged loads share: base register and its width, bytes of an element.
type Key = (Slot, bool, i32);

/// Returns the free loads: an earlier load of the same basic block fetches their element together with its own.
///
/// Merged elements are adjacent, at constant offsets from the same register, and aligned to the merged width. No store,
/// barrier, branch or new value of the register may lie between the loads. Only shared memory qualifies, because ptxas
/// knows its alignment. It does not know the alignment of a pointer passed as an argument.
pub(super) fn merged_loads(kernel: &Kernel) -> Vec<usize> {
    let targets: HashSet<usize> = kernel.instructions.iter().flat_map(|instruction| targets(&instruction.op)).collect();
    let mut merged = Vec::new();
    let mut open: HashMap<Key, Vec<(i32, usize)>> = HashMap::new();
    for (index, instruction) in kernel.instructions.iter().enumerate() {
        if targets.contains(&index) || ends_region(&instruction.op) {
            close(&mut open, &mut merged);
        }
        if let Some((key, offset)) = narrow_load(instruction) {
            open.entry(key).or_default().push((offset, index));
        }
        // The base gets a new value.
        let written = |key: &Key| writes(&instruction.op, key.0, key.1);
        let ended: Vec<Key> = open.keys().filter(|key| written(key)).copied().collect();
        for key in ended {
            group(&open.remove(&key).unwrap_or_default(), key.2, &mut merged);
        }
    }
    close(&mut open, &mut merged);
    merged
}

fn close(open: &mut HashMap<Key, Vec<(i32, usize)>>, merged: &mut Vec<usize>) {
    for (key, loads) in open.drain() {
        group(&loads, key.2, merged);
    }
}

/// Adds to `merged` all but the first of each aligned group of elements.
fn group(loads: &[(i32, usize)], bytes: i32, merged: &mut Vec<usize>) {
    let mut groups: HashMap<i32, Vec<usize>> = HashMap::new();
    for (offset, index) in loads {
        groups.entry(offset.div_euclid(bytes * MAX_MERGED)).or_default().push(*index);
    }
    for members in groups.values().filter(|members| members.len() == MAX_MERGED as usize) {
        merged.extend(&members[1..]);
    }
}

fn narrow_load(instruction: &Instruction) -> Option<(Key, i32)> {
    match instruction.op {
        Op::Ld { space: Space::Shared, ty, count: 1, semantics: Semantics::WEAK, addr, .. }
            if instruction.guard == TRUE && ty.bits() <= 32 =>
        {
            Some(((addr.base, addr.wide, ty.bytes() as i32), addr.offset))
        }
        _ => None,
    }
}

fn ends_region(op: &Op) -> bool {
    matches!(
        op,
        Op::St { .. }
            | Op::StMatrix { .. }
            | Op::Atom { .. }
            | Op::Bar { .. }
            | Op::Fence { .. }
            | Op::WarpSync { .. }
            | Op::Branch { .. }
            | Op::BranchIndexed { .. }
            | Op::CpAsyncWait { .. }
            | Op::Mbarrier { .. }
            | Op::Exit
    )
}

fn targets(op: &Op) -> Vec<usize> {
    match op {
        Op::Branch { target, .. } => vec![*target as usize],
        Op::BranchIndexed { targets, .. } => targets.iter().map(|target| *target as usize).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether an operation gives the base register a new value. Addresses come from integer arithmetic.
fn writes(op: &Op, base: Slot, wide: bool) -> bool {
    let destination = match op {
        Op::Mov { ty, d, .. } | Op::Binary { ty, d, .. } | Op::Ternary { ty, d, .. } | Op::Selp { ty, d, .. } => {
            let doubled = matches!(op, Op::Binary { op: crate::program::Binary::MulWide, .. })
                || matches!(op, Op::Ternary { op: crate::program::Ternary::MadWide, .. });
            (*d, ty.bits() == 64 || doubled && ty.bits() == 32)
        }
        Op::Cvt { to, d, .. } => (*d, to.bits() == 64),
        Op::Pack { wide, d, .. } | Op::Special { wide, d, .. } => (*d, *wide),
        Op::Ld { ty, d, .. } => (d[0], ty.bits() == 64),
        Op::Shfl { d, .. } => (*d, false),
        _ => return false,
    };
    base != NONE && destination == (base, wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of the half loads at these offsets are merged, with `between` after the second.
    fn merged(offsets: [u32; 4], between: &str) -> usize {
        let load = |(index, offset): (usize, &u32)| format!("ld.shared.u16 %rs{index}, [%r1+{offset}];\n");
        let mut lines: Vec<String> = offsets.iter().enumerate().map(load).collect();
        lines.insert(2, format!("{between}\n"));
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n.reg .b16 %rs<8>;\n.reg .b32 %r<4>;\n\
             .shared .align 16 .b8 tile[64];\nmov.u32 %r1, %tid.x;\n{}\
             st.shared.v4.u16 [%r1], {{%rs0, %rs1, %rs2, %rs3}};\nret;\n}}\n",
            lines.concat()
        );
        merged_loads(&crate::ptx::load("k.ptx", &text).unwrap().kernels[0]).len()
    }

    #[test]
    fn four_neighbours_are_one_load() {
        assert_eq!(merged([0, 2, 4, 6], ""), 3);
        assert_eq!(merged([14, 12, 10, 8], ""), 3);
    }

    #[test]
    fn elements_apart_or_across_a_boundary_are_not_merged() {
        assert_eq!(merged([0, 16, 32, 48], ""), 0);
        assert_eq!(merged([4, 6, 8, 10], ""), 0);
    }

    #[test]
    fn a_store_a_barrier_or_a_new_base_between_them_keeps_loads_apart() {
        assert_eq!(merged([0, 2, 4, 6], "st.shared.u16 [%r1+32], %rs0;"), 0);
        assert_eq!(merged([0, 2, 4, 6], "bar.sync 0;"), 0);
        assert_eq!(merged([0, 2, 4, 6], "add.u32 %r1, %r1, 8;"), 0);
    }
}
