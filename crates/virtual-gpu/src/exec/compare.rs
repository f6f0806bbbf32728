//! Comparisons, selections and conversions on lanes.

use super::alu::lanes32;
use super::env::Env;
use super::lanes::{ALL, LANES, W32, W64, mask_where, w32, w64};
use super::warp::Warp;
use crate::numeric as num;
use crate::program::{Bool, Cmp, Mods, NONE, Op, Round, Slot, Ty};

/// Compares lanes with one function, chosen outside the loop so that the loop vectorises.
#[rustfmt::skip] // it would indent the inner macro further each time
macro_rules! by_cmp {
    ($cmp:expr, $compare:expr, $a:expr, $b:expr, $view:expr) => {{
        macro_rules! with {
            ($constant:expr) => {
                mask_where!(lane => $compare($constant, $view($a.0[lane]), $view($b.0[lane])))
            };
        }
        match $cmp {
            Cmp::Eq => with!(Cmp::Eq),
            Cmp::Ne => with!(Cmp::Ne),
            Cmp::Lt => with!(Cmp::Lt),
            Cmp::Le => with!(Cmp::Le),
            Cmp::Gt => with!(Cmp::Gt),
            Cmp::Ge => with!(Cmp::Ge),
            other => with!(other),
        }
    }};
}

/// Compares two operands in every lane.
#[inline(always)]
fn compare(warp: &Warp, env: &Env<'_>, cmp: Cmp, ty: Ty, ftz: bool, a: Slot, b: Slot) -> u32 {
    if ty.bits() == 64 {
        return compare64(cmp, ty, env.get64(warp, a), env.get64(warp, b));
    }
    let (a, b) = (env.get32(warp, a), env.get32(warp, b));
    match ty {
        Ty::S32 => by_cmp!(cmp, num::compare_s32, a, b, |x: u32| x as i32),
        Ty::U32 | Ty::B32 => by_cmp!(cmp, num::compare_u32, a, b, |x: u32| x),
        Ty::F32 if ftz => by_cmp!(cmp, num::compare_f32, a, b, |x: u32| num::flush(f32::from_bits(x))),
        Ty::F32 => by_cmp!(cmp, num::compare_f32, a, b, f32::from_bits),
        _ => compare_narrow(cmp, ty, a, b),
    }
}

#[inline(never)]
fn compare64(cmp: Cmp, ty: Ty, a: &W64, b: &W64) -> u32 {
    match ty {
        Ty::S64 => by_cmp!(cmp, num::compare_s64, a, b, |x: u64| x as i64),
        Ty::F64 => by_cmp!(cmp, num::compare_f64, a, b, f64::from_bits),
        _ => by_cmp!(cmp, num::compare_u64, a, b, |x: u64| x),
    }
}

#[inline(never)]
fn compare_narrow(cmp: Cmp, ty: Ty, a: &W32, b: &W32) -> u32 {
    match ty {
        Ty::F16 => mask_where!(lane => num::compare_f16(cmp, a.0[lane], b.0[lane])),
        Ty::Bf16 => mask_where!(lane => num::compare_bf16(cmp, a.0[lane], b.0[lane])),
        Ty::S16 | Ty::S8 => {
            let shift = 32 - ty.bits();
            let extend = |x: u32| ((x << shift) as i32) >> shift;
            mask_where!(lane => num::compare_s32(cmp, extend(a.0[lane]), extend(b.0[lane])))
        }
        _ => {
            let narrow = u32::MAX >> (32 - ty.bits());
            mask_where!(lane => num::compare_u32(cmp, a.0[lane] & narrow, b.0[lane] & narrow))
        }
    }
}

fn combined(warp: &Warp, result: u32, combine: Option<Bool>, c: Slot, c_negated: bool) -> u32 {
    let Some(op) = combine else { return result };
    combine_predicates(op, result, warp.predicate_or_not(c, c_negated))
}

/// Computes a boolean operation on predicates.
#[inline(always)]
pub(crate) fn combine_predicates(op: Bool, a: u32, b: u32) -> u32 {
    match op {
        Bool::And => a & b,
        Bool::Or => a | b,
        Bool::Xor => a ^ b,
    }
}

