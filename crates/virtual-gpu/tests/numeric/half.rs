//! f16 and bf16.

use std::sync::LazyLock;

use proptest::prelude::*;
use virtual_gpu::numeric::*;
use virtual_gpu::program::Round;

use super::exact::{Table, order, scaled};

const ROUNDS: [Round; 5] = [Round::Nearest, Round::NearestAway, Round::Zero, Round::Down, Round::Up];

pub static F16: LazyLock<Table> = LazyLock::new(|| Table::new(0x7bff, |h| small_float(h, 10, 15)));
pub static BF16: LazyLock<Table> = LazyLock::new(|| Table::new(0x7f7f, |h| small_float(h, 7, 127)));

/// Returns the value of a finite magnitude, by the definition of its format.
pub fn small_float(bits: u32, fraction_bits: i32, bias: i32) -> f64 {
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let exponent = (bits >> fraction_bits) as i32;
    if exponent == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(exponent - bias) }
}

#[test]
fn every_f16_and_bf16_widens_and_comes_back() {
    for h in 0..0x1_0000 {
        let magnitude = h & 0x7fff;
        let sign = if h & 0x8000 != 0 { -1.0 } else { 1.0 };
        let x = f64::from(f16_to_f32(h | 0xabcd_0000));
        if magnitude < 0x7c00 {
            assert_eq!(x, sign * small_float(magnitude, 10, 15), "{h:#x}");
            assert_eq!(f32_to_f16(x as f32), h);
        } else {
            assert_eq!(x.is_nan(), magnitude > 0x7c00);
            assert_eq!(f32_to_f16(x as f32), if x.is_nan() { 0x7fff } else { h });
        }
        let x = bf16_to_f32(h | 0xabcd_0000);
        assert_eq!(x.to_bits(), h << 16);
        assert_eq!(f32_to_bf16(x), if x.is_nan() { 0x7fff } else { h });
    }
}

/// Calls `f` with every half's value, the midpoint to the next one, and their f32 neighbours, with both signs.
fn around_every_half(infinity: u32, widen: fn(u32) -> f32, mut f: impl FnMut(f32)) {
    for h in 0..infinity {
        let value = widen(h);
        let next = if h + 1 < infinity { widen(h + 1) } else { value + (value - widen(h - 1)) };
        let middle = value + (next - value) / 2.0;
        for x in [value, value.next_up(), middle.next_down(), middle, middle.next_up(), next.next_down(), f32::MAX] {
            f(x);
            f(-x);
        }
    }
}

#[test]
fn f32_rounds_to_f16_in_every_mode() {
    around_every_half(0x7c00, f16_to_f32, |x| {
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        for round in ROUNDS {
            let expected = sign | F16.round_f64(x.into(), round);
            assert_eq!(f32_to_f16_round(x, round), expected, "{x:e} {round:?}");
            assert_eq!(f64_to_f16(x.into(), round), expected, "{x:e} {round:?}");
        }
        assert_eq!(f32_to_f16(x), sign | F16.round_f64(x.into(), Round::Nearest), "{x:e}");
    });
}

#[test]
fn f32_rounds_to_bf16_in_every_mode() {
    around_every_half(0x7f80, bf16_to_f32, |x| {
        if !x.is_finite() {
            return;
        }
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        for round in ROUNDS {
            assert_eq!(f32_to_bf16_round(x, round), sign | BF16.round_f64(x.into(), round), "{x:e} {round:?}");
        }
        assert_eq!(f32_to_bf16(x), sign | BF16.round_f64(x.into(), Round::Nearest), "{x:e}");
    });
}

#[test]
fn f64_rounds_to_f16_only_once() {
    // Just above the midpoint. Through f32 it would become the midpoint and round down to even.
    let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(f64_to_f16(x, Round::Nearest), 0x3c01);
    assert_eq!(f64_to_f16(f64::NAN, Round::Nearest), 0x7fff);
    assert_eq!(f64_to_f16(-1e300, Round::Nearest), 0xfc00);
    assert_eq!(f64_to_f16(f64::MIN_POSITIVE, Round::Up), 1);
}

