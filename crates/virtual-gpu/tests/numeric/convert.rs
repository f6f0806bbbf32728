//! Every form of `cvt`.

use proptest::prelude::*;
use virtual_gpu::numeric::*;
use virtual_gpu::program::{Mods, Round, Ty};

use super::exact::{Table, assert_rounded, order};
use super::half::small_float;

const INTEGERS: [Ty; 8] = [Ty::U8, Ty::S8, Ty::U16, Ty::S16, Ty::U32, Ty::S32, Ty::U64, Ty::S64];

fn rounded(round: Round) -> Mods {
    Mods { round, ..Mods::default() }
}

/// Reads an integer of a type from the low bits.
fn value(ty: Ty, bits: u64) -> i128 {
    match ty {
        Ty::U8 => (bits as u8).into(),
        Ty::S8 => (bits as i8).into(),
        Ty::U16 => (bits as u16).into(),
        Ty::S16 => (bits as i16).into(),
        Ty::U32 => (bits as u32).into(),
        Ty::S32 => (bits as i32).into(),
        Ty::U64 => bits.into(),
        _ => (bits as i64).into(),
    }
}

/// The contents of a register: 32 bits, extended according to the type, or 64.
fn register(ty: Ty, value: i128) -> u64 {
    if ty.bits() == 64 { value as u64 } else { (value as u32).into() }
}

fn limits(ty: Ty) -> (i128, i128) {
    let bits = ty.bits();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn f32_bits(x: f32) -> u64 {
    x.to_bits().into()
}

/// Rounds a float as `cvt` to an integer does.
fn to_integral(x: f64, round: Round) -> f64 {
    match round {
        Round::IntegerNearest => x.round_ties_even(),
        Round::IntegerDown => x.floor(),
        Round::IntegerUp => x.ceil(),
        _ => x.trunc(),
    }
}

const TO_INTEGER: [Round; 4] = [Round::IntegerNearest, Round::IntegerDown, Round::IntegerUp, Round::IntegerZero];

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn integers_to_integers(bits in prop_oneof![any::<u64>(), any::<u16>().prop_map(u64::from), any::<i16>().prop_map(|x| x as u64)]) {
        for from in INTEGERS {
            for to in INTEGERS {
                let x = value(from, bits);
                let (least, greatest) = limits(to);
                prop_assert_eq!(convert(from, to, Mods::default(), bits), register(to, value(to, x as u64)), "{:?} {:?}", from, to);
                let clamped = Mods { sat: true, ..Mods::default() };
                prop_assert_eq!(convert(from, to, clamped, bits), register(to, x.clamp(least, greatest)), "{:?} {:?}", from, to);
            }
        }
    }

    #[test]
    fn integers_to_floats(bits in any::<u64>(), shift in 0..64_u32) {
        let bits = bits >> shift;
        for from in INTEGERS {
            let x = value(from, bits);
            prop_assert_eq!(convert(from, Ty::F32, Mods::default(), bits), f32_bits(x as f32));
            prop_assert_eq!(convert(from, Ty::F64, Mods::default(), bits), (x as f64).to_bits());
            let half = u64::from(f64_to_f16(x as f64, Round::Nearest));
            prop_assert!(x.abs() >= 1 << 53 || convert(from, Ty::F16, Mods::default(), bits) == half);
            for round in [Round::Down, Round::Up, Round::Zero] {
                let result = f32::from_bits(convert(from, Ty::F32, rounded(round), bits) as u32);
                assert_rounded(result, round, (f32::next_up, f32::next_down), |v| order(v, x, 0));
                let result = f64::from_bits(convert(from, Ty::F64, rounded(round), bits));
                assert_rounded(result, round, (f64::next_up, f64::next_down), |v| order(v, x, 0));
            }
        }
    }

    #[test]
    fn floats_to_integers(bits in any::<u64>(), small in -300.0..300.0_f64, big in -2e19..2e19_f64) {
        let halves = (f64::from(small as i32) / 2.0, f64::from(big as f32));
        for x in [f64::from_bits(bits), small, big, halves.0, halves.1] {
            for to in INTEGERS {
                let (least, greatest) = limits(to);
                for round in TO_INTEGER {
                    let clamp = |x: f64| register(to, (to_integral(x, round) as i128).clamp(least, greatest));
                    if !x.is_nan() {
                        prop_assert_eq!(convert(Ty::F64, to, rounded(round), x.to_bits()), clamp(x), "{} {:?} {:?}", x, to, round);
                        let single = x as f32;
                        prop_assert_eq!(convert(Ty::F32, to, rounded(round), f32_bits(single)), clamp(single.into()));
                        let half = f32_to_f16(single);
                        prop_assert_eq!(convert(Ty::F16, to, rounded(round), half.into()), clamp(f16_to_f32(half).into()));
                    }
                }
            }
        }
    }

    #[test]
    fn floats_to_floats(bits in any::<u64>(), x in any::<f32>(), small in -10.0..10.0_f64) {
        let wide = f64::from_bits(bits);
        for round in [Round::Nearest, Round::Zero, Round::Down, Round::Up] {
            for x in [wide, f64::from(x), small, f64::from(x) * (1.0 + 1e-12), f64::from(x) * 1e-20] {
                let expected = f64_to_f32_round(x, round);
                prop_assert!(x.is_nan() || convert(Ty::F64, Ty::F32, rounded(round), x.to_bits()) == f32_bits(expected));
            }
            prop_assert_eq!(convert(Ty::F32, Ty::F64, rounded(round), f32_bits(x)), f64::from(x).to_bits());
            prop_assert_eq!(convert(Ty::F32, Ty::Tf32, rounded(round), f32_bits(x)), u64::from(f32_to_tf32(x, round)));
        }
        for round in TO_INTEGER {
            let single = small as f32;
            let expected = to_integral(single.into(), round) as f32;
            prop_assert_eq!(convert(Ty::F32, Ty::F32, rounded(round), f32_bits(single)), f32_bits(expected));
            prop_assert_eq!(convert(Ty::F64, Ty::F64, rounded(round), small.to_bits()), to_integral(small, round).to_bits());
        }
    }
}

