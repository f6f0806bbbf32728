//! Calls of the functions that the system provides: failed assertions, `printf`, and the heap of the device.
//!
//! The values that are passed to and from a function are in registers here.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::parts;
use super::symbols::{Register, Symbol};
use crate::program::visit::File;
use crate::program::{Mods, NONE, Op, Slot, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// `call`
    pub(super) fn call(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        opcode.take("uni");
        let [Operand::Name(function, 0), Operand::Vector(results), Operand::Vector(arguments)] = operands else {
            return Err("a function expected".into());
        };
        let unknown = || Problem::Unsupported(format!("{} {function}", opcode.full));
        match (*function, &arguments[..]) {
            // The size of a character follows.
            ("__assertfail", [message, file, line, function, _]) => {
                let [message, file, function] =
                    [message, file, function].map(|text| self.argument(text, Ty::B64).ok_or_else(unknown));
                let (message, file, function) = (message?, file?, function?);
                let line = self.argument(line, Ty::B32).ok_or_else(unknown)?;
                self.emit(Op::Assert { message, file, line, function });
                // The function does not return.
                self.emit(Op::Trap);
            }
            ("vprintf", [format, arguments]) => {
                let [format, arguments] = [format, arguments].map(|it| self.argument(it, Ty::B64).ok_or_else(unknown));
                let (format, arguments) = (format?, arguments?);
                let d = self.result(results, Ty::B32).ok_or_else(unknown)?;
                self.emit(Op::Print { d, format, arguments });
            }
            ("malloc", [bytes]) => {
                let bytes = self.argument(bytes, Ty::B64).ok_or_else(unknown)?;
                let d = self.result(results, Ty::B64).ok_or_else(unknown)?;
                self.emit(Op::Malloc { d, bytes });
            }
            ("free", [address]) => {
                let address = self.argument(address, Ty::B64).ok_or_else(unknown)?;
                self.emit(Op::Free { address });
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// `st.param`: passes an argument to a call, or the result of a function.
    pub(super) fn pass_argument(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        opcode.take_all(&["v2", "v4", "v8"]);
        let ty = opcode.ty()?;
        let [a, s] = operands else { return Err("2 operands expected".into()) };
        let Some((number, offset)) = self.place_in_call(a) else { return Err(opcode.unsupported()) };
        if ty.bits() > 64 {
            return Err(opcode.unsupported());
        }
        for (index, source) in parts(s).iter().enumerate() {
            let a = self.stored(source, ty)?;
            let place = (number, offset + index as i64 * i64::from(ty.bytes()));
            let register = self.passed(place, ty).ok_or_else(|| opcode.unsupported())?;
            let d = self.operand_of(register);
            self.emit(Op::Mov { ty, d, a });
        }
        Ok(())
    }

    /// `ld.param` of an argument, or of what a call has returned.
    pub(super) fn take_result(
        &mut self,
        opcode: &Opcode<'_>,
        destinations: &[Operand<'_>],
        ty: Ty,
        (number, offset): (u32, i64),
    ) -> Result<(), Problem> {
        for (index, d) in destinations.iter().enumerate().filter(|(_, d)| **d != Operand::Name("_", 0)) {
            let place = (number, offset + index as i64 * i64::from(ty.bytes()));
            if self.unreturned.contains(&number) {
                self.passed(place, ty);
            }
            let passed = self.passed.get(&place).copied();
            let passed = passed.filter(|it| File::of(it.ty) == File::of(ty) && it.ty.bits() >= ty.bits());
            let passed = passed.ok_or_else(|| opcode.unsupported())?;
            let d = self.any_register(d)?;
            let (slot, a) = (self.operand_of(d), self.operand_of(passed));
            if d.ty.bits() == ty.bits() && passed.ty.bits() == ty.bits() {
                self.emit(Op::Mov { ty, d: slot, a });
                continue;
            }
            let signed = ty.is_signed();
            let (from, to) = (integer(ty.bits(), signed), integer(d.ty.bits(), signed));
            self.emit(Op::Cvt { from, to, mods: Mods::default(), d: slot, a, b: NONE });
        }
        Ok(())
    }

    /// Returns the place that an address names, if it is of a call: the number of the parameter and the offset in it.
    pub(super) fn place_in_call(&self, address: &Operand<'_>) -> Option<(u32, i64)> {
        let Operand::Address(Some(name), offset) = address else { return None };
        Some((self.number_in_call(name)?, *offset))
    }

    pub(super) fn number_in_call(&self, name: &str) -> Option<u32> {
        match self.scopes.find(name)? {
            Symbol::OfCall(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the register of a value that is passed. None if a value of another size is passed at the same place.
    fn passed(&mut self, place: (u32, i64), ty: Ty) -> Option<Register> {
        if let Some(&register) = self.passed.get(&place) {
            return (File::of(register.ty) == File::of(ty) && register.ty.bits() == ty.bits()).then_some(register);
        }
        let register = self.new_register(ty);
        self.passed.insert(place, register);
        Some(register)
    }

    /// Returns the operand for a call's result, which is NONE if it has none.
    fn result(&mut self, results: &[Operand<'_>], ty: Ty) -> Option<Slot> {
        match results {
            [] => Some(NONE),
            [Operand::Name(name, 0)] => {
                let register = self.passed((self.number_in_call(name)?, 0), ty)?;
                Some(self.operand_of(register))
            }
            _ => None,
        }
    }

    /// Returns the operand of a call's argument, which must have been passed with this type or be a register.
    fn argument(&mut self, operand: &Operand<'_>, ty: Ty) -> Option<Slot> {
        let Operand::Name(name, 0) = operand else { return self.read(operand, ty).ok() };
        let Some(number) = self.number_in_call(name) else { return self.read(operand, ty).ok() };
        let register = self.passed.get(&(number, 0)).copied().filter(|it| File::of(it.ty) == File::of(ty))?;
        Some(self.operand_of(register))
    }
}

/// Returns the integer type of so many bits.
fn integer(bits: u32, signed: bool) -> Ty {
    match (bits, signed) {
        (8, false) => Ty::U8,
        (8, true) => Ty::S8,
        (16, false) => Ty::U16,
        (16, true) => Ty::S16,
        (32, false) => Ty::U32,
        (32, true) => Ty::S32,
        (_, false) => Ty::U64,
        (_, true) => Ty::S64,
    }
}
