//! f32 and f64: rounding modes, minimum, maximum, special values.

use proptest::prelude::*;
use virtual_gpu::numeric::*;
use virtual_gpu::program::{Cmp, Round};

use super::exact::{Steps, assert_rounded, order, scaled};

const DIRECTED: [Round; 3] = [Round::Zero, Round::Down, Round::Up];
const F32_STEPS: Steps<f32> = (f32::next_up, f32::next_down);
const F64_STEPS: Steps<f64> = (f64::next_up, f64::next_down);

/// f32 of any sign whose exponent is in the range.
fn f32_in(exponents: std::ops::Range<i32>) -> impl Strategy<Value = f32> {
    (any::<bool>(), exponents, 0..0x80_0000_u32, 0..4_u32).prop_map(|(negative, exponent, fraction, shape)| {
        // Sparse fractions make exact results, which must stay unchanged.
        let fraction = if shape == 0 { fraction & 0x70_0000 } else { fraction };
        f32::from_bits((u32::from(negative) << 31) | (((exponent + 127) as u32) << 23) | fraction)
    })
}

fn f64_in(exponents: std::ops::Range<i32>) -> impl Strategy<Value = f64> {
    (any::<bool>(), exponents, 0..1_u64 << 52, 0..4_u32).prop_map(|(negative, exponent, fraction, shape)| {
        let fraction = if shape == 0 { fraction & (7 << 49) } else { fraction };
        f64::from_bits((u64::from(negative) << 63) | (((exponent + 1023) as u64) << 52) | fraction)
    })
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn f32_sums_are_rounded_as_said(a in f32_in(-20..17), b in f32_in(-20..17), c in f32_in(-30..30)) {
        let [x, y, z] = [a, b, c].map(|x| scaled(x.into(), -60));
        for round in DIRECTED {
            assert_rounded(f32_add_round(a, b, round), round, F32_STEPS, |v| order(v, x + y, -60));
            assert_rounded(f32_sub_round(a, b, round), round, F32_STEPS, |v| order(v, x - y, -60));
            let product = scaled(a.into(), -44) * scaled(b.into(), -44);
            assert_rounded(f32_mul_round(a, b, round), round, F32_STEPS, |v| order(v, product, -88));
            assert_rounded(f32_fma_round(a, b, c, round), round, F32_STEPS, |v| order(v, product + (z << 28), -88));
        }
        prop_assert_eq!(f32_fma_round(a, b, c, Round::Nearest), a.mul_add(b, c));
        prop_assert_eq!(f32_add_round(a, b, Round::Nearest), a + b);
    }

    #[test]
    fn subnormal_f32_products_are_rounded_as_said(a in f32_in(-75..-60), b in f32_in(-75..-60), c in f32_in(-126..-124)) {
        let product = scaled(a.into(), -98) * scaled(b.into(), -98);
        for round in DIRECTED {
            assert_rounded(f32_mul_round(a, b, round), round, F32_STEPS, |v| order(v, product, -196));
            let sum = product + scaled(c.into(), -196);
            assert_rounded(f32_fma_round(a, b, c, round), round, F32_STEPS, |v| order(v, sum, -196));
        }
        prop_assert_eq!(f32_fma_round(a, b, c, Round::Nearest), a.mul_add(b, c));
        prop_assert_eq!(f32_mul_round(a, b, Round::Nearest), a * b);
    }

    #[test]
    fn f32_quotients_and_roots_are_rounded_as_said(a in f32_in(-10..10), b in f32_in(-10..10)) {
        for round in DIRECTED {
            // Comparing v with a / b means comparing v * b with a, reversed if b is negative.
            let quotient = |v: f64| {
                let order = (scaled(v, -50) * scaled(b.into(), -33)).cmp(&scaled(a.into(), -83));
                if b < 0.0 { order.reverse() } else { order }
            };
            assert_rounded(f32_div_round(a, b, round), round, F32_STEPS, quotient);
            prop_assert_eq!(f32_rcp_round(b, round), f32_div_round(1.0, b, round));
            let root = |v: f64| (scaled(v, -40) * scaled(v, -40)).cmp(&scaled(a.abs().into(), -80));
            assert_rounded(f32_sqrt_round(a.abs(), round), round, F32_STEPS, root);
        }
        prop_assert_eq!(f32_div_round(a, b, Round::Nearest), a / b);
        prop_assert_eq!(f32_sqrt_round(a.abs(), Round::Nearest), a.abs().sqrt());
    }

    #[test]
    fn f64_results_are_rounded_as_said(a in f64_in(-3..3), b in f64_in(-3..3), c in f64_in(-8..8)) {
        let [x, y] = [a, b].map(|x| scaled(x, -60));
        let product = scaled(a, -55) * scaled(b, -55);
        for round in DIRECTED {
            assert_rounded(f64_add_round(a, b, round), round, F64_STEPS, |v| order(v, x + y, -60));
            assert_rounded(f64_sub_round(a, b, round), round, F64_STEPS, |v| order(v, x - y, -60));
            assert_rounded(f64_mul_round(a, b, round), round, F64_STEPS, |v| order(v, product, -110));
            let sum = product + scaled(c, -110);
            assert_rounded(f64_fma_round(a, b, c, round), round, F64_STEPS, |v| order(v, sum, -110));
            let quotient = |v: f64| {
                let order = (scaled(v, -60) * scaled(b, -56)).cmp(&scaled(a, -116));
                if b < 0.0 { order.reverse() } else { order }
            };
            assert_rounded(f64_div_round(a, b, round), round, F64_STEPS, quotient);
            let root = |v: f64| (scaled(v, -56) * scaled(v, -56)).cmp(&scaled(a.abs(), -112));
            assert_rounded(f64_sqrt_round(a.abs(), round), round, F64_STEPS, root);
        }
    }

    #[test]
    fn f64_bounds_enclose_any_result(a in any::<f64>(), b in any::<f64>(), c in any::<f64>()) {
        let close = |down: f64, near: f64, up: f64| {
            down <= near && near <= up && (down == up || down.next_up() == up) || near.is_nan()
        };
        let (down, up) = (Round::Down, Round::Up);
        prop_assert!(close(f64_add_round(a, b, down), a + b, f64_add_round(a, b, up)));
        prop_assert!(close(f64_mul_round(a, b, down), a * b, f64_mul_round(a, b, up)));
        prop_assert!(close(f64_fma_round(a, b, c, down), a.mul_add(b, c), f64_fma_round(a, b, c, up)));
        prop_assert!(close(f64_div_round(a, b, down), a / b, f64_div_round(a, b, up)));
    }
}

