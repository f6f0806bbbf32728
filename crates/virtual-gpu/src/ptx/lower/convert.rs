//! `cvt`.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::exactly;
use super::symbols::Register;
use crate::program::visit::File;
use crate::program::{Mods, NONE, Op, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers a conversion.
    pub(super) fn cvt(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let finite = opcode.take("satfinite");
        let mut mods = opcode.mods();
        let from = opcode.ty()?;
        let to = opcode.ty()?;
        // For wider floats the flag means `.sat`, which clamps to [0, 1].
        if finite && !matches!(to, Ty::E4m3x2 | Ty::E5m2x2) {
            return Err(opcode.unsupported());
        }
        mods.sat |= finite;
        // The remaining modifiers change the result (`.rs`, `.scaled`, `.pack`).
        opcode.finish()?;
        if let [d, a, b] = operands {
            let (d, a, b) = (self.write(d, to)?, self.read(a, from)?, self.read(b, from)?);
            self.emit(Op::Cvt { from, to, mods, d, a, b });
            return Ok(());
        }
        let [d, a] = exactly(operands)?;
        let d = self.any_register(d)?;
        let narrowed = self.convertible(a, from)?;
        let a = match narrowed {
            Some(register) => self.operand_of(register),
            None => self.read(a, from)?,
        };
        if from == to && mods == Mods::default() && d.ty.bits() == to.bits() {
            let d = self.operand_of(d);
            self.emit(Op::Mov { ty: to, d, a });
            return Ok(());
        }
        let (value, extension) = landing(self, d, to)?;
        let slot = self.operand_of(value);
        self.emit(Op::Cvt { from, to, mods, d: slot, a, b: NONE });
        self.extend(d, value, to, extension);
        Ok(())
    }

    /// Returns the register of a source that may be wider than its type. A 64-bit source is narrowed first.
    fn convertible(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Option<Register>, Problem> {
        let Operand::Name(name, 0) = operand else { return Ok(None) };
        let Some(register) = self.scopes.register(name) else { return Ok(None) };
        if register.ty.bits() < ty.bits()
            || register.ty == Ty::Pred
            || (ty.is_float() && register.ty.bits() != ty.bits())
        {
            return Err(Problem::Syntax(format!("`{name}` has {} bits, not {}", register.ty.bits(), ty.bits())));
        }
        if File::of(register.ty) == File::of(ty) {
            return Ok(Some(register));
        }
        self.narrowed(register).map(Some)
    }

    /// Copies the low half of a 64-bit register to a temporary.
    pub(super) fn narrowed(&mut self, register: Register) -> Result<Register, Problem> {
        self.aside(|lowerer| {
            let narrow = lowerer.temporary(Ty::U32);
            let (d, a) = (lowerer.operand_of(narrow), lowerer.operand_of(register));
            lowerer.emit(Op::Cvt { from: Ty::U64, to: Ty::U32, mods: Mods::default(), d, a, b: NONE });
            Ok(narrow)
        })
    }

    /// Extends a value that was written to the register chosen by [`landing`].
    pub(super) fn extend(&mut self, d: Register, value: Register, ty: Ty, extension: Option<Ty>) {
        if let Some(to) = extension {
            let (d, a) = (self.operand_of(d), self.operand_of(value));
            self.emit(Op::Cvt { from: ty, to, mods: Mods::default(), d, a, b: NONE });
        }
    }

    /// Lets `emit` append instructions before the current one.
    pub(super) fn aside<T>(&mut self, emit: impl FnOnce(&mut Self) -> Result<T, Problem>) -> Result<T, Problem> {
        let pool = self.suspend();
        let result = emit(self);
        self.resume(pool);
        result
    }
}

/// Returns the register that receives a value of type `ty` for `d`, which may be wider. If the value must be extended
/// from there, also returns the type from which it is extended.
pub(super) fn landing(lowerer: &mut Lowerer<'_>, d: Register, ty: Ty) -> Result<(Register, Option<Ty>), Problem> {
    let (have, want) = (ty.bits(), d.ty.bits());
    if have > want || d.ty == Ty::Pred || (ty.is_float() && have != want) {
        return Err(Problem::Syntax(format!("a destination of {want} bits for {have}")));
    }
    Ok(match (ty.is_signed(), want) {
        _ if have == want => (d, None),
        (false, 64) => (lowerer.temporary(Ty::U32), Some(Ty::U64)),
        (true, 64) => (lowerer.temporary(Ty::U32), Some(Ty::S64)),
        // Slots are zero-extended to 32 bits anyway.
        (false, _) => (d, None),
        (true, 32) => (d, Some(Ty::S32)),
        (true, _) => (d, Some(Ty::S16)),
    })
}
