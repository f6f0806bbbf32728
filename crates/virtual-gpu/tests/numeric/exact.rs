//! Exact numbers as 128-bit integers in units of `2^unit`, rounded by search among all numbers of a format.

use std::cmp::Ordering;

use virtual_gpu::program::Round;

/// Returns finite `x` in units of `2^unit`. `x` must be a multiple of the unit and fit.
pub fn scaled(x: f64, unit: i32) -> i128 {
    let bits = x.to_bits();
    let biased = ((bits >> 52) & 0x7ff) as i32;
    let fraction = (bits & 0xf_ffff_ffff_ffff) as i128;
    let mut mantissa = if biased == 0 { fraction } else { fraction | 1 << 52 };
    if mantissa == 0 {
        return 0;
    }
    let mut exponent = biased.max(1) - 1075;
    while exponent < unit {
        assert_eq!(mantissa & 1, 0, "{x:e} is not a multiple of 2^{unit}");
        mantissa >>= 1;
        exponent += 1;
    }
    let shift = exponent - unit;
    assert!(shift < mantissa.leading_zeros() as i32 - 1, "{x:e} does not fit units of 2^{unit}");
    let magnitude = mantissa << shift;
    if x < 0.0 { -magnitude } else { magnitude }
}

/// Orders any value relative to an exact number in units of `2^unit`.
pub fn order(value: f64, exact: i128, unit: i32) -> Ordering {
    let unit_value = 2f64.powi(unit);
    if value.abs() >= unit_value * 2f64.powi(126) {
        return if value > 0.0 { Ordering::Greater } else { Ordering::Less };
    }
    if value.abs() < unit_value * 2f64.powi(60) {
        // Whole units and the exact remainder.
        let whole = (value / unit_value).floor();
        let rest = value - whole * unit_value > 0.0;
        return (whole as i128).cmp(&exact).then(if rest { Ordering::Greater } else { Ordering::Equal });
    }
    scaled(value, unit).cmp(&exact)
}

/// All finite magnitudes of a format of at most 16 bits, ascending by their bits.
pub struct Table {
    values: Vec<f64>,
}

impl Table {
    /// Lists the values of the magnitudes 0 to `max_finite`.
    pub fn new(max_finite: u32, value: impl Fn(u32) -> f64) -> Self {
        let values: Vec<f64> = (0..=max_finite).map(value).collect();
        assert!(values.is_sorted_by(|a, b| a < b));
        Self { values }
    }

    /// Rounds a number and returns the bits; on overflow, one more than those of the largest number. `compare` gives
    /// the number's order relative to a magnitude, both positive.
    pub fn round(&self, negative: bool, round: Round, exceeds: impl Fn(f64) -> Ordering) -> u32 {
        // The first magnitude that is not below the number.
        let above = self.values.partition_point(|&value| exceeds(value) == Ordering::Greater);
        if above < self.values.len() && exceeds(self.values[above]) == Ordering::Equal {
            return above as u32;
        }
        let below = above - 1;
        let last = self.values.len() - 1;
        // Past the largest number, the next would be as far away as the previous one.
        let next = if above <= last { self.values[above] } else { 2.0 * self.values[last] - self.values[last - 1] };
        let middle = exceeds((self.values[below] + next) / 2.0);
        let up = match round {
            Round::Nearest => middle == Ordering::Greater || middle == Ordering::Equal && below % 2 == 1,
            Round::NearestAway => middle != Ordering::Less,
            Round::Zero => false,
            Round::Down => negative,
            Round::Up => !negative,
            _ => unreachable!(),
        };
        (if up { above } else { below }) as u32
    }

    /// Rounds an f64.
    pub fn round_f64(&self, x: f64, round: Round) -> u32 {
        self.round(x.is_sign_negative(), round, |value| x.abs().partial_cmp(&value).unwrap())
    }
}

/// The functions that give the next number up and down.
pub type Steps<T> = (fn(T) -> T, fn(T) -> T);

/// Checks that `result` is the correct rounding of a number to f64 or f32. `up` and `down` return the neighbours;
/// `order` is a value's order relative to the exact number.
pub fn assert_rounded<T: Copy + Into<f64> + std::fmt::Debug>(
    result: T,
    round: Round,
    (up, down): Steps<T>,
    order: impl Fn(f64) -> Ordering,
) {
    let here = order(result.into());
    let above = order(up(result).into());
    let below = order(down(result).into());
    let zero = order(0.0);
    let right = match round {
        Round::Down => here != Ordering::Greater && above == Ordering::Greater,
        Round::Up => here != Ordering::Less && below == Ordering::Less,
        // The number is above zero if zero is below it.
        Round::Zero if zero == Ordering::Less => here != Ordering::Greater && above == Ordering::Greater,
        Round::Zero if zero == Ordering::Greater => here != Ordering::Less && below == Ordering::Less,
        _ => here == Ordering::Equal,
    };
    assert!(right, "{result:?} is not rounded {round:?}: {below:?} {here:?} {above:?}");
}