#[test]
fn halves_widen_to_the_same_number() {
    for h in 0..0x1_0000 {
        let x = f16_to_f32(h);
        if !x.is_nan() {
            assert_eq!(convert(Ty::F16, Ty::F32, Mods::default(), h.into()), f32_bits(x));
            assert_eq!(convert(Ty::F16, Ty::F64, Mods::default(), h.into()), f64::from(x).to_bits());
            assert_eq!(convert(Ty::F16, Ty::F16, Mods::default(), h.into()), u64::from(h));
            assert_eq!(convert(Ty::F16, Ty::Bf16, Mods::default(), h.into()), u64::from(f32_to_bf16(x)));
        }
        let y = bf16_to_f32(h);
        if !y.is_nan() {
            assert_eq!(convert(Ty::Bf16, Ty::F32, Mods::default(), h.into()), f32_bits(y));
        }
    }
}

#[test]
fn nan_to_integers_is_as_the_isa_says() {
    let convert_nan = |from, to| convert(from, to, rounded(Round::IntegerZero), u64::MAX >> (64 - from.bits()));
    for from in [Ty::F16, Ty::Bf16, Ty::F32] {
        for to in [Ty::U8, Ty::S16, Ty::U32, Ty::S32] {
            assert_eq!(convert_nan(from, to), 0);
        }
        assert_eq!((convert_nan(from, Ty::U64), convert_nan(from, Ty::S64)), (1 << 63, 1 << 63));
    }
    assert_eq!((convert_nan(Ty::F64, Ty::S32), convert_nan(Ty::F64, Ty::U32)), (0x8000_0000, 0x8000_0000));
    assert_eq!((convert_nan(Ty::F64, Ty::U64), convert_nan(Ty::F64, Ty::U16)), (1 << 63, 0x8000));
}

/// Operands and results, as returned by an H200.
#[test]
fn nan_to_floats_is_as_measured() {
    let (single, double) = (0xffc0_0001, 0xfff8_0000_0000_0001);
    for (from, to, bits, expected) in [
        (Ty::F16, Ty::F32, 0xfe01, 0x7fff_ffff),
        (Ty::Bf16, Ty::F32, 0xffc1, 0xffc1_0000),
        (Ty::F32, Ty::F64, single, 0xfff8_0000_2000_0000),
        (Ty::F16, Ty::F64, 0xfe01, 0xfff8_0400_0000_0000),
        (Ty::F64, Ty::F32, double, 0xffc0_0000),
        (Ty::F64, Ty::F16, double, 0xfe00),
        (Ty::F64, Ty::F64, double, double),
        (Ty::F32, Ty::F16, single, 0x7fff),
        (Ty::F32, Ty::Bf16, single, 0x7fff),
        (Ty::F32, Ty::Tf32, single, 0xffc0_0000),
        (Ty::F32, Ty::F32, single, 0x7fff_ffff),
    ] {
        assert_eq!(convert(from, to, Mods::default(), bits), expected, "{from:?} {to:?}");
    }
}

