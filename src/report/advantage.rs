//! Why the best variant of a case is faster than what the session began with, and than the best variant of another
//! family: what a virtual GPU counted for them.

use super::contract::{Advantage, Case, Count, Counted, Diagnosis, DiagnosisOf, Rivals};
use super::format::{of_two_runs, times};
use super::{ReportInput, began, reasons, rivals, roofline};
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::profile::{LaunchProfile, Profile};
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// The least gain to explain. Two screening runs of one kernel spanned 2.7% on an H200; a comparison resolves less, but
/// the counts of two variants seldom explain less.
pub(super) const MIN_FACTOR: f64 = 1.02;

/// The most counts that a sentence names.
const MAX_NAMED: usize = 3;

/// The factor by which the logarithms of the modelled and the measured gain may differ where the counts are said to explain
/// the gain.
const MAX_DISAGREEMENT: f64 = 1.5;

/// The factor between the two gains from which the model cannot describe one of the two kernels.
const FAR_OFF: f64 = 2.0;

/// Returns why the best variants of the improved cases are faster, the largest gain first. Cases without counts are left
/// out.
pub(super) fn of(cases: &[Case], input: &ReportInput<'_>) -> Vec<Advantage> {
    let improved = cases.iter().filter(|case| case.change.as_ref().is_some_and(|change| change.improved));
    let mut advantages: Vec<Advantage> = improved.filter_map(|case| of_case(case, input)).collect();
    advantages.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    advantages
}

/// A variant with its time and its counts on a case.
struct Known<'a> {
    iteration: &'a IterationRecord,
    us: f64,
    /// Whether the time follows from a ratio to the best variant's in one run.
    in_one_run: bool,
    profile: &'a Profile,
}

fn known<'a>(iteration: &'a IterationRecord, case: &str) -> Option<Known<'a>> {
    let found = iteration.measurements.iter().find(|found| found.case == case)?;
    Some(Known { iteration, us: found.best_timing()?.median_ns / 1e3, in_one_run: false, profile: counts(found)? })
}

fn counts(found: &CaseRecord) -> Option<&Profile> {
    found.profile.as_ref().or(found.explanation.as_ref())
}

/// Returns what a virtual GPU counted for a variant on a case, whichever iteration asked for it.
pub(super) fn profile<'a>(hash: &VariantHash, case: &str, record: &'a SessionRecord) -> Option<&'a Profile> {
    let same = record.iterations.iter().filter(|one| one.hash == *hash);
    same.flat_map(|one| &one.measurements).filter(|found| found.case == case).find_map(counts)
}

/// Says which counts a change of a family's parameters has changed that gained a factor, and what the model derives from all
/// counts.
pub(super) fn of_step(
    (before, after): (&Profile, &Profile),
    gain: f64,
    family: &str,
    input: &ReportInput<'_>,
) -> (String, f64) {
    let counts = count(before, after, !uses_descriptors(family, input));
    let sms = f64::from(input.record.environment.device.sms);
    let changed = reasons::clause(&counts, gain, sms, MAX_NAMED);
    (changed.trim_start_matches("it ").to_owned(), before.modelled_ns() / after.modelled_ns().max(1.0))
}

/// Returns why the best variant of a case is faster than the fastest variant of another family with counts, for all cases
/// where there are both, in the order of the cases.
pub(super) fn over_rivals(cases: &[Case], input: &ReportInput<'_>) -> Vec<Advantage> {
    cases.iter().filter_map(|case| over_rival(case, input)).collect()
}

/// Returns why the best variant is faster than the initial kernel, on the case on which that was diagnosed.
pub(super) fn over_first(cases: &[Case], diagnoses: &[Diagnosis], input: &ReportInput<'_>) -> Option<Advantage> {
    let initial = diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)?;
    let case = cases.iter().find(|case| case.case == initial.case)?;
    let iterations = &input.record.iterations;
    let (first, after) = (began::first(&case.case, iterations)?, winner(case, iterations)?);
    let mut of_first = iterations.iter().filter(|one| one.hash == first.iteration.hash);
    let before = of_first.find_map(|one| known(one, &case.case))?;
    let before = Known { us: roofline::first_us(case).unwrap_or(before.us), ..before };
    is_faster(&before, &after).then(|| compare(case, (&before, "first_variant"), &after, input))
}

