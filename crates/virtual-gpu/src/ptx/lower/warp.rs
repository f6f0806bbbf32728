//! Operations between the lanes of a warp.

use super::arithmetic::choice;
use super::builder::Lowerer;
use super::memory::atom_op;
use super::opcode::Opcode;
use super::operand::exactly;
use crate::program::{Op, ShflMode, Ty, VoteMode};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers warp operations. Returns whether the opcode is of this group.
    pub(super) fn warp(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        let name = opcode.name;
        match name {
            "shfl" | "vote" | "match" | "redux" | "elect" if !opcode.take("sync") => return Err(opcode.unsupported()),
            "shfl" => self.shfl(opcode, operands)?,
            "vote" => self.vote(opcode, operands)?,
            "match" => self.matching(opcode, operands)?,
            "redux" => self.redux(opcode, operands)?,
            "elect" => {
                let [d, members] = exactly(operands)?;
                let (d, p) = self.write_pair(d, Ty::B32)?;
                let members = self.read(members, Ty::B32)?;
                self.emit(Op::Elect { d, p, members });
            }
            "activemask" => {
                let ty = opcode.ty()?;
                let [d] = exactly(operands)?;
                let d = self.write(d, ty)?;
                self.emit(Op::ActiveMask { d });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn shfl(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let mode = opcode.need(|part| {
            Some(match part {
                "up" => ShflMode::Up,
                "down" => ShflMode::Down,
                "bfly" => ShflMode::Bfly,
                "idx" => ShflMode::Idx,
                _ => return None,
            })
        })?;
        let ty = opcode.ty()?;
        let [d, a, b, c, members] = exactly(operands)?;
        let (d, p) = self.write_pair(d, ty)?;
        let (a, b) = (self.read(a, ty)?, self.read(b, Ty::B32)?);
        let (c, members) = (self.read(c, Ty::B32)?, self.read(members, Ty::B32)?);
        if ty.bits() != 32 {
            return Err(opcode.unsupported());
        }
        self.emit(Op::Shfl { mode, d, p, a, b, c, members });
        Ok(())
    }

    fn vote(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let mode = opcode.need(|part| {
            Some(match part {
                "all" => VoteMode::All,
                "any" => VoteMode::Any,
                "uni" => VoteMode::Uni,
                "ballot" => VoteMode::Ballot,
                _ => return None,
            })
        })?;
        let ty = opcode.ty()?;
        if (mode == VoteMode::Ballot) != (ty == Ty::B32) || !matches!(ty, Ty::B32 | Ty::Pred) {
            return Err(opcode.unsupported());
        }
        let [d, p, members] = exactly(operands)?;
        let d = self.write(d, ty)?;
        let (p, p_negated) = self.read_predicate(p)?;
        let members = self.read(members, Ty::B32)?;
        self.emit(Op::Vote { mode, d, p, p_negated, members });
        Ok(())
    }

    fn matching(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let all = opcode.need(|part| choice(part, "all", "any"))?;
        let ty = opcode.ty()?;
        let [d, a, members] = exactly(operands)?;
        let (d, p) = self.write_pair(d, Ty::B32)?;
        let (a, members) = (self.read(a, ty)?, self.read(members, Ty::B32)?);
        self.emit(Op::Match { all, ty, d, p, a, members });
        Ok(())
    }

    fn redux(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let op = opcode.need(atom_op)?;
        let ty = opcode.ty()?;
        if !matches!(ty, Ty::B32 | Ty::U32 | Ty::S32) {
            return Err(opcode.unsupported());
        }
        let [d, a, members] = exactly(operands)?;
        let (d, a, members) = (self.write(d, ty)?, self.read(a, ty)?, self.read(members, Ty::B32)?);
        self.emit(Op::Redux { op, ty, d, a, members });
        Ok(())
    }
}
