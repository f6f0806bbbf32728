//! What a virtual GPU counted for a winner and another kernel, where that explains the difference of their times.

use super::ReportInput;
use super::contract::{Count, Counts};
use crate::domain::code::profile::{LaunchProfile, Profile};
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// The share of a lead, as a logarithm, that the model must derive from the counts, and the factor by which it may exceed it.
/// Counts that explain less are not the reason.
const EXPLAINS: std::ops::RangeInclusive<f64> = 0.5..=1.5;

/// Returns what a virtual GPU counted for a variant on a case, whichever iteration asked for it.
pub(super) fn profile<'a>(hash: &VariantHash, case: &str, record: &'a SessionRecord) -> Option<&'a Profile> {
    let of = |found: &'a CaseRecord| found.explanation.as_ref().or(found.profile.as_ref());
    let same = record.iterations.iter().filter(|one| one.hash == *hash);
    same.flat_map(|one| &one.measurements).filter(|found| found.case == *case).find_map(of)
}

/// Returns the counts of the other kernel and of the winner. None if one of them was not counted, or if the model derives
/// another lead from them than was measured. `ratio` is the other kernel's time over the winner's.
pub(super) fn of(
    [other, winner]: [&IterationRecord; 2],
    case: &str,
    ratio: f64,
    input: &ReportInput<'_>,
) -> Option<Counts> {
    let [theirs, ours] = [other, winner].map(|one| profile(&one.hash, case, input.record));
    let (theirs, ours) = (theirs?, ours?);
    let modelled_ratio = theirs.modelled_ns() / ours.modelled_ns().max(1.0);
    let all_wavefronts = [other, winner].iter().all(|one| !reads_by_descriptor(&one.family, input));
    EXPLAINS
        .contains(&(modelled_ratio.ln() / ratio.ln()))
        .then(|| Counts { modelled_ratio, counts: count(theirs, ours, all_wavefronts) })
}

/// Tells whether the tensor cores read shared memory themselves, which no virtual GPU counts.
fn reads_by_descriptor(family: &str, input: &ReportInput<'_>) -> bool {
    input.families.iter().any(|facts| facts.name == family && facts.reads_by_descriptor)
}

/// Counts for the whole grid, from the blocks that were executed. `all_wavefronts` tells whether all wavefronts of shared memory
/// are counted, so that they may be compared.
fn count(other: &Profile, winner: &Profile, all_wavefronts: bool) -> Vec<Count> {
    let scaled =
        |launch: &LaunchProfile, count: u64| count as f64 * launch.blocks as f64 / launch.executed_blocks.max(1) as f64;
    let sum = |of: &Profile, count: &dyn Fn(&LaunchProfile) -> f64| of.launches.iter().map(count).sum::<f64>();
    let flop = |of: &Profile| sum(of, &|launch| scaled(launch, launch.flop)).max(1.0);
    let both = |name, of: &dyn Fn(&Profile) -> f64| Count { name, other: of(other), winner: of(winner) };
    let mut counts = vec![
        both("warp_instructions", &|of| sum(of, &|launch| scaled(launch, launch.warp_instructions))),
        both("shared_wavefronts", &|of| sum(of, &|launch| scaled(launch, launch.shared.moved))),
        both("global_load_bytes", &|of| sum(of, &|launch| launch.global_load_bytes as f64)),
        both("chain_ns", &|of| sum(of, &|launch| launch.parts_ns.get("latency").copied().unwrap_or_default())),
        both("tensor_share", &|of| sum(of, &|launch| scaled(launch, launch.flop_tensor)) / flop(of)),
        both("blocks", &|of| of.launches.iter().map(|launch| launch.blocks).max().unwrap_or_default() as f64),
        both("launches", &|of| of.launches.len() as f64),
    ];
    counts.retain(|one| all_wavefronts || one.name != "shared_wavefronts");
    counts
}
