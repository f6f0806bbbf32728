//! Barriers of blocks, warps and clusters, and fences.

use super::builder::Lowerer;
use super::compare::boolean;
use super::opcode::Opcode;
use super::operand::exactly;
use crate::program::visit::File;
use crate::program::{BarOp, Constant, NONE, Op, Slot, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers barriers and fences. Returns whether the opcode is of this group.
    pub(super) fn sync(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        let name = opcode.name;
        match name {
            "bar" if opcode.take("warp") => {
                opcode.take("sync");
                let [members] = exactly(operands)?;
                let members = self.read(members, Ty::B32)?;
                self.emit(Op::WarpSync { members });
            }
            "barrier" if opcode.take("cluster") => self.cluster(opcode, operands)?,
            "bar" | "barrier" => self.block_barrier(opcode, operands)?,
            "membar" | "fence" => self.fence(opcode)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn cluster(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let [] = exactly(operands)?;
        opcode.take_all(&["aligned", "acquire", "release", "relaxed"]);
        let op = opcode.need(|part| match part {
            "arrive" => Some(Op::ClusterArrive),
            "wait" => Some(Op::ClusterWait),
            _ => None,
        })?;
        self.emit(op);
        Ok(())
    }

    fn block_barrier(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        opcode.take("cta");
        let aligned = opcode.take("aligned") || opcode.name == "bar";
        if opcode.take("red") {
            return self.reduction(aligned, opcode, operands);
        }
        let op = opcode.need(|part| match part {
            "sync" => Some(BarOp::Sync),
            "arrive" => Some(BarOp::Arrive),
            _ => None,
        })?;
        let (id, threads) = self.barrier_operands(operands)?;
        if op == BarOp::Arrive && threads == NONE {
            return Err("an arrival needs a number of threads".into());
        }
        self.emit(Op::Bar { op, aligned, id, threads, d: NONE, p: NONE, p_negated: false });
        Ok(())
    }

    fn reduction(&mut self, aligned: bool, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ty = opcode.ty()?;
        let op = if opcode.take("popc") { BarOp::RedPopc } else { BarOp::Red(opcode.need(boolean)?) };
        if ty != if op == BarOp::RedPopc { Ty::U32 } else { Ty::Pred } {
            return Err(opcode.unsupported());
        }
        let [d, inner @ .., p] = operands else { return Err("operands expected".into()) };
        let d = self.write(d, ty)?;
        let (id, threads) = self.barrier_operands(inner)?;
        let (p, p_negated) = self.read_predicate(p)?;
        self.emit(Op::Bar { op, aligned, id, threads, d, p, p_negated });
        Ok(())
    }

    fn barrier_operands(&mut self, operands: &[Operand<'_>]) -> Result<(Slot, Slot), Problem> {
        match operands {
            // In old texts, `barrier.sync` without an operand is barrier 0.
            [] => Ok((self.constant(File::Narrow, Constant::Bits(0))?, NONE)),
            [id] => Ok((self.read(id, Ty::U32)?, NONE)),
            [id, threads] => Ok((self.read(id, Ty::U32)?, self.read(threads, Ty::U32)?)),
            _ => Err("too many operands of a barrier".into()),
        }
    }

    /// Lowers fences. Memory is sequentially consistent here, so a fence changes no result. Only the checks for races
    /// tell them apart.
    fn fence(&mut self, opcode: &mut Opcode<'_>) -> Result<(), Problem> {
        let narrow = opcode.take_all(&["cta", "cluster"]);
        opcode.take_all(&["gpu", "gl", "sys", "sc", "acq_rel", "acquire", "release"]);
        let proxy =
            opcode.take_all(&["proxy", "alias", "sync_restrict::shared::cta", "sync_restrict::shared::cluster"]);
        let told = opcode.take_all(&["async", "async::generic"]);
        let asynchronous = told && !opcode.take("global");
        opcode.take_all(&[
            "global",
            "shared::cta",
            "shared::cluster",
            "tensormap",
            "tensormap::generic",
            "mbarrier_init",
        ]);
        self.emit(Op::Fence { asynchronous, wide: !narrow && !proxy });
        Ok(())
    }
}
