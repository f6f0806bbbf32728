//! Comparisons, selections and logic on predicates.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::exactly;
use crate::program::visit::File;
use crate::program::{Binary, Bool, Cmp, Constant, Mods, NONE, Op, Slot, TRUE, Ty, Unary};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

/// The common part of `setp` and `set`.
struct Comparison {
    cmp: Cmp,
    combine: Option<Bool>,
    ftz: bool,
}

impl Lowerer<'_> {
    /// Lowers comparisons and selections. Returns whether the opcode is of this group.
    pub(super) fn compare(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        match opcode.name {
            "setp" => self.setp(opcode, operands)?,
            "set" => self.set(opcode, operands)?,
            "selp" => self.selp(opcode, operands)?,
            "slct" => self.slct(opcode, operands)?,
            "testp" => self.testp(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn setp(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let comparison = comparison(opcode)?;
        let ty = opcode.ty()?;
        let (operands, last) = third(operands, comparison.combine)?;
        let [d, a, b] = exactly(operands)?;
        let (d, d_not) = self.write_pair(d, Ty::Pred)?;
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        let (c, c_negated) = self.combined(last)?;
        let Comparison { cmp, combine, ftz } = comparison;
        self.emit(Op::Setp { cmp, ty, ftz, d, d_not, a, b, combine, c, c_negated });
        Ok(())
    }

    fn set(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let comparison = comparison(opcode)?;
        let ty = opcode.ty()?;
        let d_ty = opcode.ty()?;
        let (operands, last) = third(operands, comparison.combine)?;
        let [d, a, b] = exactly(operands)?;
        let (d, a, b) = (self.write(d, d_ty)?, self.read(a, ty)?, self.read(b, ty)?);
        let (c, c_negated) = self.combined(last)?;
        let Comparison { cmp, combine, ftz } = comparison;
        self.emit(Op::Set { cmp, ty, d_ty, ftz, d, a, b, combine, c, c_negated });
        Ok(())
    }

    fn combined(&mut self, operand: Option<&Operand<'_>>) -> Result<(Slot, bool), Problem> {
        operand.map_or(Ok((NONE, false)), |operand| self.read_predicate(operand))
    }

    fn selp(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ty = opcode.ty()?;
        let [d, a, b, p] = exactly(operands)?;
        let (d, mut a, mut b) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, ty)?);
        let (p, negated) = self.read_predicate(p)?;
        if negated {
            std::mem::swap(&mut a, &mut b);
        }
        self.emit(Op::Selp { ty, d, a, b, p });
        Ok(())
    }

    fn slct(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let ftz = opcode.take("ftz");
        let c_ty = opcode.ty()?;
        let ty = opcode.ty()?;
        if !matches!(c_ty, Ty::S32 | Ty::F32) {
            return Err(opcode.unsupported());
        }
        let [d, a, b, c] = exactly(operands)?;
        let (d, a, b, c) = (self.write(d, ty)?, self.read(a, ty)?, self.read(b, ty)?, self.read(c, c_ty)?);
        self.emit(Op::Slct { ty, c_ty, ftz, d, a, b, c });
        Ok(())
    }

    /// Lowers `testp`, which is one comparison; for infinities, of the absolute value.
    fn testp(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let (cmp, of_infinity) = opcode.need(|part| {
            Some(match part {
                "number" => (Cmp::Num, false),
                "notanumber" => (Cmp::Nan, false),
                "finite" => (Cmp::Lt, true),
                "infinite" => (Cmp::Eq, true),
                _ => return None,
            })
        })?;
        let ty = opcode.ty()?;
        if !matches!(ty, Ty::F32 | Ty::F64) {
            return Err(opcode.unsupported());
        }
        let [d, a] = exactly(operands)?;
        let absolute = self.temporary(ty);
        if of_infinity {
            let (d, a) = (self.operand_of(absolute), self.read(a, ty)?);
            self.emit(Op::Unary { op: Unary::Abs, ty, mods: Mods::default(), d, a });
        }
        let d = self.write(d, Ty::Pred)?;
        let (a, b) = if of_infinity {
            let infinity = if ty == Ty::F32 { u64::from(f32::INFINITY.to_bits()) } else { f64::INFINITY.to_bits() };
            (self.operand_of(absolute), self.constant(File::of(ty), Constant::Bits(infinity))?)
        } else {
            (self.read(a, ty)?, self.read(a, ty)?)
        };
        self.emit(Op::Setp { cmp, ty, ftz: false, d, d_not: NONE, a, b, combine: None, c: NONE, c_negated: false });
        Ok(())
    }

    /// Lowers `and.pred` and similar operations.
    pub(super) fn predicates(&mut self, op: Binary, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let [d, a, b] = exactly(operands)?;
        let (d, a, b) = (self.write(d, Ty::Pred)?, self.read(a, Ty::Pred)?, self.read(b, Ty::Pred)?);
        let op = match op {
            Binary::And => Bool::And,
            Binary::Or => Bool::Or,
            _ => Bool::Xor,
        };
        self.emit(Op::Pred { op, d, a, b });
        Ok(())
    }

    /// Lowers `not.pred`.
    pub(super) fn not_predicate(&mut self, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let [d, a] = exactly(operands)?;
        let (d, a) = (self.write(d, Ty::Pred)?, self.read(a, Ty::Pred)?);
        self.emit(Op::Pred { op: Bool::Xor, d, a, b: TRUE });
        Ok(())
    }
}

/// Splits off the final predicate of a comparison with a boolean operation.
fn third<'o, 'a>(
    operands: &'o [Operand<'a>],
    combine: Option<Bool>,
) -> Result<(&'o [Operand<'a>], Option<&'o Operand<'a>>), Problem> {
    match (combine, operands.split_last()) {
        (None, _) => Ok((operands, None)),
        (Some(_), Some((last, rest))) => Ok((rest, Some(last))),
        (Some(_), None) => Err("operands expected".into()),
    }
}

fn is_unsigned(ty: Ty) -> bool {
    matches!(ty, Ty::U16 | Ty::U32 | Ty::U64)
}

fn comparison(opcode: &mut Opcode<'_>) -> Result<Comparison, Problem> {
    let name = opcode.next().unwrap_or_default();
    let cmp = cmp(name).ok_or_else(|| opcode.unsupported())?;
    // From here on, only the type distinguishes comparisons of unsigned numbers.
    if matches!(name, "lo" | "ls" | "hi" | "hs") && !opcode.peek_type().is_some_and(is_unsigned) {
        return Err(opcode.unsupported());
    }
    let combine = opcode.choose(boolean);
    Ok(Comparison { cmp, combine, ftz: opcode.take("ftz") })
}

/// Returns the boolean operation that a modifier names.
pub(super) fn boolean(part: &str) -> Option<Bool> {
    Some(match part {
        "and" => Bool::And,
        "or" => Bool::Or,
        "xor" => Bool::Xor,
        _ => return None,
    })
}

fn cmp(part: &str) -> Option<Cmp> {
    Some(match part {
        "eq" => Cmp::Eq,
        "ne" => Cmp::Ne,
        "lt" | "lo" => Cmp::Lt,
        "le" | "ls" => Cmp::Le,
        "gt" | "hi" => Cmp::Gt,
        "ge" | "hs" => Cmp::Ge,
        "equ" => Cmp::Equ,
        "neu" => Cmp::Neu,
        "ltu" => Cmp::Ltu,
        "leu" => Cmp::Leu,
        "gtu" => Cmp::Gtu,
        "geu" => Cmp::Geu,
        "num" => Cmp::Num,
        "nan" => Cmp::Nan,
        _ => return None,
    })
}
