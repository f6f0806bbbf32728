//! Whether the session's own times have confirmed a cause of lost time: without it, the variant is faster. Every pair of
//! variants that differ in one parameter is an experiment.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::domain::code::profile::Profile;
use crate::domain::ids::IterationId;
use crate::domain::proposal::finding::{CauseStatus, CauseTest, Finding};
use crate::domain::proposal::origin::Change;
use crate::domain::record::IterationRecord;
use crate::domain::variant::Params;

/// The least speed-up that confirms a cause. Two screening runs of one kernel spanned 2.7% on an
/// H200.
const MIN_SPEEDUP: f64 = 1.03;

/// The share of the expected gain, as a logarithm, that confirms a cause where it is not counted whether the change has removed
/// it. Few changes remove the whole cause.
const MIN_GAIN_SHARE: f64 = 0.5;

/// The power of the expected gain from which more than its cause has gone away.
const MORE: f64 = 1.25;

/// The power of the expected gain from which a speed-up must have other causes, too: as far above the gain as
/// [`MIN_GAIN_SHARE`] is below it.
const FAR_MORE: f64 = 1.5;

/// Pairs of other variants from which something follows for a variant where no counts show that they have and lack the cause.
const MIN_PAIRS: usize = 3;

/// A variant that a session has timed on the case of a finding.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// The iteration.
    pub iteration: IterationId,
    /// Its family.
    pub family: &'a str,
    /// Its parameters.
    pub params: &'a Params,
    /// Its time in nanoseconds.
    pub ns: f64,
    /// Blocks of its largest launch.
    pub ctas: Option<u64>,
    /// What a virtual GPU counted for it.
    pub profile: Option<&'a Profile>,
    /// The rule against which it was suggested, and the iteration that it was to improve.
    pub remedy: Option<(&'a str, IterationId)>,
}

/// Whether a change removes a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The counts of both variants show it.
    Counted,
    /// The family's manifest says so.
    Stated,
    /// It does not, as far as is known.
    None,
}

/// An experiment about a cause.
struct RemovedCause {
    without: IterationId,
    changes: Vec<Change>,
    speedup: f64,
    is_counted: bool,
}

/// Judges a cause by the trials on its case. `removal` tells whether the change from the first trial to the second one, which
/// differ in one parameter, removes the cause.
///
/// Experiments with the explained variant count first: one parameter that removes the cause, remedies that were derived from
/// it, and configurations that the finding itself proposes. Else, all pairs of other variants of the family count.
pub fn judge(
    finding: &Finding,
    trials: &[Trial<'_>],
    removal: &dyn Fn(&Trial<'_>, &Trial<'_>) -> Removal,
) -> CauseTest {
    let explained = trials.iter().find(|one| Some(one.iteration) == finding.iteration);
    let own = explained.and_then(|explained| of_explained(finding, explained, trials, removal));
    own.or_else(|| of_others(finding, explained, trials, removal)).unwrap_or_else(|| {
        let is_possible = finding.remedies.iter().any(|one| one.family == finding.family && one.params.is_some());
        CauseTest::none(finding.gain, is_possible)
    })
}

fn of_explained(
    finding: &Finding,
    explained: &Trial<'_>,
    trials: &[Trial<'_>],
    removal: &dyn Fn(&Trial<'_>, &Trial<'_>) -> Removal,
) -> Option<CauseTest> {
    let is_same = |other: &Trial<'_>| other.family == explained.family && other.params == explained.params;
    let suggested_by = |one: &Trial<'_>| {
        let parent = one.remedy.filter(|(rule, _)| *rule == finding.rule).map(|(_, parent)| parent);
        trials.iter().any(|other| Some(other.iteration) == parent && is_same(other))
    };
    let is_proposed = |one: &Trial<'_>| {
        let own = finding.remedies.iter().filter(|remedy| remedy.family == explained.family);
        one.family == explained.family && own.into_iter().any(|remedy| remedy.params.as_ref() == Some(one.params))
    };
    let experiment = |one: &Trial<'_>| {
        let is_own_family = one.family == explained.family;
        let changes = if is_own_family { Change::between(explained.params, one.params) } else { Vec::new() };
        let is_alone = is_own_family && changes.len() == 1;
        let removal = if is_alone { removal(explained, one) } else { Removal::None };
        let counts = removal != Removal::None || suggested_by(one) || is_proposed(one);
        let is_counted = removal == Removal::Counted;
        (counts && !is_same(one)).then(|| RemovedCause {
            without: one.iteration,
            changes,
            speedup: explained.ns / one.ns,
            is_counted,
        })
    };
    let all: Vec<RemovedCause> = trials.iter().filter_map(experiment).collect();
    let best = all.iter().max_by(|a, b| a.is_counted.cmp(&b.is_counted).then(a.speedup.total_cmp(&b.speedup)))?;
    let status = status(finding.gain, best.speedup, best.changes.len() == 1, best.is_counted);
    Some(CauseTest {
        status,
        iteration: Some(best.without),
        changes: best.changes.clone(),
        speedup: Some(best.speedup),
        expected: finding.gain,
        pairs: 1,
        counted: best.is_counted,
        shared_with: Vec::new(),
    })
}

