//! Judges the claims of a session: coverage and score of the predictions, what paid, and what was refuted.

use std::collections::BTreeMap;

use super::ReportInput;
use super::contract::{Calibration, Claim, Kept, Pay, Predictions, Refuted};
use crate::domain::claims::hypothesis::Score;
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::claims::prediction::{Crps, Prediction};
use crate::domain::history::History;
use crate::domain::history::refuted::{SingleChange, Tries, tries};
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::statistics::{mean_interval, median, median_interval, ratio_interval, share_interval};

/// Claims below which coverage is not judged. With 50, the interval of a coverage of 80% is 22 points wide.
const ENOUGH: usize = 50;

/// At most this many claims at each end count as the first and the last.
const ENDS: usize = 25;

/// Limits between bands of predicted medians. Most outcomes near 1 are within the noise of screening.
const BANDS: [f64; 4] = [0.5, 0.8, 0.95, 1.05];

/// Tries below which a parameter or a mechanism is left out.
const MIN_TRIES: usize = 3;

/// Predicts claims again with what was known after the first ones of their kind.
type PredictEarly<'a> = dyn Fn(&[&IterationRecord]) -> Option<Vec<Option<Prediction>>> + 'a;

/// A claim with its outcome.
#[derive(Clone, Copy)]
struct Tested<'a> {
    iteration: &'a IterationRecord,
    prediction: Prediction,
    median: f64,
    actual: f64,
    crps: Crps,
}

/// Describes what an iteration was to show.
pub(super) fn claim(iteration: &IterationRecord) -> Claim {
    let hypothesis = &iteration.rationale.hypothesis;
    let prediction = hypothesis.prediction;
    let median = prediction.and_then(|prediction| prediction.median);
    let crps = Crps::of(prediction, iteration.actual);
    Claim {
        iteration: iteration.id,
        case: hypothesis.case.clone(),
        kind: iteration.rationale.origin.kind(iteration.rationale.purpose),
        mechanism: hypothesis.mechanism,
        claim: hypothesis.claim.clone(),
        evidence: hypothesis.evidence.clone(),
        strength: prediction.map(|prediction| prediction.strength),
        predicted: prediction.map(|prediction| [prediction.lo, prediction.hi]),
        predicted_median: median,
        direction: median.and(hypothesis.direction()),
        reference: hypothesis.reference.name(),
        relative_to: hypothesis.reference.iteration(),
        actual: iteration.actual,
        score: iteration.score,
        crps: crps.map(|crps| crps.prediction),
        crps_no_change: crps.map(|crps| crps.no_change),
    }
}

/// Counts the scores of the claims, and the faster variants among them.
pub(super) fn predictions(record: &SessionRecord) -> Predictions {
    let totals = record.totals();
    let count = |score: Score| totals.scores.get(score.name()).copied().unwrap_or_default();
    Predictions {
        in_range: count(Score::InRange),
        above: count(Score::Above),
        below: count(Score::Below),
        untested: count(Score::Untested),
        no_claim: count(Score::NoClaim),
        faster: totals.faster,
    }
}

/// Judges the claims of a session.
pub(super) fn of(input: &ReportInput<'_>) -> Calibration {
    let record = input.record;
    let tested: Vec<Tested<'_>> = record.unselected().filter_map(tested).collect();
    Calibration { kept: kept(&tested, input), pays: pays(record), refuted: refuted(record) }
}

fn tested(iteration: &IterationRecord) -> Option<Tested<'_>> {
    let (prediction, actual) = iteration.rationale.hypothesis.prediction.zip(iteration.actual)?;
    let crps = Crps::of(Some(prediction), Some(actual))?;
    Some(Tested { iteration, prediction, median: prediction.median?, actual, crps })
}

