//! Which counts of a virtual GPU have changed with a time, in words.

use super::contract::Count;
use super::format::percent;

/// A count is named if its logarithm has fallen by at least this share of the gain's, and the count by this factor.
const MIN_SHARE: f64 = 0.25;
const MIN_FALL: f64 = 1.05;

/// The factor from which fewer blocks are named.
const MIN_FEWER: f64 = 1.5;

/// The factor from which a count that has grown is named.
const MIN_GROWTH: f64 = 1.3;

/// The shares of the arithmetic on tensor cores from which a variant counts as using them, and up to which it does not.
const MIN_TENSOR_SHARE: f64 = 0.5;
const MAX_SCALAR_SHARE: f64 = 0.05;

/// Names the counts that have fallen with the time, the most first, and one that has grown meanwhile.
pub(super) fn sentence(counts: &[Count], factor: f64, sms: f64, most: usize) -> String {
    let mut changed: Vec<(f64, &Count)> = counts.iter().filter_map(|one| Some((one.factor()?, one))).collect();
    changed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let has_fallen = |by: f64| by >= MIN_FALL && by.ln() >= MIN_SHARE * factor.ln();
    let fallen = changed.iter().filter(|(by, _)| has_fallen(*by));
    let fallen: Vec<String> = fallen.filter_map(|(by, count)| phrase(count, *by)).take(most).collect();
    let grown = changed.iter().rev().filter(|(by, _)| *by <= 1.0 / MIN_GROWTH);
    let grown = grown.filter_map(|(by, count)| phrase(count, *by));
    // A short clause has no room for them.
    let grown: Vec<String> = grown.take(usize::from(most > 1)).collect();
    let told = [launches(counts), tensor_cores(counts), blocks(counts, sms)];
    let mut parts: Vec<String> = told.into_iter().flatten().collect();
    parts.extend(fallen);
    let but = grown.first().map(|grown| format!(", but {grown}")).unwrap_or_default();
    match parts.split_last() {
        None => format!("No count has fallen with the time{but}."),
        Some((only, [])) => format!("It {only}{but}."),
        Some((last, others)) => format!("It {}, and {last}{but}.", others.join(", ")),
    }
}

/// Does the same in a clause that begins in lower case and has no full stop.
pub(super) fn clause(counts: &[Count], factor: f64, sms: f64, most: usize) -> String {
    let told = sentence(counts, factor, sms, most);
    told.trim_end_matches('.').replacen('I', "i", 1).replacen("No count", "no count", 1)
}

/// Says how a count has changed. None for the counts that have sentences of their own.
fn phrase(count: &Count, by: f64) -> Option<String> {
    let (by, has_fallen) = if by > 1.0 { (fold(by), true) } else { (fold(1.0 / by), false) };
    let (fewer, shorter) = if has_fallen { ("fewer", "shorter") } else { ("more", "longer") };
    Some(match count.name {
        "warp_instructions" => format!("executes {by} {fewer} instructions"),
        "shared_wavefronts" => format!("takes {by} {fewer} wavefronts of shared memory"),
        "global_load_bytes" => format!("loads {by} {fewer} bytes from global memory"),
        "chain_ns" => format!("has a chain of dependent instructions that is {by} {shorter}"),
        _ => return None,
    })
}

/// Says that there are fewer launches. Each costs at least as much as an empty one.
fn launches(counts: &[Count]) -> Option<String> {
    let Count { before, after, .. } = counts.iter().find(|one| one.name == "launches")?;
    (after < before).then(|| format!("needs {after} instead of {before} launches"))
}

/// Says that the arithmetic has moved to tensor cores.
fn tensor_cores(counts: &[Count]) -> Option<String> {
    let share = counts.iter().find(|one| one.name == "tensor_share")?;
    (share.before <= MAX_SCALAR_SHARE && share.after >= MIN_TENSOR_SHARE)
        .then(|| format!("does {} of its arithmetic on tensor cores", percent(share.after)))
}

/// Says that the work is divided into more blocks, where too few left multiprocessors idle, or into fewer ones, where each
/// multiprocessor ran several. Every block has to be set up.
fn blocks(counts: &[Count], sms: f64) -> Option<String> {
    let Count { before, after, .. } = counts.iter().find(|one| one.name == "blocks")?;
    if *before < sms && *after >= MIN_GROWTH * before {
        return Some(format!("keeps {:.0} of {sms:.0} SMs busy instead of {before:.0}", after.min(sms)));
    }
    (*before > sms && *before >= MIN_FEWER * after).then(|| format!("sets up {after:.0} instead of {before:.0} blocks"))
}

/// Formats a factor in a sentence: `2.1 times`, `20 times`.
fn fold(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1} times") } else { format!("{factor:.0} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_blocks_are_told_where_sms_were_idle_and_fewer_where_each_ran_several() {
        let told = |before, after| blocks(&[Count { name: "blocks", before, after, comparable: true }], 132.0);
        assert_eq!(told(64.0, 128.0).as_deref(), Some("keeps 128 of 132 SMs busy instead of 64"));
        assert_eq!(told(396.0, 128.0).as_deref(), Some("sets up 128 instead of 396 blocks"));
        assert_eq!((told(128.0, 64.0), told(396.0, 300.0)), (None, None));
    }
}
