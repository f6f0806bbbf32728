//! What a case needs at least, and how near the best variant comes to each ceiling of the device.

use super::CaseFacts;
use super::contract::{Case, Roofline};
use super::format::{percent, times};
use crate::domain::floor::Limiter;

/// The share of a ceiling from which it is what limits a kernel. The best kernels of large cases reach 60% to 80% of
/// the arithmetic ceiling (docs/results).
const NEAR_CEILING: f64 = 0.5;

/// The share of a time from which an empty launch explains much of it.
const MUCH_LAUNCH: f64 = 0.25;

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
        flop_per_s,
        share_of_arithmetic: flop_per_s.map(|rate| rate / facts.peak_flops),
        bytes_per_s,
        share_of_bandwidth: bytes_per_s.map(|rate| rate / facts.bandwidth),
        share_of_launch: best_ns.map(|ns| facts.launch_ns / ns),
        times_of_floor: best_ns.map(|ns| ns / facts.floor_ns),
    }
}

/// Says what limits the best variant of a case, as far as times, blocks and ceilings tell. None without a time.
pub(super) fn limited_by(case: &Case, roofline: &Roofline) -> Option<String> {
    let (arithmetic, bandwidth) = (roofline.share_of_arithmetic?, roofline.share_of_bandwidth?);
    let from = roofline.bytes_from;
    if arithmetic.max(bandwidth) >= NEAR_CEILING {
        let named = if arithmetic >= bandwidth { "arithmetic" } else { from };
        return Some(format!("{named}: {} of the ceiling", percent(arithmetic.max(bandwidth))));
    }
    if let Some(limiter) = modelled_limiter(case) {
        return Some(format!("{limiter} (modelled)"));
    }
    let launch = roofline.share_of_launch?;
    if launch >= MUCH_LAUNCH {
        let share = percent(launch);
        return Some(format!("{}: an empty launch is {share} of the time", Limiter::Launch.name()));
    }
    let idle = case.ctas.filter(|blocks| *blocks < u64::from(case.sms));
    Some(match idle {
        Some(blocks) => format!("idle SMs: {blocks} blocks on {}", case.sms),
        None => {
            let (arithmetic, bandwidth) = (percent(arithmetic), percent(bandwidth));
            format!("no ceiling: {arithmetic} of arithmetic, {bandwidth} of {from}; latency inside the kernel")
        }
    })
}

/// Returns what bounds the longest launch, if a virtual GPU has counted it.
fn modelled_limiter(case: &Case) -> Option<String> {
    let launches = &case.profile.as_ref()?.launches;
    let longest = launches.iter().max_by(|a, b| a.modelled_ns.total_cmp(&b.modelled_ns))?;
    Some(longest.limiter.clone())
}

/// Says how near the first kernels came to the ceilings, and how far they were from the best ones. None without times.
pub(super) fn first_reading(cases: &[Case]) -> Option<String> {
    let known =
        || cases.iter().filter_map(|case| Some((case.start_us? * 1e3, case.best_us? * 1e3, case.roofline.as_ref()?)));
    let span = |of: &dyn Fn(f64, f64, &Roofline) -> Option<f64>| {
        let shares: Vec<f64> =
            known().filter_map(|(first_ns, best_ns, roofline)| of(first_ns, best_ns, roofline)).collect();
        shares.iter().copied().reduce(f64::min).zip(shares.into_iter().reduce(f64::max))
    };
    // The shares of the best variant, scaled by the times.
    let arithmetic = span(&|first, best, roofline| Some(roofline.share_of_arithmetic? * best / first))?;
    let bandwidth = span(&|first, best, roofline| Some(roofline.share_of_bandwidth? * best / first))?;
    let behind = span(&|first, best, _| Some(first / best))?;
    let verdict = if arithmetic.1.max(bandwidth.1) < NEAR_CEILING {
        "Neither bounds it: it waits. Faster loads or more arithmetic alone would gain little"
    } else {
        "The cases near the top are bound by that ceiling"
    };
    Some(format!(
        "The first kernel takes {} as long as the best one. It reaches {} of the arithmetic ceiling and {} of the \
         bandwidth, counting each byte once. {verdict}.",
        span_of(times(behind.0), times(behind.1)),
        span_of(percent(arithmetic.0), percent(arithmetic.1)),
        span_of(percent(bandwidth.0), percent(bandwidth.1))
    ))
}

