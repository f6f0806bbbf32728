//! Integer operations that Rust spells differently (PTX ISA 9.7.1 and 9.7.8). None of them panics.

/// Shifts left. Counts of 32 and more give 0 (PTX ISA 9.7.8.5).
#[inline(always)]
pub fn shl32(a: u32, count: u32) -> u32 {
    if count > 31 { 0 } else { a << (count & 31) }
}

/// Shifts left. Counts of 64 and more give 0.
#[inline(always)]
pub fn shl64(a: u64, count: u32) -> u64 {
    if count > 63 { 0 } else { a << (count & 63) }
}

/// Shifts right. Counts of 32 and more give 0 (PTX ISA 9.7.8.6).
#[inline(always)]
pub fn shr_u32(a: u32, count: u32) -> u32 {
    if count > 31 { 0 } else { a >> (count & 31) }
}

/// Shifts right with sign extension. Counts of 32 and more leave only the sign.
#[inline(always)]
pub fn shr_s32(a: u32, count: u32) -> u32 {
    ((a as i32) >> count.min(31)) as u32
}

/// Shifts right. Counts of 64 and more give 0.
#[inline(always)]
pub fn shr_u64(a: u64, count: u32) -> u64 {
    if count > 63 { 0 } else { a >> (count & 63) }
}

/// Shifts right with sign extension. Counts of 64 and more leave only the sign.
#[inline(always)]
pub fn shr_s64(a: u64, count: u32) -> u64 {
    ((a as i64) >> count.min(63)) as u64
}

/// Shifts the pair `b:a` left and returns its upper word. The count is taken modulo 32 (`wrap`) or clamped to 32
/// (`shf.l`, PTX ISA 9.7.8.4).
#[inline(always)]
pub fn funnel_left(a: u32, b: u32, count: u32, wrap: bool) -> u32 {
    ((pair(a, b) << funnel_count(count, wrap)) >> 32) as u32
}

/// Shifts the pair `b:a` right and returns its lower word. The count is taken modulo 32 (`wrap`) or clamped to 32
/// (`shf.r`, PTX ISA 9.7.8.4).
#[inline(always)]
pub fn funnel_right(a: u32, b: u32, count: u32, wrap: bool) -> u32 {
    (pair(a, b) >> funnel_count(count, wrap)) as u32
}

#[inline(always)]
fn pair(a: u32, b: u32) -> u64 {
    u64::from(a) | (u64::from(b) << 32)
}

#[inline(always)]
fn funnel_count(count: u32, wrap: bool) -> u32 {
    if wrap { count & 31 } else { count.min(32) }
}

/// Picks four bytes of the pair `b:a` by the selector's nibbles. A nibble's upper bit replicates the byte's sign (PTX
/// ISA 9.7.9.7, default mode).
#[inline(always)]
pub fn prmt(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = pair(a, b);
    let mut result = 0;
    for i in 0..4 {
        let nibble = selector >> (4 * i);
        let byte = (bytes >> (8 * (nibble & 7))) as u32 & 0xff;
        let sign = 0_u32.wrapping_sub((byte >> 7) & 1) & 0xff;
        result |= if nibble & 8 != 0 { sign } else { byte } << (8 * i);
    }
    result
}

/// Applies any function of three bits to all bit positions. Bit `4a + 2b + c` of `lut` is its value (PTX ISA 9.7.8.7).
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, lut: u8) -> u32 {
    let lut = u32::from(lut);
    let mut result = 0;
    for i in 0..8_u32 {
        let wanted = 0_u32.wrapping_sub((lut >> i) & 1);
        let a = if i & 4 != 0 { a } else { !a };
        let b = if i & 2 != 0 { b } else { !b };
        let c = if i & 1 != 0 { c } else { !c };
        result |= a & b & c & wanted;
    }
    result
}

/// Extracts `len` bits from position `pos`. Bits beyond the top are 0. Only the low 8 bits of `pos` and `len` count
/// (PTX ISA 9.7.1.19).
#[inline(always)]
pub fn bfe_u32(a: u32, pos: u32, len: u32) -> u32 {
    shr_u32(a, pos & 0xff) & ones32(len & 0xff)
}

/// Extracts `len` bits from position `pos` and extends their sign; 0 if `len` is.
#[inline(always)]
pub fn bfe_s32(a: u32, pos: u32, len: u32) -> u32 {
    let len = len & 0xff;
    let field = shr_s32(a, pos & 0xff);
    let unused = 32_u32.saturating_sub(len) & 31;
    let extended = (((field << unused) as i32) >> unused) as u32;
    if len == 0 { 0 } else { extended }
}

