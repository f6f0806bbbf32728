//! What the fastest baseline launches, beside the winner: what is known of why it is slower or faster.

use super::contract::{Baseline, Case, CountedLead, Report};
use super::format::{NOTHING, counted, fine, on_cases};
use crate::domain::launched::{LaunchedKernel, largest};

/// The most kernels of a call to name.
const MAX_NAMED: usize = 3;

/// The most characters of a kernel's name to show.
const MAX_NAME: usize = 60;

/// The most cases to tell.
const MAX_CASES: usize = 2;

/// How many times the multiprocessors that a baseline keeps busy ours must, for that to be a reason.
const MIN_MORE: f64 = 1.3;

/// Names the kernels of a call with their blocks: `flash_fwd_kernel (32)`. A dash if they are not known.
pub(super) fn named(kernels: &[LaunchedKernel]) -> String {
    let one = |kernel: &LaunchedKernel| format!("{} ({})", name(kernel), kernel.blocks());
    let told: Vec<String> = kernels.iter().take(MAX_NAMED).map(one).collect();
    match kernels.len() {
        0 => NOTHING.to_owned(),
        all if all > MAX_NAMED => format!("{} and {} more", told.join(", "), all - MAX_NAMED),
        _ => told.join(", "),
    }
}

/// Says what the largest kernel of a baseline is: `` `flash_fwd_kernel` (32 blocks of 128 threads)``. None if not known.
pub(super) fn in_short(baseline: &Baseline) -> Option<String> {
    let kernel = largest(&baseline.kernels)?;
    let more = match baseline.kernels.len() {
        1 => String::new(),
        all => format!(" and {}", counted(all - 1, "more kernel")),
    };
    let (blocks, threads) = (counted(kernel.blocks() as usize, "block"), kernel.threads());
    Some(format!("`{}` ({blocks} of {threads} threads){more}", name(kernel)))
}

/// Says on how many of the cases that ours wins the fastest baseline leaves more multiprocessors idle, with the largest leads
/// among them, or else what it launches where the lead is largest. None if that is not known.
pub(super) fn sentence(report: &Report) -> Option<String> {
    told(report, MAX_CASES, |case| in_short(case.baseline.as_ref()?))
}

/// Says the same in short: of one case, and without names and threads. Where hardware counters tell more of cases, none is
/// named.
pub(super) fn in_summary(report: &Report) -> Option<String> {
    let is_counted = |lead: &CountedLead| lead.shown && lead.busy_sms.is_some_and(has_fewer);
    let most = if report.counted_leads.iter().any(is_counted) { 0 } else { 1 };
    told(report, most, |case| {
        let blocks = largest(&case.baseline.as_ref()?.kernels)?.blocks();
        Some(counted(blocks as usize, "block"))
    })
}

fn told(report: &Report, most: usize, what: fn(&Case) -> Option<String>) -> Option<String> {
    let lead = |case: &Case| case.ratio_to_baseline.map_or(0.0, |ratio| ratio.estimate);
    let known = |case: &&Case| lead(case) > 1.0 && case.baseline.as_ref().is_some_and(|one| !one.kernels.is_empty());
    let won: Vec<&Case> = report.cases.iter().filter(known).collect();
    let idle: Vec<&Case> = won.iter().copied().filter(|case| leaves_more_idle(case).unwrap_or_default()).collect();
    let mut cases = if idle.is_empty() { won.clone() } else { idle.clone() };
    cases.sort_by(|a, b| lead(b).total_cmp(&lead(a)));
    let most = if idle.is_empty() { 1 } else { most };
    let told: Vec<String> = cases.iter().take(most).filter_map(|case| launches(case, what)).collect();
    let sms = cases.first()?.sms;
    let is_as_busy = cases.first().is_some_and(|case| leaves_more_idle(case) == Some(false));
    if told.is_empty() && most > 0 {
        return None;
    }
    let named = if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) };
    Some(match idle.len() {
        0 if is_as_busy => {
            let inside = if report.counted_leads.is_empty() { " How they differ inside is not known." } else { "" };
            format!("The fastest baselines keep about as many of the {sms} SMs busy{named}.{inside}")
        }
        0 => format!("What the fastest baselines launch{named}."),
        some => format!(
            "{} that ours wins, the fastest baseline keeps fewer of the {sms} SMs busy{named}.",
            on_cases(some, won.len())
        ),
    })
}

