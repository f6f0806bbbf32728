//! Where the cycles of a winner and of another kernel go, by hardware counters: those of the busiest SM by the states of the sampled
//! warps, and those outside of its work. The parts of a kernel add up to its cycles, so the difference of a part is its share of the
//! lead.

use super::contract::{CyclePart, Cycles};
use crate::domain::code::counters::{Counters, LaunchCounters, WARPGROUP_PRODUCTS};

/// The parts, with the states of warps that belong to them, as `ncu` names these.
const PARTS: [(&str, &[&str]); 8] = [
    ("issue", &["selected", "not_selected"]),
    (BARRIERS, &["barrier", "membar"]),
    ("data", &["long_scoreboard", "lg_throttle", "tex_throttle", "drain"]),
    ("shared_memory", &["short_scoreboard", "mio_throttle"]),
    ("pipes", &["wait", "math_pipe_throttle", "dispatch_stall", "warpgroup_arrive", WARPGROUP_PRODUCTS]),
    (FETCH, &["no_instructions", "imc_miss", "branch_resolving"]),
    (LAUNCH, &[]),
    ("other", &["misc", "sleeping"]),
];

const BARRIERS: &str = "barriers";
const LAUNCH: &str = "launch";
const FETCH: &str = "instructions";

/// They are no parts of a lead. The profiler loads the code of a kernel anew, and launches of a graph do not (docs/model.md). Nor
/// does its time before and after the blocks of a launch follow that of such launches (docs/reading-a-report.md).
const OF_PROFILER: [&str; 2] = [LAUNCH, FETCH];

/// Samples of warps from which their states are told. Tiny kernels have fewer.
const MIN_SAMPLES: f64 = 20.0;

/// The factor by which the differences of the two kernels may differ, profiled and not, where the counters show a lead. What else
/// the profiler adds to each launch is in both kernels, so it changes their ratio and not their difference.
const MAX_DISAGREEMENT: f64 = 2.0;

/// Compares another kernel with a winner. `ratio` is the other's time over the winner's, which is in microseconds. None if the
/// counters do not show the lead.
pub(super) fn of(theirs: &Counters, ours: &Counters, ratio: f64, winner_us: f64) -> Option<Cycles> {
    let products_apart = [theirs, ours].iter().all(|one| products_are_apart(one));
    let mut parts = divide(theirs, ours, products_apart)?;
    let cycles = sums(parts.iter());
    let [compared_theirs, compared_ours] = sums(parts.iter().filter(|part| !OF_PROFILER.contains(&part.part)));
    let pair = |of: fn(&LaunchCounters) -> Option<f64>| Some([sum(theirs, of)?, sum(ours, of)?]);
    // The times are counted in another pass than the cycles, so one clock serves for both kernels.
    let clock_ns = pair(|launch| launch.time_ns)?.iter().sum::<f64>() / cycles.iter().sum::<f64>();
    let (more_us, profiled_us) = ((ratio - 1.0) * winner_us, (compared_theirs - compared_ours) * clock_ns / 1e3);
    let is_shown = (1.0 / MAX_DISAGREEMENT..=MAX_DISAGREEMENT).contains(&(profiled_us / more_us));
    let sign = if ratio >= 1.0 { 1.0 } else { -1.0 };
    parts.sort_by(|a, b| {
        let rank = |part: &CyclePart| (OF_PROFILER.contains(&part.part), -sign * part.more());
        rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1))
    });
    is_shown.then(|| Cycles {
        kernel: longest(theirs).map(|launch| launch.kernel.clone()).unwrap_or_default(),
        cycles,
        parts,
        instructions: pair(|launch| launch.instructions),
        l2_bytes: pair(LaunchCounters::l2_bytes),
        products_apart,
    })
}

fn longest(of: &Counters) -> Option<&LaunchCounters> {
    of.launches.iter().max_by(|a, b| a.time_ns.unwrap_or_default().total_cmp(&b.time_ns.unwrap_or_default()))
}

fn sum(of: &Counters, count: fn(&LaunchCounters) -> Option<f64>) -> Option<f64> {
    of.launches.iter().map(count).sum::<Option<f64>>().filter(|sum| *sum > 0.0)
}

/// Tells whether the waits of all launches for products of warpgroups are told apart from waits at barriers.
fn products_are_apart(of: &Counters) -> bool {
    of.launches.iter().all(LaunchCounters::tells_products_apart)
}

