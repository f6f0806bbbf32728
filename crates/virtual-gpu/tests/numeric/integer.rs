//! Integer operations against the ISA's pseudocode, bit by bit.

use proptest::prelude::*;
use virtual_gpu::numeric::*;

fn bit(x: u64, i: u32) -> u64 {
    (x >> i) & 1
}

/// A position or length of a bit field. The ISA's pseudocode takes the low 8 bits. For 64 bits, the machine combines
/// other instructions, and an H200 was observed to clamp instead.
fn field(number: u32, width: u32) -> u32 {
    if width == 64 { number.min(255) } else { number & 0xff }
}

/// The pseudocode of `bfe` in PTX ISA 9.7.1.19.
fn bfe_reference(a: u64, pos: u32, len: u32, width: u32, signed: bool) -> u64 {
    let (msb, pos, len) = (width - 1, field(pos, width), field(len, width));
    let sign = if !signed || len == 0 { 0 } else { bit(a, (pos + len - 1).min(msb)) };
    (0..width).map(|i| (if i < len && pos + i <= msb { bit(a, pos + i) } else { sign }) << i).sum()
}

/// The pseudocode of `bfi` in PTX ISA 9.7.1.20.
fn bfi_reference(a: u64, b: u64, pos: u32, len: u32, width: u32) -> u64 {
    let (pos, len) = (field(pos, width), field(len, width));
    let mut f = b;
    for i in (0..len).take_while(|i| pos + i < width) {
        f = f & !(1 << (pos + i)) | bit(a, i) << (pos + i);
    }
    f
}

/// Counts at and around the widths, and any others.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![0..70_u32, 250..260_u32, any::<u32>()]
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn bit_fields(a in any::<u64>(), b in any::<u64>(), pos in count(), len in count()) {
        let (low, base) = (a as u32, b as u32);
        prop_assert_eq!(u64::from(bfe_u32(low, pos, len)), bfe_reference(low.into(), pos, len, 32, false));
        prop_assert_eq!(u64::from(bfe_s32(low, pos, len)), bfe_reference(low.into(), pos, len, 32, true));
        prop_assert_eq!(bfe_u64(a, pos, len), bfe_reference(a, pos, len, 64, false));
        prop_assert_eq!(bfe_s64(a, pos, len), bfe_reference(a, pos, len, 64, true));
        prop_assert_eq!(u64::from(bfi32(low, base, pos, len)), bfi_reference(low.into(), base.into(), pos, len, 32));
        prop_assert_eq!(bfi64(a, b, pos, len), bfi_reference(a, b, pos, len, 64));
    }

    #[test]
    fn shifts(a in any::<u64>(), b in any::<u32>(), n in count()) {
        let low = a as u32;
        prop_assert_eq!(shl32(low, n), low.checked_shl(n).unwrap_or(0));
        prop_assert_eq!(shl64(a, n), a.checked_shl(n).unwrap_or(0));
        prop_assert_eq!(shr_u32(low, n), low.checked_shr(n).unwrap_or(0));
        prop_assert_eq!(shr_u64(a, n), a.checked_shr(n).unwrap_or(0));
        prop_assert_eq!(shr_s32(low, n) as i32, (low as i32) >> n.min(31));
        prop_assert_eq!(shr_s64(a, n) as i64, (a as i64) >> n.min(63));
        for (wrap, n) in [(true, n & 31), (false, n.min(32))] {
            let left = b.checked_shl(n).unwrap_or(0) | low.checked_shr(32 - n).unwrap_or(0);
            let right = b.checked_shl(32 - n).unwrap_or(0) | low.checked_shr(n).unwrap_or(0);
            prop_assert_eq!(funnel_left(low, b, n, wrap), left);
            prop_assert_eq!(funnel_right(low, b, n, wrap), right);
        }
        prop_assert_eq!(funnel_left(low, b, n, false), if n < 32 { funnel_left(low, b, n, true) } else { low });
    }

    #[test]
    fn permutations_and_logic(a in any::<u32>(), b in any::<u32>(), c in any::<u32>(), lut in any::<u8>()) {
        let bytes: Vec<u8> = a.to_le_bytes().into_iter().chain(b.to_le_bytes()).collect();
        let picked = [0, 1, 2, 3].map(|i| {
            let nibble = (c >> (4 * i)) & 15;
            let byte = bytes[nibble as usize & 7];
            if nibble < 8 { byte } else if byte > 127 { 255 } else { 0 }
        });
        prop_assert_eq!(prmt(a, b, c), u32::from_le_bytes(picked));
        let [x, y, z] = [a, b, c].map(u64::from);
        let expected: u64 = (0..32).map(|i| bit(lut.into(), (4 * bit(x, i) + 2 * bit(y, i) + bit(z, i)) as u32) << i).sum();
        prop_assert_eq!(u64::from(lop3(a, b, c, lut)), expected);
    }

    #[test]
    fn sums_of_products(a in any::<u32>(), b in any::<u32>(), c in any::<u32>()) {
        let bytes = |x: u32, signed: bool| x.to_le_bytes().map(|y| if signed { i64::from(y as i8) } else { y.into() });
        for (a_signed, b_signed) in [(true, true), (true, false), (false, true), (false, false)] {
            let products = bytes(a, a_signed).into_iter().zip(bytes(b, b_signed)).map(|(x, y)| x * y);
            prop_assert_eq!(dp4a(a, b, c, a_signed, b_signed), (products.sum::<i64>() + i64::from(c)) as u32);
        }
        let (x, y) = (i64::from(a as i32), i64::from(b as i32));
        prop_assert_eq!(sad_s32(a, b, c), (i64::from(c) + (x - y).abs()) as u32);
        prop_assert_eq!(sad_u32(a, b, c), (i64::from(c) + (i64::from(a) - i64::from(b)).abs()) as u32);
        prop_assert_eq!(mad_hi_s32(a, b, c), (((x * y) >> 32) + i64::from(c)) as u32);
        prop_assert_eq!(mad_hi_u32(a, b, c), mul_hi_u32(a, b).wrapping_add(c));
        prop_assert_eq!(u64::from(mul_hi_u32(a, b)) << 32 | u64::from(a.wrapping_mul(b)), u64::from(a) * u64::from(b));
        prop_assert_eq!(u64::from(mul24_u32(a, b)), (u64::from(a) % (1 << 24) * (u64::from(b) % (1 << 24))) % (1 << 32));
        let signed24 = |x: u32| { let low = i64::from(x) % (1 << 24); if low < 1 << 23 { low } else { low - (1 << 24) } };
        prop_assert_eq!(mul24_s32(a, b), (signed24(a) * signed24(b)) as u32);
    }

    #[test]
    fn wide_products(a in any::<u64>(), b in any::<u64>(), c in any::<u64>()) {
        // By halves, as in long multiplication.
        let [(a1, a0), (b1, b0)] = [a, b].map(|x| (x >> 32, x & 0xffff_ffff));
        let middle = ((a0 * b0) >> 32) + ((a1 * b0) & 0xffff_ffff) + ((a0 * b1) & 0xffff_ffff);
        let high = a1 * b1 + ((a1 * b0) >> 32) + ((a0 * b1) >> 32) + (middle >> 32);
        prop_assert_eq!(mul_hi_u64(a, b), high);
        let corrected = high.wrapping_sub(if (a as i64) < 0 { b } else { 0 }).wrapping_sub(if (b as i64) < 0 { a } else { 0 });
        prop_assert_eq!(mul_hi_s64(a, b), corrected);
        prop_assert_eq!((mad_hi_u64(a, b, c), mad_hi_s64(a, b, c)), (high.wrapping_add(c), corrected.wrapping_add(c)));
    }
}

