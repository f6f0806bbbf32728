//! Exact numbers and their rounding to a format: the slow path of every conversion and f64 rounding mode.

use crate::program::Round;

/// A finite number `±mantissa * 2^exponent`. It is exact, or the lowest bit of the mantissa is "jammed": set if any
/// lower bit was cut off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub negative: bool,
    pub mantissa: u128,
    pub exponent: i32,
}

/// A binary floating-point format of at most 53 bits of precision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    /// Bits of the significand, the hidden one included.
    pub precision: u32,
    /// Exponent of the least subnormal; all numbers are multiples of `2^quantum`.
    pub quantum: i32,
    /// Bits of the largest finite number. Infinity, where the format has one, is the next number.
    pub max_finite: u64,
    /// Position of the sign.
    pub sign: u32,
}

pub(super) const F64: Format = Format { precision: 53, quantum: -1074, max_finite: 0x7fef_ffff_ffff_ffff, sign: 63 };
pub(super) const F32: Format = Format { precision: 24, quantum: -149, max_finite: 0x7f7f_ffff, sign: 31 };
pub(super) const F16: Format = Format { precision: 11, quantum: -24, max_finite: 0x7bff, sign: 15 };
pub(super) const BF16: Format = Format { precision: 8, quantum: -133, max_finite: 0x7f7f, sign: 15 };
/// Tf32 in 19 bits: the upper bits of an f32.
pub(super) const TF32: Format = Format { precision: 11, quantum: -136, max_finite: 0x3_fbff, sign: 18 };
/// E4m3 has no infinity: "one more than the largest" is its NaN.
pub(super) const E4M3: Format = Format { precision: 4, quantum: -9, max_finite: 0x7e, sign: 7 };
pub(super) const E5M2: Format = Format { precision: 3, quantum: -16, max_finite: 0x7b, sign: 7 };

impl Format {
    /// Reads the finite number in `bits`.
    pub fn decode(&self, bits: u64) -> Number {
        let magnitude = bits & ((1 << self.sign) - 1);
        let fraction = magnitude & ((1 << (self.precision - 1)) - 1);
        let biased = (magnitude >> (self.precision - 1)) as i32;
        let hidden = if biased == 0 { 0 } else { 1 << (self.precision - 1) };
        Number {
            negative: (bits >> self.sign) & 1 != 0,
            mantissa: u128::from(fraction | hidden),
            exponent: self.quantum + (biased - 1).max(0),
        }
    }

    /// Rounds `number` once to this format. On overflow, `round` decides between infinity and the largest number.
    pub fn encode(&self, number: Number, round: Round) -> u64 {
        let sign = u64::from(number.negative) << self.sign;
        if number.mantissa == 0 {
            return sign;
        }
        let top = 127 - number.mantissa.leading_zeros() as i32 + number.exponent;
        let quantum = (top - (self.precision as i32 - 1)).max(self.quantum);
        let kept = number.rounded_at(quantum, round) as u64;
        // The hidden bit and a carry out of the fraction both add to the exponent field, so one sum handles all.
        let biased = u64::try_from(quantum - self.quantum).unwrap_or(0);
        let bits = if biased > 0x1_0000 { u64::MAX } else { (biased << (self.precision - 1)).saturating_add(kept) };
        sign | if bits > self.max_finite { self.overflow(number.negative, round) } else { bits }
    }

    fn overflow(&self, negative: bool, round: Round) -> u64 {
        let to_finite = match round {
            Round::Zero | Round::IntegerZero => true,
            Round::Down | Round::IntegerDown => !negative,
            Round::Up | Round::IntegerUp => negative,
            _ => false,
        };
        self.max_finite + u64::from(!to_finite)
    }
}

impl Number {
    /// Returns the magnitude in units of `2^quantum`, rounded to an integer.
    pub fn rounded_at(&self, quantum: i32, round: Round) -> u128 {
        let shift = quantum - self.exponent;
        if shift <= 0 {
            return self.mantissa << (-shift).min(127);
        }
        let (kept, half, below) = if shift > 128 {
            (0, false, self.mantissa != 0)
        } else {
            let kept = if shift == 128 { 0 } else { self.mantissa >> shift };
            let half = (self.mantissa >> (shift - 1)) & 1 != 0;
            let below = self.mantissa & ((1 << (shift - 1)) - 1) != 0;
            (kept, half, below)
        };
        let up = match round {
            Round::Nearest | Round::IntegerNearest => half && (below || kept & 1 != 0),
            Round::NearestAway => half,
            Round::Zero | Round::IntegerZero => false,
            Round::Down | Round::IntegerDown => self.negative && (half || below),
            Round::Up | Round::IntegerUp => !self.negative && (half || below),
        };
        kept + u128::from(up)
    }

    /// Moves the leading bit to position `top`. Bits that are shifted out are jammed into the lowest.
    pub fn with_top(self, top: i32) -> Self {
        if self.mantissa == 0 {
            return self;
        }
        let shift = top - (127 - self.mantissa.leading_zeros() as i32);
        if shift >= 0 {
            Self { mantissa: self.mantissa << shift, exponent: self.exponent - shift, ..self }
        } else {
            self.shifted_right(-shift)
        }
    }

    /// Cuts off the lowest `by` bits and jams them into the lowest remaining bit.
    pub fn shifted_right(self, by: i32) -> Self {
        let mantissa = if by >= 128 {
            u128::from(self.mantissa != 0)
        } else {
            let lost = self.mantissa & ((1 << by) - 1);
            (self.mantissa >> by) | u128::from(lost != 0)
        };
        Self { mantissa, exponent: self.exponent + by, ..self }
    }
}
