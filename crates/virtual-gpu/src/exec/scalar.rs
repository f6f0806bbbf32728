//! Arithmetic on one lane, for every operation and type without a vector form in `alu`.

use crate::numeric as num;
use crate::program::{Binary, Mods, Ternary, Ty, Unary};

/// The bit that makes a NaN of f64 quiet.
const QUIET64: u64 = 1 << 51;

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Returns the bits unchanged: the canonical f64 NaN is the machine's quiet one, and PTX keeps payloads.
fn from_f64(value: f64) -> u64 {
    value.to_bits()
}

fn flushed(mods: Mods, bits: u64) -> f32 {
    if mods.ftz { num::flush(f(bits)) } else { f(bits) }
}

/// Applies the modifiers to a single-precision result.
fn finish(mods: Mods, value: f32) -> u64 {
    let value = if mods.ftz { num::flush(value) } else { value };
    u64::from(num::canonical(if mods.sat { num::saturate(value) } else { value }).to_bits())
}

/// Does [`finish`] for a result that rounding may have lifted to the least normal number. With `.ftz` a `tiny` result
/// becomes zero.
fn finish_lifted(mods: Mods, value: f32, tiny: impl Fn() -> bool) -> u64 {
    let lifted = mods.ftz && value.abs() == f32::MIN_POSITIVE && tiny();
    finish(mods, if lifted { 0.0_f32.copysign(value) } else { value })
}

/// Sign-extends the low bits of an integer type.
fn signed(ty: Ty, bits: u64) -> i64 {
    let unused = 64 - ty.bits();
    ((bits << unused) as i64) >> unused
}

/// Keeps the low bits of an integer type.
fn unsigned(ty: Ty, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - ty.bits()))
}

/// Computes an operation with one source.
pub(crate) fn unary(op: Unary, ty: Ty, mods: Mods, a: u64) -> u64 {
    match ty {
        Ty::F32 => unary_f32(op, mods, a),
        Ty::F64 => unary_f64(op, mods, a),
        Ty::F16 | Ty::Bf16 => u64::from(unary_half(op, ty == Ty::Bf16, mods, a as u32)),
        Ty::F16x2 | Ty::Bf16x2 => u64::from(num::both1(a as u32, |x| unary_half(op, ty == Ty::Bf16x2, mods, x))),
        _ => unary_integer(op, ty, a),
    }
}

fn unary_f32(op: Unary, mods: Mods, a: u64) -> u64 {
    let x = flushed(mods, a);
    let round = mods.round;
    match op {
        Unary::Neg => u64::from(num::canonical(-x).to_bits()),
        Unary::Abs => u64::from(num::canonical(x.abs()).to_bits()),
        Unary::Sqrt if mods.approx => finish(mods, num::sqrt_approx(x, mods.ftz)),
        Unary::Sqrt => finish(mods, num::f32_sqrt_round(x, round)),
        Unary::Rcp if mods.approx => finish(mods, num::rcp_approx(x, mods.ftz)),
        Unary::Rcp => finish_lifted(mods, num::f32_rcp_round(x, round), || num::is_tiny_quotient(1.0, x, round)),
        Unary::Rsqrt => finish(mods, num::rsqrt_approx(x, mods.ftz)),
        Unary::Ex2 => finish(mods, num::ex2_approx(x, mods.ftz)),
        Unary::Lg2 => finish(mods, num::lg2_approx(x, mods.ftz)),
        Unary::Sin => finish(mods, num::sin_approx(x, mods.ftz)),
        Unary::Cos => finish(mods, num::cos_approx(x, mods.ftz)),
        Unary::Tanh => finish(mods, num::tanh_approx(x)),
        Unary::Not | Unary::Cnot | Unary::Popc | Unary::Clz | Unary::Bfind { .. } | Unary::Brev => {
            unary_integer(op, Ty::B32, a)
        }
    }
}

