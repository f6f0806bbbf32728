//! Money for language models: exact micro-dollars, and prices per token.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use super::call::Usage;

/// Micro-dollars in a US dollar.
const PER_DOLLAR: u64 = 1_000_000;

/// Tokens in the unit of a price.
const TOKENS_OF_A_PRICE: u128 = 1_000_000;

/// An amount in millionths of a US dollar. Sums saturate, so that a wrong figure never wraps to a small one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

/// The price of a model's tokens in US dollars per million tokens, which is also micro-dollars per token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that is neither read from the cache nor written to it.
    pub input: f64,
    /// Input that is read from the provider's cache.
    pub cached: f64,
    /// Input that is written to the provider's cache.
    pub cache_write: f64,
    /// Output, including the tokens of a model's reasoning.
    pub output: f64,
}

impl MicroUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// Converts US dollars, rounding up. A negative amount or NaN becomes zero; one that is too large becomes the
    /// largest amount.
    pub fn of_usd(usd: f64) -> Self {
        Self((usd * PER_DOLLAR as f64).ceil() as u64)
    }

    /// Returns the amount in US dollars.
    pub fn usd(self) -> f64 {
        self.0 as f64 / PER_DOLLAR as f64
    }

    /// Subtracts `other`; zero if `other` is larger.
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for MicroUsd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for MicroUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for MicroUsd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// Dollars with cents, and with as many of the six digits as are not zero.
impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:06}", self.0 % PER_DOLLAR);
        let (cents, rest) = digits.split_at(2);
        write!(f, "${}.{cents}{}", self.0 / PER_DOLLAR, rest.trim_end_matches('0'))
    }
}

impl Price {
    /// The price of a model that costs nothing, such as one on the user's own machine.
    pub const FREE: Self = Self { input: 0.0, cached: 0.0, cache_write: 0.0, output: 0.0 };

    /// Returns what tokens cost, rounded up to a micro-dollar once. Prices count in steps of a millionth of a dollar
    /// per million tokens, so that the sum is exact.
    pub fn cost(&self, usage: &Usage) -> MicroUsd {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.cached_tokens, self.cached),
            (usage.cache_write_tokens, self.cache_write),
            (usage.output_tokens, self.output),
        ];
        let micro_usd = |(tokens, price): (u64, f64)| {
            // The cast turns a negative price or NaN into 0. The config refuses both.
            let price = (price * PER_DOLLAR as f64).round() as u64;
            u128::from(tokens) * u128::from(price)
        };
        let sum = parts.into_iter().map(micro_usd).fold(0, u128::saturating_add);
        MicroUsd(u64::try_from(sum.div_ceil(TOKENS_OF_A_PRICE)).unwrap_or(u64::MAX))
    }

    /// Returns the maximum cost of a call: the whole prompt at the highest price of input, and as much output as is
    /// allowed.
    pub fn worst_case(&self, prompt_tokens_upper_bound: u64, max_output_tokens: u64) -> MicroUsd {
        let dearest = Self { input: self.input.max(self.cached).max(self.cache_write), ..*self };
        let (input_tokens, output_tokens) = (prompt_tokens_upper_bound, max_output_tokens);
        dearest.cost(&Usage { input_tokens, output_tokens, ..Usage::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price { input: 3.0, cached: 0.3, cache_write: 3.75, output: 15.0 };

    #[test]
    fn a_cost_is_exact_and_rounded_up_once() {
        let usage = Usage { input_tokens: 1000, cached_tokens: 20_000, cache_write_tokens: 100, output_tokens: 700 };
        assert_eq!(PRICE.cost(&usage), MicroUsd(3000 + 6000 + 375 + 10_500));
        let three_cached = Usage { cached_tokens: 3, ..Usage::default() };
        assert_eq!(PRICE.cost(&three_cached), MicroUsd(1), "0.9 micro-dollars");
        let cheap = Price { input: 0.1, ..Price::FREE };
        for tokens in (10..10_000).step_by(10) {
            let usage = Usage { input_tokens: tokens, ..Usage::default() };
            assert_eq!(cheap.cost(&usage), MicroUsd(tokens / 10), "no error of floating-point numbers");
        }
        assert_eq!(Price::FREE.cost(&usage), MicroUsd::ZERO);
    }

    #[test]
    fn the_worst_case_is_no_less_than_any_division_of_the_prompt() {
        assert_eq!(PRICE.worst_case(1000, 100), MicroUsd(3750 + 1500));
        let all = |usage| assert!(PRICE.cost(&usage) <= PRICE.worst_case(1000, 100));
        all(Usage { input_tokens: 400, cached_tokens: 500, cache_write_tokens: 100, output_tokens: 100 });
        all(Usage { cache_write_tokens: 1000, output_tokens: 100, ..Usage::default() });
    }

    #[test]
    fn amounts_saturate_and_are_shown_as_dollars() {
        assert_eq!(MicroUsd(u64::MAX) + MicroUsd(1), MicroUsd(u64::MAX));
        assert_eq!(PRICE.worst_case(u64::MAX, u64::MAX), MicroUsd(u64::MAX));
        assert_eq!(MicroUsd(5).less(MicroUsd(7)), MicroUsd::ZERO);
        assert_eq!([MicroUsd(1), MicroUsd(2)].into_iter().sum::<MicroUsd>(), MicroUsd(3));
        assert_eq!((MicroUsd::of_usd(1.5), MicroUsd::of_usd(-1.0)), (MicroUsd(1_500_000), MicroUsd::ZERO));
        let shown = [0, 17, 4200, 1_500_000, 12_000_001].map(|amount| MicroUsd(amount).to_string());
        assert_eq!(shown, ["$0.00", "$0.000017", "$0.0042", "$1.50", "$12.000001"]);
    }
}