fn kept(tested: &[Tested<'_>], input: &ReportInput<'_>) -> Vec<Kept> {
    let mut kinds: Vec<&'static str> = Vec::new();
    for claim in tested {
        let kind = claim.iteration.rationale.origin.name();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut rows = Vec::new();
    for kind in kinds {
        let of_kind: Vec<_> =
            tested.iter().copied().filter(|claim| claim.iteration.rationale.origin.name() == kind).collect();
        let early = of_kind.get(ENDS.min(of_kind.len().div_ceil(2)) - 1).map(|claim| claim.iteration.id);
        let predict_early = |claims: &[&IterationRecord]| early.map(|early| (input.known_after)(early, claims));
        rows.extend(judged(kind, None, &of_kind, &predict_early));
        for band in 0..=BANDS.len() {
            let (lo, hi) = (band.checked_sub(1).map(|below| BANDS[below]), BANDS.get(band).copied());
            let is_in =
                |claim: &&Tested<'_>| lo.is_none_or(|lo| claim.median >= lo) && hi.is_none_or(|hi| claim.median < hi);
            let in_band: Vec<_> = of_kind.iter().filter(is_in).copied().collect();
            rows.extend(judged(kind, Some([lo, hi]), &in_band, &predict_early));
        }
    }
    rows
}

fn judged(
    kind: &'static str,
    band: Option<[Option<f64>; 2]>,
    claims: &[Tested<'_>],
    predict_early: &PredictEarly<'_>,
) -> Option<Kept> {
    let covered = claims.iter().filter(|claim| claim.prediction.covers(claim.actual)).count();
    let interval = share_interval(covered, claims.len())?;
    // The ends do not overlap.
    let ends = ENDS.min(claims.len().div_ceil(2));
    let widths = |claims: &[Tested<'_>]| claims.iter().map(|claim| claim.prediction.width()).collect::<Vec<f64>>();
    let (first, last) = (widths(&claims[..ends]), widths(&claims[claims.len() - ends..]));
    let mean = |of: fn(&Tested<'_>) -> f64| claims.iter().map(of).sum::<f64>() / claims.len() as f64;
    let differences: Vec<f64> = claims.iter().map(|claim| claim.crps.prediction - claim.crps.no_change).collect();
    let (difference, limits) = mean_interval(&differences)?;
    let enough = claims.len() >= ENOUGH;
    let learnt = enough.then(|| learnt(&claims[claims.len() - ends..], predict_early)).flatten();
    Some(Kept {
        kind,
        band,
        claims: claims.len(),
        enough,
        coverage: covered as f64 / claims.len() as f64,
        coverage_ci: [interval.lo, interval.hi],
        first_width: median(&first).unwrap_or(1.0),
        last_width: median(&last).unwrap_or(1.0),
        narrowed: enough.then(|| narrowed(&first, &last)).flatten(),
        early_width: learnt.map(|(early_width, _)| early_width),
        learnt: learnt.map(|(_, left)| left),
        crps: mean(|claim| claim.crps.prediction),
        crps_no_change: mean(|claim| claim.crps.no_change),
        crps_difference: [difference, limits.lo, limits.hi],
        faster: claims.iter().filter(|claim| claim.actual > 1.0).count(),
    })
}

/// Returns what is left of the logarithm of the first widths' median in the last ones, with its 95% interval. None for widths
/// of which one may be 1.
fn narrowed(first: &[f64], last: &[f64]) -> Option<[f64; 3]> {
    let ln_median = |widths: &[f64]| {
        let logs: Vec<f64> = widths.iter().map(|width| width.ln()).collect();
        median(&logs).zip(median_interval(&logs)).filter(|(_, interval)| interval.lo > 0.0)
    };
    let (first, last) = (ln_median(first)?, ln_median(last)?);
    let interval = ratio_interval(last, first);
    Some([last.0 / first.0, interval.lo, interval.hi])
}

/// Returns the median width that the last claims would have had right after the first ones of their kind, and what is left of its logarithm in
/// the median claim, with the 95% interval. Last claims are about other configurations than first ones, so only the same claims
/// show what was learnt. None if fewer than half of them could have been made then.
fn learnt(last: &[Tested<'_>], predict_early: &PredictEarly<'_>) -> Option<(f64, [f64; 3])> {
    let iterations: Vec<&IterationRecord> = last.iter().map(|claim| claim.iteration).collect();
    let early = predict_early(&iterations)?;
    let both = last.iter().zip(early).filter_map(|(claim, early)| Some((claim.prediction.width(), early?.width())));
    let both: Vec<(f64, f64)> = both.filter(|(_, early)| *early > 1.0).collect();
    if 2 * both.len() < last.len() {
        return None;
    }
    let left: Vec<f64> = both.iter().map(|(claimed, early)| claimed.ln() / early.ln()).collect();
    let (estimate, interval) = median(&left).zip(median_interval(&left))?;
    let early = median(&both.iter().map(|(_, early)| *early).collect::<Vec<_>>())?;
    Some((early, [estimate, interval.lo, interval.hi]))
}

/// A mechanism, and the family and parameter that acted by it; none for all of them.
type Acting<'a> = (Mechanism, Option<(&'a str, &'a str)>);

/// Groups the changes of parameters by mechanism, and by family and parameter.
fn pays(record: &SessionRecord) -> Vec<Pay> {
    let mut groups: BTreeMap<Acting<'_>, Vec<f64>> = BTreeMap::new();
    for iteration in record.unselected() {
        let (changes, Some(actual)) = (iteration.rationale.origin.changes(), iteration.actual) else { continue };
        let is_screening =
            iteration.rationale.origin.kind(iteration.rationale.purpose) == iteration.rationale.origin.name();
        if changes.is_empty() || !is_screening {
            continue;
        }
        let mechanism = iteration.rationale.hypothesis.mechanism;
        groups.entry((mechanism, None)).or_default().push(actual);
        // A change of several parameters does not say which of them acted.
        if let [change] = changes {
            let of_parameter = Some((iteration.family.as_str(), change.parameter.as_str()));
            groups.entry((mechanism, of_parameter)).or_default().push(actual);
        }
    }
    let pay = |((mechanism, of), speedups): (Acting<'_>, Vec<f64>)| {
        (speedups.len() >= MIN_TRIES).then_some(())?;
        Some(Pay {
            mechanism,
            family: of.map(|(family, _)| family.to_owned()),
            parameter: of.map(|(_, parameter)| parameter.to_owned()),
            tries: speedups.len(),
            faster: speedups.iter().filter(|speedup| **speedup > 1.0).count(),
            median: median(&speedups)?,
            best: speedups.iter().copied().fold(0.0, f64::max),
        })
    };
    let mut pays: Vec<Pay> = groups.into_iter().filter_map(pay).collect();
    let share = |pay: &Pay| pay.faster as f64 / pay.tries as f64;
    pays.sort_by(|a, b| a.parameter.is_some().cmp(&b.parameter.is_some()).then(share(b).total_cmp(&share(a))));
    pays
}

fn refuted(record: &SessionRecord) -> Vec<Refuted> {
    let history = History::of(record);
    let mut changes: Vec<_> = tries(&history).into_iter().filter(|(_, tries)| tries.refuted()).collect();
    changes.sort_by(|(a, of_a), (b, of_b)| of_b.ln_speedups.len().cmp(&of_a.ln_speedups.len()).then(a.cmp(b)));
    let row = |(of, tries): (SingleChange<'_>, Tries)| Refuted {
        family: of.family.to_owned(),
        parameter: of.change.parameter.clone(),
        from: of.change.from,
        to: of.change.to,
        tries: tries.ln_speedups.len(),
        median: median(&tries.ln_speedups).unwrap_or_default().exp(),
        cases: tries.cases.into_iter().collect(),
    };
    changes.into_iter().map(row).collect()
}
