//! Matrix instructions.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::{exactly, integer, padded};
use crate::program::{Mma, NONE, Op, Slot, Ty, Wgmma};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers matrix instructions. Returns whether the opcode is of this group.
    pub(super) fn tensor(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        match opcode.name {
            "wmma" => self.wmma(opcode, operands)?,
            "ldmatrix" | "stmatrix" => self.matrix_access(opcode, operands)?,
            "mma" => self.mma(opcode, operands)?,
            "wgmma" => self.wgmma(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn matrix_access(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        if !(opcode.take("sync") && opcode.take("aligned") && opcode.take("m8n8") && opcode.take("b16")) {
            return Err(opcode.unsupported());
        }
        let count = opcode.need(|part| match part {
            "x1" => Some(1),
            "x2" => Some(2),
            "x4" => Some(4),
            _ => None,
        })?;
        let transpose = opcode.take("trans");
        let shared = opcode.take_all(&["shared", "shared::cta"]);
        let [first, second] = exactly(operands)?;
        if opcode.name == "ldmatrix" {
            let d = self.write_all(first, Ty::B32)?;
            same(d.len(), usize::from(count))?;
            let addr = self.shared_address(second, shared)?;
            self.emit(Op::LdMatrix { count, transpose, d: padded(&d)?, addr });
        } else {
            let s = self.read_all(second, Ty::B32)?;
            same(s.len(), usize::from(count))?;
            let addr = self.shared_address(first, shared)?;
            self.emit(Op::StMatrix { count, transpose, s: padded(&s)?, addr });
        }
        Ok(())
    }

    fn mma(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        if !(opcode.take("sync") && opcode.take("aligned")) {
            return Err(opcode.unsupported());
        }
        let (m, n, k) = opcode.need(shape)?;
        // These shapes only support A by rows and B by columns.
        if opcode.next() != Some("row") || opcode.next() != Some("col") {
            return Err(opcode.unsupported());
        }
        let (c_ty, b_ty, a_ty, d_ty) = (opcode.ty()?, opcode.element()?, opcode.element()?, opcode.ty()?);
        let counts = fragments((m, n, k), a_ty, b_ty, c_ty).filter(|_| c_ty == d_ty);
        let [a_count, b_count, c_count] = counts.ok_or_else(|| opcode.unsupported())?;
        let [d, a, b, c] = exactly(operands)?;
        let (ab, cd) = if a_ty == Ty::F64 { (Ty::F64, Ty::F64) } else { (Ty::B32, Ty::B32) };
        let (d, a) = (self.write_all(d, cd)?, self.read_all(a, ab)?);
        let (b, c) = (self.read_all(b, ab)?, self.read_all(c, cd)?);
        same(d.len(), c_count)?;
        same(a.len(), a_count)?;
        same(b.len(), b_count)?;
        same(c.len(), c_count)?;
        let (a, b, c, d) = (padded(&a)?, padded(&b)?, padded(&c)?, padded(&d)?);
        self.emit(Op::Mma(Box::new(Mma { m, n: n as u8, k, a_ty, b_ty, c_ty, a, b, c, d })));
        Ok(())
    }

    fn wgmma(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let what = opcode.next();
        if !(opcode.take("sync") && opcode.take("aligned")) {
            return Err(opcode.unsupported());
        }
        match what {
            Some("fence") => self.emit(Op::WgmmaFence),
            Some("commit_group") => self.emit(Op::WgmmaCommit),
            Some("wait_group") => {
                let [groups] = exactly(operands)?;
                self.emit(Op::WgmmaWait { groups: super::asynchronous::count(groups)? });
            }
            Some("mma_async") => self.wgmma_multiply(opcode, operands)?,
            _ => return Err(opcode.unsupported()),
        }
        Ok(())
    }

    fn wgmma_multiply(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let (m, n, k) = opcode.need(shape)?;
        let (b_ty, a_ty, d_ty) = (opcode.element()?, opcode.element()?, opcode.ty()?);
        let expected = match a_ty {
            Ty::F16 | Ty::Bf16 => 16,
            Ty::Tf32 => 8,
            _ => 32,
        };
        let known = match a_ty {
            Ty::F16 | Ty::E4m3 | Ty::E5m2 => matches!(d_ty, Ty::F16 | Ty::F32),
            Ty::Bf16 | Ty::Tf32 => d_ty == Ty::F32,
            Ty::S8 | Ty::U8 => d_ty == Ty::S32,
            _ => false,
        };
        let agree = a_ty == b_ty || a_ty.is_fp8() && b_ty.is_fp8();
        if m != 64 || n == 0 || n > 256 || n % 8 != 0 || k != expected || !agree || !known {
            return Err(opcode.unsupported());
        }
        let [d, a, b, scale_d, flags @ ..] = operands else { return Err("operands expected".into()) };
        let d = self.update_all(d)?;
        same(d.len(), usize::from(n) / if d_ty == Ty::F16 { 4 } else { 2 })?;
        let (a, a_desc) = match a {
            Operand::Vector(_) => {
                let registers = self.read_all(a, Ty::B32)?;
                same(registers.len(), 4)?;
                (padded(&registers)?, NONE)
            }
            _ => ([NONE; 4], self.read(a, Ty::B64)?),
        };
        let b_desc = self.read(b, Ty::B64)?;
        let scale_d = self.read(scale_d, Ty::Pred)?;
        let from_memory = a_desc != NONE;
        let flags = WgmmaFlags::new(a_ty, from_memory, flags)?;
        self.emit(Op::Wgmma(Box::new(Wgmma {
            n,
            k,
            a_ty,
            b_ty,
            d_ty,
            d: d.into_boxed_slice(),
            a,
            a_desc,
            b_desc,
            scale_d,
            negate_a: flags.negate_a,
            negate_b: flags.negate_b,
            transpose_a: flags.transpose_a,
            transpose_b: flags.transpose_b,
        })));
        Ok(())
    }

    /// Resolves accumulators, all of which must be present.
    fn update_all(&mut self, operand: &Operand<'_>) -> Result<Vec<Slot>, Problem> {
        let slots = self.write_all(operand, Ty::B32)?;
        if slots.contains(&NONE) { Err("an accumulator without a register".into()) } else { Ok(slots) }
    }
}

/// The immediates of `wgmma.mma_async`.
#[derive(Default)]
struct WgmmaFlags {
    negate_a: bool,
    negate_b: bool,
    transpose_a: bool,
    transpose_b: bool,
}

impl WgmmaFlags {
    /// Takes the immediates: signs for floats, then whether to transpose 16-bit matrices in memory.
    fn new(ty: Ty, from_memory: bool, operands: &[Operand<'_>]) -> Result<Self, Problem> {
        let signs = if ty.is_float() { 2 } else { 0 };
        let transposes = match ty {
            Ty::F16 | Ty::Bf16 if from_memory => 2,
            Ty::F16 | Ty::Bf16 => 1,
            _ => 0,
        };
        same(operands.len(), signs + transposes)?;
        let mut flags = Self::default();
        if let [a, b, ..] = operands {
            (flags.negate_a, flags.negate_b) = (negates(a)?, negates(b)?);
        }
        match operands.get(signs..) {
            Some([a, b]) => (flags.transpose_a, flags.transpose_b) = (integer(a)? != 0, integer(b)? != 0),
            Some([b]) => flags.transpose_b = integer(b)? != 0,
            _ => {}
        }
        Ok(flags)
    }
}

fn negates(operand: &Operand<'_>) -> Result<bool, Problem> {
    match integer(operand)? {
        1 => Ok(false),
        -1 => Ok(true),
        other => Err(Problem::Syntax(format!("a sign of {other}"))),
    }
}

pub(super) fn same(found: usize, expected: usize) -> Result<(), Problem> {
    if found == expected {
        Ok(())
    } else {
        Err(Problem::Syntax(format!("{expected} registers expected, {found} found")))
    }
}

/// Parses `m16n8k16`.
pub(super) fn shape(part: &str) -> Option<(u8, u16, u8)> {
    let (m, rest) = part.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

/// Returns how many registers A, B and C have, if the multiplication is known.
fn fragments(shape: (u8, u16, u8), a: Ty, b: Ty, c: Ty) -> Option<[usize; 3]> {
    let integer = |ty| matches!(ty, Ty::S8 | Ty::U8);
    let four_bit = |ty| matches!(ty, Ty::S4 | Ty::U4);
    let eight_bit = |ty: Ty| integer(ty) || ty.is_fp8();
    let accumulators = if c == Ty::F16 { 2 } else { 4 };
    let [a_count, b_count, c_count] = match (shape, a) {
        ((8, 8, 4), Ty::F64) => [1, 1, 2],
        ((16, 8, 4), Ty::F64) => [2, 1, 4],
        ((16, 8, 8), Ty::F64) => [4, 2, 4],
        ((16, 8, 8), Ty::F16 | Ty::Bf16) => [2, 1, accumulators],
        ((16, 8, 16), Ty::F16 | Ty::Bf16) => [4, 2, accumulators],
        ((16, 8, 4), Ty::Tf32) => [2, 1, 4],
        ((16, 8, 8), Ty::Tf32) => [4, 2, 4],
        ((16, 8, 16), ty) if eight_bit(ty) => [2, 1, accumulators],
        ((16, 8, 32), ty) if eight_bit(ty) => [4, 2, accumulators],
        ((8, 8, 16), ty) if integer(ty) => [1, 1, 2],
        ((8, 8, 32), ty) if four_bit(ty) => [1, 1, 2],
        ((16, 8, 32), ty) if four_bit(ty) => [2, 1, 4],
        ((16, 8, 64), ty) if four_bit(ty) => [4, 2, 4],
        _ => return None,
    };
    let c_fits = match a {
        Ty::F64 => c == Ty::F64,
        Ty::F16 | Ty::E4m3 | Ty::E5m2 => matches!(c, Ty::F16 | Ty::F32),
        Ty::Bf16 | Ty::Tf32 => c == Ty::F32,
        _ => c == Ty::S32,
    };
    let agree = a == b || integer(a) && integer(b) || four_bit(a) && four_bit(b) || a.is_fp8() && b.is_fp8();
    (c_fits && agree).then_some([a_count, b_count, c_count])
}
