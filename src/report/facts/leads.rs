//! The winner of each case against what the session began with, the other families and the fastest baseline.

use std::collections::{BTreeMap, HashSet};

use super::contract::{Case, Diagnosis, Lead, LeadEvidence, Over, OverKind, Ratio};
use super::pairs::screened;
use super::{ReportInput, began, breakdown, comparisons, counts, cycles, fastest, limit, standing};
use crate::domain::code::counters::Counters;
use crate::domain::code::launched::largest;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::origin::Change;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// The least lead to explain. Two screening runs of one kernel spanned 2.7% on an H200.
const MIN_RATIO: f64 = 1.02;

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

/// Returns all leads, in the order of the cases: over what the session began with first, then over other families, the fastest
/// first, then over the baseline. `began` diagnoses committed winners that were beaten, `diagnoses` everything else.
pub(super) fn of(cases: &[Case], began: &[Diagnosis], diagnoses: &[Diagnosis], input: &ReportInput<'_>) -> Vec<Lead> {
    let of_case = |case: &Case| {
        let Some(winner) = input.record.iterations.iter().find(|one| Some(one.id) == case.iteration) else {
            return Vec::new();
        };
        let context = Context { case, winner, began, diagnoses, input };
        let leads = over_beginning(&context).into_iter().chain(over_families(&context));
        leads.chain(over_baseline(&context)).collect::<Vec<Lead>>()
    };
    cases.iter().flat_map(of_case).collect()
}

/// A winner with what its leads follow from.
struct Context<'a> {
    case: &'a Case,
    winner: &'a IterationRecord,
    began: &'a [Diagnosis],
    diagnoses: &'a [Diagnosis],
    input: &'a ReportInput<'a>,
}

fn over_beginning(context: &Context<'_>) -> Option<Lead> {
    let Context { case, winner, input, .. } = context;
    let iterations = &input.record.iterations;
    let change = case.change.as_ref()?;
    let committed = began::committed(&case.case, iterations);
    let kind = if committed.is_some() { OverKind::CommittedWinner } else { OverKind::FirstVariant };
    let began = committed.or_else(|| began::first(&case.case, iterations))?.iteration;
    let is_other = began.hash != winner.hash;
    is_other.then(|| over_variant(context, began, (kind, change.began_us, change.ratio)))
}

/// Compares a winner with the fastest variant of each other family that was timed on the case.
fn over_families(context: &Context<'_>) -> Vec<Lead> {
    let Context { case, winner, input, .. } = context;
    let timed = screened(&input.record.iterations).filter(|(_, name, _)| *name == &*case.case);
    let families: BTreeMap<&str, ()> = timed.map(|(one, ..)| (one.family.as_str(), ())).collect();
    let others = families.into_keys().filter(|family| *family != winner.family);
    let mut leads: Vec<Lead> = others.filter_map(|family| over_family(context, family)).collect();
    leads.sort_by(|a, b| a.over.us.total_cmp(&b.over.us));
    leads
}

fn over_family(context: &Context<'_>, family: &str) -> Option<Lead> {
    let Context { case, input, .. } = context;
    let fastest = fastest::of(family, case, input.record)?;
    let unpaired = || {
        let estimate = fastest.us / case.best_us?;
        Some(Ratio { estimate, lo: None, hi: None, paired: false })
    };
    let ratio = fastest.in_one_run.map(comparisons::paired).or_else(unpaired);
    Some(over_variant(context, fastest.iteration, (OverKind::Family, fastest.us, ratio)))
}

fn over_variant(
    context: &Context<'_>,
    other: &IterationRecord,
    (kind, us, ratio): (OverKind, f64, Option<Ratio>),
) -> Lead {
    let Context { case, winner, input, .. } = context;
    let record = input.record;
    let explained = ratio.map(|ratio| ratio.estimate).filter(|ratio| *ratio >= MIN_RATIO);
    let both = [other, winner];
    let blocks = |one: &IterationRecord| one.measurements.iter().find(|found| found.case == case.case)?.ctas;
    let theirs = counters(&other.hash, &case.case, record);
    let (cause, is_gone) = cause(context, other).unzip();
    Lead {
        over: Over {
            kind,
            name: other.family.clone(),
            iteration: Some(other.id),
            us,
            configurations: Some(configurations(&other.family, case, record)),
        },
        case: case.case.clone(),
        ratio,
        evidence: LeadEvidence {
            changes: match other.family == winner.family {
                true => Change::between(&other.params, &winner.params),
                false => Vec::new(),
            },
            blocks: blocks(other).zip(blocks(winner)).map(|(theirs, ours)| [theirs, ours]),
            cause,
            is_gone,
            ablation: breakdown::parts(both, &case.case, record),
            cycles: explained.and_then(|ratio| cycles::of(theirs?, case.counters.as_ref()?, ratio, case.best_us?)),
            counts: explained.and_then(|ratio| counts::of(both, &case.case, ratio, input)),
        },
    }
}

/// Counts the variants of a family that were timed on a case.
fn configurations(family: &str, case: &Case, record: &SessionRecord) -> u64 {
    let timed = screened(&record.iterations).filter(|(one, name, _)| one.family == family && *name == &*case.case);
    timed.map(|(one, ..)| &one.hash).collect::<HashSet<_>>().len() as u64
}

