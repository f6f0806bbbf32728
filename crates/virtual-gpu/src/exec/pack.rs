//! Packing, bit fields and carry chains: plain integer work that is not in inner loops.

use super::env::Env;
use super::lanes::{LANES, W32, W64, w32, w64};
use super::warp::Warp;
use crate::numeric as num;
use crate::program::{NONE, Op, Slot, Ty};

/// Executes `mov` with vectors, `bfi`, and the instructions with a carry.
pub(crate) fn execute(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) {
    match *op {
        Op::Pack { wide, part_bits, d, parts } => pack(warp, env, (wide, part_bits, d, parts), mask),
        Op::Unpack { wide, part_bits, parts, a } => unpack(warp, env, (wide, part_bits, parts, a), mask),
        Op::Bfi { ty, d, a, b, pos, len } => bfi(warp, env, ty, [d, a, b, pos, len], mask),
        Op::Carry { subtract, ty, d, a, b, carry_in, carry_out } => {
            let carry = if carry_in == NONE { 0 } else { warp.predicate(carry_in) };
            let one = |lane: usize, a: u128, b: u128| {
                let carry = u128::from(carry >> lane & 1);
                if subtract { a.wrapping_sub(b).wrapping_sub(carry) } else { a + b + carry }
            };
            with_carry(warp, env, (ty, [d, a, b, NONE], carry_out), mask, |lane, [a, b, _]| one(lane, a, b));
        }
        Op::MadCarry { high, ty, d, a, b, c, carry_in, carry_out } => {
            let carry = if carry_in == NONE { 0 } else { warp.predicate(carry_in) };
            let bits = ty.bits();
            let one = |lane: usize, [a, b, c]: [u128; 3]| {
                let product =
                    if high { multiply_high(ty, a, b) } else { a.wrapping_mul(b) & (u128::MAX >> (128 - bits)) };
                product + c + u128::from(carry >> lane & 1)
            };
            with_carry(warp, env, (ty, [d, a, b, c], carry_out), mask, one);
        }
        _ => {}
    }
}

/// Returns the upper half of a product, as an unsigned number of the type's width.
fn multiply_high(ty: Ty, a: u128, b: u128) -> u128 {
    let (a, b) = (a as u64, b as u64);
    match ty {
        Ty::S32 => num::mul_hi_s32(a as u32, b as u32).into(),
        Ty::S64 => num::mul_hi_s64(a, b).into(),
        _ if ty.bits() == 64 => num::mul_hi_u64(a, b).into(),
        _ => num::mul_hi_u32(a as u32, b as u32).into(),
    }
}

/// Computes per lane in a wider type, and splits the result into the value and the carry (or borrow) above it.
fn with_carry(
    warp: &mut Warp,
    env: &Env<'_>,
    (ty, [d, a, b, c], carry_out): (Ty, [Slot; 4], Slot),
    mask: u32,
    f: impl Fn(usize, [u128; 3]) -> u128,
) {
    let wide = ty.bits() == 64;
    let get = |slot: Slot, lane: usize| -> u128 {
        match (slot == NONE, wide) {
            (true, _) => 0,
            (false, true) => env.get64(warp, slot).0[lane].into(),
            (false, false) => env.get32(warp, slot).0[lane].into(),
        }
    };
    let mut values = [0u64; LANES];
    let mut carries = 0;
    for (lane, value) in values.iter_mut().enumerate() {
        let result = f(lane, [get(a, lane), get(b, lane), get(c, lane)]);
        *value = result as u64;
        carries |= u32::from(result >> ty.bits() & 1 == 1) << lane;
    }
    if wide {
        warp.set64(d, &W64(values), mask);
    } else {
        warp.set32(d, &W32(values.map(|value| value as u32)), mask);
    }
    warp.set_predicate(carry_out, carries, mask);
}

fn pack(warp: &mut Warp, env: &Env<'_>, (wide, part_bits, d, parts): (bool, u8, Slot, [Slot; 4]), mask: u32) {
    let bits = u32::from(part_bits);
    let mut values = [0u64; LANES];
    for (index, &slot) in parts.iter().enumerate().filter(|part| *part.1 != NONE) {
        let part = env.get32(warp, slot);
        for (lane, value) in values.iter_mut().enumerate() {
            *value |= (u64::from(part.0[lane]) & (u64::MAX >> (64 - bits))) << (index as u32 * bits);
        }
    }
    if wide {
        warp.set64(d, &W64(values), mask);
    } else {
        warp.set32(d, &W32(values.map(|value| value as u32)), mask);
    }
}

fn unpack(warp: &mut Warp, env: &Env<'_>, (wide, part_bits, parts, a): (bool, u8, [Slot; 4], Slot), mask: u32) {
    let bits = u32::from(part_bits);
    let whole: [u64; LANES] = if wide { env.get64(warp, a).0 } else { env.get32(warp, a).0.map(u64::from) };
    for (index, &slot) in parts.iter().enumerate().filter(|part| *part.1 != NONE) {
        let part = |lane: usize| (whole[lane] >> (index as u32 * bits) & (u64::MAX >> (64 - bits))) as u32;
        warp.set32(slot, &w32!(lane => part(lane)), mask);
    }
}

fn bfi(warp: &mut Warp, env: &Env<'_>, ty: Ty, [d, a, b, pos, len]: [Slot; 5], mask: u32) {
    let (pos, len) = (env.get32(warp, pos), env.get32(warp, len));
    if ty.bits() == 64 {
        let (a, b) = (env.get64(warp, a), env.get64(warp, b));
        let value = w64!(lane => num::bfi64(a.0[lane], b.0[lane], pos.0[lane], len.0[lane]));
        warp.set64(d, &value, mask);
    } else {
        let (a, b) = (env.get32(warp, a), env.get32(warp, b));
        let value = w32!(lane => num::bfi32(a.0[lane], b.0[lane], pos.0[lane], len.0[lane]));
        warp.set32(d, &value, mask);
    }
}
