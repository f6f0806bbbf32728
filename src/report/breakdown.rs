//! What the time of a kernel consists of: how much less it takes without each kind of instruction.

use super::began;
use super::contract::{AblatedLead, Breakdown, Case, Line, Longer, Without};
use super::format::percent;
use crate::domain::ablation::{Ablation, Removed, SourceLine, control_ns, time_ns};
use crate::domain::ids::CaseName;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// What the synchronisation of asynchronous copies and of tensor cores is called.
pub(super) const WAITS: &str = "waits for asynchronous work";

/// The share of a time from which a kind of instruction is named.
const NAMED: f64 = 0.05;

/// The most kinds to name.
const MOST: usize = 2;

/// The least lead to explain. Ablated kernels are timed one after the other, with fewer samples than in a comparison.
pub(super) const MIN_LEAD: f64 = 1.04;

/// The largest lead to explain, but for those over initial kernels. A kernel that takes longer is another matter.
pub(super) const MAX_LEAD: f64 = 4.0;

/// Returns the breakdown of a variant on a case, if a session has ablated it and some kind of instruction could be removed.
pub(super) fn of(hash: &VariantHash, case: &str, record: &SessionRecord) -> Option<Breakdown> {
    let (iteration, ablations) = ablated(hash, case, record)?;
    let us = control_ns(ablations)? / 1e3;
    let without = |ablation: &Ablation| {
        let Ablation { removed, places, diverting, kept, time_ns, lines } = ablation;
        let own_us = time_ns.as_ref().ok().map(|ns| ns / 1e3);
        let share = own_us.map(|own_us| if *removed == Removed::Work { own_us / us } else { 1.0 - own_us / us });
        let problem = time_ns.as_ref().err().cloned();
        let line = |SourceLine { line, text, places, time_ns }: &SourceLine| Line {
            line: *line,
            text: text.clone(),
            places: *places,
            share: time_ns.map(|ns| 1.0 - ns / 1e3 / us),
        };
        let lines = lines.iter().map(line).collect();
        let (removed, places, diverting, kept) = (*removed, *places, *diverting, *kept);
        Without { removed, us: own_us, share, places, diverting, kept, problem, lines }
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

    /// Returns the share of the waits for asynchronous work, once all kinds of instructions are removed. None if the kernel has
    /// none that can be removed, or if that was not measured.
    pub(super) fn waits(&self) -> Option<f64> {
        Some((self.share(Removed::AllKindsAndWaits)? - self.share(Removed::AllKinds)?).max(0.0))
    }

    /// Returns the share of the time that is left without all kinds of instructions and such waits, and is not the launch.
    pub(super) fn other(&self) -> Option<f64> {
        let removed = self.share(Removed::AllKinds)? + self.waits().unwrap_or_default();
        Some((1.0 - removed - self.share(Removed::Work).unwrap_or_default()).clamp(0.0, 1.0))
    }

    /// Says how much of the time the launch, the largest kinds of instructions, waits and the rest take, the
    /// largest share first.
    pub(super) fn in_words(&self) -> String {
        let kinds = self.largest();
        // Kinds that hide each other take little alone, and much together.
        let all = self.share(Removed::AllKinds).filter(|_| kinds.is_empty());
        let rest = [
            (self.share(Removed::Work), "launch"),
            (self.waits(), WAITS),
            (self.other(), "the rest"),
            (all, "loads, products and other kinds that hide each other"),
        ];
        let rest = rest.into_iter().filter_map(|(share, what)| Some((share.filter(|share| *share >= NAMED)?, what)));
        let named = kinds.iter().take(MOST).map(|(removed, share)| (*share, removed.text()));
        let mut parts: Vec<(f64, &str)> = rest.chain(named).collect();
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let told = parts.iter().map(|(share, what)| format!("{} {what}", percent(*share)));
        told.collect::<Vec<_>>().join(", ")
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
    let first = began::first(&case.case, &record.iterations).map(|first| &first.iteration.hash);
    let has_ablations = |one: &&IterationRecord| {
        one.hash != own.hash
            && one.measurements.iter().any(|found| found.case == case.case && !found.ablations.is_empty())
    };
    let others = record.iterations.iter().filter(has_ablations);
    let committed = began::committed(&case.case, &record.iterations).map(|committed| &committed.iteration.hash);
    let lead = |other: &IterationRecord| {
        let (_, slower) = ablated(&other.hash, &case.case, record)?;
        let over_first = first == Some(&other.hash);
        let lead = divide(&case.case, (own, ablations), (other, slower))?;
        let is_told = lead.factor >= MIN_LEAD && (over_first || lead.factor <= MAX_LEAD);
        let over_committed = committed == Some(&other.hash);
        is_told.then_some(AblatedLead { over_first, over_committed, ..lead })
    };
    others.filter_map(lead).collect()
}

/// Divides the lead over some kernel into its parts. None if some of the times are not known.
fn divide(
    case: &CaseName,
    (own, ablations): (&IterationRecord, &[Ablation]),
    (other, slower): (&IterationRecord, &[Ablation]),
) -> Option<AblatedLead> {
    let (own_ns, slower_ns) = (control_ns(ablations)?, control_ns(slower)?);
    let lead_us = (slower_ns - own_ns) / 1e3;
    let launch_us = (time_ns(slower, Removed::Work)? - time_ns(ablations, Removed::Work)?) / 1e3;
    let all = |of: &[Ablation]| Some(control_ns(of)? - time_ns(of, Removed::AllKinds)?);
    let kinds_us = (all(slower)? - all(ablations)?) / 1e3;
    let waits_us = in_waits(ablations, slower).map(|ns| ns / 1e3);
    let longer = |removed: Removed| Some(Longer { removed, us: in_kind(ablations, slower, removed)? / 1e3 });
    let longer = Removed::KINDS.into_iter().filter_map(longer).filter(|longer| longer.us > 0.0);
    Some(AblatedLead {
        case: case.clone(),
        family: own.family.clone(),
        over: other.id,
        over_family: other.family.clone(),
        over_first: false,
        over_committed: false,
        factor: slower_ns / own_ns,
        lead_us,
        launch_us,
        kinds_us,
        waits_us,
        other_us: lead_us - launch_us - kinds_us - waits_us.unwrap_or_default(),
        largest: longer.max_by(|a, b| a.us.total_cmp(&b.us)),
    })
}

/// Returns how much longer the slower kernel spends on waits for asynchronous work, in nanoseconds. None if neither has any, or
/// if a time is not known.
fn in_waits(ablations: &[Ablation], slower: &[Ablation]) -> Option<f64> {
    let with_kinds = in_kind(ablations, slower, Removed::AllKindsAndWaits)?;
    let kinds = |of: &[Ablation]| {
        let has = of.iter().any(|one| one.removed == Removed::AllKindsAndWaits);
        if has { cost(of, Removed::AllKinds) } else { Some(0.0) }
    };
    Some(with_kinds - (kinds(slower)? - kinds(ablations)?))
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
    use crate::report::tests::without;

    fn ablations(times: &[(Removed, f64)]) -> Vec<Ablation> {
        let one = |(removed, us): &(Removed, f64)| Ablation {
            removed: *removed,
            places: 1,
            diverting: 0,
            kept: 0,
            time_ns: Ok(us * 1e3),
            lines: Vec::new(),
        };
        times.iter().map(one).collect()
    }

    fn iteration(family: &str) -> IterationRecord {
        IterationRecord { family: family.to_owned(), ..crate::report::tests::record().iterations[0].clone() }
    }

    /// Without the loads of one line, the kernel takes 3.2 us.
    #[test]
    fn a_line_that_was_timed_has_a_share() {
        let mut record = crate::report::tests::record();
        let hash = record.iterations[0].hash.clone();
        let found = &mut record.iterations[0].measurements[0];
        let case = found.case.clone();
        found.ablations = ablations(&[(Removed::Nothing, 4.0), (Removed::GlobalLoads, 3.0)]);
        let line = |line, time_ns| SourceLine { line, text: "load(k);".to_owned(), places: 8, time_ns };
        found.ablations[1].lines = vec![line(113, Some(3200.0)), line(119, None)];
        let breakdown = of(&hash, &case, &record).unwrap();
        let lines = breakdown.without[0].lines.iter();
        let told = lines.map(|line| (line.line, line.places, line.share.map(|share| (100.0 * share).round())));
        assert_eq!(told.collect::<Vec<_>>(), [(113, 8, Some(20.0)), (119, 8, None)]);
    }

    /// The slower kernel loads for 2.1 us and the winner for 0.5 us.
    #[test]
    fn the_parts_of_a_lead_add_up() {
        use Removed::{AllKinds, Barriers, GlobalLoads, Nothing, Work};
        let own = ablations(&[(Nothing, 4.0), (Work, 1.0), (GlobalLoads, 3.5), (Barriers, 3.8), (AllKinds, 3.0)]);
        let lead = |slower: &[(Removed, f64)]| {
            divide(&"c".into(), (&iteration("a"), &own), (&iteration("b"), &ablations(slower)))
        };
        let found = lead(&[(Nothing, 6.0), (Work, 1.2), (GlobalLoads, 3.9), (Barriers, 6.0), (AllKinds, 3.7)]).unwrap();
        let rounded = |us: f64| (100.0 * us).round() / 100.0;
        let parts = [found.launch_us, found.kinds_us, found.other_us].map(rounded);
        assert_eq!(parts, [0.2, 1.3, 0.5], "2 us in all");
        let Longer { removed, us } = found.largest.unwrap();
        assert_eq!((removed, rounded(us)), (GlobalLoads, 1.6), "more than all kinds together, which hide each other");
        assert_eq!(lead(&[(Nothing, 6.0), (Work, 1.2), (GlobalLoads, 3.9)]), None, "all kinds together are not known");
        assert_eq!(found.waits_us, None);
        let none = lead(&[(Nothing, 6.0), (Work, 1.2), (GlobalLoads, 5.6), (Barriers, 6.0), (AllKinds, 6.0)]).unwrap();
        assert_eq!(none.largest, None, "the winner spends more on each kind");
    }

    /// The slower kernel waits for 0.9 us. The winner waits for 0.2 us, or has no waits.
    #[test]
    fn waits_are_a_part_of_a_lead() {
        use Removed::{AllKinds, AllKindsAndWaits, Nothing, Work};
        let without = ablations(&[(Nothing, 4.0), (Work, 1.0), (AllKinds, 3.0)]);
        let own = [without.clone(), ablations(&[(AllKindsAndWaits, 2.8)])].concat();
        let slower = ablations(&[(Nothing, 6.0), (Work, 1.2), (AllKinds, 3.7), (AllKindsAndWaits, 2.8)]);
        let parts = |own: &[Ablation], slower: &[Ablation]| {
            let lead = divide(&"c".into(), (&iteration("a"), own), (&iteration("b"), slower)).unwrap();
            let rounded = |us: f64| (100.0 * us).round() / 100.0;
            (lead.waits_us.map(rounded), [lead.launch_us, lead.kinds_us, lead.other_us].map(rounded))
        };
        assert_eq!(parts(&own, &slower), (Some(0.7), [0.2, 1.3, -0.2]), "2 us in all");
        assert_eq!(parts(&without, &slower), (Some(0.9), [0.2, 1.3, -0.4]));
        let mut unknown = slower.clone();
        unknown[3].time_ns = Err("all of them stay".to_owned());
        assert_eq!(parts(&own, &unknown), (None, [0.2, 1.3, 0.5]));
    }

    #[test]
    fn a_time_is_told_in_shares() {
        let shares = [
            (Removed::Work, 0.14),
            (Removed::TensorProducts, 0.09),
            (Removed::GlobalLoads, 0.31),
            (Removed::Barriers, 0.06),
            (Removed::Shuffles, 0.01),
            (Removed::AllKinds, 0.55),
        ];
        let told = |shares: &[(Removed, f64)]| {
            let without = shares.iter().copied().map(without).collect();
            let breakdown = Breakdown { iteration: iteration("a").id, family: "a".to_owned(), us: 4.0, without };
            let percent = |share: f64| (100.0 * share).round();
            (breakdown.in_words(), breakdown.waits().map(percent), breakdown.other().map(percent))
        };
        let kinds = "31% loads from global memory";
        let told_of = |text: String, waits: Option<f64>, other: f64| (text, waits, Some(other));
        let rest = format!("{kinds}, 31% the rest, 14% launch, 9.0% products on tensor cores");
        assert_eq!(told(&shares), told_of(rest, None, 31.0));
        let with = |all: f64| [&shares[..], &[(Removed::AllKindsAndWaits, all)]].concat();
        let rest = format!(
            "{kinds}, 23% waits for asynchronous work, 14% launch, 9.0% products on tensor cores, 8.0% the rest"
        );
        assert_eq!(told(&with(0.78)), told_of(rest, Some(23.0), 8.0));
        assert_eq!(told(&with(0.54)).1, Some(0.0), "times scatter");
    }
}