/// Divides the cycles of all launches of both kernels in the same way. None if a launch has too few counters.
fn divide(other: &Counters, winner: &Counters, products_apart: bool) -> Option<Vec<CyclePart>> {
    let (other, winner) = (divided(other, products_apart)?, divided(winner, products_apart)?);
    let both = PARTS.iter().zip(other.into_iter().zip(winner));
    Some(both.map(|((part, _), (other, winner))| CyclePart { part, other, winner }).collect())
}

fn divided(of: &Counters, products_apart: bool) -> Option<[f64; PARTS.len()]> {
    let mut all = [0.0; PARTS.len()];
    for launch in &of.launches {
        let samples: f64 = launch.warp_states.values().sum();
        let (elapsed, busiest) = (launch.sm_elapsed_cycles?, launch.sm_active_cycles_max?);
        // The two are counted in different passes, so a busy SM may seem to work for longer than the launch lasts.
        let busiest = busiest.min(elapsed);
        if samples < MIN_SAMPLES {
            return None;
        }
        for (state, count) in &launch.warp_states {
            let place = PARTS.iter().position(|(_, states)| states.contains(&&**state));
            let is_merged = !products_apart && state == WARPGROUP_PRODUCTS;
            let place = if is_merged { Some(place_of(BARRIERS)) } else { place };
            all[place.unwrap_or(PARTS.len() - 1)] += busiest * count / samples;
        }
        all[place_of(LAUNCH)] += elapsed - busiest;
    }
    (!of.launches.is_empty()).then_some(all)
}

fn place_of(part: &str) -> usize {
    PARTS.iter().position(|(name, _)| *name == part).unwrap_or(PARTS.len() - 1)
}

/// Returns the sums of parts, of the other kernel and of the winner.
fn sums<'a>(parts: impl Iterator<Item = &'a CyclePart> + Clone) -> [f64; 2] {
    [parts.clone().map(|part| part.other).sum(), parts.map(|part| part.winner).sum()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(time_ns: f64, cycles: f64, states: &[(&str, f64)]) -> Counters {
        let launch = LaunchCounters {
            kernel: "kernel".to_owned(),
            time_ns: Some(time_ns),
            sm_elapsed_cycles: Some(cycles),
            sm_active_cycles_max: Some(0.8 * cycles),
            warp_states: states.iter().map(|(state, count)| ((*state).to_owned(), *count)).collect(),
            ..LaunchCounters::default()
        };
        Counters { tool: "ncu 2025.1".to_owned(), launches: vec![launch] }
    }

    #[test]
    fn the_parts_of_a_lead_add_up_and_the_largest_difference_comes_first() {
        let theirs = counters(1500.0, 3000.0, &[("selected", 50.0), ("long_scoreboard", 50.0)]);
        let ours = counters(1000.0, 2000.0, &[("selected", 75.0), ("long_scoreboard", 25.0)]);
        let lead = of(&theirs, &ours, 1.5, 1.0).unwrap();
        assert_eq!(lead.cycles, [3000.0, 2000.0]);
        assert_eq!((lead.parts[0].part, lead.parts[0].more()), ("data", 800.0));
        assert_eq!(lead.parts.last().map(|part| part.part), Some("instructions"), "the profiler adds to it");
        assert_eq!(lead.parts.iter().map(CyclePart::more).sum::<f64>(), 1000.0);
        let faster = of(&ours, &theirs, 1.0 / 1.5, 1.5).unwrap();
        assert_eq!((faster.parts[0].part, faster.parts[0].more()), ("data", -800.0), "the other kernel is faster");
        assert_eq!(of(&theirs, &ours, 4.0, 1.0), None, "the cycles show less than half of the lead");
        let few = counters(1500.0, 3000.0, &[("selected", 19.0)]);
        assert_eq!(of(&few, &ours, 1.5, 1.0), None, "few samples");
    }

    /// Half of the winner's waits in the state `barrier` are for products.
    #[test]
    fn waits_for_products_are_apart_if_they_are_so_in_both_kernels() {
        let ours = counters(1000.0, 2000.0, &[("selected", 60.0), ("barrier", 20.0), (WARPGROUP_PRODUCTS, 20.0)]);
        let told = |states: &[(&str, f64)]| {
            let lead = of(&counters(1500.0, 3000.0, states), &ours, 1.5, 1.0).unwrap();
            let barriers = lead.parts.iter().find(|part| part.part == BARRIERS).unwrap();
            (lead.products_apart, barriers.winner)
        };
        let apart = told(&[("selected", 50.0), ("barrier", 50.0), (WARPGROUP_PRODUCTS, 0.0)]);
        assert_eq!((apart, told(&[("selected", 50.0), ("barrier", 50.0)])), ((true, 320.0), (false, 640.0)));
    }
}
