//! What limited the committed winners that a session began with, where another variant beat them.

use super::contract::{Beaten, Case, Diagnosis, Finding};
use super::{ReportInput, began, findings, limiter, standing};
use crate::domain::finding::EvidenceSource;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::origin::Change;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::tested::CauseStatus;
use crate::domain::variant::VariantHash;

/// Returns the committed winners that a session began with and beat: the case, the iteration to diagnose and the time in
/// nanoseconds. Of several iterations of one variant, the iteration is one with counts of a virtual GPU.
pub fn beaten_winners(record: &SessionRecord) -> Vec<(CaseName, IterationId, f64)> {
    let winner = |case: &CaseName| {
        let began = began::committed(case, &record.iterations)?;
        let hash = &began.iteration.hash;
        standing::of(case, record).filter(|best| best.iteration.hash != *hash)?;
        let counted = counted(hash, case, &record.iterations).unwrap_or(began.iteration);
        Some((case.clone(), counted.id, began.timing.median_ns))
    };
    record.session.cases.iter().filter_map(winner).collect()
}

/// Returns the iteration that has the counts of a virtual GPU for a variant on a case.
fn counted<'a>(hash: &VariantHash, case: &str, iterations: &'a [IterationRecord]) -> Option<&'a IterationRecord> {
    let has_counts = |one: &&IterationRecord| {
        let mut found = one.measurements.iter().filter(|found| found.case == *case);
        one.hash == *hash && found.any(|found| found.profile.is_some() || found.explanation.is_some())
    };
    iterations.iter().find(has_counts)
}

/// Returns the committed winners that were beaten, the largest gain first. `diagnoses` are those of the best variants.
pub(super) fn of(cases: &[Case], diagnoses: &[Diagnosis], input: &ReportInput<'_>) -> Vec<Beaten> {
    let of_began = findings::diagnoses(input.began, cases, input);
    let mut beaten: Vec<Beaten> = cases.iter().filter_map(|case| of_case(case, &of_began, diagnoses, input)).collect();
    let gain = |one: &Beaten| one.ratio.map_or(1.0, |ratio| ratio.estimate);
    beaten.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    beaten
}

fn of_case(case: &Case, of_began: &[Diagnosis], diagnoses: &[Diagnosis], input: &ReportInput<'_>) -> Option<Beaten> {
    let iterations = &input.record.iterations;
    let change = case.change.as_ref().filter(|change| change.improved)?;
    let (began, by) = (began::committed(&case.case, iterations)?.iteration, case.variant.as_ref()?);
    let is_of_began = |one: &&Diagnosis| {
        let diagnosed = iterations.iter().find(|other| other.id == one.iteration);
        one.case == case.case && diagnosed.is_some_and(|diagnosed| diagnosed.hash == began.hash)
    };
    let found = of_began.iter().find(is_of_began).map(|diagnosis| &*diagnosis.findings).unwrap_or_default();
    let (refuted, open): (Vec<&Finding>, Vec<&Finding>) =
        found.iter().partition(|one| one.tested.status == CauseStatus::NotConfirmed);
    let cause = open.first().copied().cloned();
    let is_still_there = |rule| limiter::causes(case, diagnoses).any(|one| one.rule == rule);
    let best = iterations.iter().find(|one| Some(one.id) == case.iteration)?;
    let is_counted = counted(&best.hash, &case.case, iterations).is_some();
    let is_gone = cause.as_ref().and_then(|cause| match is_still_there(cause.rule) {
        true => Some(false),
        // Without counts, no rule could find it.
        false => (is_counted || !is_modelled(cause)).then_some(true),
    });
    let is_same_family = began.family == by.family;
    Some(Beaten {
        case: case.case.clone(),
        iteration: began.id,
        family: began.family.clone(),
        is_gone,
        cause,
        refuted: refuted.len() as u64,
        by: by.family.clone(),
        changes: if is_same_family { Change::between(&began.params, &by.params) } else { Vec::new() },
        ratio: change.ratio,
    })
}

/// Tells whether a cause was found in the counts of a virtual GPU.
fn is_modelled(cause: &Finding) -> bool {
    cause.evidence.iter().any(|one| one.source == EvidenceSource::VirtualCounters)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{input, record};
    use super::*;
    use crate::domain::finding::{self, Confidence};
    use crate::domain::origin::{Origin, Purpose};
    use crate::report::{Report, build};

    /// Iteration 2 is the committed winner of b1h1s128, with 64 us. Iteration 3 took 50 us.
    fn beaten_record() -> SessionRecord {
        let mut record = record();
        record.iterations[1].origin = Origin::CommittedWinner { device: "an L4".to_owned(), cases: Vec::new() };
        record.iterations[1].purpose = Purpose::Remeasurement;
        record
    }

    fn finding(iteration: i64, rule: &'static str, gain: f64) -> finding::Finding {
        finding::Finding {
            iteration: Some(IterationId(iteration)),
            family: "tiled".to_owned(),
            case: "b1h1s128".into(),
            rule,
            cause: format!("{rule} costs time"),
            mechanism: "",
            kernel_change: "do without",
            without_split: None,
            model_is_off: false,
            derivation: None,
            evidence: Vec::new(),
            confidence: Confidence::Medium,
            gain,
            remedies: Vec::new(),
        }
    }

    fn report(began: &[finding::Finding], findings: &[finding::Finding]) -> Report {
        build(&ReportInput { began, findings, ..input(&beaten_record()) })
    }

    #[test]
    fn what_limited_a_beaten_winner_is_told_with_the_change_and_whether_it_is_gone() {
        let began = [finding(2, "spills", 1.3), finding(2, "barriers", 1.1)];
        let told = |findings: &[finding::Finding]| {
            let page = report(&began, findings).to_markdown().unwrap();
            let table = page.split("committed winners that were beaten").nth(1).expect("a table");
            table.lines().filter(|line| line.starts_with("| b1h1s128 ")).take(1).collect::<String>()
        };
        insta::assert_snapshot!(told(&[finding(3, "barriers", 1.1)]), @"| b1h1s128 | `tiled` | spills costs time (1.30×, medium) | `BLOCK` 128 → 256 (threads of a block) | 1.28× | gone |");
        assert!(told(&[finding(3, "spills", 1.2)]).ends_with("| still there |"));
        let source = EvidenceSource::VirtualCounters;
        let evidence = vec![finding::Evidence { source, supports: true, text: String::new() }];
        let modelled = report(&[finding::Finding { evidence, ..finding(2, "spills", 1.3) }], &[]);
        assert_eq!(modelled.beaten[0].is_gone, None, "nothing was counted in the new winner");
    }

    #[test]
    fn a_beaten_winner_without_a_cause_says_so_and_one_that_stands_is_left_out() {
        let one = &report(&[], &[]).beaten[0];
        assert_eq!((&one.cause, one.is_gone, one.iteration), (&None, None, IterationId(2)));
        assert_eq!(build(&input(&record())).beaten, Vec::new(), "no committed winner");
    }

    #[test]
    fn the_iteration_with_counts_is_diagnosed() {
        let mut record = beaten_record();
        assert_eq!(beaten_winners(&record), [("b1h1s128".into(), IterationId(2), 64_000.0)]);
        let mut again = record.iterations[1].clone();
        again.id = IterationId(9);
        again.measurements[0].explanation =
            Some(crate::domain::profile::Profile { launches: Vec::new(), checked_on: None });
        record.iterations.push(again);
        assert_eq!(beaten_winners(&record)[0].1, IterationId(9));
    }
}
