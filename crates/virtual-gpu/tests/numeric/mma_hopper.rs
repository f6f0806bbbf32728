//! The hardware's own sums of f16 products.

use virtual_gpu::numeric::*;

/// One row of A, one column of B, C, and an H200's result with m16n8k16.
struct Measured {
    a: [u32; 16],
    b: [u32; 16],
    c: u32,
    d: u32,
}

const MEASURED: [Measured; 4] = [
    Measured {
        a: [
            0x33f0, 0x3641, 0xb49d, 0x3413, 0xb8eb, 0xbd59, 0x3a63, 0x3a60, 0x3ce7, 0xadf8, 0xb0d3, 0x3eed, 0x262c,
            0xb8e7, 0xbcab, 0x3dc5,
        ],
        b: [
            0x3833, 0x35e3, 0xb980, 0x3439, 0x2ecf, 0xba3c, 0x332e, 0xbce6, 0x24d9, 0x3e5f, 0xb525, 0xbdfc, 0xb93b,
            0x3c49, 0x383b, 0xae0a,
        ],
        c: 0x3e92cc73,
        d: 0xc0458f1f,
    },
    Measured {
        a: [
            0x3886, 0x3a94, 0xbbf8, 0xa0a6, 0xb7b9, 0xb9b3, 0xb630, 0xbab5, 0xc098, 0x3dee, 0xb961, 0x3752, 0x2e5d,
            0xbe90, 0xbc64, 0xbb68,
        ],
        b: [
            0xb522, 0xbdcd, 0x3984, 0x397f, 0x2d44, 0x2c2c, 0x3892, 0xbcfe, 0x3cf7, 0xc0ae, 0xb9d9, 0x3bd7, 0x3d92,
            0xb467, 0xc05a, 0x3893,
        ],
        c: 0x3d6bd942,
        d: 0xc0866deb,
    },
    Measured {
        a: [
            0xb6ce, 0x3930, 0x3f47, 0xb92c, 0x3e95, 0x371d, 0x3eab, 0x2f75, 0xbc39, 0xb8d6, 0xbf49, 0x36c2, 0xc073,
            0xb934, 0xbe72, 0x1bfc,
        ],
        b: [
            0x29c0, 0x351d, 0xbc36, 0xbbc1, 0xb1a0, 0xc0c3, 0xc0b2, 0xbd66, 0xc03d, 0x3523, 0x3564, 0xb7b6, 0xbb21,
            0x2947, 0x3d76, 0xbc52,
        ],
        c: 0xbf023780,
        d: 0xc0c19c76,
    },
    Measured {
        a: [
            0xbc35, 0xb9c9, 0xadc6, 0x3c31, 0x3b79, 0x3e88, 0xbaba, 0x3f7d, 0x40c1, 0x3bee, 0x3b17, 0xbb65, 0x3673,
            0xabf8, 0xbb8d, 0x3372,
        ],
        b: [
            0xac73, 0x34da, 0x3e24, 0x3e7c, 0xb959, 0x387b, 0xb7c2, 0x346d, 0xb80d, 0x3aba, 0x37b0, 0xa8a6, 0x38ff,
            0xb826, 0xb1d4, 0xbe0c,
        ],
        c: 0x3e7a1598,
        d: 0x40444e14,
    },
];

/// Multiplies with the same row, column and C everywhere. Returns the result if it is the same everywhere.
fn uniform(a: &[u32; 16], b: &[u32; 16], c: u32) -> u32 {
    // Lane 4 g + t holds k = 2 t and 2 t + 1, and 8 more in the upper registers.
    let pairs = |halves: &[u32; 16], offset: usize| -> Lanes {
        std::array::from_fn(|lane| halves[offset + 2 * (lane % 4)] | (halves[offset + 2 * (lane % 4) + 1] << 16))
    };
    let (low, high) = (pairs(a, 0), pairs(a, 8));
    let d = mma_m16n8k16_f16_hopper(&[low, low, high, high], &[pairs(b, 0), pairs(b, 8)], &[[c; 32]; 4], false);
    assert!(d.iter().flatten().all(|bits| *bits == d[0][0]));
    d[0][0]
}

#[test]
fn sums_are_as_measured() {
    for Measured { a, b, c, d } in &MEASURED {
        assert_eq!(uniform(a, b, *c), *d, "{:e} is not {:e}", f32::from_bits(uniform(a, b, *c)), f32::from_bits(*d));
    }
}

#[test]
fn terms_are_cut_off_25_bits_below_the_largest() {
    let one = 1f32.to_bits();
    let with = |factor: f32, other: f32| uniform(&[f32_to_f16(factor); 16], &[f32_to_f16(other); 16], one);
    let tiny = 2f32.powi(-13);
    assert_eq!(f32::from_bits(with(tiny, tiny)), 1.0, "2^-26 vanishes, sixteen times");
    assert_eq!(f32::from_bits(with(tiny, 2.0 * tiny)), 1.0 + 2f32.powi(-21), "2^-25 does not");
    let mut single = [0; 16];
    single[3] = f32_to_f16(-tiny);
    let result = uniform(&single, &[f32_to_f16(2.0 * tiny); 16], one);
    assert_eq!(f32::from_bits(result), 1.0 - 2f32.powi(-24), "the sum is cut off, not rounded");
}

#[test]
fn special_values_are_those_of_the_plain_sum() {
    let ones = [0x3c00; 16];
    let with = |half: u32, c: f32| {
        let mut a = ones;
        a[7] = half;
        uniform(&a, &ones, c.to_bits())
    };
    assert_eq!(with(0x7c00, 0.0), f32::INFINITY.to_bits());
    assert_eq!(with(0x7c00, f32::NEG_INFINITY), 0x7fff_ffff);
    assert_eq!(with(0x7e00, 0.0), 0x7fff_ffff);
    assert_eq!(uniform(&[0; 16], &ones, 0), 0);
    assert_eq!(uniform(&[0; 16], &ones, 3.5f32.to_bits()), 3.5f32.to_bits());
    assert_eq!(uniform(&[0x7bff; 16], &[0x7bff; 16], 0), (16.0 * 65504f32 * 65504.0).to_bits());
}
