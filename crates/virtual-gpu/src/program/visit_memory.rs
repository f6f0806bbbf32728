//! The operands of operations on memory.

use super::visit::File::{self, Narrow, Predicate, Wide};
use super::visit::Role::{self, Read, Write};
use super::visit::all;
use super::{Address, BulkOp, MbarrierOp, Op, Slot};

impl Op {
    /// Visits loads, stores and atomics. Returns whether the operation is one of them.
    pub(super) fn visit_memory(&mut self, visit: &mut impl FnMut(&mut Slot, File, Role)) -> bool {
        match self {
            Self::Ld { ty, count, d, addr, .. } => {
                all(&mut d[..usize::from(*count)], File::of(*ty), Write, visit);
                base(addr, visit);
            }
            Self::St { ty, count, s, addr, .. } => {
                all(&mut s[..usize::from(*count)], File::of(*ty), Read, visit);
                base(addr, visit);
            }
            Self::Atom { ty, d, addr, b, c, .. } => {
                visit(d, File::of(*ty), Write);
                base(addr, visit);
                visit(b, File::of(*ty), Read);
                visit(c, File::of(*ty), Read);
            }
            Self::LdMatrix { count, d, addr, .. } => {
                all(&mut d[..usize::from(*count)], Narrow, Write, visit);
                base(addr, visit);
            }
            Self::StMatrix { count, s, addr, .. } => {
                all(&mut s[..usize::from(*count)], Narrow, Read, visit);
                base(addr, visit);
            }
            Self::CpAsync { source_bytes, ignore, shared, global, .. } => {
                base(shared, visit);
                base(global, visit);
                visit(source_bytes, Narrow, Read);
                visit(ignore, Predicate, Read);
            }
            Self::CpAsyncMbarrierArrive { addr, .. } => base(addr, visit),
            _ => return false,
        }
        true
    }

    /// Visits mbarriers, bulk copies and cluster addresses.
    pub(super) fn visit_bulk(&mut self, visit: &mut impl FnMut(&mut Slot, File, Role)) {
        match self {
            Self::Mbarrier { op, addr } => {
                mbarrier(op, visit);
                base(addr, visit);
            }
            Self::Bulk { op, to, from, bytes } => {
                base(to, visit);
                base(from, visit);
                visit(bytes, Narrow, Read);
                match op {
                    BulkOp::GlobalToShared { mbarrier, multicast } => {
                        base(mbarrier, visit);
                        visit(multicast, Narrow, Read);
                    }
                    BulkOp::SharedToShared { mbarrier } => base(mbarrier, visit),
                    BulkOp::SharedToGlobal | BulkOp::ReduceToGlobal { .. } | BulkOp::Prefetch => {}
                }
            }
            Self::BulkTensor(copy) => {
                base(&mut copy.map, visit);
                all(&mut copy.coordinates, Narrow, Read, visit);
                base(&mut copy.shared, visit);
                base(&mut copy.mbarrier, visit);
                visit(&mut copy.multicast, Narrow, Read);
            }
            Self::Mapa { wide, d, a, rank, .. } => {
                visit(d, File::wide(*wide), Write);
                visit(a, File::wide(*wide), Read);
                visit(rank, Narrow, Read);
            }
            Self::GetCtaRank { wide, d, a, .. } => {
                visit(d, Narrow, Write);
                visit(a, File::wide(*wide), Read);
            }
            _ => unreachable!("visited before"),
        }
    }
}

fn mbarrier(op: &mut MbarrierOp, visit: &mut impl FnMut(&mut Slot, File, Role)) {
    match op {
        MbarrierOp::Init { count } => visit(count, Narrow, Read),
        MbarrierOp::Inval => {}
        MbarrierOp::Arrive { state, count, tx, .. } => {
            visit(state, Wide, Write);
            visit(count, Narrow, Read);
            visit(tx, Narrow, Read);
        }
        MbarrierOp::ExpectTx { tx } | MbarrierOp::CompleteTx { tx } => visit(tx, Narrow, Read),
        MbarrierOp::WaitState { d, state, .. } => {
            visit(d, Predicate, Write);
            visit(state, Wide, Read);
        }
        MbarrierOp::WaitParity { d, parity, .. } => {
            visit(d, Predicate, Write);
            visit(parity, Narrow, Read);
        }
        MbarrierOp::PendingCount { d, state } => {
            visit(d, Narrow, Write);
            visit(state, Wide, Read);
        }
    }
}

fn base(addr: &mut Address, visit: &mut impl FnMut(&mut Slot, File, Role)) {
    let file = File::wide(addr.wide);
    visit(&mut addr.base, file, Read);
}
