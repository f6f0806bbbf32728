//! Plain loads of what the kernel then exchanges by `atom.cas`.
//!
//! A loop of `atomicCAS` begins with a plain load, as in NVIDIA's guide. In PTX's terms that is a race, but any value will do:
//! the exchange fails if it is old. So such a load is a relaxed one here.

use super::registers::Draft;
use crate::program::{Address, AtomOp, CONSTANT, Op, Semantics, Space, Strength};

/// Makes plain loads relaxed if the kernel exchanges the word at the same address.
pub(super) fn relax_loads(draft: &mut Draft) {
    let Draft { instructions, registers, first, .. } = draft;
    let place = |index: usize, addr: &Address| {
        let register = |slot| registers[first[index] as usize + usize::from(slot)];
        let base = if addr.base < CONSTANT { register(addr.base) } else { u32::MAX - u32::from(addr.base) };
        (base, addr.offset)
    };
    let exchanged: Vec<_> = (0..instructions.len())
        .filter_map(|index| match &instructions[index].op {
            Op::Atom { op: AtomOp::Cas, addr, .. } => Some(place(index, addr)),
            _ => None,
        })
        .collect();
    if exchanged.is_empty() {
        return;
    }
    for (index, instruction) in instructions.iter_mut().enumerate() {
        if let Op::Ld { space: Space::Global | Space::Generic, semantics, addr, read_only: false, .. } =
            &mut instruction.op
            && !semantics.is_strong()
            && exchanged.contains(&place(index, addr))
        {
            *semantics = Semantics { strength: Strength::Relaxed, wide: true };
        }
    }
}
