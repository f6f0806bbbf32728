//! What a case needs at least, and how near the best variant comes to each ceiling of the device.

use super::CaseFacts;
use super::contract::{Case, Roofline};
use super::format::{either, percent, times};

/// The share of a ceiling from which it is what limits a kernel. The best kernels of large cases reach 60% to 80% of
/// the arithmetic ceiling (docs/results).
pub(super) const NEAR_CEILING: f64 = 0.5;

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

/// Says how near the first kernels came to the ceilings, and how far they were from the best ones. None without times.
pub(super) fn first_reading(cases: &[Case]) -> Option<String> {
    let known =
        || cases.iter().filter_map(|case| Some((first_us(case)? * 1e3, case.best_us? * 1e3, case.roofline.as_ref()?)));
    let span = |of: &dyn Fn(f64, f64, &Roofline) -> Option<f64>| {
        let shares: Vec<f64> =
            known().filter_map(|(first_ns, best_ns, roofline)| of(first_ns, best_ns, roofline)).collect();
        shares.iter().copied().reduce(f64::min).zip(shares.into_iter().reduce(f64::max))
    };
    // The shares of the best variant, scaled by the times.
    let arithmetic = span(&|first, best, roofline| Some(roofline.share_of_arithmetic? * best / first))?;
    let bandwidth = span(&|first, best, roofline| Some(roofline.share_of_bandwidth? * best / first))?;
    let behind = span(&|first, best, _| Some(first / best))?;
    let nearest = if arithmetic.1 >= bandwidth.1 { "arithmetic" } else { "bandwidth" };
    let verdict = match (arithmetic.1.max(bandwidth.1) < NEAR_CEILING, known().count()) {
        (true, 1) => "So neither bounds it: its warps wait".to_owned(),
        (true, _) => "So neither of the two bounds them".to_owned(),
        (false, 1) => format!("So it is bound by {nearest}"),
        (false, _) => "Cases near a ceiling are bound by it".to_owned(),
    };
    let of_floor = span(&|first, best, roofline| Some(roofline.times_of_floor? * first / best))?;
    let [takes, best, reaches] = match known().count() {
        1 => ["The first kernel takes", "best one", "It reaches"],
        _ => ["The first kernels take", "best ones", "They reach"],
    };
    Some(format!(
        "{takes} {} as long as the {best}, and {} as long as the floor. {reaches} {} of the arithmetic ceiling \
         and {} of the bandwidth of memory or L2. {verdict}.",
        either(times(behind.0), times(behind.1)),
        either(times(of_floor.0), times(of_floor.1)),
        either(percent(arithmetic.0), percent(arithmetic.1)),
        either(percent(bandwidth.0), percent(bandwidth.1))
    ))
}

/// Returns the time of the first kernel of a case: as in the main table, if the session began with it.
pub(super) fn first_us(case: &Case) -> Option<f64> {
    let change = case.change.as_ref().filter(|change| change.began_with == "first_variant");
    let ratio = change.and_then(|change| change.ratio).filter(|ratio| ratio.paired);
    ratio.zip(case.best_us).map(|(ratio, best_us)| ratio.estimate * best_us).or(case.start_us)
}

/// Says on which side of the ridge the cases are, in one sentence for each side. The seeds of this project took
/// kernels for bound by memory because their arithmetic intensity, counted with repeated loads, was low.
pub(super) fn readings(cases: &[Case]) -> Vec<String> {
    let known: Vec<(&Case, &Roofline)> =
        cases.iter().filter_map(|case| Some((case, case.roofline.as_ref()?))).collect();
    let sides = [("arithmetic", "compute-bound", "arithmetic ceiling"), ("bytes", "memory-bound", "bandwidth")];
    let mut readings: Vec<String> = sides
        .into_iter()
        .filter_map(|(side, bound, ceiling)| {
            let on_side: Vec<&Roofline> = known.iter().map(|(_, one)| *one).filter(|one| one.side == side).collect();
            let span = |of: &dyn Fn(&Roofline) -> Option<f64>, show: &dyn Fn(f64) -> String| {
                let values: Vec<f64> = on_side.iter().filter_map(|one| of(one)).collect();
                let ends = values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max))?;
                Some((either(show(ends.0), show(ends.1)), ends.1))
            };
            let share = |one: &Roofline| {
                if side == "arithmetic" { one.share_of_arithmetic } else { one.share_of_bandwidth }
            };
            let (shares, highest) = span(&share, &percent)?;
            let verdict = if highest < NEAR_CEILING {
                "That ceiling limits none of them"
            } else {
                "It limits those near the top"
            };
            Some(format!(
                "By their roofline, {} of {} cases are {bound}: {} FLOP per byte, and the device's ridge is at {}. Their \
                 best variants reach {shares} of the {ceiling}. {verdict}.",
                on_side.len(),
                known.len(),
                span(&|one| Some(one.intensity), &|value| format!("{value:.0}"))?.0,
                span(&|one| Some(one.ridge), &|value| format!("{value:.0}"))?.0,
            ))
        })
        .collect();
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
    use super::super::tests::facts;
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
}
