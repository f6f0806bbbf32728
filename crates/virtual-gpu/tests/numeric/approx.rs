//! Approximations: PTX's stated bounds, special values, and the largest errors observed.

use virtual_gpu::numeric::*;

/// Calls `f` with about a million f32 of every exponent and sign.
fn samples(mut f: impl FnMut(f32)) {
    for bits in (0..u32::MAX).step_by(4093) {
        let x = f32::from_bits(bits);
        if x.is_finite() {
            f(x);
        }
    }
}

/// Evenly spaced numbers.
fn between(low: f32, high: f32, mut f: impl FnMut(f32)) {
    const STEPS: u32 = 500_000;
    for i in 0..=STEPS {
        f(low + (high - low) * (i as f32 / STEPS as f32));
    }
}

/// The largest errors of a function, in ulp of the exact result and in other measures.
#[derive(Default)]
struct Errors {
    ulp: f64,
    relative: f64,
    absolute: f64,
}

impl Errors {
    fn add(&mut self, result: f32, exact: f64) {
        let error = (f64::from(result) - exact).abs();
        let magnitude = exact.abs().max(f64::from(f32::MIN_POSITIVE));
        let ulp = 2f64.powi(magnitude.log2().floor() as i32 - 23);
        self.ulp = self.ulp.max(error / ulp);
        self.absolute = self.absolute.max(error);
        if exact.abs() >= f64::from(f32::MIN_POSITIVE) {
            self.relative = self.relative.max(error / exact.abs());
        }
    }

    fn report(&self, name: &str) {
        let (relative, absolute) = (self.relative.log2(), self.absolute.log2());
        println!("{name}: {:.3} ulp, relative 2^{relative:.2}, absolute 2^{absolute:.2}", self.ulp);
    }
}

#[test]
fn ex2_is_within_one_ulp() {
    let mut errors = Errors::default();
    let mut check = |x: f32| {
        let exact = f64::from(x).exp2();
        let result = ex2_approx(x, false);
        if exact > f64::from(f32::MAX) * (1.0 + 2f64.powi(-25)) {
            assert_eq!(result, f32::INFINITY, "{x}");
        } else {
            errors.add(result, exact);
        }
        let flushed = ex2_approx(x, true);
        assert_eq!(flushed, if result < f32::MIN_POSITIVE { 0.0 } else { result });
    };
    samples(&mut check);
    between(-151.0, 128.5, &mut check);
    between(-1.0, 1.0, &mut check);
    errors.report("ex2");
    assert!(errors.ulp < 1.0 && errors.relative < 2f64.powi(-22));
    for n in -149..128 {
        assert_eq!(f64::from(ex2_approx(n as f32, false)), 2f64.powi(n), "2^{n}");
    }
}

#[test]
fn lg2_is_within_its_bounds() {
    let mut errors = Errors::default();
    let mut check = |x: f32| {
        if x > 0.0 {
            errors.add(lg2_approx(x, false), f64::from(x).log2());
        }
    };
    samples(&mut check);
    between(0.4, 2.1, &mut check);
    errors.report("lg2");
    assert!(errors.relative < 2f64.powi(-22));
    for n in -149..128 {
        assert_eq!(lg2_approx(2f64.powi(n) as f32, false), n as f32);
    }
}

#[test]
fn reciprocals_and_roots_are_within_their_bounds() {
    let [mut rcp, mut rsqrt, mut sqrt, mut div] = [(); 4].map(|()| Errors::default());
    samples(|x| {
        let exact = f64::from(x);
        if exact.recip().abs() < f64::from(f32::MAX) {
            rcp.add(rcp_approx(x, false), exact.recip());
        }
        if x > 0.0 {
            rsqrt.add(rsqrt_approx(x, false), exact.sqrt().recip());
            sqrt.add(sqrt_approx(x, false), exact.sqrt());
        }
        let quotient = 3.7 / exact;
        if x.abs() <= 2f32.powi(126) && quotient.abs() < f64::from(f32::MAX) {
            div.add(div_approx(3.7, x, false), f64::from(3.7f32) / exact);
            div.add(div_full(3.7, x, false), f64::from(3.7f32) / exact);
        }
    });
    rcp.report("rcp");
    rsqrt.report("rsqrt");
    sqrt.report("sqrt");
    div.report("div");
    assert!(rcp.ulp <= 0.5 && sqrt.ulp <= 0.5 && div.ulp <= 0.5);
    assert!(rsqrt.relative < 2f64.powf(-22.9));
}

