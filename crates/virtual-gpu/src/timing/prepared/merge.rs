//! Loads from shared memory that ptxas merges into wider ones.

use std::collections::{HashMap, HashSet};

use crate::program::{Instruction, Kernel, NONE, Op, Slot, Space, TRUE};

/// Most elements of a merged load: four 16-bit halves became one LDS.64 in every kernel that was looked at.
const MOST: i32 = 4;

/// What loads must have in common: base register and its width, bytes of an element.
type Key = (Slot, bool, i32);

/// Returns the loads that cost nothing, because an earlier one of the same basic block fetches their element with its own.
///
/// Elements are merged that lie next to each other at constant offsets from the same register, aligned to the merged width,
/// with no store, barrier, branch or new value of the register between them. Only in shared memory, whose alignment ptxas
/// knows; that of a pointer that came as an argument it does not.
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
        groups.entry(offset.div_euclid(bytes * MOST)).or_default().push(*index);
    }
    for members in groups.values().filter(|members| members.len() == MOST as usize) {
        merged.extend(&members[1..]);
    }
}

fn narrow_load(instruction: &Instruction) -> Option<(Key, i32)> {
    match instruction.op {
        Op::Ld { space: Space::Shared, ty, count: 1, volatile: false, addr, .. }
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
            | Op::Fence
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

/// Tells whether an operation gives the base register a new value. Addresses come from integer arithmetic.
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