fn of_case(case: &Case, input: &ReportInput<'_>) -> Option<Advantage> {
    let iterations = &input.record.iterations;
    let after = winner(case, iterations)?;
    let began = began::committed(&case.case, iterations).or_else(|| began::first(&case.case, iterations))?;
    let mut of_began = iterations.iter().filter(|one| one.hash == began.iteration.hash);
    let role = case.change.as_ref().map_or("first_variant", |change| change.began_with);
    // The main table has the same ratio.
    let ratio = case.change.as_ref().and_then(|change| change.ratio);
    let (before, role) = match of_began.find_map(|one| known(one, &case.case)) {
        Some(before) => {
            let us = ratio.map_or(before.us, |ratio| after.us * ratio.estimate);
            (Known { us, in_one_run: ratio.is_some_and(|ratio| ratio.paired), ..before }, role)
        }
        None => (slowest(case, iterations)?, "slowest"),
    };
    is_faster(&before, &after).then(|| compare(case, (&before, role), &after, input))
}

fn over_rival<'a>(case: &Case, input: &ReportInput<'a>) -> Option<Advantage> {
    let iterations = &input.record.iterations;
    let after = winner(case, iterations)?;
    let first = began::first(&case.case, iterations).map(|began| &began.iteration.hash);
    let is_rival = |one: &&IterationRecord| one.family != after.iteration.family && Some(&one.hash) != first;
    let others = iterations.iter().filter(is_rival);
    let of_one_run = |before: Known<'a>| match rivals::us_in_one_run(before.iteration, case, input.record) {
        Some(us) => Known { us, in_one_run: true, ..before },
        None => Known { us: rivals::screened_us(before.iteration, case, input.record).unwrap_or(before.us), ..before },
    };
    let counted = others.filter_map(|one| known(one, &case.case)).map(of_one_run);
    let before = counted.min_by(|a, b| a.us.total_cmp(&b.us))?;
    // The table of the families has the fastest variant of this family, which may have counts, too.
    let fastest = rivals::fastest(&before.iteration.family, case, input.record).map(|fastest| &fastest.iteration.hash);
    let same = iterations.iter().filter(|one| is_rival(one) && Some(&one.hash) == fastest);
    let before = same.into_iter().find_map(|one| known(one, &case.case)).map_or(before, of_one_run);
    is_faster(&before, &after).then(|| compare(case, (&before, "rival"), &after, input))
}

/// Returns the best variant of a case. The same machine code has the same counts, whichever iteration asked for them.
fn winner<'a>(case: &Case, iterations: &'a [IterationRecord]) -> Option<Known<'a>> {
    let best = iterations.iter().find(|one| Some(one.id) == case.iteration)?;
    let counted = iterations.iter().filter(|one| one.hash == best.hash).find_map(|one| known(one, &case.case))?;
    Some(Known { us: case.best_us?, iteration: best, ..counted })
}

fn is_faster(before: &Known<'_>, after: &Known<'_>) -> bool {
    before.iteration.hash != after.iteration.hash && before.us >= MIN_FACTOR * after.us
}

fn slowest<'a>(case: &Case, iterations: &'a [IterationRecord]) -> Option<Known<'a>> {
    let all = iterations.iter().filter_map(|one| known(one, &case.case));
    all.max_by(|a, b| a.us.total_cmp(&b.us))
}

fn compare(
    case: &Case,
    (before, role): (&Known<'_>, &'static str),
    after: &Known<'_>,
    input: &ReportInput<'_>,
) -> Advantage {
    let factor = before.us / after.us;
    let modelled_factor = before.profile.modelled_ns() / after.profile.modelled_ns().max(1.0);
    let all_wavefronts = [before, after].iter().all(|one| !uses_descriptors(&one.iteration.family, input));
    let counts = count(before.profile, after.profile, all_wavefronts);
    let fastest = rivals::fastest(&before.iteration.family, case, input.record);
    let is_model = input.record.session.time_source == TimeSource::Modelled;
    let sms = f64::from(input.record.environment.device.sms);
    let reading = [
        Some(reasons::sentence(&counts, factor, sms, MAX_NAMED)),
        (!is_model).then(|| agreement(factor, before.in_one_run, modelled_factor)),
    ];
    let counted = |of: &Known<'_>| Counted {
        iteration: of.iteration.id,
        family: of.iteration.family.clone(),
        us: of.us,
        modelled_us: of.profile.modelled_ns() / 1e3,
        chain_share: (chain_ns(of.profile) / of.profile.modelled_ns().max(1.0)).min(1.0),
    };
    Advantage {
        case: case.case.clone(),
        role,
        before: counted(before),
        after: counted(after),
        factor,
        in_one_run: before.in_one_run,
        is_best_of_family: fastest.is_some_and(|fastest| fastest.iteration.hash == before.iteration.hash),
        is_next_best: is_next_best((case, before.us), &[before, after].map(|one| &*one.iteration.family), input),
        modelled_factor,
        explained: is_near(factor, modelled_factor),
        reading: reading.into_iter().flatten().collect::<Vec<_>>().join(" "),
        counts,
    }
}

