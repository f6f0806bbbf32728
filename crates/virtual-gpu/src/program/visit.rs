//! The operands of each operation: their file, and whether they are read or written.

use super::{BarOp, Binary, Op, Slot, Ternary, Ty, Unary, VoteMode};

/// A file of the register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum File {
    /// 32-bit lanes.
    Narrow,
    /// 64-bit lanes.
    Wide,
    /// Predicates.
    Predicate,
}

impl File {
    /// Returns the file that holds values of a type.
    pub fn of(ty: Ty) -> Self {
        match ty.bits() {
            1 => Self::Predicate,
            64 | 128 => Self::Wide,
            _ => Self::Narrow,
        }
    }

    /// Returns the 64-bit file if `wide`, else the 32-bit one.
    pub fn wide(wide: bool) -> Self {
        if wide { Self::Wide } else { Self::Narrow }
    }
}

/// How an operation uses an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it (accumulators of `wgmma`).
    Update,
}

use File::{Narrow, Predicate, Wide};
use Role::{Read, Update, Write};

impl Op {
    /// Calls `visit` with every operand, absent ones ([`super::NONE`]) included. Destinations come first, then sources
    /// in field order.
    pub fn visit_operands(&mut self, visit: &mut impl FnMut(&mut Slot, File, Role)) {
        if !self.visit_scalar(visit) && !self.visit_memory(visit) && !self.visit_warp(visit) {
            self.visit_bulk(visit);
        }
    }

    /// Visits arithmetic, logic and moves. Returns whether the operation is one of them.
    fn visit_scalar(&mut self, visit: &mut impl FnMut(&mut Slot, File, Role)) -> bool {
        match self {
            Self::Mov { ty, d, a } => {
                visit(d, File::of(*ty), Write);
                visit(a, File::of(*ty), Read);
            }
            Self::Special { d, wide, .. } => visit(d, File::wide(*wide), Write),
            Self::Pack { wide, part_bits, d, parts } => {
                visit(d, File::wide(*wide), Write);
                all(parts, File::wide(*part_bits == 64), Read, visit);
            }
            Self::Unpack { wide, part_bits, parts, a } => {
                all(parts, File::wide(*part_bits == 64), Write, visit);
                visit(a, File::wide(*wide), Read);
            }
            Self::Unary { op, ty, d, a, .. } => {
                let counts = matches!(op, Unary::Popc | Unary::Clz | Unary::Bfind { .. });
                visit(d, if counts { Narrow } else { File::of(*ty) }, Write);
                visit(a, File::of(*ty), Read);
            }
            Self::Binary { op, ty, d, a, b, .. } => {
                visit(d, if *op == Binary::MulWide { twice(*ty) } else { File::of(*ty) }, Write);
                visit(a, File::of(*ty), Read);
                visit(b, if matches!(op, Binary::Shl | Binary::Shr) { Narrow } else { File::of(*ty) }, Read);
            }
            Self::Ternary { op, ty, d, a, b, c, .. } => {
                let outer = if *op == Ternary::MadWide { twice(*ty) } else { File::of(*ty) };
                let bfe = *op == Ternary::Bfe;
                visit(d, outer, Write);
                visit(a, File::of(*ty), Read);
                visit(b, if bfe { Narrow } else { File::of(*ty) }, Read);
                visit(c, if bfe { Narrow } else { outer }, Read);
            }
            Self::Bfi { ty, d, a, b, pos, len } => {
                visit(d, File::of(*ty), Write);
                visit(a, File::of(*ty), Read);
                visit(b, File::of(*ty), Read);
                visit(pos, Narrow, Read);
                visit(len, Narrow, Read);
            }
            Self::Carry { ty, d, a, b, carry_in, carry_out, .. } => {
                visit(d, File::of(*ty), Write);
                visit(carry_out, Predicate, Write);
                visit(a, File::of(*ty), Read);
                visit(b, File::of(*ty), Read);
                visit(carry_in, Predicate, Read);
            }
            Self::MadCarry { ty, d, a, b, c, carry_in, carry_out, .. } => {
                visit(d, File::of(*ty), Write);
                visit(carry_out, Predicate, Write);
                visit(a, File::of(*ty), Read);
                visit(b, File::of(*ty), Read);
                visit(c, File::of(*ty), Read);
                visit(carry_in, Predicate, Read);
            }
            Self::Setp { ty, d, d_not, a, b, c, .. } => {
                visit(d, Predicate, Write);
                visit(d_not, Predicate, Write);
                visit(a, File::of(*ty), Read);
                visit(b, File::of(*ty), Read);
                visit(c, Predicate, Read);
            }
            Self::Set { ty, d_ty, d, a, b, c, .. } => {
                visit(d, File::of(*d_ty), Write);
                visit(a, File::of(*ty), Read);
                visit(b, File::of(*ty), Read);
                visit(c, Predicate, Read);
            }
            Self::Selp { ty, d, a, b, p } => {
                visit(d, File::of(*ty), Write);
                visit(a, File::of(*ty), Read);
                visit(b, File::of(*ty), Read);
                visit(p, Predicate, Read);
            }
            Self::Slct { ty, d, a, b, c, .. } => {
                visit(d, File::of(*ty), Write);
                visit(a, File::of(*ty), Read);
                visit(b, File::of(*ty), Read);
                visit(c, Narrow, Read);
            }
            Self::Pred { d, a, b, .. } => {
                visit(d, Predicate, Write);
                visit(a, Predicate, Read);
                visit(b, Predicate, Read);
            }
            Self::Cvt { from, to, d, a, b, .. } => {
                visit(d, File::of(*to), Write);
                visit(a, File::of(*from), Read);
                visit(b, File::of(*from), Read);
            }
            Self::IsSpace { d, a, .. } => {
                visit(d, Predicate, Write);
                visit(a, Wide, Read);
            }
            _ => return false,
        }
        true
    }

