//! What the cycles of profiled launches went to: those of the busiest SM by the states of the sampled warps, and those outside of its
//! work. The parts of a kernel add up to its cycles.

use super::contract::CyclePart;
use crate::domain::counters::{Counters, LaunchCounters, WARPGROUP_PRODUCTS};

/// The parts with what warps do in them, and the states of warps that belong to them, as `ncu` names these.
const PARTS: [(&str, &str, &[&str]); 8] = [
    ("issue", "issuing instructions", &["selected", "not_selected"]),
    (BARRIERS, "waits for other warps at barriers", &["barrier", "membar"]),
    ("data", "waits for data of global memory or L2", &["long_scoreboard", "lg_throttle", "tex_throttle", "drain"]),
    ("shared_memory", "waits for shared memory or special functions", &["short_scoreboard", "mio_throttle"]),
    (
        "pipes",
        "waits for arithmetic",
        &["wait", "math_pipe_throttle", "dispatch_stall", "warpgroup_arrive", WARPGROUP_PRODUCTS],
    ),
    (FETCH, "waits for instructions or constants", &["no_instructions", "imc_miss", "branch_resolving"]),
    (LAUNCH, "the time before the first block and after the last one", &[]),
    (OTHER, "waits for something else", &["misc", "sleeping"]),
];

pub(super) const BARRIERS: &str = "barriers";
const LAUNCH: &str = "launch";
const FETCH: &str = "instructions";
/// They are no parts of a lead. The profiler loads the code of a kernel anew, and launches of a graph do not (docs/model.md). Nor
/// does its time before and after the blocks of a launch follow that of such launches (docs/reading-a-report.md).
const OF_PROFILER: [&str; 2] = [LAUNCH, FETCH];
const OTHER: &str = "other";

/// Samples of warps from which their states are told. Tiny kernels have fewer.
const MIN_SAMPLES: f64 = 20.0;

/// Tells whether the waits of all launches for products of warpgroups are told apart from waits at barriers.
pub(super) fn products_are_apart(of: &Counters) -> bool {
    of.launches.iter().all(LaunchCounters::tells_products_apart)
}

/// Divides the cycles of all launches of the other kernel and of the winner into parts, in the same way. None if a launch has too few
/// counters.
pub(super) fn of(other: &Counters, winner: &Counters, products_apart: bool) -> Option<Vec<CyclePart>> {
    let (other, winner) = (divided(other, products_apart)?, divided(winner, products_apart)?);
    let both = PARTS.iter().zip(other.into_iter().zip(winner));
    Some(both.map(|((part, ..), (other, winner))| CyclePart { part, other, winner }).collect())
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
            let place = PARTS.iter().position(|(.., states)| states.contains(&&**state));
            let is_merged = !products_apart && state == WARPGROUP_PRODUCTS;
            let place = if is_merged { Some(place_of(BARRIERS)) } else { place };
            all[place.unwrap_or(PARTS.len() - 1)] += busiest * count / samples;
        }
        all[place_of(LAUNCH)] += elapsed - busiest;
    }
    (!of.launches.is_empty()).then_some(all)
}

fn place_of(part: &str) -> usize {
    PARTS.iter().position(|(name, ..)| *name == part).unwrap_or(PARTS.len() - 1)
}

/// Says what warps do in a part.
pub(super) fn what(part: &CyclePart, products_apart: bool) -> &'static str {
    match part.part {
        BARRIERS if !products_apart => "waits for other warps at barriers or for products on tensor cores",
        name => PARTS[place_of(name)].1,
    }
}

/// Returns the names of the parts that a table shows, those that are no parts of a lead last. The other one is small.
pub(super) fn part_names() -> impl Iterator<Item = &'static str> + Clone {
    let is_compared = |part: &&str| *part != OTHER && !OF_PROFILER.contains(part);
    PARTS.iter().map(|(part, ..)| *part).filter(is_compared).chain(OF_PROFILER)
}

/// Returns the parts that a lead is about: without what the profiler adds.
pub(super) fn compared(parts: &[CyclePart]) -> impl Iterator<Item = &CyclePart> + Clone {
    parts.iter().filter(|part| !OF_PROFILER.contains(&part.part))
}

/// Returns the sums of parts, of the other kernel and of the winner.
pub(super) fn sums<'a>(parts: impl Iterator<Item = &'a CyclePart> + Clone) -> [f64; 2] {
    [parts.clone().map(|part| part.other).sum(), parts.map(|part| part.winner).sum()]
}