fn unary_f64(op: Unary, mods: Mods, a: u64) -> u64 {
    match op {
        // The machine adds to -0, so a NaN only becomes quiet.
        Unary::Neg | Unary::Abs if d(a).is_nan() => a | QUIET64,
        Unary::Neg => a ^ (1 << 63),
        Unary::Abs => a & !(1 << 63),
        Unary::Sqrt => from_f64(num::f64_sqrt_round(d(a), mods.round)),
        Unary::Rcp if mods.approx => from_f64(num::rcp_approx_ftz_f64(d(a))),
        Unary::Rcp => from_f64(num::f64_rcp_round(d(a), mods.round)),
        Unary::Rsqrt if mods.ftz => from_f64(num::rsqrt_approx_ftz_f64(d(a))),
        Unary::Rsqrt => from_f64(1.0 / d(a).sqrt()),
        _ => unary_integer(op, Ty::B64, a),
    }
}

fn unary_half(op: Unary, bf16: bool, mods: Mods, a: u32) -> u32 {
    match (op, bf16) {
        (Unary::Neg, false) => num::f16_neg(flush_half(mods, a)),
        (Unary::Neg, true) => num::bf16_neg(a),
        (Unary::Abs, false) => num::f16_abs(flush_half(mods, a)),
        (Unary::Abs, true) => num::bf16_abs(a),
        (Unary::Ex2, false) => num::f16_ex2_approx(a, mods.ftz),
        (Unary::Ex2, true) => num::bf16_ex2_approx(a),
        (Unary::Tanh, false) => num::f16_tanh_approx(a),
        (Unary::Tanh, true) => num::bf16_tanh_approx(a),
        _ => unary_integer(op, Ty::B16, u64::from(a)) as u32,
    }
}

/// Flushes a subnormal f16 to zero of the same sign, if asked.
fn flush_half(mods: Mods, a: u32) -> u32 {
    if mods.ftz && a & 0x7c00 == 0 { a & 0x8000 } else { a }
}

fn unary_integer(op: Unary, ty: Ty, a: u64) -> u64 {
    let bits = ty.bits();
    let x = unsigned(ty, a);
    match op {
        Unary::Neg => unsigned(ty, a.wrapping_neg()),
        Unary::Abs => unsigned(ty, signed(ty, a).unsigned_abs()),
        Unary::Not => unsigned(ty, !a),
        Unary::Cnot => u64::from(x == 0),
        Unary::Popc => u64::from(x.count_ones()),
        Unary::Clz => u64::from(x.leading_zeros() - (64 - bits)),
        Unary::Brev => x.reverse_bits() >> (64 - bits),
        Unary::Bfind { shift } => u64::from(match ty {
            Ty::S32 => num::bfind_s32(a as u32, shift),
            Ty::S64 => num::bfind_s64(a, shift),
            _ if bits == 64 => num::bfind_u64(a, shift),
            _ => num::bfind_u32(a as u32, shift),
        }),
        // The loader gives these only a floating-point type.
        Unary::Sqrt | Unary::Rcp | Unary::Rsqrt | Unary::Ex2 | Unary::Lg2 | Unary::Sin | Unary::Cos | Unary::Tanh => x,
    }
}

/// Computes an operation with two sources.
pub(crate) fn binary(op: Binary, ty: Ty, mods: Mods, a: u64, b: u64) -> u64 {
    match ty {
        Ty::F32 => binary_f32(op, mods, a, b),
        Ty::F64 => binary_f64(op, mods, a, b),
        Ty::F16 | Ty::Bf16 => u64::from(binary_half(op, ty == Ty::Bf16, mods, a as u32, b as u32)),
        Ty::F16x2 | Ty::Bf16x2 => {
            u64::from(num::both(a as u32, b as u32, |x, y| binary_half(op, ty == Ty::Bf16x2, mods, x, y)))
        }
        _ => binary_integer(op, ty, mods, a, b),
    }
}

fn binary_f32(op: Binary, mods: Mods, a: u64, b: u64) -> u64 {
    let (x, y, round) = (flushed(mods, a), flushed(mods, b), mods.round);
    let value = match op {
        Binary::Add => num::f32_add_round(x, y, round),
        Binary::Sub => num::f32_sub_round(x, y, round),
        Binary::Mul => {
            return finish_lifted(mods, num::f32_mul_round(x, y, round), || num::is_tiny_fma(x, y, 0.0, round));
        }
        Binary::Div if mods.full => num::div_full(x, y, mods.ftz),
        Binary::Div if mods.approx => num::div_approx(x, y, mods.ftz),
        Binary::Div => {
            return finish_lifted(mods, num::f32_div_round(x, y, round), || num::is_tiny_quotient(x, y, round));
        }
        Binary::Min => num::f32_min(x, y, mods.nan),
        Binary::Max => num::f32_max(x, y, mods.nan),
        // PTX: the sign of the first, the magnitude of the second.
        Binary::Copysign => return u64::from((a as u32 & 0x8000_0000) | (b as u32 & 0x7fff_ffff)),
        _ => return binary_integer(op, Ty::B32, mods, a, b),
    };
    finish(mods, value)
}

