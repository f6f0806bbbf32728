//! Loads, stores and atomics.

use super::builder::Lowerer;
use super::convert::landing;
use super::moves::space;
use super::opcode::Opcode;
use super::operand::{padded, parts};
use super::symbols::{Register, Symbol};
use crate::program::visit::File;
use crate::program::{AtomOp, Constant, MbarrierOp, NONE, Op, Semantics, Slot, Space, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers memory accesses. Returns whether the opcode is of this group.
    pub(super) fn memory(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        match opcode.name {
            "ld" | "ldu" => self.ld(opcode, operands)?,
            "st" => self.st(opcode, operands)?,
            "atom" | "red" => self.atom(opcode, operands)?,
            // A policy only gives caching hints.
            "createpolicy" => self.createpolicy(opcode, operands)?,
            "prefetch" | "prefetchu" | "discard" | "applypriority" => {
                while opcode.next().is_some() {}
                self.emit(Op::Nop);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn ld(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let semantics = opcode.load_semantics();
        opcode.cache_hints();
        let read_only = opcode.take("nc") || opcode.name == "ldu";
        let space = opcode.choose(space).unwrap_or(Space::Generic);
        let count = opcode.choose(vector).unwrap_or(1);
        let ty = opcode.ty()?;
        let ([d, a] | [d, a, _]) = operands else { return Err("2 operands expected".into()) };
        let destinations = parts(d);
        if destinations.len() != usize::from(count) || ty == Ty::B128 || ty == Ty::Pred || too_wide(ty, count) {
            return Err(opcode.unsupported());
        }
        opcode.finish()?;
        if let Some(offset) = self.parameter(a, space)? {
            return self.ld_param(destinations, ty, offset);
        }
        if let Some(place) = self.place_in_call(a) {
            return self.take_result(opcode, destinations, ty, place);
        }
        let landings = self.landings(destinations, ty)?;
        let slots: Vec<Slot> =
            landings.iter().map(|landing| landing.map_or(NONE, |(_, value, _)| self.operand_of(value))).collect();
        let (addr, space) = self.address(a, space)?;
        self.emit(Op::Ld { space, ty, count, read_only, semantics, d: padded(&slots)?, addr });
        for (d, value, extension) in landings.into_iter().flatten() {
            self.extend(d, value, ty, extension);
        }
        Ok(())
    }

    /// Resolves a load's destinations: `_`, or the register, where its value first arrives, and its extension.
    fn landings(&mut self, destinations: &[Operand<'_>], ty: Ty) -> Result<Vec<Option<Landing>>, Problem> {
        let mut landings = Vec::new();
        for destination in destinations {
            landings.push(if *destination == Operand::Name("_", 0) {
                None
            } else {
                let d = self.any_register(destination)?;
                let (value, extension) = landing(self, d, ty)?;
                // A load itself extends to 32 bits.
                Some((d, value, extension.filter(|to| *to != Ty::S32)))
            });
        }
        Ok(landings)
    }

    /// Returns the offset of a parameter that is read by its name.
    fn parameter(&self, operand: &Operand<'_>, space: Space) -> Result<Option<u32>, Problem> {
        match operand {
            Operand::Address(Some(name), addend) if matches!(space, Space::Param | Space::Generic) => {
                match self.scopes.find(name) {
                    Some(Symbol::Param(offset)) => {
                        let offset = u32::try_from(i64::from(offset).saturating_add(*addend));
                        offset.map(Some).map_err(|_| "a parameter with a far offset".into())
                    }
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn ld_param(&mut self, destinations: &[Operand<'_>], ty: Ty, offset: u32) -> Result<(), Problem> {
        for (index, destination) in destinations.iter().enumerate() {
            if *destination == Operand::Name("_", 0) {
                continue;
            }
            let d = self.any_register(destination)?;
            let offset = offset.saturating_add(index as u32 * ty.bytes());
            let bytes = ty.bytes() as u8;
            if offset.checked_add(u32::from(bytes)).is_none_or(|end| end > self.param_bytes) {
                return Err("a load beyond the kernel's parameters".into());
            }
            let wider = d.ty.bits() > ty.bits();
            if d.ty.bits() < ty.bits() || d.ty == Ty::Pred {
                return Err("a destination narrower than the parameter".into());
            }
            let signed = ty.is_signed() && wider && d.ty.bits() >= 32;
            let a = self.constant(File::of(d.ty), Constant::Param { offset, bytes, signed })?;
            let slot = self.operand_of(d);
            self.emit(Op::Mov { ty: if wider { d.ty } else { ty }, d: slot, a });
            if ty == Ty::S8 && d.ty.bits() == 16 {
                self.extend(d, d, ty, Some(Ty::S16));
            }
        }
        Ok(())
    }

    fn st(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        opcode.cache_hints();
        if opcode.take("async") {
            return self.st_async(opcode, operands);
        }
        let semantics = opcode.semantics();
        let space = opcode.choose(space).unwrap_or(Space::Generic);
        if space == Space::Param {
            return self.pass_argument(opcode, operands);
        }
        let count = opcode.choose(vector).unwrap_or(1);
        let ty = opcode.ty()?;
        let ([a, s] | [a, s, _]) = operands else { return Err("2 operands expected".into()) };
        let sources = parts(s);
        if sources.len() != usize::from(count) || matches!(ty, Ty::B128 | Ty::Pred) {
            return Err(opcode.unsupported());
        }
        let mut slots = Vec::new();
        for source in sources {
            slots.push(self.stored(source, ty)?);
        }
        let (addr, space) = self.address(a, space)?;
        self.emit(Op::St { space, ty, count, semantics, s: padded(&slots)?, addr });
        Ok(())
    }

    /// `st.async`: a store to a block of the cluster, and the bytes that it completes at an mbarrier there. Here both
    /// happen at once. On the machine they happen later, so a block that does not wait may read too early.
    fn st_async(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        opcode.take("weak");
        if !opcode.take("shared::cluster") || !opcode.take("mbarrier::complete_tx::bytes") {
            return Err(opcode.unsupported());
        }
        let count = opcode.choose(vector).unwrap_or(1);
        let ty = opcode.ty()?;
        let [a, s, mbarrier] = operands else { return Err("3 operands expected".into()) };
        let sources = parts(s);
        if sources.len() != usize::from(count) || !matches!(ty.bytes(), 4 | 8) {
            return Err(opcode.unsupported());
        }
        let mut slots = Vec::new();
        for source in sources {
            slots.push(self.stored(source, ty)?);
        }
        let tx = self.read(&Operand::Int(i64::from(ty.bytes()) * i64::from(count)), Ty::U32)?;
        let (addr, space) = self.address(a, Space::SharedCluster)?;
        self.emit(Op::St { space, ty, count, semantics: Semantics::WEAK, s: padded(&slots)?, addr });
        let addr = self.address(mbarrier, Space::SharedCluster)?.0;
        self.emit(Op::Mbarrier { op: MbarrierOp::CompleteTx { tx }, addr });
        Ok(())
    }

    /// Resolves a source that may be wider than the stored value.
    pub(super) fn stored(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Slot, Problem> {
        let register = match operand {
            Operand::Name(name, 0) => self.scopes.register(name),
            _ => None,
        };
        match register {
            Some(register) if register.ty.bits() > ty.bits() && register.ty != Ty::Pred => {
                let same = File::of(register.ty) == File::of(ty);
                let register = if same { register } else { self.narrowed(register)? };
                Ok(self.operand_of(register))
            }
            _ => self.read(operand, ty),
        }
    }

    fn atom(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        opcode.cache_hints();
        let semantics = opcode.atomic_semantics();
        if opcode.take("async") {
            return Err(opcode.unsupported());
        }
        let space = opcode.choose(space).unwrap_or(Space::Generic);
        let op = opcode.need(atom_op)?;
        // Subnormal f16 are always kept.
        opcode.take("noftz");
        let ty = opcode.ty()?;
        let (d, operands) = match operands {
            [d, rest @ ..] if opcode.name == "atom" => (Some(d), rest),
            _ => (None, operands),
        };
        let sources = if op == AtomOp::Cas { 2 } else { 1 };
        // A cache policy may follow.
        if operands.len() < 1 + sources || operands.len() > 2 + sources || !op.takes(ty, false) {
            return Err(opcode.unsupported());
        }
        if let Operand::Vector(_) = &operands[1] {
            return Err(opcode.unsupported());
        }
        let d = d.map_or(Ok(NONE), |d| self.write(d, ty))?;
        let (addr, space) = self.address(&operands[0], space)?;
        let b = self.read(&operands[1], ty)?;
        let c = if op == AtomOp::Cas { self.read(&operands[2], ty)? } else { NONE };
        self.emit(Op::Atom { space, semantics, op, ty, d, addr, b, c });
        Ok(())
    }

    fn createpolicy(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        while opcode.next().is_some() {}
        let [d, ..] = operands else { return Err("operands expected".into()) };
        let d = self.write(d, Ty::B64)?;
        let a = self.constant(File::Wide, Constant::Bits(0))?;
        self.emit(Op::Mov { ty: Ty::B64, d, a });
        Ok(())
    }
}

/// A destination, the register that first receives its value, and the type from which it is extended.
type Landing = (Register, Register, Option<Ty>);

fn vector(part: &str) -> Option<u8> {
    Some(match part {
        "v2" => 2,
        "v4" => 4,
        "v8" => 8,
        _ => return None,
    })
}

/// Returns whether a lane would move more than 32 bytes at once, which no machine does.
fn too_wide(ty: Ty, count: u8) -> bool {
    ty.bytes() * u32::from(count) > 32
}

pub(super) fn atom_op(part: &str) -> Option<AtomOp> {
    Some(match part {
        "add" => AtomOp::Add,
        "min" => AtomOp::Min,
        "max" => AtomOp::Max,
        "and" => AtomOp::And,
        "or" => AtomOp::Or,
        "xor" => AtomOp::Xor,
        "exch" => AtomOp::Exch,
        "cas" => AtomOp::Cas,
        "inc" => AtomOp::Inc,
        "dec" => AtomOp::Dec,
        _ => return None,
    })
}
