//! Warps that wait for the same thing most of the time, according to the hardware's samples of their states.
//!
//! gain = 1 / (1 - share of the state among all samples)
//!
//! The states are those of Nsight Compute (Kernel Profiling Guide, "Warp Scheduler States").

use super::{Found, Rule, contradicts, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::counters::WARPGROUP_PRODUCTS;
use crate::domain::proposal::finding::{Confidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "stalls",
    mechanism: "a scheduler issues nothing while all of its warps wait",
    kernel_change: |_| "start the operations that its warps wait for earlier, or hide them behind other warps",
    find,
};

/// The share from which a state counts as the reason.
const SHARE: f64 = 0.3;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let counted = subject.counted()?;
    let (state, share) = counted.first_stall()?;
    if share < SHARE {
        return None;
    }
    let (what, related) = describe_state(state);
    let sampled =
        format!("{:.0}% of the samples of warps of {} are in the state {state}", 100.0 * share, counted.kernel);
    let mut evidence = vec![supports(EvidenceSource::HardwareCounters, sampled)];
    let units = [
        ("tensor cores", counted.tensor_pct),
        ("memory", counted.dram_pct),
        ("L2", counted.l2_pct),
        ("L1 and shared memory", counted.l1_pct),
    ];
    let busiest = units.into_iter().filter_map(|(unit, percent)| Some((unit, percent?)));
    evidence.extend(busiest.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(unit, percent)| {
        supports(
            EvidenceSource::HardwareCounters,
            format!("the busiest unit ({unit}) is used for {percent:.0}% of the time"),
        )
    }));
    // A warp without work waits at the next barrier for those that have some.
    let idle =
        subject.longest().map(|launch| launch.busiest_warp).filter(|busiest| state == "barrier" && *busiest >= 1.5);
    evidence.extend(idle.map(|busiest| {
        let text =
            format!("the busiest warp does {busiest:.1} times the work of the average one, so idle warps wait for it");
        contradicts(EvidenceSource::VirtualCounters, text)
    }));
    Some(Found {
        cause: format!("warps wait {what}"),
        evidence,
        confidence: if idle.is_some() { Confidence::Low } else { Confidence::Medium },
        gain: subject.gain_of_share(share),
        remedies: related.map(|cause| remedy::by_manifest(subject, cause)).unwrap_or_default(),
    })
}

/// Describes what a warp in a state waits for, with the rule whose remedies help.
fn describe_state(state: &str) -> (&'static str, Option<&'static str>) {
    match state {
        "long_scoreboard" => ("for loads from global or local memory", Some("cache-misses")),
        "short_scoreboard" => ("for shared memory or special functions", Some("bank-conflicts")),
        "barrier" => ("for other warps at a block barrier", Some("barriers")),
        "wait" => ("for the fixed latency of the instruction before", Some("latency-bound")),
        "math_pipe_throttle" => ("for a busy arithmetic pipe", None),
        "mio_throttle" => ("for the queue of shared memory and special functions", Some("special-functions")),
        "lg_throttle" => ("for the queue of global and local memory", Some("redundant-loads")),
        "tex_throttle" => ("for the queue of the texture unit", None),
        "branch_resolving" => ("for the target of a branch", None),
        "no_instructions" => ("for instructions to be fetched", None),
        "membar" => ("at a memory fence", None),
        "sleeping" => ("because they sleep", None),
        WARPGROUP_PRODUCTS => ("for products of the warpgroup", None),
        "dispatch" => ("for the dispatch unit", None),
        "drain" => ("for stores to end before they exit", None),
        _ => ("for a reason that Nsight Compute names only", None),
    }
}