fn binary_f64(op: Binary, mods: Mods, a: u64, b: u64) -> u64 {
    let (x, y, round) = (d(a), d(b), mods.round);
    // Of two NaN the machine returns the second.
    if matches!(op, Binary::Add | Binary::Sub | Binary::Mul) && x.is_nan() && y.is_nan() {
        return b | QUIET64;
    }
    from_f64(match op {
        Binary::Add => num::f64_add_round(x, y, round),
        Binary::Sub => num::f64_sub_round(x, y, round),
        Binary::Mul => num::f64_mul_round(x, y, round),
        Binary::Div => num::f64_div_round(x, y, round),
        Binary::Min => num::f64_min(x, y),
        Binary::Max => num::f64_max(x, y),
        Binary::Copysign => return (a & (1 << 63)) | (b & !(1 << 63)),
        _ => return binary_integer(op, Ty::B64, mods, a, b),
    })
}

fn binary_half(op: Binary, bf16: bool, mods: Mods, a: u32, b: u32) -> u32 {
    let Mods { ftz, sat, relu, nan, .. } = mods;
    match (op, bf16) {
        (Binary::Add, false) => num::f16_add(a, b, ftz, sat, relu),
        (Binary::Sub, false) => num::f16_sub(a, b, ftz, sat, relu),
        (Binary::Mul, false) => num::f16_mul(a, b, ftz, sat, relu),
        (Binary::Add, true) => num::bf16_add(a, b, ftz, sat, relu),
        (Binary::Sub, true) => num::bf16_sub(a, b, ftz, sat, relu),
        (Binary::Mul, true) => num::bf16_mul(a, b, ftz, sat, relu),
        (Binary::Min, false) => num::f16_min(flush_half(mods, a), flush_half(mods, b), nan),
        (Binary::Max, false) => num::f16_max(flush_half(mods, a), flush_half(mods, b), nan),
        (Binary::Min, true) => num::bf16_min(a, b, nan),
        (Binary::Max, true) => num::bf16_max(a, b, nan),
        _ => binary_integer(op, Ty::B16, mods, u64::from(a), u64::from(b)) as u32,
    }
}

fn binary_integer(op: Binary, ty: Ty, mods: Mods, a: u64, b: u64) -> u64 {
    let wide = ty.bits() == 64;
    let is_signed = ty.is_signed();
    let (x, y) = (unsigned(ty, a), unsigned(ty, b));
    let (i, j) = (signed(ty, a), signed(ty, b));
    let count = (b as u32).min(64);
    let value = match op {
        Binary::Add if mods.sat => (i + j).clamp(i32::MIN.into(), i32::MAX.into()) as u64,
        Binary::Sub if mods.sat => (i - j).clamp(i32::MIN.into(), i32::MAX.into()) as u64,
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::MulHi if is_signed => ((i128::from(i) * i128::from(j)) >> ty.bits()) as u64,
        Binary::MulHi => ((u128::from(x) * u128::from(y)) >> ty.bits()) as u64,
        // The result is twice as wide. Only 16 bits to 32 get here.
        Binary::MulWide => return if is_signed { (i * j) as u32 as u64 } else { x * y },
        Binary::Div if wide => {
            if is_signed {
                num::div_s64(a, b)
            } else {
                num::div_u64(a, b)
            }
        }
        Binary::Rem if wide => {
            if is_signed {
                num::rem_s64(a, b)
            } else {
                num::rem_u64(a, b)
            }
        }
        Binary::Div => {
            u64::from(if is_signed { num::div_s32(i as u32, j as u32) } else { num::div_u32(x as u32, y as u32) })
        }
        Binary::Rem => {
            u64::from(if is_signed { num::rem_s32(i as u32, j as u32) } else { num::rem_u32(x as u32, y as u32) })
        }
        Binary::Min if is_signed => i.min(j) as u64,
        Binary::Max if is_signed => i.max(j).max(if mods.relu { 0 } else { i64::MIN }) as u64,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => {
            if count >= ty.bits() {
                0
            } else {
                x << count
            }
        }
        Binary::Shr if is_signed => (i >> count.min(63)) as u64,
        Binary::Shr => {
            if count >= ty.bits() {
                0
            } else {
                x >> count
            }
        }
        Binary::Mul24 => {
            u64::from(if is_signed { num::mul24_s32(a as u32, b as u32) } else { num::mul24_u32(a as u32, b as u32) })
        }
        Binary::Copysign => x,
    };
    let value = if mods.relu && matches!(op, Binary::Min) && signed(ty, value) < 0 { 0 } else { value };
    unsigned(ty, value)
}

