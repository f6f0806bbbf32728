//! Moves, packing, and conversions between address spaces.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::{exactly, padded};
use super::special;
use super::symbols::Register;
use crate::program::visit::File;
use crate::program::{Binary, Constant, LOCAL_WINDOW, LaneSpecial, Mods, Op, SHARED_WINDOW, Slot, Space, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers moves and conversions. Returns whether the opcode is of this group.
    pub(super) fn moves(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        match opcode.name {
            "mov" => self.mov(opcode, operands)?,
            "cvt" => self.cvt(opcode, operands)?,
            "cvta" => self.cvta(opcode, operands)?,
            "isspacep" => self.isspacep(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn mov(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ty = opcode.ty()?;
        let [d, a] = exactly(operands)?;
        if ty == Ty::B128 {
            return Err(opcode.unsupported());
        }
        match (d, a) {
            (Operand::Vector(parts), _) => self.unpack(ty, parts, a),
            (_, Operand::Vector(parts)) => self.pack(ty, d, parts),
            (_, Operand::Name(name, 0)) if special::lane(name).is_some_and(|which| fits(which, ty)) => {
                let Some(which) = special::lane(name) else { return Err(opcode.unsupported()) };
                let d = self.write(d, ty)?;
                self.emit(Op::Special { d, wide: ty.bits() == 64, which });
                Ok(())
            }
            (_, Operand::Name(name, _)) if special::block(name).is_none() && self.is_unknown_special(name) => {
                Err(Problem::Unsupported(format!("{} {name}", opcode.full)))
            }
            _ => self.copy(ty, d, a),
        }
    }

    fn is_unknown_special(&self, name: &str) -> bool {
        self.scopes.find(name).is_none() && special::is_unknown(name)
    }

    fn copy(&mut self, ty: Ty, d: &Operand<'_>, a: &Operand<'_>) -> Result<(), Problem> {
        let (d, a) = (self.write(d, ty)?, self.read(a, ty)?);
        self.emit(Op::Mov { ty, d, a });
        Ok(())
    }

    fn pack(&mut self, ty: Ty, d: &Operand<'_>, parts: &[Operand<'_>]) -> Result<(), Problem> {
        let part = part_type(ty, parts.len())?;
        let d = self.write(d, ty)?;
        let parts: Vec<Slot> = parts.iter().map(|operand| self.read(operand, part)).collect::<Result<_, _>>()?;
        self.emit(Op::Pack { wide: ty.bits() == 64, part_bits: part.bits() as u8, d, parts: padded(&parts)? });
        Ok(())
    }

    fn unpack(&mut self, ty: Ty, parts: &[Operand<'_>], a: &Operand<'_>) -> Result<(), Problem> {
        let part = part_type(ty, parts.len())?;
        let parts: Vec<Slot> = parts.iter().map(|operand| self.write(operand, part)).collect::<Result<_, _>>()?;
        let a = self.read(a, ty)?;
        self.emit(Op::Unpack { wide: ty.bits() == 64, part_bits: part.bits() as u8, parts: padded(&parts)?, a });
        Ok(())
    }

    fn cvta(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let to = opcode.take("to");
        let space = opcode.need(space)?;
        let ty = opcode.ty()?;
        if ty.bits() != 64 {
            return Err(opcode.unsupported());
        }
        let [d, a] = exactly(operands)?;
        let window = match space {
            Space::Shared | Space::SharedCluster => SHARED_WINDOW,
            Space::Local => LOCAL_WINDOW,
            // Parameters have only generic addresses here, and global addresses equal their generic ones.
            _ => return self.copy(Ty::U64, d, a),
        };
        let (d, a) = (self.write(d, Ty::U64)?, self.read(a, Ty::U64)?);
        let b = self.constant(File::Wide, Constant::Bits(window))?;
        let op = if to { Binary::Sub } else { Binary::Add };
        self.emit(Op::Binary { op, ty: Ty::U64, mods: Mods::default(), d, a, b });
        Ok(())
    }

    /// Emits the conversion of a generic address to a shared one. Returns the operand that holds it.
    pub(super) fn subtract_shared_window(&mut self, generic: Register) -> Result<Register, Problem> {
        let local = self.temporary(Ty::U64);
        let (d, a) = (self.operand_of(local), self.operand_of(generic));
        let b = self.constant(File::Wide, Constant::Bits(SHARED_WINDOW))?;
        self.emit(Op::Binary { op: Binary::Sub, ty: Ty::U64, mods: Mods::default(), d, a, b });
        Ok(local)
    }

    fn isspacep(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let space = opcode.need(space)?;
        let [d, a] = exactly(operands)?;
        let (d, a) = (self.write(d, Ty::Pred)?, self.read(a, Ty::U64)?);
        self.emit(Op::IsSpace { space, d, a });
        Ok(())
    }
}

/// Returns the state space that a modifier names.
pub(super) fn space(part: &str) -> Option<Space> {
    Some(match part {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "shared::cluster" => Space::SharedCluster,
        "local" => Space::Local,
        "const" => Space::Const,
        "param" | "param::entry" => Space::Param,
        _ => return None,
    })
}

/// Returns whether a special register can be read with this type.
fn fits(which: LaneSpecial, ty: Ty) -> bool {
    match which {
        LaneSpecial::Clock64 => ty.bits() == 64,
        LaneSpecial::GlobalTimer => ty.bits() >= 32,
        _ => ty.bits() == 32,
    }
}

/// Returns the type of each of `count` parts of a type.
fn part_type(ty: Ty, count: usize) -> Result<Ty, Problem> {
    match (ty.bits(), count) {
        (64, 2) => Ok(Ty::B32),
        (64, 4) | (32, 2) => Ok(Ty::B16),
        (32, 4) | (16, 2) => Ok(Ty::B8),
        (bits, count) => Err(Problem::Syntax(format!("{bits} bits in {count} parts"))),
    }
}