#[test]
fn directed_rounding_at_the_ends() {
    let (max, tiny) = (f32::MAX, f32::from_bits(1));
    assert_eq!(f32_add_round(max, max, Round::Zero), max);
    assert_eq!(f32_add_round(max, max, Round::Down), max);
    assert_eq!(f32_add_round(max, max, Round::Up), f32::INFINITY);
    assert_eq!(f32_mul_round(-max, max, Round::Up), -max);
    assert_eq!(f32_mul_round(tiny, tiny, Round::Up), tiny);
    assert_eq!(f32_mul_round(tiny, -tiny, Round::Up).to_bits(), 0x8000_0000);
    assert_eq!(f32_mul_round(tiny, -tiny, Round::Down), -tiny);
    assert_eq!(f32_add_round(max, tiny, Round::Up), f32::INFINITY);
    assert_eq!(f32_fma_round(1.0, 1.0, tiny, Round::Up), 1f32.next_up());
    assert_eq!(f32_fma_round(1.0, 1.0, -tiny, Round::Zero), 1f32.next_down());
    assert_eq!(f32_add_round(1.0, -1.0, Round::Down).to_bits(), 0x8000_0000);
    assert_eq!(f32_add_round(1.0, -1.0, Round::Up).to_bits(), 0);
    assert_eq!(f32_add_round(0.0, 0.0, Round::Down).to_bits(), 0);
    assert_eq!(f32_sub_round(0.0, 0.0, Round::Down).to_bits(), 0x8000_0000);
    assert_eq!(f32_add_round(f32::INFINITY, -1.0, Round::Down), f32::INFINITY);
    assert!(f32_add_round(f32::INFINITY, f32::NEG_INFINITY, Round::Down).is_nan());
    assert_eq!(f32_rcp_round(0.0, Round::Down), f32::INFINITY);
    assert!(f32_sqrt_round(-1.0, Round::Up).is_nan());
    assert_eq!(f64_to_f32_round(1e300, Round::Zero), max);
    let (max, tiny) = (f64::MAX, f64::from_bits(1));
    assert_eq!(f64_add_round(max, max, Round::Zero), max);
    assert_eq!(f64_mul_round(tiny, -tiny, Round::Down), -tiny);
    assert_eq!(f64_fma_round(max, max, -max, Round::Up), f64::INFINITY);
    assert_eq!(f64_fma_round(max, 2.0, -max, Round::Down), max);
    assert_eq!(f64_add_round(1.0, -tiny, Round::Zero), 1f64.next_down());
    assert_eq!(f64_add_round(1.0, -1.0, Round::Down).to_bits(), 1 << 63);
    assert_eq!(f64_div_round(1.0, 0.0, Round::Down), f64::INFINITY);
    assert_eq!(f64_div_round(tiny, 2.0, Round::Up), tiny);
    assert_eq!(f64_sqrt_round(tiny, Round::Down).powi(2), tiny);
    assert_eq!(f64_rcp_round(3.0, Round::Up), (1f64 / 3.0).next_up());
}

