//! What the time of a kernel consists of: how much less it takes without each kind of instruction.

use super::contract::{AblatedLead, Breakdown, Case, Without};
use super::format::percent;
use crate::domain::ablation::{Ablation, Removed, control_ns, time_ns};
use crate::domain::ids::CaseName;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// The share of a time from which a kind of instruction is named.
const NAMED: f64 = 0.05;

/// The most kinds to name.
const MOST: usize = 2;

/// The least lead to explain. Ablated kernels are timed one after the other, with fewer samples than in a comparison.
const MIN_LEAD: f64 = 1.04;

/// The share of a lead, as a logarithm, that may be left where a kind of instruction explains it.
const LEFT: f64 = 1.0 / 3.0;

/// Returns the breakdown of a variant on a case, if a session has ablated it.
pub(super) fn of(hash: &VariantHash, case: &str, record: &SessionRecord) -> Option<Breakdown> {
    let (iteration, ablations) = ablated(hash, case, record)?;
    let us = control_ns(ablations)? / 1e3;
    let without = |ablation: &Ablation| {
        let Ablation { removed, places, diverting, kept, time_ns } = ablation;
        let own_us = time_ns.as_ref().ok().map(|ns| ns / 1e3);
        let share = own_us.map(|own_us| if *removed == Removed::Work { own_us / us } else { 1.0 - own_us / us });
        let problem = time_ns.as_ref().err().cloned();
        Without { removed: *removed, us: own_us, share, places: *places, diverting: *diverting, kept: *kept, problem }
    };
    let without = ablations.iter().filter(|one| one.removed != Removed::Nothing).map(without).collect();
    Some(Breakdown { iteration: iteration.id, family: iteration.family.clone(), us, without })
}

fn ablated<'a>(
    hash: &VariantHash,
    case: &str,
    record: &'a SessionRecord,
) -> Option<(&'a IterationRecord, &'a [Ablation])> {
    let same = record.iterations.iter().filter(|one| one.hash == *hash);
    let mut found = same.flat_map(|one| one.measurements.iter().map(move |found| (one, found)));
    let (iteration, found) = found.find(|(_, found)| found.case == case && !found.ablations.is_empty())?;
    Some((iteration, &found.ablations))
}

impl Breakdown {
    /// Returns the share of a kind of instruction in the time, or of the launch for [`Removed::Work`].
    pub(super) fn share(&self, removed: Removed) -> Option<f64> {
        self.without.iter().find(|one| one.removed == removed)?.share
    }

    /// Returns the kinds of instructions that are worth naming, the largest share first.
    pub(super) fn largest(&self) -> Vec<(Removed, f64)> {
        let known = Removed::KINDS.into_iter().filter_map(|removed| Some((removed, self.share(removed)?)));
        let mut known: Vec<(Removed, f64)> = known.filter(|(_, share)| *share >= NAMED).collect();
        known.sort_by(|a, b| b.1.total_cmp(&a.1));
        known
    }

    /// Returns the share of the time that is left without all kinds of instructions, and is not the launch.
    pub(super) fn other(&self) -> Option<f64> {
        let all = self.share(Removed::AllKinds)?;
        Some((1.0 - all - self.share(Removed::Work).unwrap_or_default()).clamp(0.0, 1.0))
    }

