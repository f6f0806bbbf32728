//! f64 arithmetic in the directed rounding modes (PTX ISA 9.7.4), exact in every case.

use super::soft::{F64, Number};
use crate::program::Round;

/// Position of the leading bit in aligned sums. A product of two f64 (106 bits) keeps 20 bits below it, so bits cut off
/// a smaller operand cannot matter after a cancellation.
const TOP: i32 = 125;

/// Returns `a + b`, rounded as `round` says.
pub fn f64_add_round(a: f64, b: f64, round: Round) -> f64 {
    if round == Round::Nearest || !a.is_finite() || !b.is_finite() {
        return a + b;
    }
    encode(sum(decode(a), decode(b), round), round)
}

/// Returns `a - b`, rounded as `round` says.
pub fn f64_sub_round(a: f64, b: f64, round: Round) -> f64 {
    f64_add_round(a, -b, round)
}

/// Returns `a * b`, rounded as `round` says.
pub fn f64_mul_round(a: f64, b: f64, round: Round) -> f64 {
    if round == Round::Nearest || !a.is_finite() || !b.is_finite() {
        return a * b;
    }
    encode(product(decode(a), decode(b)), round)
}

/// Returns `a * b + c` with one rounding, as `round` says.
pub fn f64_fma_round(a: f64, b: f64, c: f64, round: Round) -> f64 {
    if round == Round::Nearest || !a.is_finite() || !b.is_finite() || !c.is_finite() {
        return a.mul_add(b, c);
    }
    encode(sum(product(decode(a), decode(b)), decode(c), round), round)
}

/// Returns `a / b`, rounded as `round` says.
pub fn f64_div_round(a: f64, b: f64, round: Round) -> f64 {
    if round == Round::Nearest || !a.is_finite() || !b.is_finite() || a == 0.0 || b == 0.0 {
        return a / b;
    }
    let (x, y) = (decode(a).with_top(126), decode(b).with_top(52));
    let quotient = x.mantissa / y.mantissa;
    let rest = u128::from(x.mantissa % y.mantissa != 0);
    let result =
        Number { negative: x.negative != y.negative, mantissa: quotient | rest, exponent: x.exponent - y.exponent };
    encode(result, round)
}

/// Returns `1 / a`, rounded as `round` says.
pub fn f64_rcp_round(a: f64, round: Round) -> f64 {
    f64_div_round(1.0, a, round)
}

/// Returns the square root, rounded as `round` says.
pub fn f64_sqrt_round(a: f64, round: Round) -> f64 {
    if round == Round::Nearest || !a.is_finite() || a <= 0.0 {
        return a.sqrt();
    }
    let mut x = decode(a).with_top(125);
    if x.exponent & 1 != 0 {
        x = Number { mantissa: x.mantissa << 1, exponent: x.exponent - 1, ..x };
    }
    let root = x.mantissa.isqrt();
    let rest = u128::from(root * root != x.mantissa);
    encode(Number { negative: false, mantissa: root | rest, exponent: x.exponent / 2 }, round)
}

fn decode(x: f64) -> Number {
    F64.decode(x.to_bits())
}

fn encode(number: Number, round: Round) -> f64 {
    f64::from_bits(F64.encode(number, round))
}

fn product(a: Number, b: Number) -> Number {
    Number { negative: a.negative != b.negative, mantissa: a.mantissa * b.mantissa, exponent: a.exponent + b.exponent }
}

/// Returns the sum, jammed if it does not fit. An exact zero from opposite signs is negative only when rounding down.
fn sum(a: Number, b: Number, round: Round) -> Number {
    if a.mantissa == 0 && b.mantissa == 0 {
        let negative = if a.negative == b.negative { a.negative } else { round == Round::Down };
        return Number { negative, mantissa: 0, exponent: 0 };
    }
    if a.mantissa == 0 {
        return b;
    }
    if b.mantissa == 0 {
        return a;
    }
    let (a, b) = (a.with_top(TOP), b.with_top(TOP));
    let (big, small) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    let small = small.shifted_right(big.exponent - small.exponent);
    if big.negative == small.negative {
        return Number { mantissa: big.mantissa + small.mantissa, ..big };
    }
    match big.mantissa.cmp(&small.mantissa) {
        std::cmp::Ordering::Greater => Number { mantissa: big.mantissa - small.mantissa, ..big },
        std::cmp::Ordering::Less => Number { mantissa: small.mantissa - big.mantissa, ..small },
        std::cmp::Ordering::Equal => Number { negative: round == Round::Down, mantissa: 0, exponent: 0 },
    }
}