/// Says what a baseline launches on a case, and how many blocks ours has.
fn launches(case: &Case, what: fn(&Case) -> Option<String>) -> Option<String> {
    let baseline = case.baseline.as_ref()?;
    let ours = case.ctas.map(|blocks| format!(", ours {blocks}")).unwrap_or_default();
    let lead = case.ratio_to_baseline?.estimate;
    Some(format!("on `{}` ({}), `{}` launches {}{ours}", case.case, fine(lead), baseline.name, what(case)?))
}

/// Returns whether the largest kernel of a case's baseline leaves more multiprocessors idle than ours. None if not known.
fn leaves_more_idle(case: &Case) -> Option<bool> {
    busy_sms(case).map(has_fewer)
}

/// Returns the blocks of the largest kernels of the baseline and of the winner. None if not known.
pub(super) fn blocks(case: &Case) -> Option<[u64; 2]> {
    Some([largest(&case.baseline.as_ref()?.kernels)?.blocks(), case.ctas?])
}

/// Returns how many multiprocessors these keep busy. None if not known.
pub(super) fn busy_sms(case: &Case) -> Option<[u64; 2]> {
    blocks(case).map(|both| both.map(|blocks| blocks.min(u64::from(case.sms))))
}

/// Tells whether a kernel has so many fewer blocks than the winner, or multiprocessors with one, that it is a reason.
pub(super) fn has_fewer([other, winner]: [u64; 2]) -> bool {
    winner as f64 >= MIN_MORE * other as f64
}

/// Returns the name of a kernel, cut to what can be read, without characters that mean something in Markdown.
fn name(kernel: &LaunchedKernel) -> String {
    let is_plain = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | ' ');
    kernel.short_name().chars().filter(is_plain).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{launched, record_ahead, report};
    use super::*;

    /// Ours has two blocks on 58 SMs.
    #[test]
    fn a_baseline_that_leaves_more_of_the_gpu_idle_is_told() {
        let told = |blocks: u32, more: usize| {
            let mut report = report(&record_ahead());
            report.cases.iter_mut().for_each(|case| case.ctas = Some(48));
            let kernels = vec![launched(blocks); 1 + more];
            report
                .cases
                .iter_mut()
                .filter_map(|case| case.baseline.as_mut())
                .for_each(|one| one.kernels = kernels.clone());
            sentence(&report).unwrap()
        };
        insta::assert_snapshot!([told(16, 0), told(64, 1), told(1, 4)].join("\n"), @"
        On the only case that ours wins, the fastest baseline keeps fewer of the 58 SMs busy: on `b1h1s128` (2.50×), `torch sdpa (flash)` launches `flash_fwd_kernel` (16 blocks of 128 threads), ours 48.
        The fastest baselines keep about as many of the 58 SMs busy: on `b1h1s128` (2.50×), `torch sdpa (flash)` launches `flash_fwd_kernel` (64 blocks of 128 threads) and 1 more kernel, ours 48. How they differ inside is not known.
        On the only case that ours wins, the fastest baseline keeps fewer of the 58 SMs busy: on `b1h1s128` (2.50×), `torch sdpa (flash)` launches `flash_fwd_kernel` (1 block of 128 threads) and 4 more kernels, ours 48.
        ");
        assert_eq!(sentence(&report(&record_ahead())), None, "the kernels are not known");
        assert_eq!(
            named(&vec![launched(7); 4]),
            "flash_fwd_kernel (7), flash_fwd_kernel (7), flash_fwd_kernel (7) and 1 more"
        );
    }
}