#[test]
fn tf32_has_13_low_zeros() {
    assert_eq!(f32_to_tf32(1.0 + 2f32.powi(-11), Round::NearestAway), (1.0 + 2f32.powi(-10)).to_bits());
    assert_eq!(f32_to_tf32(1.0 + 2f32.powi(-11), Round::Nearest), 1f32.to_bits());
    assert_eq!(f32_to_tf32(-1.0 - 2f32.powi(-11), Round::Zero), (-1f32).to_bits());
    assert_eq!(f32_to_tf32(f32::MAX, Round::NearestAway), f32::INFINITY.to_bits());
    assert_eq!(f32_to_tf32(f32::MAX, Round::Zero), 0x7f7f_e000);
    assert_eq!(f32_to_tf32(f32::from_bits(0x1fff), Round::Nearest), 0x2000);
    assert_eq!(f32_to_tf32(f32::from_bits(0xffc0_0001), Round::NearestAway), 0xffc0_0000);
    assert_eq!(f32_to_tf32(f32::from_bits(0x7f80_0001), Round::Nearest), 0x7fc0_0000);
}

/// Rounds an exact sum in units of `2^unit` to the nearest half.
fn nearest(table: &Table, sum: i128, unit: i32, zero_sign: u32) -> u32 {
    if sum == 0 {
        return zero_sign;
    }
    let sign = if sum < 0 { 0x8000 } else { 0 };
    sign | table.round(sum < 0, Round::Nearest, |value| order(value, sum.abs(), unit).reverse())
}

fn f16_fma_reference(a: u32, b: u32, c: u32) -> u32 {
    let [x, y, z] = [a, b, c].map(|h| f64::from(f16_to_f32(h)));
    if !(x.is_finite() && y.is_finite() && z.is_finite()) {
        return f32_to_f16((x * y + z) as f32);
    }
    let zero_sign = if (x * y + z).is_sign_negative() { 0x8000 } else { 0 };
    // Midpoints of subnormals are multiples of 2^-25, products of 2^-48.
    nearest(&F16, scaled(x, -24) * scaled(y, -24) + scaled(z, -48), -48, zero_sign)
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn f16_fma_rounds_once(a in 0..0x1_0000_u32, b in 0..0x1_0000_u32, c in 0..0x1_0000_u32) {
        prop_assert_eq!(f16_fma(a, b, c, false, false, false), f16_fma_reference(a, b, c));
    }

    #[test]
    fn f16_fma_rounds_once_near_the_middle(a in 0x3c00..0x4400_u32, b in 0x3c00..0x4400_u32, c in 0..0x2000_u32, s in 0..2_u32) {
        let c = c | (s << 15);
        prop_assert_eq!(f16_fma(a, b, c, false, false, false), f16_fma_reference(a, b, c));
    }

    #[test]
    fn f16_add_and_mul_round_once(a in 0..0x1_0000_u32, b in 0..0x1_0000_u32) {
        prop_assert_eq!(f16_add(a, b, false, false, false), f16_fma_reference(a, 0x3c00, b));
        prop_assert_eq!(f16_sub(a, b ^ 0x8000, false, false, false), f16_fma_reference(a, 0x3c00, b));
        let negative = (a ^ b) & 0x8000;
        prop_assert_eq!(f16_mul(a, b, false, false, false), f16_fma_reference(a, b, negative));
    }

    #[test]
    fn bf16_fma_rounds_once(a in 0x3a00..0x4500_u32, b in 0x3a00..0x4500_u32, c in 0x3500..0x4500_u32, signs in 0..8_u32) {
        let (a, b, c) = (a | (signs & 1) << 15, b | (signs & 2) << 14, c | (signs & 4) << 13);
        let [x, y, z] = [a, b, c].map(|h| scaled(bf16_to_f32(h).into(), -30));
        prop_assert_eq!(bf16_fma(a, b, c, false, false, false), nearest(&BF16, x * y + (z << 30), -60, 0));
    }

    #[test]
    fn bf16_fma_rounds_subnormals_once(a in 0x1d00..0x2180_u32, b in 0x1d00..0x2100_u32, c in 0..0x0300_u32, signs in 0..8_u32) {
        let (a, b, c) = (a | (signs & 1) << 15, b | (signs & 2) << 14, c | (signs & 4) << 13);
        let [x, y] = [a, b].map(|h| scaled(bf16_to_f32(h).into(), -80));
        let z = scaled(bf16_to_f32(c).into(), -160);
        let negative = bf16_fma(a, b, c, false, false, false) & 0x8000;
        // Only the magnitude matters here for values that round to zero.
        prop_assert_eq!(bf16_fma(a, b, c, false, false, false), nearest(&BF16, x * y + z, -160, negative));
        let product = nearest(&BF16, x * y, -160, 0);
        prop_assert_eq!(bf16_mul(a, b, false, false, false), product);
    }
}