/// Names a range, or one figure where both ends read the same.
fn span_of(lo: String, hi: String) -> String {
    if lo == hi { lo } else { format!("{lo} to {hi}") }
}

/// Says on which side of the ridge the cases are, in one sentence for each side. The seeds of this project took
/// kernels for bound by memory because their arithmetic intensity, counted with repeated loads, was low.
pub(super) fn readings(cases: &[Case]) -> Vec<String> {
    let known: Vec<(&Case, &Roofline)> =
        cases.iter().filter_map(|case| Some((case, case.roofline.as_ref()?))).collect();
    let mut readings = Vec::new();
    for side in ["arithmetic", "bytes"] {
        let on_side: Vec<_> = known.iter().filter(|(_, roofline)| roofline.side == side).collect();
        let ceilings = on_side.iter().filter_map(|(_, roofline)| match side {
            "arithmetic" => roofline.share_of_arithmetic,
            _ => roofline.share_of_bandwidth,
        });
        let (Some(lo), Some(hi)) = (ceilings.clone().reduce(f64::min), ceilings.reduce(f64::max)) else { continue };
        let ceiling = if side == "arithmetic" { "arithmetic ceiling" } else { "bandwidth" };
        let verdict = if hi < NEAR_CEILING {
            "That ceiling bounds none of them: the time goes into latency, launches or idle multiprocessors"
        } else {
            "Those near the top are bound by it"
        };
        readings.push(format!(
            "On the {side} side of the ridge are {} of {} cases. Their best variants reach {} of the {ceiling}. {verdict}.",
            on_side.len(),
            known.len(),
            span_of(percent(lo), percent(hi))
        ));
    }
    let furthest = known.iter().filter_map(|(case, roofline)| Some((case, roofline.times_of_floor?)));
    if let Some((case, factor)) = furthest.max_by(|a, b| a.1.total_cmp(&b.1)) {
        readings.push(format!(
            "`{}` is furthest from its floor: {}. No kernel gains more than that.",
            case.case,
            times(factor)
        ));
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::super::tests::{facts, record, report};
    use super::*;

    /// 4 MFLOP in 50 us are 80 GFLOP/s; 0.5 MB in 50 us are 10 GB/s.
    #[test]
    fn rates_are_counted_from_the_least_work() {
        let roofline = of(&facts("b1h1s128"), Some(50_000.0));
        assert_eq!(roofline.flop_per_s, Some(8e10));
        assert_eq!(roofline.bytes_per_s, Some(1e10));
        assert_eq!((roofline.intensity, roofline.ridge, roofline.side), (8.0, 40.0, "bytes"));
        assert_eq!(roofline.times_of_floor, Some(50.0));
    }

    #[test]
    fn what_limits_a_variant_is_named_by_the_nearest_ceiling_then_launch_then_blocks() {
        let report = report(&record());
        let limited = |best_ns: f64, ctas: u64| {
            let case = Case { ctas: Some(ctas), ..report.cases[0].clone() };
            limited_by(&case, &of(&facts("b1h1s128"), Some(best_ns))).unwrap()
        };
        assert_eq!(limited(250.0, 500), "L2: 67% of the ceiling");
        assert_eq!(limited(2000.0, 2), "launch: an empty launch is 50% of the time");
        assert_eq!(limited(50_000.0, 2), "idle SMs: 2 blocks on 58");
        assert!(limited(50_000.0, 500).starts_with("no ceiling: 0.07% of arithmetic"));
    }
}
