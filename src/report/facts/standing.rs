//! Selects the figures of a case: those of its final, else of its best variant's comparison, else the variant's time
//! alone.

use crate::domain::device::regime::Regime;
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{Comparison, Participant, Role, paired_ratio};
use crate::domain::measurement::conditions::{Conditions, RecordedTime, compare};
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord};
use crate::domain::statistics::Ratio;
use crate::domain::statistics::timing::Timing;

/// The best variant of a case, with its figures.
#[derive(Clone, Copy)]
pub(super) struct Standing<'a> {
    /// The iteration that measured it.
    pub(super) iteration: &'a IterationRecord,
    /// Its result on the case.
    pub(super) measurement: &'a CaseRecord,
    /// Its time.
    pub(super) timing: &'a Timing,
    /// The comparison that gave the time, if any.
    pub(super) deciding: Option<DecidingComparison<'a>>,
}

/// A comparison in which the best variant was a participant.
#[derive(Clone, Copy)]
pub(super) struct DecidingComparison<'a> {
    /// Whether it settled the case after the iterations.
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

    /// Returns the baseline.
    pub(super) fn baseline(&self) -> Option<&'a Participant> {
        self.comparison.participants.iter().find(|participant| participant.role == Role::Baseline)
    }

    /// Returns the variant of an iteration. Of a variant and its A/A control, returns the variant.
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

/// Returns whether an improvement is a win: the session has found it, beyond what it began with.
///
/// A committed winner that was measured again is none. The committed winner of another case, measured on this one, is
/// none either if the case's own winner was measured later and beat it: it was only on the way.
pub(super) fn is_win(iteration: &IterationRecord, case: &str, iterations: &[IterationRecord]) -> bool {
    let remeasured = |other: &&IterationRecord| other.rationale.origin.is_committed_winner_of(case);
    let improved = |other: &IterationRecord| {
        other.measurements.iter().any(|found| found.case == case && found.verdict == Some(Verdict::Improved))
    };
    let beaten = || iterations.iter().filter(remeasured).any(|later| later.id > iteration.id && improved(later));
    let on_the_way = iteration.rationale.purpose == Purpose::Remeasurement && beaten();
    !remeasured(&iteration) && !on_the_way
}

/// Returns the figures of a case. None without a correct variant.
pub(super) fn of<'a>(case: &str, record: &'a SessionRecord) -> Option<Standing<'a>> {
    by_final(case, record).or_else(|| fastest(case, record))
}

/// Returns the iteration with the best variant of a case, and the variant's time in nanoseconds. None without a correct
/// variant.
pub fn best_of_case(case: &str, record: &SessionRecord) -> Option<(IterationId, f64)> {
    of(case, record).map(|standing| (standing.iteration.id, standing.timing.median_ns))
}

/// Returns the best variant of the case's last final.
fn by_final<'a>(case: &str, record: &'a SessionRecord) -> Option<Standing<'a>> {
    let last = record.finals.iter().rev().find(|last| last.comparison.conditions.case == case)?;
    let iteration = record.iterations.iter().find(|iteration| iteration.id == last.winner)?;
    let measurement = iteration.measurements.iter().find(|measurement| measurement.case == case)?;
    let best = participant(&last.comparison, last.winner)?;
    let deciding = Some(DecidingComparison { is_final: true, comparison: &last.comparison, best });
    Some(Standing { iteration, measurement, timing: &best.timing, deciding })
}

/// Returns the incumbent of the case: its fastest confirmed improvement, else its start.
fn fastest<'a>(case: &str, record: &'a SessionRecord) -> Option<Standing<'a>> {
    let of_case = || winners(&record.iterations).filter(|(_, measurement, ..)| measurement.case == case);
    let fastest = of_case()
        .filter(|(_, _, verdict, _)| *verdict == Verdict::Improved)
        .min_by(|a, b| a.3.median_ns.total_cmp(&b.3.median_ns));
    let (iteration, measurement, _, timing) = fastest.or_else(|| of_case().next())?;
    let deciding = measurement.comparison.as_ref().and_then(|comparison| {
        Some(DecidingComparison { is_final: false, comparison, best: comparison.challenger()? })
    });
    Some(Standing {
        iteration,
        measurement,
        timing: deciding.map_or(timing, |deciding| &deciding.best.timing),
        deciding,
    })
}

/// A time of the session outside the comparison that gave the case's figures.
pub(super) struct Alone<'a> {
    /// The time.
    pub(super) timing: &'a Timing,
    /// State of the caches in which it was taken.
    pub(super) regime: Regime,
}

impl<'a> Standing<'a> {
    /// Returns whether the figures come from deciding-out inputs after screening.
    pub(super) fn confirmed(&self) -> bool {
        self.deciding.is_some() || self.measurement.confirmation.is_some()
    }

    /// Returns the comparison that confirmed the best variant, if its caches were in the state of the figures.
    pub(super) fn confirmation(&self) -> Option<DecidingComparison<'a>> {
        let comparison = self.measurement.comparison.as_ref()?;
        let is_alike =
            |deciding: DecidingComparison<'_>| deciding.comparison.conditions.regime == comparison.conditions.regime;
        let best = comparison.challenger().filter(|_| self.deciding.is_none_or(is_alike))?;
        Some(DecidingComparison { is_final: false, comparison, best })
    }

    /// Returns another time over the best variant's, if two runs took them and they may be compared. `conditions` are
    /// the case's, in any regime.
    pub(super) fn compared(&self, other: &Alone<'_>, conditions: &Conditions) -> Option<Ratio> {
        let figure = |timing: &Timing, regime| RecordedTime {
            conditions: Conditions { regime, ..conditions.clone() },
            name: String::new(),
            timing: timing.clone(),
        };
        let regime = self.deciding.map_or(self.measurement.regime, |deciding| deciding.comparison.conditions.regime);
        compare(&figure(self.timing, regime), &figure(other.timing, other.regime)).ok()
    }
}