    /// Visits warp operations, barriers, control and matrices. Returns whether the operation is one of them.
    fn visit_warp(&mut self, visit: &mut impl FnMut(&mut Slot, File, Role)) -> bool {
        match self {
            Self::Shfl { d, p, a, b, c, members, .. } => {
                visit(d, Narrow, Write);
                visit(p, Predicate, Write);
                for source in [a, b, c, members] {
                    visit(source, Narrow, Read);
                }
            }
            Self::Vote { mode, d, p, members, .. } => {
                visit(d, if *mode == VoteMode::Ballot { Narrow } else { Predicate }, Write);
                visit(p, Predicate, Read);
                visit(members, Narrow, Read);
            }
            Self::Match { ty, d, p, a, members, .. } => {
                visit(d, Narrow, Write);
                visit(p, Predicate, Write);
                visit(a, File::of(*ty), Read);
                visit(members, Narrow, Read);
            }
            Self::Redux { ty, d, a, members, .. } => {
                visit(d, File::of(*ty), Write);
                visit(a, File::of(*ty), Read);
                visit(members, Narrow, Read);
            }
            Self::ActiveMask { d } => visit(d, Narrow, Write),
            Self::Elect { d, p, members } => {
                visit(d, Narrow, Write);
                visit(p, Predicate, Write);
                visit(members, Narrow, Read);
            }
            Self::Bar { op, id, threads, d, p, .. } => {
                visit(d, if matches!(op, BarOp::Red(_)) { Predicate } else { Narrow }, Write);
                visit(id, Narrow, Read);
                visit(threads, Narrow, Read);
                visit(p, Predicate, Read);
            }
            Self::WarpSync { members } => visit(members, Narrow, Read),
            Self::Assert { message, file, line, function } => {
                [message, file, function].into_iter().for_each(|text| visit(text, Wide, Read));
                visit(line, Narrow, Read);
            }
            Self::Print { d, format, arguments } => {
                visit(d, Narrow, Write);
                visit(format, Wide, Read);
                visit(arguments, Wide, Read);
            }
            Self::Malloc { d, bytes } => {
                visit(d, Wide, Write);
                visit(bytes, Wide, Read);
            }
            Self::Free { address } => visit(address, Wide, Read),
            Self::BranchIndexed { index, .. } => visit(index, Narrow, Read),
            Self::Mma(mma) => {
                let (ab, cd) = (File::of(fragment(mma.a_ty)), File::of(fragment(mma.c_ty)));
                all(&mut mma.d, cd, Write, visit);
                all(&mut mma.a, ab, Read, visit);
                all(&mut mma.b, ab, Read, visit);
                all(&mut mma.c, cd, Read, visit);
            }
            Self::Wgmma(wgmma) => {
                all(&mut wgmma.d, Narrow, Update, visit);
                all(&mut wgmma.a, Narrow, Read, visit);
                visit(&mut wgmma.a_desc, Wide, Read);
                visit(&mut wgmma.b_desc, Wide, Read);
                visit(&mut wgmma.scale_d, Predicate, Read);
            }
            Self::ClusterArrive
            | Self::ClusterWait
            | Self::Fence { .. }
            | Self::Branch { .. }
            | Self::Exit
            | Self::Trap
            | Self::TooDeep { .. }
            | Self::Nop
            | Self::CpAsyncCommit
            | Self::CpAsyncWait { .. }
            | Self::BulkCommit
            | Self::BulkWait { .. }
            | Self::GridWait
            | Self::WgmmaFence
            | Self::WgmmaCommit
            | Self::WgmmaWait { .. } => {}
            _ => return false,
        }
        true
    }

    /// Returns whether a destination must not share a slot with a source. The executor may write before it has read
    /// everything, or other lanes may read the source.
    pub(crate) fn writes_early(&self) -> bool {
        matches!(
            self,
            Self::Ld { .. }
                | Self::LdMatrix { .. }
                | Self::Mma(_)
                | Self::Wgmma(_)
                | Self::Unpack { .. }
                | Self::Shfl { .. }
                | Self::Match { .. }
                | Self::Redux { .. }
                | Self::Vote { .. }
                | Self::Elect { .. }
                | Self::Bar { .. }
                | Self::Mbarrier { .. }
                | Self::Atom { .. }
        )
    }
}

pub(super) fn all(slots: &mut [Slot], file: File, role: Role, visit: &mut impl FnMut(&mut Slot, File, Role)) {
    for slot in slots {
        visit(slot, file, role);
    }
}

/// Returns the file of a product that is twice as wide as `ty`.
fn twice(ty: Ty) -> File {
    File::wide(ty.bits() >= 32)
}

/// Returns the type of the registers that hold a matrix fragment.
fn fragment(ty: Ty) -> Ty {
    if ty == Ty::F64 { Ty::F64 } else { Ty::B32 }
}
