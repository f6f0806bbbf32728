//! Which registers an operation reads and writes.

use super::Lists;
use crate::program::{Address, Binary, BulkOp, MbarrierOp, Op, Slot, Ternary, Ty};

const WORD: Ty = Ty::B32;
const PAIR: Ty = Ty::B64;
const BIT: Ty = Ty::Pred;

fn word(wide: bool) -> Ty {
    if wide { PAIR } else { WORD }
}

/// The type of a product that is twice as wide as its factors.
fn doubled(ty: Ty) -> Ty {
    if ty.bits() == 32 { PAIR } else { WORD }
}

impl Lists {
    pub(super) fn operands(&mut self, op: &Op) {
        match op {
            Op::Mov { ty, d, a } => self.simple(*ty, *d, &[*a]),
            Op::Special { d, wide, .. } => self.destination(word(*wide), *d),
            Op::Pack { wide, part_bits, d, parts } => {
                self.destination(word(*wide), *d);
                self.sources_of(word(*part_bits == 64), parts);
            }
            Op::Unpack { wide, parts, a, .. } => {
                self.source(word(*wide), *a);
                parts.iter().for_each(|part| self.destination(WORD, *part));
            }
            Op::Unary { op, ty, d, a, .. } => {
                let counts = matches!(op, crate::program::Unary::Popc | crate::program::Unary::Clz)
                    || matches!(op, crate::program::Unary::Bfind { .. });
                self.destination(if counts { WORD } else { *ty }, *d);
                self.source(*ty, *a);
            }
            Op::Binary { op, ty, d, a, b, .. } => {
                self.destination(if *op == Binary::MulWide { doubled(*ty) } else { *ty }, *d);
                self.source(*ty, *a);
                self.source(if matches!(op, Binary::Shl | Binary::Shr) { WORD } else { *ty }, *b);
            }
            Op::Ternary { op, ty, d, a, b, c, .. } => self.ternary(*op, *ty, *d, [*a, *b, *c]),
            Op::Bfi { ty, d, a, b, pos, len } => {
                self.simple(*ty, *d, &[*a, *b]);
                self.sources_of(WORD, &[*pos, *len]);
            }
            Op::Carry { ty, d, a, b, carry_in, carry_out, .. } => {
                self.simple(*ty, *d, &[*a, *b]);
                self.simple(BIT, *carry_out, &[*carry_in]);
            }
            Op::MadCarry { ty, d, a, b, c, carry_in, carry_out, .. } => {
                self.simple(*ty, *d, &[*a, *b, *c]);
                self.simple(BIT, *carry_out, &[*carry_in]);
            }
            Op::Cvt { from, to, d, a, b, .. } => {
                self.destination(*to, *d);
                self.sources_of(*from, &[*a, *b]);
            }
            _ => self.choices(op),
        }
    }

    fn ternary(&mut self, op: Ternary, ty: Ty, d: Slot, [a, b, c]: [Slot; 3]) {
        match op {
            Ternary::MadWide => {
                self.simple(doubled(ty), d, &[c]);
                self.sources_of(ty, &[a, b]);
            }
            Ternary::Bfe => {
                self.simple(ty, d, &[a]);
                self.sources_of(WORD, &[b, c]);
            }
            _ => self.simple(ty, d, &[a, b, c]),
        }
    }

    fn choices(&mut self, op: &Op) {
        match op {
            Op::Setp { ty, d, d_not, a, b, c, .. } => {
                self.sources_of(*ty, &[*a, *b]);
                self.simple(BIT, *d, &[*c]);
                self.destination(BIT, *d_not);
            }
            Op::Set { ty, d_ty, d, a, b, c, .. } => {
                self.sources_of(*ty, &[*a, *b]);
                self.source(BIT, *c);
                self.destination(*d_ty, *d);
            }
            Op::Selp { ty, d, a, b, p } => {
                self.simple(*ty, *d, &[*a, *b]);
                self.source(BIT, *p);
            }
            Op::Slct { ty, d, a, b, c, .. } => {
                self.simple(*ty, *d, &[*a, *b]);
                self.source(WORD, *c);
            }
            Op::Pred { d, a, b, .. } => self.simple(BIT, *d, &[*a, *b]),
            Op::IsSpace { d, a, .. } => {
                self.destination(BIT, *d);
                self.source(PAIR, *a);
            }
            Op::Shfl { d, p, a, b, c, .. } => {
                self.simple(WORD, *d, &[*a, *b, *c]);
                self.destination(BIT, *p);
            }
            Op::Vote { mode, d, p, .. } => {
                let ballot = matches!(mode, crate::program::VoteMode::Ballot);
                self.destination(if ballot { WORD } else { BIT }, *d);
                self.source(BIT, *p);
            }
            Op::Match { ty, d, p, a, .. } => {
                self.destination(WORD, *d);
                self.destination(BIT, *p);
                self.source(*ty, *a);
            }
            Op::Redux { ty, d, a, .. } => self.simple(*ty, *d, &[*a]),
            Op::ActiveMask { d } => self.destination(WORD, *d),
            Op::Elect { d, p, .. } => {
                self.destination(WORD, *d);
                self.destination(BIT, *p);
            }
            Op::BranchIndexed { index, .. } => self.source(WORD, *index),
            _ => self.memory(op),
        }
    }