#[test]
fn modifiers_of_conversions() {
    let sat = Mods { sat: true, ..Mods::default() };
    let ftz = Mods { ftz: true, ..Mods::default() };
    let relu = Mods { relu: true, ..Mods::default() };
    for (x, expected) in [(-3.0, 0.0), (-0.0, 0.0), (0.3, 0.3), (7.0, 1.0), (f32::NAN, 0.0), (f32::INFINITY, 1.0)] {
        assert_eq!(convert(Ty::F32, Ty::F32, sat, f32_bits(x)), f32_bits(expected), "{x}");
        assert_eq!(convert(Ty::F32, Ty::F16, sat, f32_bits(x)), u64::from(f32_to_f16(expected)), "{x}");
    }
    assert_eq!(convert(Ty::F32, Ty::F32, ftz, 0x8000_0001), 0x8000_0000);
    assert_eq!(convert(Ty::F32, Ty::F64, ftz, 0x8000_0001), 1 << 63);
    assert_eq!(convert(Ty::F64, Ty::F32, ftz, 1e-40_f64.to_bits()), 0);
    assert_eq!(convert(Ty::F16, Ty::F32, ftz, 1), f32_bits(2f32.powi(-24)), "no subnormal f32");
    assert_eq!(convert(Ty::F32, Ty::S32, Mods { round: Round::IntegerUp, ..ftz }, 1), 0);
    assert_eq!(convert(Ty::F32, Ty::S32, rounded(Round::IntegerUp), 1), 1);
    assert_eq!(convert(Ty::F32, Ty::F16, relu, f32_bits(-2.0)), 0);
    assert_eq!(convert(Ty::F32, Ty::Bf16, relu, f32_bits(f32::NAN)), 0x7fff);
    assert_eq!(convert(Ty::F32, Ty::Bf16, sat, f32_bits(f32::INFINITY)), 0x7f7f, "satfinite");
    assert_eq!(convert(Ty::F32, Ty::Tf32, sat, f32_bits(-f32::MAX)), 0xff7f_e000, "satfinite");
    assert_eq!(convert(Ty::F32, Ty::F32, rounded(Round::IntegerNearest), f32_bits(-0.3)), 0x8000_0000);
    assert_eq!(convert(Ty::F32, Ty::F32, rounded(Round::IntegerUp), f32_bits(1e30)), f32_bits(1e30));
}

#[test]
fn packed_halves() {
    let (high, low) = (f32_bits(1.0), f32_bits(-2.0));
    assert_eq!(convert_pack(Ty::F32, Ty::F16x2, Mods::default(), high, low), 0x3c00_c000);
    assert_eq!(convert_pack(Ty::F32, Ty::Bf16x2, Mods::default(), high, low), 0x3f80_c000);
    let relu = Mods { relu: true, ..rounded(Round::Zero) };
    assert_eq!(convert_pack(Ty::F32, Ty::F16x2, relu, f32_bits(f32::MAX), low), 0x7bff_0000);
    let sat = Mods { sat: true, ..Mods::default() };
    assert_eq!(convert_pack(Ty::F32, Ty::F16x2, sat, f32_bits(-1e9), f32_bits(f32::NAN)), 0xfbff_7fff);
}

#[test]
fn eight_bit_floats() {
    let satfinite = Mods { sat: true, ..Mods::default() };
    for (ty, fraction, bias, max_finite, nan) in [(Ty::E4m3x2, 3, 7, 0x7e, 0x7f), (Ty::E5m2x2, 2, 15, 0x7b, 0x7e)] {
        let table = Table::new(max_finite, |h| small_float(h, fraction, bias));
        for h in 0..=max_finite {
            let wide = convert(ty, Ty::F16x2, Mods::default(), (u64::from(h) << 8 | 0x80) | u64::from(h));
            assert_eq!(f64::from(f16_to_f32(wide as u32 >> 16)), small_float(h, fraction, bias), "{ty:?} {h:#x}");
            let back = convert(Ty::F16x2, ty, satfinite, wide & 0xffff_0000 | 0x8000);
            assert_eq!(back, u64::from(h) << 8 | 0x80, "{ty:?} {h:#x}");
            let next = if h == max_finite { 1e6 } else { small_float(h + 1, fraction, bias) };
            let middle = ((small_float(h, fraction, bias) + next) / 2.0) as f32;
            for x in [middle.next_down(), middle, middle.next_up()] {
                let expected = u64::from(table.round_f64(x.into(), Round::Nearest).min(max_finite));
                let packed = convert_pack(Ty::F32, ty, satfinite, f32_bits(x), f32_bits(-x));
                assert_eq!(packed, expected << 8 | expected | 0x80, "{ty:?} {x}");
            }
        }
        let special = convert_pack(Ty::F32, ty, satfinite, f32_bits(f32::NAN), f32_bits(f32::NEG_INFINITY));
        assert_eq!(special, 0x7f80 | u64::from(max_finite));
        assert_eq!(convert(ty, Ty::F16x2, Mods::default(), nan), 0x7fff);
        let relu = Mods { relu: true, ..satfinite };
        assert_eq!(convert_pack(Ty::F32, ty, relu, f32_bits(-1.0), f32_bits(f32::INFINITY)), u64::from(max_finite));
    }
    assert_eq!(convert(Ty::E5m2x2, Ty::F16x2, Mods::default(), 0xfc7c), 0xfc00_7c00, "e5m2 has infinities");
}
