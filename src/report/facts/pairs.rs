//! Pairs of configurations of a session that differ in one parameter, and the noise of their times.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::domain::device::TimeSource;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::statistics::quantile;
use crate::domain::variant::Params;

/// The noise of a time where no variant was screened twice: what two screening runs of one kernel spanned on an H200
/// (`NEAR_TIE` of the comparisons has the measurement).
const UNKNOWN_NOISE: f64 = 0.027;

/// The smallest noise of a measured time, in shares: what a comparison resolves.
const MIN_NOISE: f64 = 0.002;

/// Fewest repeated variants from which the noise is taken.
const MIN_REPEATED: usize = 5;

/// A configuration with its time on a case.
#[derive(Clone, Copy)]
pub(super) struct Sample<'a> {
    /// The family.
    pub(super) family: &'a str,
    /// The case.
    pub(super) case: &'a str,
    /// The configuration.
    pub(super) params: &'a Params,
    /// The logarithm of its median time in screening.
    pub(super) ln_ns: f64,
    /// The hashes of family, case and each parameter's value, combined by exclusive or, so that one can be taken out.
    identity: u64,
}

impl<'a> Sample<'a> {
    /// Makes a sample from the logarithm of a time in nanoseconds.
    pub(super) fn new(family: &'a str, case: &'a str, params: &'a Params, ln_ns: f64) -> Self {
        let identity = params.iter().fold(hash((family, case)), |identity, value| identity ^ hash(value));
        Self { family, case, params, ln_ns, identity }
    }

    /// Returns what samples have in common that differ only in the given parameters. None if it lacks one of them.
    fn without(&self, left_out: &[&str]) -> Option<u64> {
        left_out.iter().try_fold(self.identity, |identity, name| {
            self.params.get_key_value(*name).map(|value| identity ^ hash(value))
        })
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The noise of screened times.
#[derive(Clone, Copy)]
pub(super) struct Noise {
    /// The share by which two screening runs of one variant differ at most nine times of ten; none if too few were
    /// repeated.
    pub(super) known: Option<f64>,
    /// How many were repeated.
    pub(super) pairs: usize,
    /// The share to use.
    pub(super) share: f64,
}

/// Returns every configuration with its first screened time on each case. Wrong variants are left out.
pub(super) fn samples(iterations: &[IterationRecord]) -> Vec<Sample<'_>> {
    let mut seen = HashSet::new();
    let mut samples = Vec::new();
    for (iteration, case, ns) in screened(iterations) {
        let sample = Sample::new(&iteration.family, case, &iteration.params, ns.ln());
        if seen.insert(sample.identity) {
            samples.push(sample);
        }
    }
    samples
}

/// Returns each time of a correct variant in screening: the iteration, the case and nanoseconds.
pub(super) fn screened(iterations: &[IterationRecord]) -> impl Iterator<Item = (&IterationRecord, &str, f64)> {
    let measured = iterations.iter().filter(|iteration| iteration.outcome == Some(Outcome::Measured));
    measured.flat_map(|iteration| {
        let right = iteration.measurements.iter().filter(|found| found.verdict != Some(Verdict::Rejected));
        right.filter_map(move |found| {
            let timing = found.screening.as_ref().or(found.confirmation.as_ref())?;
            Some((iteration, found.case.as_ref(), timing.median_ns))
        })
    })
}

/// Returns how much two screening runs of one variant differ. A modelled time has no noise.
pub(super) fn noise(record: &SessionRecord) -> Noise {
    let mut first: HashMap<u64, f64> = HashMap::new();
    let mut spread = Vec::new();
    for (iteration, case, ns) in screened(&record.iterations) {
        let sample = Sample::new(&iteration.family, case, &iteration.params, ns.ln());
        match first.get(&sample.identity) {
            Some(before) => spread.push((sample.ln_ns - before).abs()),
            None => drop(first.insert(sample.identity, sample.ln_ns)),
        }
    }
    if record.session.time_source != TimeSource::Measured {
        return Noise { known: None, pairs: 0, share: MIN_NOISE };
    }
    let known = quantile(&spread, 0.9).filter(|_| spread.len() >= MIN_REPEATED);
    Noise { known, pairs: spread.len(), share: share(known) }
}

/// Returns the noise to use, by the one that is known of a session.
pub(super) fn share(known: Option<f64>) -> f64 {
    known.unwrap_or(UNKNOWN_NOISE).max(MIN_NOISE)
}

/// Groups samples that agree in family, case and all parameters but the `left_out` ones. Samples without these are
/// left out.
pub(super) fn alike<'s, 'a>(samples: &'s [Sample<'a>], left_out: &[&str]) -> Vec<Vec<&'s Sample<'a>>> {
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut groups: Vec<Vec<&Sample<'_>>> = Vec::new();
    for sample in samples {
        let Some(common) = sample.without(left_out) else { continue };
        let place = *places.entry(common).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(sample);
    }
    groups.retain(|group| group.len() > 1);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::report::tests::{found, iteration, record};

    #[test]
    fn configurations_that_differ_in_one_parameter_are_alike_without_it() {
        let record = record();
        let samples = samples(&record.iterations);
        let groups: Vec<Vec<i64>> = alike(&samples, &["BLOCK"])
            .iter()
            .map(|group| group.iter().map(|one| one.params["BLOCK"]).collect())
            .collect();
        assert_eq!(groups, [[64, 128, 256]], "the other case has one sample");
        assert!(alike(&samples, &["PAD"]).is_empty());
    }

    /// Six repetitions that differ by 1%.
    #[test]
    fn the_noise_is_how_much_a_repeated_screening_run_differs() {
        let mut record = record();
        assert_eq!((noise(&record).known, noise(&record).share), (None, UNKNOWN_NOISE));
        for number in 0..12 {
            let us = if number < 6 { 10.0 } else { 10.1 };
            let again = vec![found("b1h1s128", us, Verdict::Tied, None, None)];
            record.iterations.push(iteration(IterationId(10 + number), number % 6, None, Outcome::Measured, again));
        }
        let noise = noise(&record);
        assert_eq!((noise.pairs, format!("{:.4}", noise.known.unwrap())), (6, "0.0100".to_owned()));
    }
}