    fn memory(&mut self, op: &Op) {
        match op {
            Op::Ld { ty, count, d, addr, .. } => {
                self.address(addr);
                d.iter().take(usize::from(*count)).for_each(|d| self.destination(*ty, *d));
            }
            Op::St { ty, count, s, addr, .. } => {
                self.address(addr);
                self.sources_of(*ty, &s[..usize::from(*count).min(s.len())]);
            }
            Op::Atom { ty, d, addr, b, c, .. } => {
                self.address(addr);
                self.simple(*ty, *d, &[*b, *c]);
            }
            Op::LdMatrix { d, addr, .. } => {
                self.address(addr);
                d.iter().for_each(|d| self.destination(WORD, *d));
            }
            Op::StMatrix { s, addr, .. } => {
                self.address(addr);
                self.sources_of(WORD, s);
            }
            Op::CpAsync { source_bytes, ignore, shared, global, .. } => {
                self.address(shared);
                self.address(global);
                self.source(WORD, *source_bytes);
                self.source(BIT, *ignore);
            }
            Op::CpAsyncMbarrierArrive { addr, .. } => self.address(addr),
            Op::Bulk { op, to, from, bytes } => {
                [to, from].into_iter().for_each(|addr| self.address(addr));
                self.source(WORD, *bytes);
                if let BulkOp::GlobalToShared { mbarrier, .. } | BulkOp::SharedToShared { mbarrier } = op {
                    self.address(mbarrier);
                }
            }
            Op::BulkTensor(copy) => {
                [&copy.map, &copy.shared, &copy.mbarrier].into_iter().for_each(|addr| self.address(addr));
                self.sources_of(WORD, &copy.coordinates);
            }
            Op::Bar { op, d, p, .. } => {
                let count = matches!(op, crate::program::BarOp::RedPopc);
                self.destination(if count { WORD } else { BIT }, *d);
                self.source(BIT, *p);
            }
            _ => self.matrix(op),
        }
    }

    fn matrix(&mut self, op: &Op) {
        match op {
            Op::Mma(mma) => {
                let wide = |ty: Ty| word(ty.bits() == 64);
                self.sources_of(wide(mma.a_ty), &mma.a);
                self.sources_of(wide(mma.b_ty), &mma.b);
                self.sources_of(wide(mma.c_ty), &mma.c);
                mma.d.iter().for_each(|d| self.destination(wide(mma.c_ty), *d));
            }
            Op::Wgmma(wgmma) => {
                self.sources_of(WORD, &wgmma.a);
                self.sources_of(PAIR, &[wgmma.a_desc, wgmma.b_desc]);
                self.source(BIT, wgmma.scale_d);
                // Not a source: consecutive multiplications into the same accumulator do not wait for each other.
                wgmma.d.iter().for_each(|d| self.destination(WORD, *d));
            }
            Op::Mapa { wide, d, a, rank, .. } => {
                self.simple(word(*wide), *d, &[*a]);
                self.source(WORD, *rank);
            }
            Op::GetCtaRank { wide, d, a, .. } => {
                self.destination(WORD, *d);
                self.source(word(*wide), *a);
            }
            Op::Mbarrier { op, addr } => {
                self.address(addr);
                match op {
                    MbarrierOp::Arrive { state, count, tx, .. } => {
                        self.destination(PAIR, *state);
                        self.sources_of(WORD, &[*count, *tx]);
                    }
                    MbarrierOp::WaitState { d, state, .. } => {
                        self.destination(BIT, *d);
                        self.source(PAIR, *state);
                    }
                    MbarrierOp::WaitParity { d, parity, .. } => {
                        self.destination(BIT, *d);
                        self.source(WORD, *parity);
                    }
                    MbarrierOp::PendingCount { d, state } => {
                        self.destination(WORD, *d);
                        self.source(PAIR, *state);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn simple(&mut self, ty: Ty, d: Slot, sources: &[Slot]) {
        self.destination(ty, d);
        self.sources_of(ty, sources);
    }

    fn sources_of(&mut self, ty: Ty, slots: &[Slot]) {
        slots.iter().for_each(|slot| self.source(ty, *slot));
    }

    fn address(&mut self, address: &Address) {
        self.source(word(address.wide), address.base);
    }
}
