//! Calls of the functions that the system provides: failed assertions and `printf`. Other functions are inlined by the
//! compiler, or the call is not modelled.
//!
//! The values that are passed to and from a function are in registers here.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::parts;
use super::symbols::{Register, Symbol};
use crate::program::visit::File;
use crate::program::{NONE, Op, Slot, Ty};
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
            ("vprintf", [format, _]) => {
                let format = self.argument(format, Ty::B64).ok_or_else(unknown)?;
                let d = match &results[..] {
                    [] => NONE,
                    [Operand::Name(name, 0)] => {
                        let place = (self.number_in_call(name).ok_or_else(unknown)?, 0);
                        let register = self.passed(place, Ty::B32);
                        self.operand_of(register)
                    }
                    _ => return Err(unknown()),
                };
                self.emit(Op::Print { d, format });
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// `st.param`: passes an argument to a call.
    pub(super) fn pass_argument(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let vector = opcode.take_all(&["v2", "v4", "v8"]);
        let ty = opcode.ty()?;
        let [a, s] = operands else { return Err("2 operands expected".into()) };
        let Some((number, offset)) = self.place_in_call(a) else { return Err(opcode.unsupported()) };
        if ty.bits() < 32 || ty.bits() > 64 || vector {
            // No function that can be called takes such an argument, so the call will be refused.
            self.emit(Op::Nop);
            return Ok(());
        }
        let [source] = parts(s) else { return Err("one register expected".into()) };
        let a = self.read(source, ty)?;
        let register = self.passed((number, offset), ty);
        let d = self.operand_of(register);
        self.emit(Op::Mov { ty, d, a });
        Ok(())
    }

    /// `ld.param` of what a call has returned.
    pub(super) fn take_result(
        &mut self,
        opcode: &Opcode<'_>,
        destinations: &[Operand<'_>],
        ty: Ty,
        place: (u32, i64),
    ) -> Result<(), Problem> {
        let returned = self.passed.get(&place).copied().filter(|returned| File::of(returned.ty) == File::of(ty));
        let (Some(returned), [d]) = (returned, destinations) else { return Err(opcode.unsupported()) };
        let (d, a) = (self.write(d, ty)?, self.operand_of(returned));
        self.emit(Op::Mov { ty, d, a });
        Ok(())
    }

    /// Returns the place that an address names, if it is of a call: the number of the parameter and the offset in it.
    pub(super) fn place_in_call(&self, address: &Operand<'_>) -> Option<(u32, i64)> {
        let Operand::Address(Some(name), offset) = address else { return None };
        Some((self.number_in_call(name)?, *offset))
    }

    fn number_in_call(&self, name: &str) -> Option<u32> {
        match self.scopes.find(name)? {
            Symbol::OfCall(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the register of a value that is passed.
    fn passed(&mut self, place: (u32, i64), ty: Ty) -> Register {
        if let Some(&register) = self.passed.get(&place).filter(|register| File::of(register.ty) == File::of(ty)) {
            return register;
        }
        let register = self.new_register(ty);
        self.passed.insert(place, register);
        register
    }

    /// Returns the operand of a call's argument, which must have been passed with this type or be a register.
    fn argument(&mut self, operand: &Operand<'_>, ty: Ty) -> Option<Slot> {
        let Operand::Name(name, 0) = operand else { return self.read(operand, ty).ok() };
        let Some(number) = self.number_in_call(name) else { return self.read(operand, ty).ok() };
        let register = self.passed.get(&(number, 0)).copied().filter(|it| File::of(it.ty) == File::of(ty))?;
        Some(self.operand_of(register))
    }
}
