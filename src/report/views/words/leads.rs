//! Why a winner is faster than another kernel, in one clause.

use crate::domain::text::counted::counted;
use crate::report::contract::{Count, Counts, CyclePart, Cycles, Lead, Parts};
use crate::report::views::format::us;

/// The most changed parameters to name.
const MAX_CHANGES: usize = 3;

/// A count is named if its logarithm has fallen by at least this share of the gain's.
const MIN_SHARE: f64 = 0.25;

/// Says where the difference is, by the most reliable evidence. None if nothing is known of it.
pub(in crate::report::views) fn explanation(lead: &Lead) -> Option<String> {
    let evidence = &lead.evidence;
    let ratio = lead.ratio.map_or(1.0, |ratio| ratio.estimate);
    let of_blocks = || {
        let [theirs, ours] = evidence.blocks.filter(|[theirs, ours]| theirs != ours)?;
        Some(format!("{} instead of {theirs}", counted(ours as usize, "block")))
    };
    let of_parts = || evidence.ablation.as_ref().and_then(parts);
    let of_cycles = || evidence.cycles.as_ref().and_then(|cycles| self::cycles(cycles, ratio));
    let of_counts = || evidence.counts.as_ref().and_then(|counts| self::counts(counts, ratio));
    of_parts().or_else(of_cycles).or_else(of_counts).or_else(of_blocks)
}

/// Names the changed parameters: `PAD 0 to 8`. None if the families differ.
pub(in crate::report::views) fn changes(lead: &Lead) -> Option<String> {
    let all = &lead.evidence.changes;
    let named: Vec<String> =
        all.iter().take(MAX_CHANGES).map(|one| format!("{} {} to {}", one.parameter, one.from, one.to)).collect();
    let more = all.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

fn parts(of: &Parts) -> Option<String> {
    let kinds = [
        (of.launch_us, "its launch"),
        (of.waits_us.unwrap_or_default(), "waits for asynchronous work"),
        (of.other_us, "addresses, conversions and loops"),
    ];
    let kind = of.largest.map(|largest| (largest.us, largest.removed.text()));
    let (most_us, what) = kinds.into_iter().chain(kind).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most_us > 0.0).then(|| format!("{} us less for {what} (ablation)", us(most_us)))
}

fn cycles(of: &Cycles, ratio: f64) -> Option<String> {
    let sign = if ratio >= 1.0 { 1.0 } else { -1.0 };
    let largest = of.parts.iter().max_by(|a, b| (sign * a.more()).total_cmp(&(sign * b.more())))?;
    let fewer = if sign > 0.0 { "fewer" } else { "more" };
    Some(format!("{:.0} {fewer} cycles {} (hardware counters)", (sign * largest.more()).abs(), doing(largest)))
}

/// Says what warps do in a part of the cycles.
pub(in crate::report::views) fn doing(part: &CyclePart) -> &'static str {
    match part.part {
        "issue" => "issuing instructions",
        "barriers" => "waiting at barriers",
        "data" => "waiting for memory or L2",
        "shared_memory" => "waiting for shared memory or special functions",
        "pipes" => "waiting for arithmetic",
        "instructions" => "waiting for instructions",
        "launch" => "before the first block and after the last one",
        _ => "waiting for something else",
    }
}

fn counts(of: &Counts, ratio: f64) -> Option<String> {
    let has_fallen = |count: &&Count| count.factor().is_some_and(|by| by > 1.0 && by.ln() >= MIN_SHARE * ratio.ln());
    let named = of.counts.iter().filter(has_fallen).filter_map(|count| Some((count.factor()?, noun(count.name)?)));
    let (by, what) = named.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("{:.0}% of the {what} (counted by a virtual GPU)", 100.0 / by))
}

fn noun(count: &str) -> Option<&'static str> {
    Some(match count {
        "warp_instructions" => "instructions",
        "shared_wavefronts" => "wavefronts of shared memory",
        "global_load_bytes" => "bytes loaded",
        "chain_ns" => "time in its longest chain of instructions",
        "launches" => "launches",
        _ => return None,
    })
}