#[test]
fn bf16_fma_at_the_ends() {
    let (max, min) = (0x7f7f, 1);
    assert_eq!(bf16_fma(max, max, 0xff80, false, false, false), 0xff80);
    assert_eq!(bf16_fma(max, max, 0, false, false, false), 0x7f80);
    assert_eq!(bf16_fma(max, max, max | 0x8000, false, false, false), 0x7f80);
    assert_eq!(bf16_fma(min, min, max, false, false, false), max);
    assert_eq!(bf16_fma(min, min, 0, false, false, false), 0);
    assert_eq!(bf16_fma(min, min | 0x8000, 0, false, false, false), 0x8000);
    assert_eq!(bf16_fma(0x7f80, 0, 0, false, false, false), 0x7fff);
}

#[test]
fn modifiers_of_halves() {
    let (one, two, minus_one, nan, tiny) = (0x3c00, 0x4000, 0xbc00, 0x7e01, 0x03ff);
    assert_eq!(f16_add(one, one, false, true, false), one, "saturates");
    assert_eq!(f16_add(minus_one, 0, false, true, false), 0);
    assert_eq!(f16_add(nan, 0, false, true, false), 0, "NaN saturates to zero");
    assert_eq!(f16_fma(minus_one, two, 0, false, false, true), 0, "relu");
    assert_eq!(f16_fma(nan, two, 0, false, false, true), 0x7fff, "relu keeps NaN");
    assert_eq!(f16_mul(0x8000, one, false, false, true), 0);
    assert_eq!(f16_add(tiny, tiny, true, false, false), 0, "operands are flushed");
    assert_eq!(f16_mul(0x0400, 0x3800, true, false, false), 0, "results are flushed");
    assert_eq!(f16_mul(0x8400, 0x3800, true, false, false), 0x8000, "with their sign");
    assert_eq!(f16_mul(0x0400, 0x3800, false, false, false), 0x0200);
}

#[test]
fn minimum_and_maximum_of_halves() {
    type Select = fn(u32, u32, bool) -> u32;
    let forms: [(Select, Select, u32); 2] = [(f16_min, f16_max, 0x7c00), (bf16_min, bf16_max, 0x7f80)];
    for (min, max, infinity) in forms {
        let nan = infinity + 1;
        assert_eq!((min(0x8000, 0, false), min(0, 0x8000, false)), (0x8000, 0x8000));
        assert_eq!((max(0x8000, 0, false), max(0, 0x8000, false)), (0, 0));
        assert_eq!((min(nan, 5, false), min(5, nan | 0x8000, false)), (5, 5));
        assert_eq!((max(nan, 0x8005, false), max(0x8005, nan, false)), (0x8005, 0x8005));
        assert_eq!((min(nan, nan, false), max(nan, 5, true), min(5, nan, true)), (0x7fff, 0x7fff, 0x7fff));
        assert_eq!((min(infinity, 7, true), max(infinity | 0x8000, 7, true)), (7, 7));
        assert_eq!((min(0x8001, 0x8002, false), max(0x8001, 0x8002, false)), (0x8002, 0x8001));
    }
    assert_eq!((f16_neg(0x3c00), f16_neg(0x7e00), f16_abs(0xbc00), f16_abs(0xfe00)), (0xbc00, 0x7fff, 0x3c00, 0x7fff));
    assert_eq!((bf16_neg(0x8000), bf16_abs(0xff80), bf16_neg(0xff81)), (0, 0x7f80, 0x7fff));
}

#[test]
fn packed_halves_do_not_touch() {
    assert_eq!(both(0x3c00_4000, 0x4000_3c00, |a, b| f16_sub(a, b, false, false, false)), 0xbc00_3c00);
    assert_eq!(both1(0x3c00_8000, f16_neg), 0xbc00_0000);
    assert_eq!(both3(0x0001_0002, 0x0003_0004, 0x0005_0006, |a, b, c| a * b + c), 0x0008_000e);
}