#[test]
fn divisions_never_panic() {
    assert_eq!((div_u32(7, 2), rem_u32(7, 2), div_u64(7, 2), rem_u64(7, 2)), (3, 1, 3, 1));
    assert_eq!((div_s32(-7_i32 as u32, 2) as i32, rem_s32(-7_i32 as u32, 2) as i32), (-3, -1));
    assert_eq!((div_s64(7, -2_i64 as u64) as i64, rem_s64(7, -2_i64 as u64) as i64), (-3, 1));
    assert_eq!((div_s32(1 << 31, u32::MAX), rem_s32(1 << 31, u32::MAX)), (1 << 31, 0));
    assert_eq!((div_s64(1 << 63, u64::MAX), rem_s64(1 << 63, u64::MAX)), (1 << 63, 0));
    assert_eq!((div_u32(5, 0), rem_u32(5, 0), div_s32(5, 0), rem_s32(5, 0)), (u32::MAX, u32::MAX, u32::MAX, u32::MAX));
    assert_eq!((div_u64(5, 0), rem_u64(5, 0), div_s64(5, 0), rem_s64(5, 0)), (u64::MAX, u64::MAX, u64::MAX, u64::MAX));
}

#[test]
fn the_highest_bit_is_found() {
    for i in 0..32 {
        assert_eq!((bfind_u32(1 << i | 1, false), bfind_u32(1 << i | 1, true)), (i, 31 - i));
    }
    assert_eq!((bfind_u32(0, false), bfind_u32(0, true), bfind_s32(u32::MAX, false)), (u32::MAX, u32::MAX, u32::MAX));
    assert_eq!((bfind_s32(-5_i32 as u32, false), bfind_s32(5, true)), (2, 29));
    assert_eq!((bfind_u64(1 << 40, false), bfind_u64(1 << 40, true), bfind_s64(!(1 << 40), false)), (40, 23, 40));
    assert_eq!((bfind_u64(0, true), bfind_s64(u64::MAX, false)), (u32::MAX, u32::MAX));
}