fn status(expected: f64, speedup: f64, is_alone: bool, is_counted: bool) -> CauseStatus {
    let needed = if is_counted { MIN_SPEEDUP } else { expected.powf(MIN_GAIN_SHARE).max(MIN_SPEEDUP) };
    match (speedup >= needed, is_alone, is_far_more(speedup, expected)) {
        (false, ..) => CauseStatus::NotConfirmed,
        (true, true, false) => CauseStatus::Confirmed,
        (true, true, true) | (true, false, false) => CauseStatus::Supported,
        (true, false, true) => CauseStatus::Inconclusive,
    }
}

/// Judges a cause by the pairs of other variants of the family: by those of which counts show that one has the cause and the other one
/// has not, else by those that change what the manifest names from the value of the explained variant.
fn of_others(
    finding: &Finding,
    explained: Option<&Trial<'_>>,
    trials: &[Trial<'_>],
    removal: &dyn Fn(&Trial<'_>, &Trial<'_>) -> Removal,
) -> Option<CauseTest> {
    let family: Vec<&Trial<'_>> = trials.iter().filter(|one| one.family == finding.family).collect();
    let mut by_change: HashMap<(String, i64, i64), Vec<RemovedCause>> = HashMap::new();
    for (with, without, change) in pairs(&family) {
        let is_counted = match removal(with, without) {
            Removal::Counted => true,
            Removal::Stated => false,
            Removal::None => continue,
        };
        let is_own_value = explained.is_some_and(|own| own.params.get(&change.parameter) == Some(&change.from));
        if is_own_value {
            let (without, speedup) = (without.iteration, with.ns / without.ns);
            let key = (change.parameter.clone(), change.from, change.to);
            let one = RemovedCause { without, changes: vec![change], speedup, is_counted };
            by_change.entry(key).or_default().push(one);
        }
    }
    let middle = |mut all: Vec<RemovedCause>| {
        all.sort_by(|a, b| a.speedup.total_cmp(&b.speedup).then(a.without.cmp(&b.without)));
        let (pairs, is_counted) = (all.len(), all.iter().all(|one| one.is_counted));
        (is_counted || pairs >= MIN_PAIRS).then(|| (all.swap_remove((pairs - 1) / 2), pairs, is_counted))
    };
    let groups = by_change.into_values().filter_map(middle);
    let rank = |of: &(RemovedCause, usize, bool)| (of.2, of.1);
    let best = groups.max_by(|a, b| {
        rank(a).cmp(&rank(b)).then(a.0.speedup.total_cmp(&b.0.speedup)).then(b.0.without.cmp(&a.0.without))
    });
    let (median, pairs, is_counted) = best?;
    // Whether the explained variant gains as much is not known, so nothing is far more than expected.
    let status = match status(finding.gain, median.speedup, true, is_counted) {
        CauseStatus::NotConfirmed => CauseStatus::NotConfirmed,
        _ if is_counted => CauseStatus::Confirmed,
        _ => CauseStatus::Supported,
    };
    Some(CauseTest {
        status,
        iteration: Some(median.without),
        changes: median.changes,
        speedup: Some(median.speedup),
        expected: finding.gain,
        pairs: pairs as u64,
        counted: is_counted,
        shared_with: Vec::new(),
    })
}

/// Returns all pairs of trials that differ in one parameter, both ways round.
pub fn pairs<'t, 'a>(trials: &[&'t Trial<'a>]) -> Vec<(&'t Trial<'a>, &'t Trial<'a>, Change)> {
    let mut alike: HashMap<(&str, u64), Vec<&'t Trial<'a>>> = HashMap::new();
    for one in trials {
        for (parameter, _) in one.params {
            let others = one.params.iter().filter(|(name, _)| *name != parameter);
            let mut hasher = DefaultHasher::new();
            let mut others: Vec<_> = others.collect();
            others.sort();
            others.hash(&mut hasher);
            alike.entry((parameter, hasher.finish())).or_default().push(one);
        }
    }
    let mut pairs = Vec::new();
    for ((parameter, _), group) in alike {
        for with in &group {
            for without in &group {
                let (from, to) = (with.params[parameter], without.params[parameter]);
                if from != to {
                    pairs.push((*with, *without, Change { parameter: parameter.to_owned(), from, to }));
                }
            }
        }
    }
    pairs
}

/// Takes back what one experiment cannot show: of several causes that each could account for its speed-up, it confirms
/// none. `tests` are those of all causes of one variant, each with its rule.
pub fn tell_apart(tests: &mut [(&'static str, &mut CauseTest)]) {
    let survived = |test: &CauseTest| match test.status {
        CauseStatus::Confirmed | CauseStatus::Supported => test.iteration,
        _ => None,
    };
    let shown: Vec<_> = tests.iter().map(|(rule, test)| (*rule, survived(test))).collect();
    for (rule, test) in tests {
        let Some(own) = survived(test) else { continue };
        let others = shown.iter().filter(|(other, by)| other != rule && *by == Some(own));
        test.shared_with = others.map(|(other, _)| *other).collect();
        if !test.shared_with.is_empty() {
            test.status = CauseStatus::Supported;
        }
    }
}

/// Tells whether a speed-up is larger than an expected gain beyond noise, so that more than its cause has gone away.
pub fn is_more(speedup: f64, expected: f64) -> bool {
    expected > 1.0 && speedup > expected.powf(MORE).max(expected * MIN_SPEEDUP)
}

/// Tells whether a speed-up is so much larger than an expected gain that it must have other causes, too.
fn is_far_more(speedup: f64, expected: f64) -> bool {
    is_more(speedup, expected) && speedup > expected.powf(FAR_MORE)
}

/// Returns the time of an iteration on a case: its screening run, which every iteration has, else its only time.
pub fn screened_ns(iteration: &IterationRecord, case: &str) -> Option<f64> {
    let found = iteration.measurements.iter().find(|found| found.case == case)?;
    Some(found.screening.as_ref().or_else(|| found.best_timing())?.median_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::proposal::finding::{Confidence, Remedy};

    const CASE: &str = "c";

    fn params(pad: i64, tile: i64) -> Params {
        Params::from([("PAD".to_owned(), pad), ("TILE".to_owned(), tile)])
    }

    /// A finding about iteration 1, whose remedy has `PAD` = 9.
    fn finding(gain: f64) -> Finding {
        let remedy = Remedy { text: String::new(), family: "f".to_owned(), params: Some(params(9, 32)) };
        Finding {
            iteration: Some(IterationId(1)),
            family: "f".to_owned(),
            case: CASE.into(),
            rule: "bank-conflicts",
            cause: String::new(),
            mechanism: "",
            kernel_change: "",
            model_is_off: false,
            evidence: Vec::new(),
            confidence: Confidence::Medium,
            gain,
            remedies: vec![remedy],
            tested: CauseTest::none(gain, true),
        }
    }

    fn trial<'a>(iteration: i64, params: &'a Params, ns: f64) -> Trial<'a> {
        Trial { iteration: IterationId(iteration), family: "f", params, ns, ctas: None, profile: None, remedy: None }
    }

    /// Counts show that more of `PAD` removes the cause.
    fn counted(with: &Trial<'_>, without: &Trial<'_>) -> Removal {
        if with.params["PAD"] == 0 && without.params["PAD"] > 0 { Removal::Counted } else { Removal::None }
    }

    fn nothing(_: &Trial<'_>, _: &Trial<'_>) -> Removal {
        Removal::None
    }

    #[test]
    fn a_cause_survives_if_its_removal_brings_half_of_the_expected_gain() {
        let (own, other) = (params(0, 32), params(9, 32));
        let of = |ns: f64, gain: f64| judge(&finding(gain), &[trial(1, &own, 1000.0), trial(2, &other, ns)], &nothing);
        let table = [
            ("half of 1.44x is 1.2x", 820.0, 1.44, CauseStatus::Confirmed),
            ("more than 1.1x to the power of 1.5", 820.0, 1.1, CauseStatus::Supported),
            ("1.15x is less than half of it", 870.0, 1.44, CauseStatus::NotConfirmed),
            ("no gain known, 3% faster", 966.0, 1.0, CauseStatus::Confirmed),
            ("no gain known, 2% faster", 980.0, 1.0, CauseStatus::NotConfirmed),
        ];
        for (why, ns, gain, status) in table {
            assert_eq!(of(ns, gain).status, status, "{why}");
        }
        let alone = judge(&finding(1.4), &[trial(1, &own, 1000.0)], &nothing);
        assert_eq!((alone.status, alone.iteration), (CauseStatus::NotTested, None));
    }

    /// Where counts show that the cause is gone, the estimate was wrong and not the cause.
    #[test]
    fn a_cause_that_counts_show_to_be_gone_is_confirmed_by_any_gain_and_refuted_by_none() {
        let (own, other) = (params(0, 32), params(2, 32));
        let of = |ns: f64| judge(&finding(2.91), &[trial(1, &own, 1000.0), trial(4, &other, ns)], &counted);
        let test = of(680.0);
        let change = Change { parameter: "PAD".to_owned(), from: 0, to: 2 };
        assert_eq!((test.status, &*test.changes, test.counted), (CauseStatus::Confirmed, &[change][..], true));
        assert_eq!(of(1000.0).status, CauseStatus::NotConfirmed, "as fast without the cause");
    }

    /// None of the pairs is with the explained variant, which has tiles of 32.
    #[test]
    fn pairs_of_other_variants_are_experiments_too() {
        let all: Vec<(i64, Params, f64)> = [(16, 1.47), (64, 1.5), (8, 1.55)]
            .into_iter()
            .flat_map(|(tile, gain)| {
                [(10 + tile, params(0, tile), 1000.0 * gain), (100 + tile, params(2, tile), 1000.0)]
            })
            .collect();
        let own = params(0, 32);
        let mut trials: Vec<Trial<'_>> = all.iter().map(|(id, params, ns)| trial(*id, params, *ns)).collect();
        trials.push(trial(1, &own, 1600.0));
        let test = judge(&finding(2.91), &trials, &counted);
        assert_eq!((test.status, test.pairs, test.speedup), (CauseStatus::Confirmed, 3, Some(1.5)));
        assert_eq!(test.changes[0].parameter, "PAD");
        let stated = |with: &Trial<'_>, without: &Trial<'_>| match counted(with, without) {
            Removal::Counted => Removal::Stated,
            other => other,
        };
        assert_eq!(judge(&finding(1.44), &trials, &stated).status, CauseStatus::Supported, "only the manifest says so");
        assert_eq!(judge(&finding(1.44), &trials[2..], &stated).status, CauseStatus::NotTested, "of two pairs");
    }

    #[test]
    fn an_experiment_that_bears_on_two_causes_confirms_neither() {
        let survived = |status| CauseTest { status, iteration: Some(IterationId(2)), ..CauseTest::none(1.4, true) };
        let mut tests =
            [CauseStatus::Confirmed, CauseStatus::Supported, CauseStatus::NotConfirmed].map(survived).into_iter();
        let (mut one, mut two, mut three) = (tests.next().unwrap(), tests.next().unwrap(), tests.next().unwrap());
        tell_apart(&mut [("spills", &mut one), ("stalls", &mut two), ("barriers", &mut three)]);
        assert_eq!(
            (one.status, one.shared_with, two.shared_with),
            (CauseStatus::Supported, vec!["stalls"], vec!["spills"])
        );
        assert_eq!(three.status, CauseStatus::NotConfirmed);
    }
}
