//! The arithmetic of PTX against slow, exact references.

mod approx;
mod convert;
mod exact;
mod float;
mod half;
mod integer;
mod mma;
mod mma_hopper;

use proptest::test_runner::Config;

/// Number of cases per property.
fn cases() -> Config {
    Config { cases: 20_000, ..Config::default() }
}
