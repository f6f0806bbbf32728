//! Whether another family already divides a case into more blocks than its best variant does. What more blocks gain was
//! measured then.

use super::contract::{Case, Divided};
use super::rivals;
use crate::domain::finding::{Confidence, Evidence, EvidenceSource, Finding};
use crate::domain::record::SessionRecord;

/// The rule whose cause more blocks remove.
const RULE: &str = "too-few-blocks";

/// How many times the blocks of the best variant another grid needs, to show what more blocks gain.
const MORE: f64 = 1.5;

/// How much slower than the best variant it may be. One that is slower still differs in more than its blocks.
const ALIKE: f64 = 1.25;

/// What to do about too few blocks then.
pub(super) const NEXT: &str =
    "none of its parameters removes it; another family already divides the work into more blocks, and is not faster";

/// Returns the fastest family whose best variant divides a case into more blocks than the best variant of the case does.
/// None if the finding is about something else.
pub(super) fn of(finding: &Finding, cases: &[Case], record: &SessionRecord) -> Option<Divided> {
    let is_about = |case: &&Case| case.case == finding.case && case.iteration == finding.iteration;
    let case = cases.iter().find(is_about).filter(|_| finding.rule == RULE)?;
    let (own, best_us) = (case.ctas?, case.best_us?);
    let mut families: Vec<&str> = record.iterations.iter().map(|one| &*one.family).collect();
    families.sort_unstable();
    families.dedup();
    let more = families.into_iter().filter(|family| *family != finding.family).filter_map(|family| {
        let fastest = rivals::fastest(family, case, record)?;
        let found = fastest.iteration.measurements.iter().find(|found| found.case == case.case)?;
        let blocks = found.ctas.filter(|blocks| *blocks as f64 >= MORE * own as f64)?;
        let times_as_long = fastest.us / best_us;
        (times_as_long <= ALIKE).then(|| Divided {
            family: family.to_owned(),
            blocks,
            us: fastest.us,
            times_as_long,
            in_one_run: fastest.in_one_run,
        })
    });
    more.min_by(|a, b| a.us.total_cmp(&b.us))
}

/// Returns findings with what other families show of too few blocks, the most important of each variant first. Where another
/// family with more blocks is not faster, only an indirect sign is left that more of them gain anything.
pub(super) fn apply(findings: &[Finding], cases: &[Case], record: &SessionRecord) -> Vec<Finding> {
    let mut findings = findings.to_vec();
    for of_variant in findings.chunk_by_mut(|a, b| (a.iteration, &a.case) == (b.iteration, &b.case)) {
        let answered = of_variant.iter_mut().find_map(|found| of(found, cases, record).map(|divided| (found, divided)));
        let Some((found, divided)) = answered else { continue };
        let text = format!("{}, so more blocks alone gain little", told(&divided));
        found.evidence.push(Evidence { source: EvidenceSource::Times, supports: false, text });
        found.confidence = Confidence::Low;
        of_variant.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    }
    findings
}

/// Says what another family does.
pub(super) fn told(Divided { family, blocks, times_as_long, .. }: &Divided) -> String {
    format!("`{family}` already divides this case into {blocks} blocks, and takes {times_as_long:.2}× as long")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{finding, found, iteration, record, record_ahead, report_with};
    use super::*;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::verdict::Verdict;

    /// The best variant of b1h1s128 takes 50 us with 2 blocks. Another family takes longer, with as many blocks as given.
    fn with_rival(blocks: u64, us: f64) -> SessionRecord {
        let mut record = record();
        let mut measured = found("b1h1s128", us, Verdict::Regressed, None, None);
        measured.ctas = Some(blocks);
        let mut rival = iteration(IterationId(6), 32, None, Outcome::Measured, vec![measured]);
        rival.family = "split-k".to_owned();
        record.iterations.push(rival);
        record
    }

    #[test]
    fn a_family_with_more_blocks_that_is_slower_lowers_the_confidence_in_too_few_blocks() {
        let found = finding("b1h1s128", 3, RULE, 1.5);
        let told = |blocks, us| {
            let report = report_with(&with_rival(blocks, us), std::slice::from_ref(&found));
            let found = &report.diagnoses[0].findings[0];
            let divided = found.divided_by.as_ref().map(|one| (one.family.clone(), one.blocks));
            (found.confidence, divided, found.evidence.last().unwrap().text.clone(), found.next.clone())
        };
        let (confidence, divided, text, next) = told(8, 60.0);
        assert_eq!((confidence, divided), (Confidence::Low, Some(("split-k".to_owned(), 8))));
        insta::assert_snapshot!([text, next].join("\n"), @"
        `split-k` already divides this case into 8 blocks, and takes 1.20× as long, so more blocks alone gain little
        none of its parameters removes it; another family already divides the work into more blocks, and is not faster
        ");
        assert_eq!(told(2, 60.0).0, Confidence::Medium, "as many blocks");
        assert_eq!(told(8, 500.0).0, Confidence::Medium, "ten times as long, which blocks do not explain");
    }

    /// Of the three causes, the first has the largest gain, but another family has more blocks already. The confidence in the
    /// second is low. The third has the least gain.
    #[test]
    fn a_new_kernel_is_not_recommended_for_what_another_family_does_and_the_reason_says_why() {
        let mut unsure = Finding { confidence: Confidence::Low, ..finding("b8h8s512", 1, "latency-bound", 1.4) };
        let text = "larger grids take as long".to_owned();
        unsure.evidence.push(Evidence { source: EvidenceSource::Times, supports: false, text });
        let mut record = with_rival(8, 60.0);
        record.baselines = record_ahead().baselines;
        let next = |findings: &[Finding]| {
            let report = report_with(&record, findings);
            super::super::experiment::new_kernel(&report.cases, &report.diagnoses).unwrap()
        };
        let found = [finding("b1h1s128", 3, RULE, 1.5), unsure];
        let told = next(&found);
        insta::assert_snapshot!(format!("{}: {}", told.case, told.because), @"b8h8s512: no change of a parameter that leaves no more SMs idle is expected to gain more than a comparison resolves, and the best variant takes 400× as long as the floor (an empty launch), of which this cause explains 1.40× and nothing found explains the rest; `b1h1s128` could gain more (1.50×), but `split-k` already divides this case into 8 blocks, and takes 1.20× as long");
        let derivation = Some("1 / 0.83 = 1.20×".to_owned());
        let spilled = Finding { confidence: Confidence::High, derivation, ..finding("b1h1s128", 3, "spills", 1.2) };
        let told = next(&[spilled, found[1].clone()]);
        insta::assert_snapshot!(format!("{}: {}", told.case, told.because), @"b1h1s128: no change of a parameter that leaves no more SMs idle is expected to gain more than a comparison resolves, and the best variant takes 50.00× as long as the floor (an empty launch), of which this cause explains 1.20× and nothing found explains the rest; `b8h8s512` could gain more (1.40×), but with low confidence: larger grids take as long");
        assert!(told.expected_from.ends_with(": 1 / 0.83 = 1.20×"), "{}", told.expected_from);
    }
}