#[test]
fn minimum_maximum_and_modifiers() {
    let nan = f32::from_bits(0xff80_1234);
    assert_eq!(f32_min(-0.0, 0.0, false).to_bits(), 0x8000_0000);
    assert_eq!(f32_max(-0.0, 0.0, false).to_bits(), 0);
    assert_eq!((f32_min(nan, 1.0, false), f32_max(-1.0, nan, false)), (1.0, -1.0));
    assert_eq!(f32_min(nan, nan, false).to_bits(), 0x7fff_ffff);
    assert_eq!(f32_max(1.0, nan, true).to_bits(), 0x7fff_ffff);
    assert_eq!((f32_min(-1.0, -2.0, true), f32_max(-1.0, -2.0, true)), (-2.0, -1.0));
    assert_eq!((f64_min(-0.0, 0.0).to_bits(), f64_max(f64::NAN, 3.0), f64_min(1.0, 2.0)), (1 << 63, 3.0, 1.0));
    let nans = [1, 2].map(|payload| f64::from_bits(0xfff8_0000_0000_0000 | payload));
    assert_eq!(f64_min(nans[0], nans[1]).to_bits(), nans[1].to_bits(), "as measured on an H200");
    assert_eq!(flush(f32::from_bits(0x807f_ffff)).to_bits(), 0x8000_0000);
    assert_eq!(flush(f32::MIN_POSITIVE), f32::MIN_POSITIVE);
    assert_eq!((saturate(nan), saturate(-3.0), saturate(0.25), saturate(7.0)), (0.0, 0.0, 0.25, 1.0));
    assert_eq!((saturate(-0.0).to_bits(), saturate_f64(-0.0).to_bits(), saturate_f64(2.0)), (0, 0, 1.0));
    assert_eq!((canonical(nan).to_bits(), canonical(-1.5)), (0x7fff_ffff, -1.5));
    assert_eq!(fma(2.0, 3.0, 4.0), 10.0);
}

#[test]
fn comparisons_know_nan() {
    use Cmp::*;
    for cmp in [Eq, Ne, Lt, Le, Gt, Ge, Num] {
        assert!(!compare_f32(cmp, f32::NAN, 1.0) && !compare_f64(cmp, 1.0, f64::NAN), "{cmp:?}");
    }
    for cmp in [Equ, Neu, Ltu, Leu, Gtu, Geu, Nan] {
        assert!(
            compare_f32(cmp, f32::NAN, 1.0) && compare_f16(cmp, 0x7e00, 0) && compare_bf16(cmp, 0, 0x7fc0),
            "{cmp:?}"
        );
    }
    for (cmp, expected) in [(Eq, false), (Ne, true), (Lt, true), (Le, true), (Gt, false), (Ge, false), (Num, true)] {
        assert_eq!(compare_f32(cmp, 1.0, 2.0), expected);
        assert_eq!(compare_s32(cmp, -1, 2), expected);
        assert_eq!(compare_u64(cmp, 1, u64::MAX), expected);
        assert_eq!(compare_s64(cmp, i64::MIN, 1), expected);
        assert_eq!(compare_u32(cmp, 1, u32::MAX), expected);
    }
    assert!(compare_f32(Eq, 0.0, -0.0) && compare_f16(Leu, 0x8000, 0) && !compare_f64(Neu, 0.0, -0.0));
}