/// `setp`
#[inline(always)]
pub(crate) fn setp(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) {
    let &Op::Setp { cmp, ty, ftz, d, d_not, a, b, combine, c, c_negated } = op else { return };
    if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
        return setp_packed(warp, env, op, mask);
    }
    let result = compare(warp, env, cmp, ty, ftz, a, b);
    let plain = combined(warp, result, combine, c, c_negated);
    let negated = if d_not == NONE { 0 } else { combined(warp, !result, combine, c, c_negated) };
    warp.set_predicate(d, plain, mask);
    warp.set_predicate(d_not, negated, mask);
}

/// The packed form returns a predicate per half.
#[inline(never)]
fn setp_packed(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) {
    let &Op::Setp { cmp, ty, d, d_not, a, b, combine, c, c_negated, .. } = op else { return };
    let (a, b) = (*env.get32(warp, a), *env.get32(warp, b));
    let half = if ty == Ty::F16x2 { Ty::F16 } else { Ty::Bf16 };
    for (slot, shift) in [(d, 0), (d_not, 16)] {
        let result =
            compare_narrow(cmp, half, &lanes32!(|x = a| x >> shift & 0xffff), &lanes32!(|x = b| x >> shift & 0xffff));
        let value = combined(warp, result, combine, c, c_negated);
        warp.set_predicate(slot, value, mask);
    }
}

/// `set`
pub(crate) fn set(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) {
    let &Op::Set { cmp, ty, d_ty, ftz, d, a, b, combine, c, c_negated } = op else { return };
    let value = if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
        let half = if ty == Ty::F16x2 { Ty::F16 } else { Ty::Bf16 };
        let (a, b) = (env.get32(warp, a), env.get32(warp, b));
        let low = compare_narrow(cmp, half, &lanes32!(|x = a| x & 0xffff), &lanes32!(|x = b| x & 0xffff));
        let high = compare_narrow(cmp, half, &lanes32!(|x = a| x >> 16), &lanes32!(|x = b| x >> 16));
        let low = combined(warp, low, combine, c, c_negated);
        let high = combined(warp, high, combine, c, c_negated);
        let one = true_value(half_of(d_ty));
        w32!(lane => ((low >> lane & 1) * (one & 0xffff)) | (((high >> lane & 1) * (one & 0xffff)) << 16))
    } else {
        let result = combined(warp, compare(warp, env, cmp, ty, ftz, a, b), combine, c, c_negated);
        let one = true_value(d_ty);
        w32!(lane => (result >> lane & 1) * one)
    };
    warp.set32(d, &value, mask);
}

fn half_of(ty: Ty) -> Ty {
    match ty {
        Ty::F16x2 => Ty::F16,
        Ty::Bf16x2 => Ty::Bf16,
        other => other,
    }
}

/// The value that `set` writes where the comparison is true.
fn true_value(ty: Ty) -> u32 {
    match ty {
        Ty::F32 => 1f32.to_bits(),
        Ty::F16 => 0x3c00,
        Ty::Bf16 => 0x3f80,
        _ => u32::MAX,
    }
}

/// `selp`
#[inline(always)]
pub(crate) fn selp(warp: &mut Warp, env: &Env<'_>, (ty, d, a, b, p): (Ty, Slot, Slot, Slot, Slot), mask: u32) {
    let p = warp.predicate(p);
    if ty.bits() == 64 {
        let (a, b) = (env.get64(warp, a), env.get64(warp, b));
        let value = w64!(lane => if p >> lane & 1 == 1 { a.0[lane] } else { b.0[lane] });
        warp.set64(d, &value, mask);
    } else {
        let mut value = *env.get32(warp, b);
        value.set(env.get32(warp, a), p);
        warp.set32(d, &value, mask);
    }
}

