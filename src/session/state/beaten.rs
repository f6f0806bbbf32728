//! Whether a family that a language model has written is still worth a search. Pure.

use std::collections::BTreeMap;

use crate::domain::history::History;
use crate::domain::ids::CaseName;

/// Timed variants of a family before it can be given up, so that its parameters are tuned first.
const QUOTA: usize = 24;

/// What the parameters of a family may still give, at least, as a factor. A session of parameters alone gains 1% to 2%.
const MARGIN: f64 = 1.05;

/// Tells whether a family lacks more on each case than its parameters have given there since its first variant.
pub(super) fn is_beaten(history: &History, family: &str) -> bool {
    let own: Vec<_> = history.finished.iter().filter(|finished| finished.family == family).collect();
    if own.len() < QUOTA {
        return false;
    }
    // The first time on each case, and the shortest.
    let mut times: BTreeMap<&CaseName, (f64, f64)> = BTreeMap::new();
    for time in own.iter().flat_map(|finished| &finished.times) {
        let (_, best) = times.entry(&time.case).or_insert((time.median_ns, time.median_ns));
        *best = best.min(time.median_ns);
    }
    times.into_iter().all(|(case, (first, best))| {
        let lacks = history.fastest(case).map_or(1.0, |(_, fastest)| best / fastest);
        lacks > (first / best).max(MARGIN)
    })
}