#[test]
fn sine_and_cosine_are_within_their_bounds() {
    let pi = std::f32::consts::PI;
    for (range, bound) in [(2.0 * pi, -20.5), (100.0 * pi, -14.7)] {
        let [mut sin, mut cos] = [(); 2].map(|()| Errors::default());
        between(-range, range, |x| {
            sin.add(sin_approx(x, false), f64::from(x).sin());
            cos.add(cos_approx(x, false), f64::from(x).cos());
        });
        sin.report(&format!("sin to {range}"));
        cos.report(&format!("cos to {range}"));
        assert!(sin.absolute < 2f64.powf(bound) && cos.absolute < 2f64.powf(bound));
    }
    samples(|x| assert!(sin_approx(x, false).abs() <= 1.0 && cos_approx(x, true).abs() <= 1.0, "{x}"));
}

#[test]
fn tanh_is_within_its_bound() {
    let mut errors = Errors::default();
    let mut check = |x: f32| errors.add(tanh_approx(x), f64::from(x).tanh());
    samples(&mut check);
    between(-10.0, 10.0, &mut check);
    errors.report("tanh");
    assert!(errors.relative < 2f64.powi(-11));
}

#[test]
fn half_forms_round_the_f32_result() {
    for h in (0..0x1_0000).filter(|h| h & 0x7fff <= 0x7c00) {
        let x = f64::from(f16_to_f32(h));
        assert!((f64::from(f16_to_f32(f16_tanh_approx(h))) - x.tanh()).abs() <= 2f64.powi(-11), "{h:#x}");
        let (result, exact) = (f64::from(f16_to_f32(f16_ex2_approx(h, false))), x.exp2());
        // PTX: relative error 2^-9.9; for subnormal results it is absolute.
        assert!(exact > 65519.0 || (result - exact).abs() <= exact * 2f64.powf(-9.9) + 2f64.powi(-24), "{h:#x}");
    }
    assert_eq!((f16_ex2_approx(0x7e01, false), f16_tanh_approx(0xfe01)), (0x7fff, 0x7fff));
    assert_eq!((f16_ex2_approx(0xcc00, true), f16_ex2_approx(0xcc00, false)), (0, 0x0100), "2^-16");
    assert_eq!((bf16_ex2_approx(0x4000), bf16_ex2_approx(0xff80), bf16_tanh_approx(0xff80)), (0x4080, 0, 0xbf80));
}

/// Bits of the results, as the tables of PTX ISA 9.7.3 list them, for -inf, -0, +0, +inf, NaN.
fn assert_special(f: impl Fn(f32) -> f32, expected: [f32; 5]) {
    let inputs = [f32::NEG_INFINITY, -0.0, 0.0, f32::INFINITY, f32::from_bits(0xff80_0001)];
    for (x, y) in inputs.into_iter().zip(expected) {
        let y = if y.is_nan() { 0x7fff_ffff } else { y.to_bits() };
        assert_eq!(f(x).to_bits(), y, "{x}");
    }
}