/// `slct`
pub(crate) fn slct(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) {
    let &Op::Slct { ty, c_ty, ftz, d, a, b, c } = op else { return };
    let c = env.get32(warp, c);
    let p = mask_where!(lane => match c_ty {
        Ty::F32 if ftz => num::flush(f32::from_bits(c.0[lane])) >= 0.0,
        Ty::F32 => f32::from_bits(c.0[lane]) >= 0.0,
        _ => c.0[lane] as i32 >= 0,
    });
    if ty.bits() == 64 {
        let (a, b) = (env.get64(warp, a), env.get64(warp, b));
        let value = w64!(lane => if p >> lane & 1 == 1 { a.0[lane] } else { b.0[lane] });
        warp.set64(d, &value, mask);
    } else {
        let mut value = *env.get32(warp, b);
        value.set(env.get32(warp, a), p);
        warp.set32(d, &value, mask);
    }
}

/// `cvt`
#[inline(always)]
pub(crate) fn cvt(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) {
    let &Op::Cvt { from, to, mods, d, a, b } = op else { return };
    let plain = !mods.sat && !mods.relu && !mods.ftz;
    match (from, to) {
        (Ty::F16, Ty::F32) if plain => {
            let a = env.get32(warp, a);
            let value = lanes32!(|x = a| num::canonical(num::f16_to_f32(x)).to_bits());
            warp.set32(d, &value, mask);
        }
        (Ty::F32, Ty::F16) if plain && mods.round == Round::Nearest => {
            let a = env.get32(warp, a);
            let value = lanes32!(|x = a| num::f32_to_f16(f32::from_bits(x)));
            warp.set32(d, &value, mask);
        }
        (Ty::F32, Ty::F16x2) if plain && mods.round == Round::Nearest => {
            let (a, b) = (env.get32(warp, a), env.get32(warp, b));
            let value =
                lanes32!(|x = a, y = b| num::f32_to_f16(f32::from_bits(x)) << 16 | num::f32_to_f16(f32::from_bits(y)));
            warp.set32(d, &value, mask);
        }
        (Ty::S32, Ty::S64 | Ty::U64) if plain => {
            let a = env.get32(warp, a);
            let value = w64!(lane => i64::from(a.0[lane] as i32) as u64);
            warp.set64(d, &value, mask);
        }
        (Ty::U32, Ty::S64 | Ty::U64) if plain => {
            let a = env.get32(warp, a);
            let value = w64!(lane => u64::from(a.0[lane]));
            warp.set64(d, &value, mask);
        }
        (Ty::U64 | Ty::S64, Ty::U32 | Ty::S32) if plain => {
            let a = env.get64(warp, a);
            let value = w32!(lane => a.0[lane] as u32);
            warp.set32(d, &value, mask);
        }
        _ => cvt_slow(warp, env, (from, to, mods), [d, a, b], mask),
    }
}

#[inline(never)]
fn cvt_slow(warp: &mut Warp, env: &Env<'_>, (from, to, mods): (Ty, Ty, Mods), [d, a, b]: [Slot; 3], mask: u32) {
    let wide_source = from.bits() == 64;
    let source = |slot: Slot, lane: usize| {
        if wide_source { env.get64(warp, slot).0[lane] } else { u64::from(env.get32(warp, slot).0[lane]) }
    };
    let mut result = [0u64; LANES];
    for (lane, value) in result.iter_mut().enumerate() {
        *value = if b == NONE {
            num::convert(from, to, mods, source(a, lane))
        } else {
            num::convert_pack(from, to, mods, source(a, lane), source(b, lane))
        };
    }
    if to.bits() == 64 {
        warp.set64(d, &W64(result), mask);
    } else {
        warp.set32(d, &W32(result.map(|value| value as u32)), mask);
    }
}

/// `isspacep`
pub(crate) fn is_space(warp: &mut Warp, env: &Env<'_>, space: crate::program::Space, d: Slot, a: Slot, mask: u32) {
    use crate::program::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Space};
    let a = env.get64(warp, a);
    let window = |address: u64| match address >> 40 {
        top if top == SHARED_WINDOW >> 40 => Space::Shared,
        top if top == LOCAL_WINDOW >> 40 => Space::Local,
        top if top == PARAM_WINDOW >> 40 => Space::Param,
        _ => Space::Global,
    };
    let wanted = if space == Space::SharedCluster { Space::Shared } else { space };
    let value = mask_where!(lane => window(a.0[lane]) == wanted);
    warp.set_predicate(d, value & ALL, mask);
}
