//! Bulk and tensor copies.

use super::asynchronous::{count, without_last};
use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::{exactly, padded};
use crate::program::{Address, AtomOp, BulkOp, BulkTensor, NONE, Op, Slot, Space, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    GlobalToShared,
    SharedToGlobal,
    SharedToShared,
    Prefetch,
}

impl Lowerer<'_> {
    /// Lowers `cp.async.bulk` and `cp.reduce.async.bulk`.
    pub(super) fn bulk(
        &mut self,
        opcode: &mut Opcode<'_>,
        operands: &[Operand<'_>],
        reduces: bool,
    ) -> Result<(), Problem> {
        if reduces && !(opcode.take("async") && opcode.take("bulk")) {
            return Err(opcode.unsupported());
        }
        if opcode.take("commit_group") {
            self.emit(Op::BulkCommit);
            return Ok(());
        }
        if opcode.take("wait_group") {
            let read = opcode.take("read");
            let [groups] = exactly(operands)?;
            self.emit(Op::BulkWait { groups: count(groups)?, read });
            return Ok(());
        }
        let is_tensor = opcode.take("tensor");
        let operands = if opcode.take("L2::cache_hint") { without_last(operands)? } else { operands };
        let way = way(opcode)?;
        if is_tensor {
            self.bulk_tensor(opcode, operands, way, reduces)
        } else {
            self.bulk_line(opcode, operands, way, reduces)
        }
    }

    fn bulk_line(
        &mut self,
        opcode: &mut Opcode<'_>,
        operands: &[Operand<'_>],
        way: Way,
        reduces: bool,
    ) -> Result<(), Problem> {
        let multicast = opcode.take("multicast::cluster");
        if reduces {
            return self.bulk_reduction(opcode, operands, way);
        }
        opcode.finish()?;
        let op = match (way, operands) {
            (Way::Prefetch, [from, bytes]) => {
                let (to, from) = (self.no_address(), self.address(from, Space::Global)?.0);
                let bytes = self.read(bytes, Ty::U32)?;
                Op::Bulk { op: BulkOp::Prefetch, to, from, bytes }
            }
            (Way::GlobalToShared, [to, from, bytes, mbarrier, mask @ ..]) => {
                let (to, from) = (self.address(to, Space::SharedCluster)?.0, self.address(from, Space::Global)?.0);
                let bytes = self.read(bytes, Ty::U32)?;
                let mbarrier = self.address(mbarrier, Space::SharedCluster)?.0;
                let multicast = self.multicast(multicast, mask)?;
                Op::Bulk { op: BulkOp::GlobalToShared { mbarrier, multicast }, to, from, bytes }
            }
            (Way::SharedToShared, [to, from, bytes, mbarrier]) => {
                let (to, from) = (self.address(to, Space::SharedCluster)?.0, self.address(from, Space::Shared)?.0);
                let bytes = self.read(bytes, Ty::U32)?;
                let mbarrier = self.address(mbarrier, Space::SharedCluster)?.0;
                Op::Bulk { op: BulkOp::SharedToShared { mbarrier }, to, from, bytes }
            }
            (Way::SharedToGlobal, [to, from, bytes]) => {
                let (to, from) = (self.address(to, Space::Global)?.0, self.address(from, Space::Shared)?.0);
                let bytes = self.read(bytes, Ty::U32)?;
                Op::Bulk { op: BulkOp::SharedToGlobal, to, from, bytes }
            }
            _ => return Err(opcode.unsupported()),
        };
        self.emit(op);
        Ok(())
    }

    fn bulk_reduction(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>], way: Way) -> Result<(), Problem> {
        let op = opcode.need(reduction)?;
        opcode.take("noftz");
        let ty = opcode.ty()?;
        if way != Way::SharedToGlobal || !op.takes(ty, true) {
            return Err(opcode.unsupported());
        }
        let [to, from, bytes] = exactly(operands)?;
        let (to, from) = (self.address(to, Space::Global)?.0, self.address(from, Space::Shared)?.0);
        let bytes = self.read(bytes, Ty::U32)?;
        self.emit(Op::Bulk { op: BulkOp::ReduceToGlobal { op, ty }, to, from, bytes });
        Ok(())
    }

    fn bulk_tensor(
        &mut self,
        opcode: &mut Opcode<'_>,
        operands: &[Operand<'_>],
        way: Way,
        reduces: bool,
    ) -> Result<(), Problem> {
        let dims = opcode.need(dimensions)?;
        opcode.take("tile");
        let multicast = opcode.take("multicast::cluster");
        let reduce = if reduces { Some(opcode.need(reduction)?) } else { None };
        if reduces && way != Way::SharedToGlobal {
            return Err(opcode.unsupported());
        }
        // The remaining modifiers select another mode (im2col, gather).
        opcode.finish()?;
        let none = self.no_address();
        let mut copy = BulkTensor {
            load: way == Way::GlobalToShared,
            prefetch: way == Way::Prefetch,
            reduce,
            dims,
            map: none,
            coordinates: [NONE; 5],
            shared: none,
            mbarrier: none,
            multicast: NONE,
        };
        let tensor = match (way, operands) {
            (Way::Prefetch, [tensor]) => tensor,
            (Way::GlobalToShared, [to, tensor, mbarrier, mask @ ..]) => {
                copy.shared = self.address(to, Space::SharedCluster)?.0;
                copy.mbarrier = self.address(mbarrier, Space::SharedCluster)?.0;
                copy.multicast = self.multicast(multicast, mask)?;
                tensor
            }
            (Way::SharedToGlobal, [tensor, from]) => {
                copy.shared = self.address(from, Space::Shared)?.0;
                tensor
            }
            _ => return Err(opcode.unsupported()),
        };
        let Operand::Tensor(map, offset, coordinates) = tensor else { return Err("a tensor map expected".into()) };
        if coordinates.len() != usize::from(dims) {
            return Err(Problem::Syntax(format!("{} coordinates of {dims} dimensions", coordinates.len())));
        }
        copy.map = self.address(&Operand::Address(Some(map), *offset), Space::Generic)?.0;
        let slots: Vec<Slot> = coordinates.iter().map(|it| self.read(it, Ty::S32)).collect::<Result<_, _>>()?;
        copy.coordinates = padded(&slots)?;
        self.emit(Op::BulkTensor(Box::new(copy)));
        Ok(())
    }

    fn multicast(&mut self, multicast: bool, mask: &[Operand<'_>]) -> Result<Slot, Problem> {
        match (multicast, mask) {
            (false, []) => Ok(NONE),
            (true, [mask]) => self.read(mask, Ty::U16),
            _ => Err("a mask of blocks goes with `.multicast::cluster`".into()),
        }
    }

    /// Returns the address of an absent operand.
    pub(super) fn no_address(&self) -> Address {
        Address { base: NONE, wide: false, offset: 0 }
    }
}

/// Takes the modifiers that name the spaces of a copy, destination first.
fn way(opcode: &mut Opcode<'_>) -> Result<Way, Problem> {
    if opcode.take("prefetch") {
        return if opcode.take("L2") && opcode.take("global") { Ok(Way::Prefetch) } else { Err(opcode.unsupported()) };
    }
    let is_space = |part: &str| matches!(part, "global" | "shared::cta" | "shared::cluster").then(|| part == "global");
    let to_global = opcode.need(is_space)?;
    let from_global = opcode.need(is_space)?;
    let (way, completion) = match (to_global, from_global) {
        (false, true) => (Way::GlobalToShared, "mbarrier::complete_tx::bytes"),
        (true, false) => (Way::SharedToGlobal, "bulk_group"),
        (false, false) => (Way::SharedToShared, "mbarrier::complete_tx::bytes"),
        (true, true) => return Err(opcode.unsupported()),
    };
    if opcode.take(completion) { Ok(way) } else { Err(opcode.unsupported()) }
}

/// Returns the operation of a reducing copy.
fn reduction(part: &str) -> Option<AtomOp> {
    super::memory::atom_op(part).filter(|op| !matches!(op, AtomOp::Cas | AtomOp::Exch))
}

fn dimensions(part: &str) -> Option<u8> {
    let digit = part.strip_suffix('d')?.parse().ok()?;
    (1..=5).contains(&digit).then_some(digit)
}
