//! Which figures stand for a case: those of its final, else of its best variant's comparison, else the variant's time
//! alone.

use crate::domain::comparison::{Comparison, Participant, Role, paired_ratio};
use crate::domain::conditions::{Conditions, Figure, compare};
use crate::domain::ids::IterationId;
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord};
use crate::domain::regime::Regime;
use crate::domain::statistics::Ratio;
use crate::domain::timing::Timing;
use crate::domain::verdict::Verdict;

/// The best variant of a case with the figures that stand for it.
#[derive(Clone, Copy)]
pub(super) struct Standing<'a> {
    /// The iteration that brought it.
    pub(super) iteration: &'a IterationRecord,
    /// What was found of it on the case.
    pub(super) measurement: &'a CaseRecord,
    /// Its time.
    pub(super) timing: &'a Timing,
    /// The comparison that gave the time, if one did.
    pub(super) held: Option<DecidingComparison<'a>>,
}

/// A comparison in which the best variant was a participant.
#[derive(Clone, Copy)]
pub(super) struct DecidingComparison<'a> {
    /// Whether it settled the case when the iterations were over.
    pub(super) is_final: bool,
    /// The comparison.
    pub(super) comparison: &'a Comparison,
    /// The best variant in it.
    pub(super) best: &'a Participant,
}

impl<'a> DecidingComparison<'a> {
    /// Returns another participant's time over the best variant's, paired within rounds.
    pub(super) fn over_best(&self, other: &Participant) -> Option<Ratio> {
        paired_ratio(&other.groups_ns, &self.best.groups_ns)
    }

    /// Returns the participant that a user would use instead.
    pub(super) fn baseline(&self) -> Option<&'a Participant> {
        self.comparison.participants.iter().find(|participant| participant.role == Role::Baseline)
    }

    /// Returns the variant of an iteration; of a variant and its A/A control, the variant.
    pub(super) fn of_iteration(&self, iteration: IterationId) -> Option<&'a Participant> {
        participant(self.comparison, iteration)
    }
}

fn participant(comparison: &Comparison, iteration: IterationId) -> Option<&Participant> {
    comparison
        .participants
        .iter()
        .find(|participant| participant.iteration == Some(iteration) && participant.role != Role::Control)
}

/// Returns every start and improvement with its time, oldest first.
pub(super) fn winners(
    iterations: &[IterationRecord],
) -> impl Iterator<Item = (&IterationRecord, &CaseRecord, Verdict, &Timing)> {
    iterations.iter().flat_map(|iteration| {
        iteration.measurements.iter().filter_map(move |measurement| {
            let verdict = measurement.verdict?;
            let wins = matches!(verdict, Verdict::Start | Verdict::Improved);
            wins.then_some((iteration, measurement, verdict, measurement.best_timing()?))
        })
    })
}

/// Returns what stands for a case; none without a correct variant.
pub(super) fn of<'a>(case: &str, record: &'a SessionRecord) -> Option<Standing<'a>> {
    settled(case, record).or_else(|| fastest(case, record))
}

/// The variant that the case's last final left as the best.
fn settled<'a>(case: &str, record: &'a SessionRecord) -> Option<Standing<'a>> {
    let last = record.finals.iter().rev().find(|last| last.comparison.conditions.case == case)?;
    let iteration = record.iterations.iter().find(|iteration| iteration.id == last.winner)?;
    let measurement = iteration.measurements.iter().find(|measurement| measurement.case == case)?;
    let best = participant(&last.comparison, last.winner)?;
    let held = Some(DecidingComparison { is_final: true, comparison: &last.comparison, best });
    Some(Standing { iteration, measurement, timing: &best.timing, held })
}

/// The incumbent of the case: its fastest confirmed improvement, else its start.
fn fastest<'a>(case: &str, record: &'a SessionRecord) -> Option<Standing<'a>> {
    let of_case = || winners(&record.iterations).filter(|(_, measurement, ..)| measurement.case == case);
    let fastest = of_case()
        .filter(|(_, _, verdict, _)| *verdict == Verdict::Improved)
        .min_by(|a, b| a.3.median_ns.total_cmp(&b.3.median_ns));
    let (iteration, measurement, _, timing) = fastest.or_else(|| of_case().next())?;
    let held = measurement.comparison.as_ref().and_then(|comparison| {
        Some(DecidingComparison { is_final: false, comparison, best: comparison.challenger()? })
    });
    Some(Standing { iteration, measurement, timing: held.map_or(timing, |held| &held.best.timing), held })
}

/// A time of the session outside the comparison that stands for a case.
pub(super) struct Alone<'a> {
    /// The time.
    pub(super) timing: &'a Timing,
    /// State of the caches in which it was taken.
    pub(super) regime: Regime,
}

impl Standing<'_> {
    /// Returns whether the figures come from fresh inputs after screening.
    pub(super) fn confirmed(&self) -> bool {
        self.held.is_some() || self.measurement.confirmation.is_some()
    }

    /// Returns another time over the best variant's, where the two may be compared though they were taken in two runs.
    /// `conditions` are the case's, whatever regime they name.
    pub(super) fn compared(&self, other: &Alone<'_>, conditions: &Conditions) -> Option<Ratio> {
        let figure = |timing: &Timing, regime| Figure {
            conditions: Conditions { regime, ..conditions.clone() },
            name: String::new(),
            timing: timing.clone(),
        };
        let regime = self.held.map_or(self.measurement.regime, |held| held.comparison.conditions.regime);
        compare(&figure(self.timing, regime), &figure(other.timing, other.regime)).ok()
    }
}