/// Tells whether no variant of another family than the two is faster than a time, as the table of the families has it.
fn is_next_best((case, us): (&Case, f64), two: &[&str; 2], input: &ReportInput<'_>) -> bool {
    let others = input.families.iter().map(|facts| &*facts.name).filter(|name| !two.contains(name));
    others.filter_map(|name| rivals::fastest(name, case, input.record)).all(|fastest| fastest.us >= us)
}

/// Tells whether the tensor cores read shared memory themselves, which no virtual GPU counts.
fn uses_descriptors(family: &str, input: &ReportInput<'_>) -> bool {
    input.families.iter().any(|facts| facts.name == family && facts.reads_by_descriptor)
}

/// Counts for the whole grid, from the blocks that were executed. `all_wavefronts` tells whether all wavefronts of shared memory
/// are counted, so that they may be compared.
fn count(before: &Profile, after: &Profile, all_wavefronts: bool) -> Vec<Count> {
    let scaled =
        |launch: &LaunchProfile, count: u64| count as f64 * launch.blocks as f64 / launch.executed_blocks.max(1) as f64;
    let sum = |of: &Profile, count: &dyn Fn(&LaunchProfile) -> f64| of.launches.iter().map(count).sum::<f64>();
    let flop = |of: &Profile| sum(of, &|launch| scaled(launch, launch.flop)).max(1.0);
    let both = |name, of: &dyn Fn(&Profile) -> f64| Count {
        name,
        before: of(before),
        after: of(after),
        comparable: all_wavefronts || name != "shared_wavefronts",
    };
    vec![
        both("warp_instructions", &|of| sum(of, &|launch| scaled(launch, launch.warp_instructions))),
        both("shared_wavefronts", &|of| sum(of, &|launch| scaled(launch, launch.shared.moved))),
        both("global_load_bytes", &|of| sum(of, &|launch| launch.global_load_bytes as f64)),
        both("chain_ns", &chain_ns),
        both("tensor_share", &|of| sum(of, &|launch| scaled(launch, launch.flop_tensor)) / flop(of)),
        both("blocks", &|of| of.launches.iter().map(|launch| launch.blocks).max().unwrap_or_default() as f64),
        both("launches", &|of| of.launches.len() as f64),
    ]
}

/// Returns the modelled time of the longest chains of dependent instructions of all launches.
fn chain_ns(of: &Profile) -> f64 {
    of.launches.iter().map(|launch| launch.parts_ns.get("latency").copied().unwrap_or_default()).sum()
}

/// Says what the slower variant is.
fn role(advantage: &Advantage) -> &'static str {
    match advantage.role {
        "committed_winner" => "the committed winner that the session began with",
        "first_variant" => "the first kernel",
        "slowest" => "the slowest variant with counts",
        _ if !advantage.is_best_of_family || !advantage.is_next_best => "the fastest counted variant of another family",
        _ => "the next best family",
    }
}

/// Says which variant is how many times as fast as which, without the reason and the full stop.
pub(super) fn lead(advantage: &Advantage) -> String {
    let Advantage { case, before, after, .. } = advantage;
    let (own, other, factor) = (&after.family, &before.family, factor(advantage));
    let other = match own == other {
        true => format!("{}, another configuration", role(advantage)),
        false => format!("`{other}`, {}", role(advantage)),
    };
    format!("On `{case}`, `{own}` is {factor} as fast as {other}")
}

/// Formats the measured factor: with the digits of the main table if both took turns in one run.
pub(super) fn factor(advantage: &Advantage) -> String {
    lead_factor(advantage.factor, advantage.in_one_run)
}

/// Formats the lead of a winner.
pub(super) fn lead_factor(factor: f64, in_one_run: bool) -> String {
    if in_one_run && factor < 10.0 { format!("{factor:.3}×") } else { of_two_runs(factor) }
}

