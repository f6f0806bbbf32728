//! Leads of winners that are large enough to be divided into their parts, but were not.

use super::breakdown::{MAX_LEAD, MIN_LEAD};
use super::contract::{AblatedLead, Case, Rivals, Undivided};
use super::{began, rivals};
use crate::domain::ablation::control_ns;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// Returns the leads over committed winners and over the next best families that are not among the divided ones.
pub(super) fn of(cases: &[Case], rivals: &[Rivals], divided: &[AblatedLead], record: &SessionRecord) -> Vec<Undivided> {
    cases.iter().flat_map(|case| of_case(case, rivals, divided, record)).collect()
}

fn of_case(case: &Case, rivals: &[Rivals], divided: &[AblatedLead], record: &SessionRecord) -> Vec<Undivided> {
    let winner = record.iterations.iter().find(|one| Some(one.id) == case.iteration);
    let Some(winner) = winner else { return Vec::new() };
    let committed = began::committed(&case.case, &record.iterations).map(|one| one.iteration);
    let over_committed = committed.zip(case.change.as_ref().and_then(|change| change.ratio));
    let over_committed = over_committed.map(|(committed, ratio)| (committed, true, ratio.estimate));
    let next = rivals.iter().find(|one| one.case == case.case).and_then(|one| match &*one.families {
        [winner, next, ..] => Some((rivals::fastest(&next.family, case, record)?.iteration, next.us / winner.us)),
        _ => None,
    });
    let over_next = next.filter(|(next, _)| committed.is_none_or(|committed| committed.hash != next.hash));
    let over_next = over_next.map(|(next, factor)| (next, false, factor));
    // One over another configuration of the same family says as much.
    let is_divided =
        |other: &IterationRecord| divided.iter().any(|lead| lead.case == case.case && lead.over_family == other.family);
    let leads = [over_committed, over_next].into_iter().flatten();
    let undivided = leads.filter(|(other, _, factor)| (MIN_LEAD..=MAX_LEAD).contains(factor) && !is_divided(other));
    let control = |hash: &VariantHash| control(hash, &case.case, record);
    let told = undivided.map(|(other, over_committed, factor)| Undivided {
        case: case.case.clone(),
        over_family: other.family.clone(),
        over_committed,
        factor,
        ablated_factor: control(&other.hash).zip(control(&winner.hash)).map(|(slower, own)| slower / own),
    });
    told.collect()
}

/// Returns the time of a kernel beside its ablations, with all instructions. None if it was not ablated.
fn control(hash: &VariantHash, case: &str, record: &SessionRecord) -> Option<f64> {
    let same = record.iterations.iter().filter(|one| one.hash == *hash).flat_map(|one| &one.measurements);
    same.filter(|found| found.case == case).find_map(|found| control_ns(&found.ablations))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, iteration, record, report};
    use crate::domain::ablation::Ablation;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::verdict::Verdict;

    /// The winner takes 50 us, and the other family 53 us. Timed again beside its ablations, it takes 1% longer.
    #[test]
    fn a_lead_that_was_not_divided_is_named_with_the_reason() {
        let told = |us: f64, again_us: Option<f64>| {
            let mut record = record();
            let control = |us: f64| Ablation::of_control(Ok(us * 1e3));
            let mut rival = found("b1h1s128", us, Verdict::Regressed, None, None);
            rival.ablations.extend(again_us.map(control));
            let mut rival = iteration(IterationId(6), 32, None, Outcome::Measured, vec![rival]);
            rival.family = "split-k".to_owned();
            record.iterations.push(rival);
            let winner = record.iterations[2].measurements.iter_mut().find(|one| one.case == "b1h1s128").unwrap();
            winner.ablations.push(control(50.0));
            let undivided = report(&record).undivided_leads;
            undivided.iter().map(|one| (one.over_family.clone(), one.factor, one.ablated_factor)).collect::<Vec<_>>()
        };
        let family = || "split-k".to_owned();
        assert_eq!(told(53.0, None), [(family(), 1.06, None)]);
        assert_eq!(told(53.0, Some(50.5)), [(family(), 1.06, Some(1.01))]);
        assert_eq!(told(51.0, None), [], "too small to be divided");
    }
}
