//! `cp.async`, mbarriers and addresses in a cluster.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::{exactly, integer};
use crate::program::{FALSE, MbarrierOp, NONE, Op, Slot, Space, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers asynchronous copies and their completion mechanisms. Returns whether the opcode is of this group.
    pub(super) fn asynchronous(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        let name = opcode.name;
        match name {
            "cp" if opcode.take("reduce") => self.bulk(opcode, operands, true)?,
            "cp" if opcode.take("async") => self.cp_async(opcode, operands)?,
            "mbarrier" => self.mbarrier(opcode, operands)?,
            "mapa" => self.mapa(opcode, operands)?,
            "getctarank" => self.getctarank(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn cp_async(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        if opcode.take("bulk") {
            return self.bulk(opcode, operands, false);
        }
        if opcode.take("commit_group") {
            self.emit(Op::CpAsyncCommit);
        } else if opcode.take("wait_all") {
            self.emit(Op::CpAsyncWait { groups: None });
        } else if opcode.take("wait_group") {
            let [groups] = exactly(operands)?;
            self.emit(Op::CpAsyncWait { groups: Some(count(groups)?) });
        } else if opcode.take("mbarrier") {
            opcode.take_all(&["arrive", "b64"]);
            let noinc = opcode.take("noinc");
            let shared = opcode.take_all(&["shared", "shared::cta"]);
            let [addr] = exactly(operands)?;
            let addr = self.shared_address(addr, shared)?;
            self.emit(Op::CpAsyncMbarrierArrive { addr, noinc });
        } else {
            self.copy_async(opcode, operands)?;
        }
        Ok(())
    }

    fn copy_async(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let has_policy = opcode.take("L2::cache_hint");
        opcode.cache_hints();
        if !opcode.take_all(&["shared", "shared::cta"]) || !opcode.take("global") {
            return Err(opcode.unsupported());
        }
        let operands = if has_policy { without_last(operands)? } else { operands };
        let ([shared, global, bytes] | [shared, global, bytes, _]) = operands else {
            return Err("3 or 4 operands expected".into());
        };
        let bytes = integer(bytes)?;
        if !matches!(bytes, 4 | 8 | 16) {
            return Err(Problem::Syntax(format!("a copy of {bytes} bytes")));
        }
        let (shared, global) = (self.address(shared, Space::Shared)?.0, self.address(global, Space::Global)?.0);
        let (source_bytes, ignore) = match operands.get(3) {
            None => (NONE, FALSE),
            Some(Operand::Name(name, 0)) if self.scopes.register(name).is_some_and(|it| it.ty == Ty::Pred) => {
                (NONE, self.read(&operands[3], Ty::Pred)?)
            }
            Some(operand) => (self.read(operand, Ty::U32)?, FALSE),
        };
        self.emit(Op::CpAsync { bytes: bytes as u8, source_bytes, ignore, shared, global });
        Ok(())
    }

    fn mbarrier(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let what = opcode.next().ok_or_else(|| opcode.unsupported())?;
        let has_tx = opcode.take("expect_tx");
        let parity = opcode.take("parity");
        opcode.take_all(&["b64", "noComplete"]);
        opcode.semantics();
        let shared = opcode.take_all(&["shared", "shared::cta"]);
        let remote = opcode.take("shared::cluster");
        opcode.finish()?;
        if what == "pending_count" {
            return self.pending_count(operands);
        }
        let (op, at) = match (what, operands) {
            ("init", [_, count]) => (MbarrierOp::Init { count: self.read(count, Ty::U32)? }, 0),
            ("inval", [_]) => (MbarrierOp::Inval, 0),
            ("expect_tx", [_, tx]) => (MbarrierOp::ExpectTx { tx: self.read(tx, Ty::U32)? }, 0),
            ("complete_tx", [_, tx]) => (MbarrierOp::CompleteTx { tx: self.read(tx, Ty::U32)? }, 0),
            ("arrive" | "arrive_drop", [..]) => self.arrive(what == "arrive_drop", has_tx, operands)?,
            ("test_wait" | "try_wait", [d, _, phase, ..]) => (self.wait(what == "try_wait", parity, d, phase)?, 1),
            _ => return Err(opcode.unsupported()),
        };
        let addr = match operands.get(at) {
            Some(operand) if remote => self.address(operand, Space::SharedCluster)?.0,
            Some(operand) => self.shared_address(operand, shared)?,
            None => return Err("an address expected".into()),
        };
        self.emit(Op::Mbarrier { op, addr });
        Ok(())
    }

    /// Lowers the operands of an arrival. Its state may go to `_` or be left out.
    fn arrive(&mut self, drop: bool, has_tx: bool, operands: &[Operand<'_>]) -> Result<(MbarrierOp, usize), Problem> {
        let first = operands.first().ok_or("operands expected")?;
        let at = usize::from(!matches!(first, Operand::Address(..)));
        let state = if at == 1 { self.write(first, Ty::B64)? } else { NONE };
        let extra: Slot = match operands.get(at + 1..) {
            Some([]) | None => NONE,
            Some([one]) => self.read(one, Ty::U32)?,
            Some(_) => return Err("too many operands of an arrival".into()),
        };
        let (count, tx) = if has_tx { (NONE, extra) } else { (extra, NONE) };
        Ok((MbarrierOp::Arrive { state, count, tx, drop }, at))
    }

    fn wait(
        &mut self,
        blocking: bool,
        parity: bool,
        d: &Operand<'_>,
        phase: &Operand<'_>,
    ) -> Result<MbarrierOp, Problem> {
        let d = self.write(d, Ty::Pred)?;
        Ok(if parity {
            MbarrierOp::WaitParity { d, parity: self.read(phase, Ty::U32)?, blocking }
        } else {
            MbarrierOp::WaitState { d, state: self.read(phase, Ty::B64)?, blocking }
        })
    }

    fn pending_count(&mut self, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let [d, state] = exactly(operands)?;
        let (d, state) = (self.write(d, Ty::U32)?, self.read(state, Ty::B64)?);
        let addr = self.no_address();
        self.emit(Op::Mbarrier { op: MbarrierOp::PendingCount { d, state }, addr });
        Ok(())
    }

    fn mapa(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let generic = !opcode.take("shared::cluster");
        let ty = opcode.ty()?;
        let [d, a, rank] = exactly(operands)?;
        let (d, a) = (self.write(d, ty)?, self.read(a, ty)?);
        let rank = self.read(rank, Ty::U32)?;
        self.emit(Op::Mapa { wide: ty.bits() == 64, generic, d, a, rank });
        Ok(())
    }

    fn getctarank(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let generic = !opcode.take("shared::cluster");
        let ty = opcode.ty()?;
        let [d, a] = exactly(operands)?;
        let (d, a) = (self.write(d, Ty::U32)?, self.read(a, ty)?);
        self.emit(Op::GetCtaRank { wide: ty.bits() == 64, generic, d, a });
        Ok(())
    }
}

/// Returns the operands before a cache policy.
pub(super) fn without_last<'o, 'a>(operands: &'o [Operand<'a>]) -> Result<&'o [Operand<'a>], Problem> {
    operands.split_last().map(|(_, rest)| rest).ok_or_else(|| "operands expected".into())
}

/// Returns a literal number of groups.
pub(super) fn count(operand: &Operand<'_>) -> Result<u32, Problem> {
    u32::try_from(integer(operand)?).map_err(|_| "a number of groups out of range".into())
}