/// Extracts `len` bits from position `pos`. Bits beyond the top are 0. The machine has no 64-bit instruction. Its
/// replacement clamps `pos` and `len`, defined by PTX only up to 255, instead of truncating them to 8 bits.
#[inline(always)]
pub fn bfe_u64(a: u64, pos: u32, len: u32) -> u64 {
    shr_u64(a, pos) & ones64(len)
}

/// Extracts `len` bits from position `pos` and extends their sign; 0 if `len` is.
#[inline(always)]
pub fn bfe_s64(a: u64, pos: u32, len: u32) -> u64 {
    let field = shr_s64(a, pos);
    let unused = 64_u32.saturating_sub(len) & 63;
    let extended = (((field << unused) as i64) >> unused) as u64;
    if len == 0 { 0 } else { extended }
}

/// Puts the low `len` bits of `a` into `b` at position `pos` (PTX ISA 9.7.1.20).
#[inline(always)]
pub fn bfi32(a: u32, b: u32, pos: u32, len: u32) -> u32 {
    let mask = shl32(ones32(len & 0xff), pos & 0xff);
    (b & !mask) | (shl32(a, pos & 0xff) & mask)
}

/// Puts the low `len` bits of `a` into `b` at position `pos` (PTX ISA 9.7.1.20).
#[inline(always)]
pub fn bfi64(a: u64, b: u64, pos: u32, len: u32) -> u64 {
    let mask = shl64(ones64(len), pos);
    (b & !mask) | (shl64(a, pos) & mask)
}

#[inline(always)]
fn ones32(len: u32) -> u32 {
    shl32(1, len).wrapping_sub(1)
}

#[inline(always)]
fn ones64(len: u32) -> u64 {
    shl64(1, len).wrapping_sub(1)
}

/// Returns the position of the highest set bit, or with `shift` its distance from the top. Returns `0xffffffff` if no
/// bit is set (PTX ISA 9.7.1.17).
#[inline(always)]
pub fn bfind_u32(a: u32, shift: bool) -> u32 {
    let zeros = a.leading_zeros();
    let found = if shift { zeros } else { 31_u32.wrapping_sub(zeros) };
    if a == 0 { u32::MAX } else { found }
}

/// Returns the position of the highest bit that differs from the sign. Otherwise as [`bfind_u32`].
#[inline(always)]
pub fn bfind_s32(a: u32, shift: bool) -> u32 {
    bfind_u32(a ^ (((a as i32) >> 31) as u32), shift)
}

/// Returns the position of the highest set bit, or with `shift` its distance from the top. Returns `0xffffffff` if no
/// bit is set.
#[inline(always)]
pub fn bfind_u64(a: u64, shift: bool) -> u32 {
    let zeros = a.leading_zeros();
    let found = if shift { zeros } else { 63_u32.wrapping_sub(zeros) };
    if a == 0 { u32::MAX } else { found }
}

/// Returns the position of the highest bit that differs from the sign. Otherwise as [`bfind_u64`].
#[inline(always)]
pub fn bfind_s64(a: u64, shift: bool) -> u32 {
    bfind_u64(a ^ (((a as i64) >> 63) as u64), shift)
}

/// Adds the four byte products to `c` (PTX ISA 9.7.1.23).
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let mut sum = c;
    for i in 0..4 {
        sum = sum.wrapping_add(byte(a, i, a_signed).wrapping_mul(byte(b, i, b_signed)) as u32);
    }
    sum
}

/// Returns byte `i`, sign-extended if `signed`.
#[inline(always)]
pub(super) fn byte(word: u32, i: u32, signed: bool) -> i32 {
    let zero_extended = ((word >> (8 * i)) & 0xff) as i32;
    let sign_extended = ((word << (24 - 8 * i)) as i32) >> 24;
    if signed { sign_extended } else { zero_extended }
}

/// Returns `c + |a - b|` (PTX ISA 9.7.1.7).
#[inline(always)]
pub fn sad_u32(a: u32, b: u32, c: u32) -> u32 {
    c.wrapping_add(a.abs_diff(b))
}

/// Returns `c + |a - b|` of signed numbers (PTX ISA 9.7.1.7).
#[inline(always)]
pub fn sad_s32(a: u32, b: u32, c: u32) -> u32 {
    c.wrapping_add((a as i32).abs_diff(b as i32))
}
