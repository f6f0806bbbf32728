//! What the time of a kernel consists of, and that of another one: how much less it takes without each kind of instruction.

use super::contract::{Breakdown, Line, Longer, Parts, Without};
use crate::domain::code::ablation::{Ablation, Removed, SourceLine, control_ns, time_ns};
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// The least lead to divide. Ablated kernels are timed one after the other, with fewer samples than in a comparison.
const MIN_LEAD: f64 = 1.04;

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

/// Divides the time by which another kernel is slower than a winner into parts. None if one was not ablated, or if it is
/// hardly slower.
pub(super) fn parts([other, winner]: [&IterationRecord; 2], case: &str, record: &SessionRecord) -> Option<Parts> {
    let (_, slower) = ablated(&other.hash, case, record)?;
    let (_, ours) = ablated(&winner.hash, case, record)?;
    divide(ours, slower).filter(|_| control_ns(slower) >= control_ns(ours).map(|ns| MIN_LEAD * ns))
}

/// Divides a lead into its parts. None if some of the times are not known.
fn divide(ours: &[Ablation], slower: &[Ablation]) -> Option<Parts> {
    let lead_us = (control_ns(slower)? - control_ns(ours)?) / 1e3;
    let launch_us = (time_ns(slower, Removed::Work)? - time_ns(ours, Removed::Work)?) / 1e3;
    let all = |of: &[Ablation]| Some(control_ns(of)? - time_ns(of, Removed::AllKinds)?);
    let kinds_us = (all(slower)? - all(ours)?) / 1e3;
    let waits_us = in_waits(ours, slower).map(|ns| ns / 1e3);
    let longer = |removed: Removed| Some(Longer { removed, us: in_kind(ours, slower, removed)? / 1e3 });
    let longer = Removed::KINDS.into_iter().filter_map(longer).filter(|longer| longer.us > 0.0);
    Some(Parts {
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
        let lead = |slower: &[(Removed, f64)]| divide(&own, &ablations(slower));
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
            let lead = divide(own, slower).unwrap();
            let rounded = |us: f64| (100.0 * us).round() / 100.0;
            (lead.waits_us.map(rounded), [lead.launch_us, lead.kinds_us, lead.other_us].map(rounded))
        };
        assert_eq!(parts(&own, &slower), (Some(0.7), [0.2, 1.3, -0.2]), "2 us in all");
        assert_eq!(parts(&without, &slower), (Some(0.9), [0.2, 1.3, -0.4]));
        let mut unknown = slower.clone();
        unknown[3].time_ns = Err("all of them stay".to_owned());
        assert_eq!(parts(&own, &unknown), (None, [0.2, 1.3, 0.5]));
    }
}