    /// Says how much of the time the launch and the largest kinds of instructions take.
    pub(super) fn in_words(&self) -> String {
        let launch = self.share(Removed::Work).filter(|share| *share >= NAMED);
        let launch = launch.map(|share| format!("{} launch", percent(share)));
        let kinds = self.largest();
        let named = kinds.iter().take(MOST).map(|(removed, share)| format!("{} {}", percent(*share), removed.text()));
        let none = kinds.is_empty().then(|| "no kind of instruction takes 5%".to_owned());
        launch.into_iter().chain(named).chain(none).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the leads of winners over all other ablated kernels of their cases, the largest first.
pub(super) fn leads(cases: &[Case], record: &SessionRecord) -> Vec<AblatedLead> {
    let mut leads: Vec<AblatedLead> = cases.iter().flat_map(|case| of_case(case, record)).collect();
    leads.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    leads
}

fn of_case(case: &Case, record: &SessionRecord) -> Vec<AblatedLead> {
    let own = record.iterations.iter().find(|one| Some(one.id) == case.iteration);
    let Some((own, ablations)) = own.and_then(|own| ablated(&own.hash, &case.case, record)) else { return Vec::new() };
    let has_ablations = |one: &&IterationRecord| {
        one.hash != own.hash
            && one.measurements.iter().any(|found| found.case == case.case && !found.ablations.is_empty())
    };
    let others = record.iterations.iter().filter(has_ablations);
    let lead = |other: &IterationRecord| {
        let (_, slower) = ablated(&other.hash, &case.case, record)?;
        let factor = control_ns(slower)? / control_ns(ablations)?;
        (factor >= MIN_LEAD).then(|| explain(&case.case, (own, ablations), (other, slower), factor))
    };
    others.filter_map(lead).collect()
}

fn explain(
    case: &CaseName,
    (own, ablations): (&IterationRecord, &[Ablation]),
    (other, slower): (&IterationRecord, &[Ablation]),
    factor: f64,
) -> AblatedLead {
    let kinds = Removed::KINDS.into_iter().filter_map(|removed| Some((removed, without(ablations, slower, removed)?)));
    let smallest = kinds.chain(launches(ablations, slower)).min_by(|a, b| a.1.ln().abs().total_cmp(&b.1.ln().abs()));
    AblatedLead {
        case: case.clone(),
        family: own.family.clone(),
        over: other.id,
        over_family: other.family.clone(),
        factor,
        removed: smallest.map(|(removed, _)| removed),
        factor_without: smallest.map(|(_, factor)| factor),
        explained: smallest.is_some_and(|(_, left)| left.ln().abs() <= LEFT * factor.ln()),
    }
}

/// Returns the lead when both kernels lack a kind of instruction. One that has none of it takes as long as before. None if
/// neither has any, or if a time is not known.
fn without(ablations: &[Ablation], slower: &[Ablation], removed: Removed) -> Option<f64> {
    let has = |of: &[Ablation]| of.iter().any(|one| one.removed == removed);
    let ns = |of: &[Ablation]| if has(of) { time_ns(of, removed) } else { control_ns(of) };
    if !has(ablations) && !has(slower) {
        return None;
    }
    Some(ns(slower)? / ns(ablations)?)
}

/// Returns the lead when both kernels lack their launches.
fn launches(ablations: &[Ablation], slower: &[Ablation]) -> Option<(Removed, f64)> {
    let rest = |of: &[Ablation]| Some(control_ns(of)? - time_ns(of, Removed::Work)?).filter(|rest| *rest > 0.0);
    Some((Removed::Work, rest(slower)? / rest(ablations)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ablations(times: &[(Removed, f64)]) -> Vec<Ablation> {
        let one = |(removed, us): &(Removed, f64)| Ablation {
            removed: *removed,
            places: 1,
            diverting: 0,
            kept: 0,
            time_ns: Ok(us * 1e3),
        };
        times.iter().map(one).collect()
    }

    fn iteration(family: &str) -> IterationRecord {
        IterationRecord { family: family.to_owned(), ..crate::report::tests::record().iterations[0].clone() }
    }

    /// The slower kernel loads for 2 us and the winner for 0.5 us. What is left takes as long.
    #[test]
    fn a_lead_is_explained_by_the_instructions_without_which_it_is_gone() {
        let own = ablations(&[(Removed::Nothing, 4.0), (Removed::Work, 1.0), (Removed::GlobalLoads, 3.5)]);
        let loads = ablations(&[(Removed::Nothing, 5.5), (Removed::Work, 1.0), (Removed::GlobalLoads, 3.5)]);
        let other = |slower: &[Ablation]| {
            let factor = control_ns(slower).unwrap() / 4.0e3;
            explain(&"c".into(), (&iteration("a"), &own), (&iteration("b"), slower), factor)
        };
        let lead = other(&loads);
        assert_eq!((lead.removed, lead.factor_without, lead.explained), (Some(Removed::GlobalLoads), Some(1.0), true));
        // The winner has no barriers.
        let barriers = ablations(&[(Removed::Nothing, 6.0), (Removed::Barriers, 4.1), (Removed::GlobalLoads, 5.0)]);
        let lead = other(&barriers);
        assert_eq!((lead.removed, lead.explained), (Some(Removed::Barriers), true));
        let launch = ablations(&[(Removed::Nothing, 6.0), (Removed::Work, 3.0), (Removed::GlobalLoads, 5.4)]);
        assert_eq!(other(&launch).removed, Some(Removed::Work));
        let unknown = ablations(&[(Removed::Nothing, 6.0), (Removed::Work, 1.0), (Removed::GlobalLoads, 5.4)]);
        assert!(!other(&unknown).explained);
    }

    #[test]
    fn a_time_is_told_in_shares() {
        let without = |removed, share| Without {
            removed,
            us: Some(1.0),
            share: Some(share),
            places: 1,
            diverting: 0,
            kept: 0,
            problem: None,
        };
        let shares = [
            (Removed::Work, 0.14),
            (Removed::TensorProducts, 0.09),
            (Removed::GlobalLoads, 0.31),
            (Removed::Barriers, 0.06),
            (Removed::Shuffles, 0.01),
            (Removed::AllKinds, 0.55),
        ];
        let without = shares.map(|(removed, share)| without(removed, share)).into();
        let iteration = iteration("a").id;
        let breakdown = Breakdown { iteration, family: "a".to_owned(), us: 4.0, without };
        let told = "14% launch, 31% loads from global memory, 9% products on tensor cores";
        assert_eq!(breakdown.in_words(), told);
        assert!((breakdown.other().unwrap() - 0.31).abs() < 1e-9);
    }
}