/// Returns the first cause of lost time in another variant that no experiment refutes, and whether no rule finds it in the winner.
fn cause(context: &Context<'_>, other: &IterationRecord) -> Option<(&'static str, bool)> {
    let Context { case, began, diagnoses, input, .. } = context;
    let is_about = |one: &&Diagnosis| {
        let diagnosed = input.record.iterations.iter().find(|other| other.id == one.iteration);
        one.case == case.case && diagnosed.is_some_and(|diagnosed| diagnosed.hash == other.hash)
    };
    let diagnosis = began.iter().chain(diagnoses.iter()).find(is_about)?;
    let rule = diagnosis.findings.iter().find(|one| limit::is_open(one))?.finding.rule;
    Some((rule, !limit::causes(case, diagnoses).any(|one| one.finding.rule == rule)))
}

/// Returns the hardware counters of a variant on a case, whichever iteration they were read for.
pub(super) fn counters<'a>(hash: &VariantHash, case: &str, record: &'a SessionRecord) -> Option<&'a Counters> {
    let same = record.iterations.iter().filter(|one| one.hash == *hash);
    let mut found = same.flat_map(|one| &one.measurements).filter(|found| found.case == *case);
    found.find_map(|found| found.counters.as_ref())
}

fn over_baseline(context: &Context<'_>) -> Option<Lead> {
    let Context { case, input, .. } = context;
    let baseline = case.baseline.as_ref().filter(|baseline| !baseline.is_initial_kernel)?;
    let mut counted = input.record.baseline_counters.iter();
    let theirs = counted.find(|one| one.case == case.case && one.name == baseline.name);
    let theirs = theirs.and_then(|one| one.counters.as_ref().ok());
    let ratio = case.ratio_to_baseline;
    Some(Lead {
        over: Over {
            kind: OverKind::Baseline,
            name: baseline.name.clone(),
            iteration: None,
            us: baseline.us,
            configurations: None,
        },
        case: case.case.clone(),
        ratio,
        evidence: LeadEvidence {
            blocks: largest(&baseline.kernels).zip(case.ctas).map(|(kernel, ours)| [kernel.blocks(), ours]),
            cycles: ratio.and_then(|ratio| cycles::of(theirs?, case.counters.as_ref()?, ratio.estimate, case.best_us?)),
            ..LeadEvidence::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::measurement::evaluation::Outcome;
    use crate::domain::measurement::verdict::Verdict;
    use crate::domain::proposal::origin::{Origin, Purpose};
    use crate::report::build;
    use crate::report::tests::{finding, found, input, iteration, record, record_ahead, report};

    fn over(leads: &[Lead], kind: OverKind) -> Option<&Lead> {
        leads.iter().find(|lead| lead.over.kind == kind)
    }

    #[test]
    fn a_winner_is_compared_with_the_first_variant_other_families_and_the_baseline() {
        let mut record = record_ahead();
        let slower = found("b1h1s128", 55.0, Verdict::Regressed, None, None);
        let mut rival = iteration(IterationId(60), 48, None, Outcome::Measured, vec![slower]);
        rival.family = "split-k".to_owned();
        record.iterations.push(rival);
        let leads = report(&record).leads;
        let told: Vec<_> = leads
            .iter()
            .map(|lead| (lead.case.as_str(), lead.over.kind, lead.over.us, lead.ratio.map(|ratio| ratio.estimate)))
            .collect();
        assert_eq!(
            told,
            [
                ("b1h1s128", OverKind::FirstVariant, 80.0, Some(1.6)),
                ("b1h1s128", OverKind::Family, 55.0, Some(1.1)),
                ("b1h1s128", OverKind::Baseline, 125.0, Some(2.5)),
            ]
        );
        let change = Change { parameter: "BLOCK".to_owned(), from: 64, to: 256 };
        assert_eq!(leads[0].evidence.changes, [change]);
        assert_eq!((leads[1].over.configurations, leads[1].evidence.changes.len()), (Some(1), 0));
    }

    /// Iteration 2 is the committed winner of b1h1s128, with 64 us. Iteration 3 took 50 us.
    #[test]
    fn a_committed_winner_that_was_beaten_takes_the_place_of_the_first_variant_and_has_a_cause() {
        let mut record = record();
        record.iterations[1].rationale.origin =
            Origin::CommittedWinner { device: "an L4".to_owned(), cases: Vec::new() };
        record.iterations[1].rationale.purpose = Purpose::Remeasurement;
        let began = [finding("b1h1s128", 2, "spills", 1.5)];
        let told = |findings: &[_]| {
            let report = build(&ReportInput { began: &began, findings, ..input(&record) });
            let lead = over(&report.leads, OverKind::CommittedWinner).unwrap().clone();
            (
                over(&report.leads, OverKind::FirstVariant).is_some_and(|one| one.case == "b1h1s128"),
                lead.over.us,
                lead.evidence.cause,
                lead.evidence.is_gone,
            )
        };
        assert_eq!(told(&[]), (false, 64.0, Some("spills"), Some(true)));
        assert_eq!(told(&[finding("b1h1s128", 3, "spills", 1.2)]).3, Some(false), "the winner has it, too");
    }
}
