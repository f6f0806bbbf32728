//! Arithmetic and logic on integers and floats.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::{exactly, integer};
use crate::program::{Binary, Mods, NONE, Op, Slot, Ternary, Ty, Unary};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers arithmetic. Returns whether the opcode is of this group.
    pub(super) fn arithmetic(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        match opcode.name {
            "add" | "sub" | "addc" | "subc" => self.add(opcode, operands)?,
            "mul" => self.mul(opcode, operands)?,
            "mad" | "madc" | "fma" => self.mad(opcode, operands)?,
            "mul24" | "mad24" => self.mul24(opcode, operands)?,
            "div" => self.binary(Binary::Div, opcode, operands)?,
            "rem" => self.binary(Binary::Rem, opcode, operands)?,
            "min" => self.binary(Binary::Min, opcode, operands)?,
            "max" => self.binary(Binary::Max, opcode, operands)?,
            "shl" => self.shift(Binary::Shl, opcode, operands)?,
            "shr" => self.shift(Binary::Shr, opcode, operands)?,
            "copysign" => self.copysign(opcode, operands)?,
            "sad" => self.ternary(Ternary::Sad, opcode, operands)?,
            "prmt" => self.ternary(Ternary::Prmt, opcode, operands)?,
            "bfe" => self.bfe(opcode, operands)?,
            "bfi" => self.bfi(opcode, operands)?,
            "shf" => self.funnel(opcode, operands)?,
            "lop3" => self.lop3(opcode, operands)?,
            "dp4a" => self.dp4a(opcode, operands)?,
            name => match unary(name) {
                Some(op) => self.unary(op, opcode, operands)?,
                None => return self.logic(opcode, operands),
            },
        }
        Ok(true)
    }

    /// Lowers `and`, `or`, `xor`, `not` of integers. Those of predicates are lowered with the comparisons.
    fn logic(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        let op = match opcode.name {
            "and" => Binary::And,
            "or" => Binary::Or,
            "xor" => Binary::Xor,
            "not" => {
                let ty = opcode.ty()?;
                if ty == Ty::Pred {
                    self.not_predicate(operands)?;
                } else {
                    self.unary_of(Unary::Not, ty, Mods::default(), operands)?;
                }
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let ty = opcode.ty()?;
        if ty == Ty::Pred {
            self.predicates(op, operands)?;
        } else {
            self.binary_of(op, ty, Mods::default(), operands)?;
        }
        Ok(true)
    }

    fn add(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let subtract = opcode.name.starts_with("sub");
        let carries_in = opcode.name.ends_with('c');
        let carries_out = opcode.take("cc");
        if !carries_in && !carries_out {
            return self.binary(if subtract { Binary::Sub } else { Binary::Add }, opcode, operands);
        }
        let ty = opcode.ty()?;
        if ty.is_float() {
            return Err(opcode.unsupported());
        }
        let [d, a, b] = exactly(operands)?;
        let (d, a, b) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, ty)?);
        let (carry_in, carry_out) = self.carries(carries_in, carries_out);
        self.emit(Op::Carry { subtract, ty, d, a, b, carry_in, carry_out });
        Ok(())
    }

    fn carries(&mut self, carries_in: bool, carries_out: bool) -> (Slot, Slot) {
        let mut flag = |used: bool| if used { self.carry() } else { NONE };
        (flag(carries_in), flag(carries_out))
    }

    fn mul(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        match opcode.choose(half) {
            None if opcode.take("wide") => {
                let ty = opcode.ty()?;
                let wide = twice(ty).ok_or_else(|| opcode.unsupported())?;
                let [d, a, b] = exactly(operands)?;
                let (d, a, b) = (self.write(d, wide)?, self.read(a, ty)?, self.read(b, ty)?);
                self.emit(Op::Binary { op: Binary::MulWide, ty, mods: Mods::default(), d, a, b });
                Ok(())
            }
            Some(true) => self.binary(Binary::MulHi, opcode, operands),
            _ => self.binary(Binary::Mul, opcode, operands),
        }
    }

    fn mad(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let carries_in = opcode.name == "madc";
        let carries_out = opcode.take("cc");
        let high = opcode.choose(half);
        if carries_in || carries_out {
            let high = high.ok_or_else(|| opcode.unsupported())?;
            let ty = opcode.ty()?;
            let [d, a, b, c] = exactly(operands)?;
            let (d, a, b, c) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, ty)?, self.read(c, ty)?);
            let (carry_in, carry_out) = self.carries(carries_in, carries_out);
            self.emit(Op::MadCarry { high, ty, d, a, b, c, carry_in, carry_out });
            return Ok(());
        }
        if opcode.take("wide") {
            let ty = opcode.ty()?;
            let wide = twice(ty).ok_or_else(|| opcode.unsupported())?;
            let [d, a, b, c] = exactly(operands)?;
            let (d, a, b, c) = (self.write(d, wide)?, self.read(a, ty)?, self.read(b, ty)?, self.read(c, wide)?);
            self.emit(Op::Ternary { op: Ternary::MadWide, ty, mods: Mods::default(), d, a, b, c });
            return Ok(());
        }
        self.ternary(if high == Some(true) { Ternary::MadHi } else { Ternary::Mad }, opcode, operands)
    }

    fn mul24(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        if !opcode.take("lo") {
            return Err(opcode.unsupported());
        }
        match opcode.name {
            "mul24" => self.binary(Binary::Mul24, opcode, operands),
            _ => self.ternary(Ternary::Mad24, opcode, operands),
        }
    }

    fn unary(&mut self, op: Unary, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let op = match op {
            Unary::Bfind { .. } => Unary::Bfind { shift: opcode.take("shiftamt") },
            op => op,
        };
        let mods = opcode.mods();
        let ty = opcode.ty()?;
        self.unary_of(op, ty, mods, operands)
    }

    fn unary_of(&mut self, op: Unary, ty: Ty, mods: Mods, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let [d, a] = exactly(operands)?;
        let counts = matches!(op, Unary::Popc | Unary::Clz | Unary::Bfind { .. });
        let (d, a) = (self.write(d, if counts { Ty::U32 } else { ty })?, self.read(a, ty)?);
        self.emit(Op::Unary { op, ty, mods, d, a });
        Ok(())
    }

    fn binary(&mut self, op: Binary, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let mods = opcode.mods();
        let ty = opcode.ty()?;
        self.binary_of(op, ty, mods, operands)
    }

    fn binary_of(&mut self, op: Binary, ty: Ty, mods: Mods, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let [d, a, b] = exactly(operands)?;
        let (d, a, b) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, ty)?);
        self.emit(Op::Binary { op, ty, mods, d, a, b });
        Ok(())
    }

    /// Lowers `copysign d, a, b`: b with the sign of a.
    fn copysign(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        self.binary(Binary::Copysign, opcode, operands)
    }

    fn shift(&mut self, op: Binary, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ty = opcode.ty()?;
        let [d, a, b] = exactly(operands)?;
        let (d, a, b) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, Ty::U32)?);
        self.emit(Op::Binary { op, ty, mods: Mods::default(), d, a, b });
        Ok(())
    }

    fn ternary(&mut self, op: Ternary, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let mods = opcode.mods();
        let ty = opcode.ty()?;
        self.ternary_of(op, ty, mods, operands)
    }

    fn ternary_of(&mut self, op: Ternary, ty: Ty, mods: Mods, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let [d, a, b, c] = exactly(operands)?;
        let (d, a, b, c) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, ty)?, self.read(c, ty)?);
        self.emit(Op::Ternary { op, ty, mods, d, a, b, c });
        Ok(())
    }

    fn bfe(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ty = opcode.ty()?;
        let [d, a, b, c] = exactly(operands)?;
        let (d, a, b, c) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, Ty::U32)?, self.read(c, Ty::U32)?);
        self.emit(Op::Ternary { op: Ternary::Bfe, ty, mods: Mods::default(), d, a, b, c });
        Ok(())
    }

    fn bfi(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ty = opcode.ty()?;
        let [d, a, b, pos, len] = exactly(operands)?;
        let (d, a, b) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, ty)?);
        let (pos, len) = (self.read(pos, Ty::U32)?, self.read(len, Ty::U32)?);
        self.emit(Op::Bfi { ty, d, a, b, pos, len });
        Ok(())
    }

    fn funnel(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let left = opcode.need(|part| choice(part, "l", "r"))?;
        let wrap = opcode.need(|part| choice(part, "wrap", "clamp"))?;
        self.ternary(Ternary::Funnel { left, wrap }, opcode, operands)
    }

    fn lop3(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ty = opcode.ty()?;
        let [d, a, b, c, table] = exactly(operands)?;
        let table = u8::try_from(integer(table)?).map_err(|_| Problem::from("a truth table beyond 255"))?;
        self.ternary_of(Ternary::Lop3(table), ty, Mods::default(), &[d.clone(), a.clone(), b.clone(), c.clone()])
    }

    fn dp4a(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let b_signed = opcode.ty()?.is_signed();
        let a_signed = opcode.ty()?.is_signed();
        let ty = if a_signed || b_signed { Ty::S32 } else { Ty::U32 };
        self.ternary_of(Ternary::Dp4a { a_signed, b_signed }, ty, Mods::default(), operands)
    }
}

/// Returns whether `part` is `yes` (true) or `no` (false).
pub(super) fn choice(part: &str, yes: &str, no: &str) -> Option<bool> {
    if part == yes { Some(true) } else { (part == no).then_some(false) }
}

fn half(part: &str) -> Option<bool> {
    choice(part, "hi", "lo")
}

fn twice(ty: Ty) -> Option<Ty> {
    Some(match ty {
        Ty::U16 => Ty::U32,
        Ty::S16 => Ty::S32,
        Ty::U32 => Ty::U64,
        Ty::S32 => Ty::S64,
        _ => return None,
    })
}

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        "neg" => Unary::Neg,
        "abs" => Unary::Abs,
        "cnot" => Unary::Cnot,
        "popc" => Unary::Popc,
        "clz" => Unary::Clz,
        "bfind" => Unary::Bfind { shift: false },
        "brev" => Unary::Brev,
        "sqrt" => Unary::Sqrt,
        "rcp" => Unary::Rcp,
        "rsqrt" => Unary::Rsqrt,
        "ex2" => Unary::Ex2,
        "lg2" => Unary::Lg2,
        "sin" => Unary::Sin,
        "cos" => Unary::Cos,
        "tanh" => Unary::Tanh,
        _ => return None,
    })
}
