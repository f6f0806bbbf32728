//! Warps of a block that do little or nothing while others work.
//!
//! gain = modelled time / modelled time if the work were spread evenly over the warps

use super::{Found, MIN_GAIN, Rule, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::{Subject, threads};
use crate::domain::code::profile::Cause;
use crate::domain::family::plan::Arg;
use crate::domain::proposal::finding::EvidenceSource;

pub(super) const RULE: Rule = Rule {
    name: "idle-warps",
    mechanism: "the busy warps of a block do all the work one after the other, while idle ones hold their registers",
    kernel_change: |_| "divide the inner loop over all warps of a block",
    find,
};

/// Work of the busiest warp over that of the average one, from which warps count as idle.
const UNEVEN: f64 = 1.5;

/// Threads of a warpgroup. One of a block may do nothing but start copies.
const WARPGROUP: u32 = 128;

/// Returns the work of the busiest warp over that of the average one in a kernel that divides its work well. Where the copy
/// engine feeds a block of several warpgroups, one of them only starts copies.
fn by_design(subject: &Subject<'_>, threads: u32) -> f64 {
    let is_fed =
        subject.plan.launches.iter().flat_map(|launch| &launch.args).any(|arg| matches!(arg, Arg::TensorMap(_)));
    let groups = threads / WARPGROUP;
    if is_fed && groups >= 2 { f64::from(groups) / f64::from(groups - 1) } else { 1.0 }
}

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let gain = subject.gain_without(Cause::IdleWarps)?;
    if launch.busiest_warp < UNEVEN * by_design(subject, launch.threads_per_block)
        || launch.atomics > 0
        || gain < MIN_GAIN
    {
        return None;
    }
    let threads = subject.launch().map_or(launch.threads_per_block, threads);
    let counted = format!(
        "the busiest warp of {} executes {:.1} times the instructions of the average warp",
        launch.kernel, launch.busiest_warp
    );
    Some(Found {
        cause: format!(
            "about {:.0} of the {threads} threads of a block do the work",
            f64::from(threads) / launch.busiest_warp
        ),
        evidence: vec![supports(EvidenceSource::VirtualCounters, counted), without("idle warps", gain)],
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
