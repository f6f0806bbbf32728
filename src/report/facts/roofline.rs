//! What a case needs at least, and how near the best variant comes to each peak of the device.

use super::CaseFacts;
use super::contract::Roofline;

/// The share of a peak from which it is what limits a kernel. The best kernels of large cases reach 60% to 80% of
/// the arithmetic peak (docs/results).
pub(super) const NEAR_PEAK: f64 = 0.5;

/// Returns the roofline of a case with the time of its best variant in nanoseconds.
pub(super) fn of(facts: &CaseFacts, best_ns: Option<f64>) -> Roofline {
    let rate = |amount: f64| best_ns.map(|ns| amount / ns * 1e9);
    let (flop_per_s, bytes_per_s) = (rate(facts.flop), rate(facts.bytes));
    let (intensity, ridge) = (facts.flop / facts.bytes, facts.peak_flops / facts.bandwidth);
    Roofline {
        flop: facts.flop,
        bytes: facts.bytes,
        intensity,
        ridge,
        bytes_from: facts.bytes_from.name(),
        side: if intensity >= ridge { "arithmetic" } else { "bytes" },
        floor_limiter: facts.floor_limiter.name(),
        fma_us: facts.fma_share.map(|share| facts.flop / (facts.peak_flops * share) * 1e6),
        flop_per_s,
        share_of_arithmetic: flop_per_s.map(|rate| rate / facts.peak_flops),
        bytes_per_s,
        share_of_bandwidth: bytes_per_s.map(|rate| rate / facts.bandwidth),
        share_of_launch: best_ns.map(|ns| facts.launch_ns / ns),
        times_of_floor: best_ns.map(|ns| ns / facts.floor_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::facts;

    /// 4 MFLOP in 50 us are 80 GFLOP/s; 0.5 MB in 50 us are 10 GB/s.
    #[test]
    fn rates_are_counted_from_the_least_work() {
        let roofline = of(&facts("b1h1s128"), Some(50_000.0));
        assert_eq!(roofline.flop_per_s, Some(8e10));
        assert_eq!(roofline.bytes_per_s, Some(1e10));
        assert_eq!((roofline.intensity, roofline.ridge, roofline.side), (8.0, 40.0, "bytes"));
        assert_eq!(roofline.times_of_floor, Some(50.0));
    }
}