/// Computes an operation with three sources.
pub(crate) fn ternary(op: Ternary, ty: Ty, mods: Mods, a: u64, b: u64, c: u64) -> u64 {
    match ty {
        Ty::F32 => {
            let (x, y, z) = (flushed(mods, a), flushed(mods, b), flushed(mods, c));
            finish_lifted(mods, num::f32_fma_round(x, y, z, mods.round), || num::is_tiny_fma(x, y, z, mods.round))
        }
        Ty::F64 => from_f64(num::f64_fma_round(d(a), d(b), d(c), mods.round)),
        Ty::F16 | Ty::Bf16 => u64::from(fma_half(ty == Ty::Bf16, mods, a as u32, b as u32, c as u32)),
        Ty::F16x2 | Ty::Bf16x2 => {
            let each = |x, y, z| fma_half(ty == Ty::Bf16x2, mods, x, y, z);
            u64::from(num::both3(a as u32, b as u32, c as u32, each))
        }
        _ => ternary_integer(op, ty, mods, a, b, c),
    }
}

fn fma_half(bf16: bool, mods: Mods, a: u32, b: u32, c: u32) -> u32 {
    let Mods { ftz, sat, relu, .. } = mods;
    if bf16 { num::bf16_fma(a, b, c, ftz, sat, relu) } else { num::f16_fma(a, b, c, ftz, sat, relu) }
}

fn ternary_integer(op: Ternary, ty: Ty, mods: Mods, a: u64, b: u64, c: u64) -> u64 {
    let low = |bits: u64| bits as u32;
    let value = match op {
        Ternary::Mad => a.wrapping_mul(b).wrapping_add(c),
        Ternary::MadHi if mods.sat => (signed(ty, binary_integer(Binary::MulHi, ty, Mods::default(), a, b))
            + signed(ty, c))
        .clamp(i32::MIN.into(), i32::MAX.into()) as u64,
        Ternary::MadHi => binary_integer(Binary::MulHi, ty, mods, a, b).wrapping_add(c),
        // Only 16 bits to 32 get here; wider ones run on 64-bit lanes.
        Ternary::MadWide => return u64::from(low(binary_integer(Binary::MulWide, ty, mods, a, b).wrapping_add(c))),
        Ternary::Sad => {
            let difference = if ty.is_signed() {
                signed(ty, a).abs_diff(signed(ty, b))
            } else {
                unsigned(ty, a).abs_diff(unsigned(ty, b))
            };
            difference.wrapping_add(c)
        }
        Ternary::Prmt => u64::from(num::prmt(low(a), low(b), low(c))),
        Ternary::Bfe => match ty {
            Ty::S32 => u64::from(num::bfe_s32(low(a), low(b), low(c))),
            Ty::U64 | Ty::B64 => num::bfe_u64(a, low(b), low(c)),
            Ty::S64 => num::bfe_s64(a, low(b), low(c)),
            _ => u64::from(num::bfe_u32(low(a), low(b), low(c))),
        },
        Ternary::Funnel { left: true, wrap } => u64::from(num::funnel_left(low(a), low(b), low(c), wrap)),
        Ternary::Funnel { left: false, wrap } => u64::from(num::funnel_right(low(a), low(b), low(c), wrap)),
        Ternary::Lop3(table) => u64::from(num::lop3(low(a), low(b), low(c), table)),
        Ternary::Dp4a { a_signed, b_signed } => u64::from(num::dp4a(low(a), low(b), low(c), a_signed, b_signed)),
        Ternary::Mad24 => binary_integer(Binary::Mul24, ty, mods, a, b).wrapping_add(c),
    };
    unsigned(ty, value)
}