#[test]
fn special_values_are_those_of_the_tables() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    for ftz in [false, true] {
        assert_special(|x| ex2_approx(x, ftz), [0.0, 1.0, 1.0, INF, NAN]);
        assert_special(|x| lg2_approx(x, ftz), [NAN, -INF, -INF, INF, NAN]);
        assert_special(|x| rcp_approx(x, ftz), [-0.0, -INF, INF, 0.0, NAN]);
        assert_special(|x| sqrt_approx(x, ftz), [NAN, -0.0, 0.0, INF, NAN]);
        assert_special(|x| rsqrt_approx(x, ftz), [NAN, -INF, INF, 0.0, NAN]);
        assert_special(|x| sin_approx(x, ftz), [NAN, -0.0, 0.0, NAN, NAN]);
        assert_special(|x| cos_approx(x, ftz), [NAN, 1.0, 1.0, NAN, NAN]);
        assert!(lg2_approx(-1.0, ftz).is_nan() && sqrt_approx(-1.0, ftz).is_nan() && rsqrt_approx(-1.0, ftz).is_nan());
    }
    assert_special(tanh_approx, [-1.0, -0.0, 0.0, 1.0, NAN]);
    let subnormal = -f32::from_bits(0x0040_0000);
    assert_eq!(lg2_approx(subnormal.abs(), true), -INF);
    assert_eq!(lg2_approx(subnormal.abs(), false), -127.0);
    assert_eq!((rcp_approx(subnormal, true), rcp_approx(subnormal, false)), (-INF, -(2f32.powi(127))));
    assert_eq!(rcp_approx(2f32.powi(127), true).to_bits(), 0);
    assert_eq!(sqrt_approx(subnormal, true).to_bits(), 0x8000_0000);
    assert_eq!(rsqrt_approx(subnormal, true), -INF);
    assert_eq!(sin_approx(subnormal, true).to_bits(), 0x8000_0000);
    assert_eq!((cos_approx(subnormal, true), tanh_approx(subnormal)), (1.0, subnormal));
    assert!((sin_approx(subnormal, false) / subnormal - 1.0).abs() < 1e-5);
}

/// Results that differ between reasonable implementations, as returned by an H200.
#[test]
fn corners_are_as_measured() {
    assert_eq!((sin_approx(f32::from_bits(1), false), sin_approx(2f32.powi(63), false)), (0.0, 0.0));
    assert_eq!(cos_approx(2f32.powi(63), false), 1.0);
    assert_eq!((lg2_approx(f32::from_bits(1), false), ex2_approx(-148.5, false).to_bits()), (-149.0, 1));
    assert_eq!(rsqrt_approx_ftz_f64(3.0).to_bits(), 0x3fe2_79a7_0000_0000);
    assert_eq!(rcp_approx_ftz_f64(3.0).to_bits(), 0x3fd5_5555_0000_0000);
    assert_eq!(rcp_approx_ftz_f64(f64::NAN).to_bits(), 0x7fff_ffff_0000_0000);
}

#[test]
fn division_by_huge_numbers_vanishes() {
    let huge = f32::MAX;
    assert_eq!(div_approx(huge, huge, false), 0.0);
    assert_eq!(div_approx(-1.0, huge, false).to_bits(), 0x8000_0000);
    assert_eq!(div_approx(f32::INFINITY, huge, false).to_bits(), 0x7fff_ffff);
    assert_eq!(div_approx(2f32.powi(127), 2f32.powi(126), false), 2.0);
    assert_eq!(div_approx(1.0, f32::INFINITY, false), 0.0);
    assert_eq!(div_full(huge, huge, false), 1.0);
    assert_eq!(div_approx(0.0, 0.0, true).to_bits(), 0x7fff_ffff);
}

#[test]
fn f64_reciprocals_have_20_bits() {
    for i in 1..10_000 {
        let x = f64::from(i) * 0.37e-3;
        for (result, exact) in [(rcp_approx_ftz_f64(x), 1.0 / x), (rsqrt_approx_ftz_f64(x), 1.0 / x.sqrt())] {
            assert!((result / exact - 1.0).abs() < 2f64.powi(-19), "{x}");
            assert_eq!(result.to_bits() & 0xffff_ffff, 0);
        }
    }
    assert_eq!(rcp_approx_ftz_f64(-f64::from_bits(7)), f64::NEG_INFINITY);
    assert_eq!(rcp_approx_ftz_f64(f64::NEG_INFINITY).to_bits(), 1 << 63);
    assert_eq!(rcp_approx_ftz_f64(2f64.powi(1023)).to_bits(), 0);
    assert!(rcp_approx_ftz_f64(f64::from_bits(0x7ff0_0000_0000_0001)).is_nan());
    assert!(rsqrt_approx_ftz_f64(-1.0).is_nan());
    assert_eq!(rsqrt_approx_ftz_f64(-0.0), f64::NEG_INFINITY);
}