/// Returns the cases on which another family is nearly as fast as the winner's, with that family.
pub(super) fn near_ties(rivals: &[Rivals]) -> impl Iterator<Item = (&CaseName, &str)> {
    rivals.iter().filter_map(|Rivals { case, families }| match &**families {
        [winner, second, ..] if second.us < MIN_FACTOR * winner.us => Some((case, &*second.family)),
        _ => None,
    })
}

/// Returns the leads with counts of both variants, the largest first: those over what the session began with, and those
/// over other families. Two of them over one family on a case are one, which is explained if one of the two is. A
/// slower variant that only has counts is no lead.
pub(super) fn leads<'a>(advantages: &'a [Advantage], rivals: &'a [Advantage]) -> Vec<&'a Advantage> {
    let mut leads: Vec<&Advantage> = Vec::new();
    for one in advantages.iter().chain(rivals).filter(|one| one.role != "slowest") {
        let is_same = |other: &Advantage| other.case == one.case && other.before.family == one.before.family;
        match leads.iter().position(|other| is_same(other)) {
            None => leads.push(one),
            Some(place) if one.explained && !leads[place].explained => leads[place] = one,
            Some(_) => {}
        }
    }
    leads.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    leads
}

/// Says why the best variant is faster in a clause, such as `it executes 2.0 times fewer instructions`, by at most some counts.
pub(super) fn in_short(advantage: &Advantage, sms: u32, most: usize) -> String {
    reasons::clause(&advantage.counts, advantage.factor, f64::from(sms), most)
}

/// Says what the faster variant does differently in the part of the time where a measured lead is. Only counts of that part
/// are named, unless the counts explain the whole lead. None if no such count has fallen.
pub(super) fn of_part(advantage: &Advantage, sms: u32, most: usize, part: &[&str]) -> Option<String> {
    if advantage.explained {
        return Some(in_short(advantage, sms, most));
    }
    let counts = advantage.counts.iter().filter(|one| part.contains(&one.name)).cloned().collect();
    let told = in_short(&Advantage { counts, ..advantage.clone() }, sms, most);
    (!told.starts_with("no count")).then_some(told)
}

/// Tells whether the gain that the model derives is near the measured one, as logarithms. Only then do the counts explain
/// the gain.
fn is_near(factor: f64, modelled: f64) -> bool {
    (1.0 / MAX_DISAGREEMENT..=MAX_DISAGREEMENT).contains(&(modelled.ln() / factor.ln()))
}

