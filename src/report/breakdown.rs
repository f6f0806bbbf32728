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

/// The largest lead to explain. A kernel that takes longer is another matter.
const MAX_LEAD: f64 = 4.0;

/// The shares of a lead between which a kind of instruction explains it.
const MOST_OF_IT: std::ops::RangeInclusive<f64> = 0.67..=1.33;

/// Returns the breakdown of a variant on a case, if a session has ablated it and some kind of instruction could be removed.
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
    let breakdown = Breakdown { iteration: iteration.id, family: iteration.family.clone(), us, without };
    // Where every kind stays, nothing is known but the launch.
    let is_known = Removed::KINDS.iter().any(|removed| breakdown.share(*removed).is_some());
    is_known.then_some(breakdown)
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
        (MIN_LEAD..=MAX_LEAD).contains(&factor).then(|| explain(&case.case, (own, ablations), (other, slower)))?
    };
    others.filter_map(lead).collect()
}

fn explain(
    case: &CaseName,
    (own, ablations): (&IterationRecord, &[Ablation]),
    (other, slower): (&IterationRecord, &[Ablation]),
) -> Option<AblatedLead> {
    let (own_ns, slower_ns) = (control_ns(ablations)?, control_ns(slower)?);
    let lead_ns = slower_ns - own_ns;
    let share = |removed: Removed| Some((removed, in_kind(ablations, slower, removed)? / lead_ns));
    let kinds: Vec<(Removed, f64)> = Removed::KINDS.into_iter().filter_map(share).collect();
    let work = cost(ablations, Removed::Work).zip(cost(slower, Removed::Work));
    let launches = work.map(|(own, slower)| (Removed::Work, 1.0 - (slower - own) / lead_ns));
    let nearest = |a: &(Removed, f64), b: &(Removed, f64)| (a.1 - 1.0).abs().total_cmp(&(b.1 - 1.0).abs());
    let alone = kinds.iter().copied().chain(launches).filter(|(_, share)| MOST_OF_IT.contains(share)).min_by(nearest);
    // Kinds that hide each other only show together. What is left then is in other instructions.
    let together = share(Removed::AllKinds);
    let part = alone.or(together.filter(|(_, share)| MOST_OF_IT.contains(share)));
    let rest = together.zip(launches).map(|((_, together), (_, launches))| 1.0 - together - launches);
    let is_other = part.is_none() && rest.is_some_and(|rest| MOST_OF_IT.contains(&rest));
    let largest = kinds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    Some(AblatedLead {
        case: case.clone(),
        family: own.family.clone(),
        over: other.id,
        over_family: other.family.clone(),
        factor: slower_ns / own_ns,
        lead_us: lead_ns / 1e3,
        removed: part.or(largest.filter(|_| !is_other)).map(|(removed, _)| removed),
        share: if is_other { rest } else { part.or(largest).map(|(_, share)| share) },
        explained: part.is_some() || is_other,
    })
}

/// Returns how much longer the slower kernel spends on a kind of instruction, in nanoseconds. None if neither has any, or if
/// a time is not known.
fn in_kind(ablations: &[Ablation], slower: &[Ablation], removed: Removed) -> Option<f64> {
    let has = |of: &[Ablation]| of.iter().any(|one| one.removed == removed);
    if !has(ablations) && !has(slower) {
        return None;
    }
    Some(cost(slower, removed)? - cost(ablations, removed)?)
}

/// Returns the time that a kernel saves without a kind of instruction, in nanoseconds; 0 if it has none of it.
fn cost(ablations: &[Ablation], removed: Removed) -> Option<f64> {
    if !ablations.iter().any(|one| one.removed == removed) {
        return Some(0.0);
    }
    Some(control_ns(ablations)? - time_ns(ablations, removed)?)
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
    fn a_lead_is_explained_by_the_instructions_that_take_as_much_longer() {
        use Removed::{AllKinds, Barriers, GlobalLoads, Nothing, TensorProducts, Work};
        let own = ablations(&[(Nothing, 4.0), (Work, 1.0), (GlobalLoads, 3.5), (AllKinds, 3.0)]);
        let other = |slower: &[(Removed, f64)]| {
            let lead = explain(&"c".into(), (&iteration("a"), &own), (&iteration("b"), &ablations(slower))).unwrap();
            (lead.removed, lead.share.map(|share| (100.0 * share).round()), lead.explained)
        };
        let loads = other(&[(Nothing, 5.5), (Work, 1.0), (GlobalLoads, 3.5), (AllKinds, 3.0)]);
        assert_eq!(loads, (Some(GlobalLoads), Some(100.0), true));
        // The winner has no barriers.
        let barriers = other(&[(Nothing, 6.0), (Work, 1.0), (Barriers, 4.1), (GlobalLoads, 5.0), (AllKinds, 3.0)]);
        assert_eq!(barriers, (Some(Barriers), Some(95.0), true));
        let launches = other(&[(Nothing, 6.0), (Work, 3.0), (GlobalLoads, 5.4), (AllKinds, 5.0)]);
        assert_eq!(launches, (Some(Work), Some(100.0), true));
        // Products and loads hide each other.
        let together =
            other(&[(Nothing, 6.0), (Work, 1.0), (TensorProducts, 5.8), (GlobalLoads, 5.4), (AllKinds, 3.0)]);
        assert_eq!(together, (Some(AllKinds), Some(100.0), true));
        let others = other(&[(Nothing, 6.0), (Work, 1.0), (GlobalLoads, 5.4), (AllKinds, 5.0)]);
        assert_eq!(others, (None, Some(100.0), true), "other instructions");
        let unknown = other(&[(Nothing, 6.0), (Work, 1.0), (GlobalLoads, 5.0), (AllKinds, 4.0)]);
        assert_eq!(unknown, (Some(GlobalLoads), Some(25.0), false));
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
        let told = "14% launch, 31% loads from global memory, 9.0% products on tensor cores";
        assert_eq!(breakdown.in_words(), told);
        assert!((breakdown.other().unwrap() - 0.31).abs() < 1e-9);
    }
}