/// Says how much of a measured gain the model derives from the counts.
fn agreement(factor: f64, in_one_run: bool, modelled: f64) -> String {
    let share = modelled.ln() / factor.ln();
    let (measured, derived) = (lead_factor(factor, in_one_run), times(modelled));
    match share {
        _ if is_near(factor, modelled) => {
            format!("From these counts the model derives {derived}; {measured} was measured.")
        }
        _ if (modelled / factor).ln().abs() > FAR_OFF.ln() => format!(
            "**That does not explain it**: from these counts the model derives {derived}, and {measured} was measured. The \
             model is far off for one of the two kernels."
        ),
        more if more > 1.0 => {
            format!("That promises more than it brought: the model derives {derived}, and {measured} was measured.")
        }
        part if part > 0.0 => {
            format!("That explains a part: the model derives {derived}, and {measured} was measured.")
        }
        _ => format!(
            "**That does not explain it**: from these counts the model derives {derived}, and {measured} was measured. The \
             reason is something that the model does not count."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{families, found, input, iteration, record, report};
    use super::*;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::profile::Units;
    use crate::domain::profile::tests::launch;
    use crate::domain::record::SessionRecord;
    use crate::domain::verdict::Verdict;

    /// The session's record, with counts of the first variant of `b1h1s128` (80 us) and of its best one (50 us).
    fn counted(after: impl Fn(&mut LaunchProfile)) -> Vec<Advantage> {
        let mut record = record();
        let profile = |change: &dyn Fn(&mut LaunchProfile)| {
            let mut one = launch("attend", 1000.0);
            one.parts_ns.insert("latency".to_owned(), 800.0);
            change(&mut one);
            Some(Profile { launches: vec![one], checked_on: None })
        };
        record.iterations[0].measurements[0].explanation = profile(&|_| {});
        record.iterations[2].measurements[0].explanation = profile(&after);
        let cases = report(&record).cases;
        of(&cases, &input(&record))
    }

    /// A session in which `split-k` took 60 us, with twice as many wavefronts as the winner.
    fn with_rival() -> SessionRecord {
        let mut record = record();
        let profile = |wavefronts| {
            let mut one = launch("attend", 1000.0);
            one.shared = Units { moved: wavefronts, ideal: 1000 };
            Some(Profile { launches: vec![one], checked_on: None })
        };
        record.iterations[2].measurements[0].explanation = profile(1000);
        let mut other = found("b1h1s128", 60.0, Verdict::Regressed, None, None);
        other.explanation = profile(2000);
        let mut rival = iteration(IterationId(6), 48, None, Outcome::Measured, vec![other]);
        rival.family = "split-k".to_owned();
        record.iterations.push(rival);
        record
    }

    #[test]
    fn the_winner_is_compared_with_the_best_variant_of_another_family() {
        let record = with_rival();
        let cases = report(&record).cases;
        let [one] = &*over_rivals(&cases, &input(&record)) else { panic!("one case has counts of both") };
        assert_eq!((&*one.before.family, &*one.after.family, one.factor), ("split-k", "tiled", 1.2));
        assert!(one.reading.starts_with("It takes 2.0 times fewer wavefronts of shared memory."), "{}", one.reading);
    }

    #[test]
    fn counts_that_fall_with_the_time_explain_a_gain() {
        let advantages = counted(|launch| {
            launch.modelled_ns = 600.0;
            launch.flop_tensor = launch.flop;
            launch.warp_instructions /= 20;
            launch.shared = Units { moved: 16_000, ideal: 1000 };
            launch.global_load_bytes *= 2;
        });
        let [one] = &*advantages else { panic!("one case has counts: {advantages:?}") };
        assert_eq!((&*one.case, one.before.us, one.after.us), ("b1h1s128", 80.0, 50.0));
        insta::assert_snapshot!(one.reading, @"It does 100% of its arithmetic on tensor cores, executes 20 times fewer instructions, and takes 2.0 times fewer wavefronts of shared memory, but loads 2.0 times more bytes from global memory. From these counts the model derives 1.67×; 1.60× was measured.");
    }

    #[test]
    fn a_gain_without_a_count_behind_it_is_not_explained() {
        let advantages = counted(|launch| launch.modelled_ns = 1010.0);
        insta::assert_snapshot!(advantages[0].reading, @"No count has fallen with the time. **That does not explain it**: from these counts the model derives 0.99×, and 1.60× was measured. The reason is something that the model does not count.");
    }

    /// The model derives 100x from the counts, and 1.6x was measured.
    #[test]
    fn counts_that_promise_far_more_than_was_measured_do_not_explain_a_gain() {
        let advantages = counted(|launch| (launch.modelled_ns, launch.warp_instructions) = (10.0, 50));
        let [one] = &*advantages else { panic!("one case has counts: {advantages:?}") };
        assert_eq!((one.role, one.explained), ("first_variant", false));
        assert!(
            one.reading.contains("**That does not explain it**: from these counts the model derives 100×"),
            "{}",
            one.reading
        );
    }

    /// The winner is of `tiled`. `wgmma` reads shared memory without being counted, so what is counted of it is a small part.
    #[test]
    fn wavefronts_are_not_compared_where_one_side_uses_wgmma() {
        let record = with_rival();
        let cases = report(&record).cases;
        for users in [&[1][..], &[0, 1]] {
            let mut families = families();
            users.iter().for_each(|user| families[*user].reads_by_descriptor = true);
            let [one] = &*over_rivals(&cases, &ReportInput { families: &families, ..input(&record) }) else {
                panic!("one case")
            };
            assert!(one.reading.starts_with("No count has fallen with the time."), "{}", one.reading);
        }
    }

    #[test]
    fn counts_of_sampled_blocks_stand_for_the_whole_grid() {
        let advantages = counted(|launch| (launch.executed_blocks, launch.warp_instructions) = (64, 2500));
        let instructions = advantages[0].counts.iter().find(|one| one.name == "warp_instructions").unwrap();
        assert_eq!(instructions.factor(), Some(1.0));
    }

    #[test]
    fn without_counts_nothing_is_claimed() {
        let record = record();
        assert_eq!(of(&report(&record).cases, &input(&record)), Vec::new());
    }
}
