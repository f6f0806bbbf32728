//! What a new kernel could do: what a faster baseline does, or something against the cause of lost time that promises most, or
//! against the part of the winners' time that one kind of work takes, measured without it.

use super::breakdown::WAITS;
use super::changes::{listed, named};
use super::contract::{Baseline, Case, Diagnosis, DiagnosisOf, Finding};
use super::format::{counted, either, of_two_runs, percent, times};
use super::{baseline_kernels, confidence, forecast, limiter, source_lines};
use crate::domain::ablation::Removed;
use crate::domain::finding::Confidence;
use crate::domain::tested::CauseStatus;

/// The share of a time from which a kind of work is worth a kernel.
const MIN_SHARE: f64 = 0.05;

/// The gain on a case from which a part is worth a kernel: what a comparison surely resolves.
const MIN_GAIN: f64 = 1.02;

/// The rule that counts how often each byte is loaded.
const REPEATED_LOADS: &str = "redundant-loads";

/// The rule of loads that wait. A parameter that keeps more of them in flight is what helps.
const CACHE_MISSES: &str = "cache-misses";

/// The most ideas to tell.
const MAX_IDEAS: usize = 4;

/// The share of the largest gain, as a logarithm, from which a kind of work comes before the rest.
const NEARLY: f64 = 0.5;

/// What a new kernel is for.
pub(super) enum KernelIdea<'a> {
    /// A baseline is faster than the winner of a case, by this factor.
    Behind(&'a Case, &'a Baseline, f64),
    /// A cause of lost time in the winner of a case.
    Cause(&'a Case, &'a Finding),
    /// A part of the time of a family's winners.
    Part(TimePart<'a>),
}

/// What takes a part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenBy {
    /// A kind of instruction.
    Kind(Removed),
    /// Waits for asynchronous work.
    Waits,
    /// None of these, and not the launch.
    Other,
}

/// A part of the time of the cases that a family wins.
#[derive(Clone)]
pub(super) struct TimePart<'a> {
    /// The family.
    pub(super) family: &'a str,
    /// What takes it.
    pub(super) taken_by: TakenBy,
    /// The cases with their shares of the time, the largest first. Not empty.
    pub(super) shares: Vec<(&'a Case, f64)>,
    /// How much faster all cases of the session would be without it, as a geometric mean.
    pub(super) most: f64,
    /// A cause of lost time in one of these cases that makes this kind of work slow.
    pub(super) cause: Option<(&'a Case, &'a Finding)>,
    /// Such a cause that a change of one parameter was meant to remove, and that this change did not make faster.
    pub(super) refuted: Option<(&'a Case, &'a Finding)>,
}

/// Returns the case that is furthest behind its baseline, with that and its lead.
pub(super) fn furthest_behind(cases: &[Case]) -> Option<(&Case, &Baseline, f64)> {
    let behind = cases.iter().filter_map(|case| {
        let baseline = case.baseline.as_ref().filter(|baseline| !baseline.is_initial_kernel)?;
        let lead = 1.0 / case.ratio_to_baseline?.estimate;
        (lead >= MIN_GAIN).then_some((case, baseline, lead))
    });
    behind.max_by(|a, b| a.2.total_cmp(&b.2))
}

/// Returns the best idea for a new kernel.
pub(super) fn of<'a>(cases: &'a [Case], diagnoses: &'a [Diagnosis]) -> Option<KernelIdea<'a>> {
    all(cases, diagnoses).into_iter().next()
}

/// Returns ideas for new kernels, the best first: to do what a faster baseline does, because that is known to be possible. Then
/// come the measured parts of the winners' time, and among them the most promising cause that more than one indirect sign shows,
/// by what all cases together would gain without it. Without any of these, any cause.
pub(super) fn all<'a>(cases: &'a [Case], diagnoses: &'a [Diagnosis]) -> Vec<KernelIdea<'a>> {
    let cause = limiter::most_to_gain(cases, diagnoses).filter(|(_, cause)| cause.gain > 1.0);
    // What is forecast of a part is less than what it bounds, and the gain of a cause is as it would be without it, too.
    let without = |idea: &KernelIdea<'_>| idea.most().or(idea.expected(cases.len())).unwrap_or(1.0);
    let behind = furthest_behind(cases).map(|(case, baseline, lead)| KernelIdea::Behind(case, baseline, lead));
    let mut parts = parts(cases);
    // What to do about the rest is not known, so one such idea is enough.
    let mut has_rest = false;
    parts.retain(|part| part.taken_by != TakenBy::Other || !std::mem::replace(&mut has_rest, true));
    let parts = parts.into_iter().map(|part| part.with_cause(diagnoses));
    let mut ideas: Vec<KernelIdea<'_>> = parts.map(KernelIdea::Part).collect();
    let likely = cause.filter(|(_, cause)| cause.confidence > Confidence::Low);
    if let Some((case, cause)) = likely.filter(|(case, cause)| !ideas.iter().any(|idea| idea.is_against(case, cause))) {
        let idea = KernelIdea::Cause(case, cause);
        let place = ideas.iter().position(|other| without(other) < without(&idea)).unwrap_or(ideas.len());
        // It is the only cause, so it is told even if each part promises more.
        ideas.insert(place.min(MAX_IDEAS - 1 - usize::from(behind.is_some())), idea);
    }
    let mut all: Vec<KernelIdea<'_>> = behind.into_iter().chain(ideas).take(MAX_IDEAS).collect();
    if all.is_empty() {
        all.extend(cause.map(|(case, cause)| KernelIdea::Cause(case, cause)));
    }
    all
}

/// Returns the parts of the winners' time, the one without which all cases together would gain most first. A kind of work comes
/// before the rest if it promises nearly as much: what to do about the rest is not known before it is profiled.
fn parts(cases: &[Case]) -> Vec<TimePart<'_>> {
    let mut families: Vec<&str> = cases.iter().filter_map(|case| Some(&*case.breakdown.as_ref()?.family)).collect();
    families.sort_unstable();
    families.dedup();
    let kinds = Removed::KINDS.into_iter().map(TakenBy::Kind).chain([TakenBy::Waits, TakenBy::Other]);
    let kinds: Vec<TakenBy> = kinds.collect();
    let all = families.iter().flat_map(|family| kinds.iter().filter_map(|taken_by| part(cases, family, *taken_by)));
    let mut all: Vec<TimePart<'_>> = all.collect();
    all.sort_by(|a, b| b.most.total_cmp(&a.most));
    let Some(most) = all.first().map(|first| first.most) else { return all };
    let is_first = |part: &TimePart<'_>| part.taken_by != TakenBy::Other && part.most.ln() >= NEARLY * most.ln();
    if let Some(first) = all.iter().position(is_first) {
        all[..=first].rotate_right(1);
    }
    all
}

fn part<'a>(cases: &'a [Case], family: &'a str, taken_by: TakenBy) -> Option<TimePart<'a>> {
    let share = |case: &'a Case| {
        let breakdown = case.breakdown.as_ref().filter(|breakdown| breakdown.family == family)?;
        let share = match taken_by {
            TakenBy::Kind(removed) => breakdown.share(removed),
            TakenBy::Waits => breakdown.waits(),
            TakenBy::Other => breakdown.other(),
        };
        let share = share?;
        (share >= MIN_SHARE).then_some((case, share))
    };
    let mut shares: Vec<(&Case, f64)> = cases.iter().filter_map(share).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.retain(|(case, share)| without(case, *share) >= MIN_GAIN);
    let logs: f64 = shares.iter().map(|(case, share)| without(case, *share).ln()).sum();
    let most = (logs / cases.len() as f64).exp();
    (!shares.is_empty()).then_some(TimePart { family, taken_by, shares, most, cause: None, refuted: None })
}

/// Returns how much faster the winner of a case would be without a share of its time. No kernel beats the floor.
fn without(case: &Case, share: f64) -> f64 {
    let most = case.roofline.as_ref().and_then(|roofline| roofline.times_of_floor).unwrap_or(f64::INFINITY);
    (1.0 / (1.0 - share)).min(most)
}

impl KernelIdea<'_> {
    /// Returns the family of the winners that it is about.
    pub(super) fn family(&self) -> Option<&str> {
        match self {
            Self::Behind(case, ..) | Self::Cause(case, _) => Some(&case.variant.as_ref()?.family),
            Self::Part(part) => Some(part.family),
        }
    }

    /// Tells whether it removes a cause in a case.
    pub(super) fn removes(&self, case: &Case, cause: &Finding) -> bool {
        match self {
            Self::Cause(of, own) => own.rule == cause.rule && of.case == case.case,
            Self::Behind(..) | Self::Part(_) => self.is_against(case, cause),
        }
    }

    /// Tells whether it is a part of the time that a cause makes slow.
    fn is_against(&self, case: &Case, cause: &Finding) -> bool {
        let Self::Part(TimePart { cause: Some((of, own)), .. }) = self else { return false };
        own.rule == cause.rule && of.case == case.case
    }

    /// Says what to do: `change the source of ..., or write a new kernel that ...`.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Behind(case, baseline, lead) => format!(
                "change the source of `{}`, or write a new kernel for `{}` (until then, use `{}` there, which is {} as fast)",
                self.family().unwrap_or_default(),
                case.case,
                baseline.name,
                times(*lead)
            ),
            Self::Cause(case, cause) => {
                // Examples may follow.
                let idea = cause.kernel_change.split(": ").next().unwrap_or_default();
                format!("write a new kernel for `{}`: {idea}", case.case)
            }
            Self::Part(part) if part.taken_by == TakenBy::Other => format!("in `{}`, {}", part.family, part.idea()),
            Self::Part(part) => format!("change the source of `{}` to {}", part.family, part.idea()),
        }
    }

    /// Says what to do where another idea comes first: `in ...: ...`.
    pub(super) fn in_short(&self) -> String {
        match self {
            Self::Behind(..) => self.what(),
            Self::Cause(case, cause) => format!("for `{}`: {}", case.case, cause.kernel_change),
            Self::Part(part) => format!("in `{}`: {}", part.family, part.idea()),
        }
    }

    /// Returns the factor over all cases that is expected of it, if it becomes faster at all.
    pub(super) fn expected(&self, cases: usize) -> Option<f64> {
        match self {
            Self::Behind(_, _, lead) => Some((lead.ln() / cases as f64).exp()),
            Self::Cause(_, cause) => Some((cause.gain.ln() / cases as f64).exp()),
            Self::Part(part) => Some(forecast::quartiles(part.most)[1]),
        }
    }

    /// Returns the factor over all cases that it gains at most. None if that is not known.
    pub(super) fn most(&self) -> Option<f64> {
        match self {
            Self::Behind(..) | Self::Cause(..) => None,
            Self::Part(part) => Some(part.most),
        }
    }

    /// Says what it should gain, where that is, and how far to trust it.
    pub(super) fn gain(&self) -> String {
        match self {
            Self::Behind(case, baseline, lead) => {
                let how = baseline_kernels::in_short(baseline).map(|how| format!(" with {how}")).unwrap_or_default();
                format!("{} on `{}`, as `{}` shows to be possible{how}", times(*lead), case.case, baseline.name)
            }
            Self::Cause(case, cause) => format!(
                "about {} on `{}` if its suspected cause, {}, were removed ({})",
                times(cause.gain),
                case.case,
                cause.cause,
                confidence::with_reason(cause)
            ),
            Self::Part(part) => {
                let cause = part
                    .cause
                    .map(|(case, cause)| format!("; on `{}`, {}", case.case, cause.cause))
                    .unwrap_or_default();
                let lines = part.lines().map(|lines| format!(". {lines}")).unwrap_or_default();
                format!(
                    "{} {} {} of the time on {} (measured){cause}{}{lines}",
                    part.name(),
                    part.verb(),
                    part.share(),
                    part.on(),
                    part.did_not_help().unwrap_or_default()
                )
            }
        }
    }

    /// Says what may go wrong.
    pub(super) fn risk(&self) -> &'static str {
        match self {
            Self::Behind(..) => "moderate: the gain is known to be possible, but not how",
            Self::Cause(_, cause) => match cause.confidence {
                Confidence::High => "moderate: the kernel may lose elsewhere what it gains there",
                Confidence::Medium => "high: the gain is an estimate, and the kernel may lose it elsewhere",
                Confidence::Low => "very high: the cause rests on one indirect sign, so the kernel may gain nothing",
            },
            Self::Part(part) if part.taken_by == TakenBy::Other => {
                "very high: nothing is known of it before it is profiled, so kinds of work come first"
            }
            Self::Part(_) => "very high: it is not known how much of it can go",
        }
    }
}

impl<'a> TimePart<'a> {
    /// Adds the cause that makes this kind of work slow in the first of its cases where a rule found one with nothing against it.
    /// Loads that are repeated are counted, so an experiment with a parameter does not refute that.
    fn with_cause(self, diagnoses: &'a [Diagnosis]) -> Self {
        let rules: &[&str] = match self.taken_by {
            TakenBy::Kind(Removed::GlobalLoads) => &[REPEATED_LOADS, "scattered-access", CACHE_MISSES],
            TakenBy::Kind(Removed::SharedLoads) => &["bank-conflicts"],
            TakenBy::Kind(Removed::SpecialFunctions) => &["special-functions"],
            TakenBy::Kind(Removed::Barriers) => &["barriers"],
            _ => &[],
        };
        let is_sound = |found: &&Finding| {
            let is_refuted = found.tested.status == CauseStatus::NotConfirmed;
            let is_likely = found.rule == REPEATED_LOADS || !is_refuted && found.gain > 1.0;
            is_likely && found.evidence.iter().all(|one| one.supports)
        };
        let findings_of = |case: &Case| {
            let own = diagnoses.iter().find(|one| one.of == DiagnosisOf::BestVariant && one.case == case.case);
            own.map_or(&[][..], |own| &own.findings)
        };
        let in_case = |case: &Case| {
            let of_rule = |rule: &&str| findings_of(case).iter().filter(is_sound).find(|found| found.rule == *rule);
            rules.iter().find_map(of_rule)
        };
        let is_refuted = |found: &&Finding| {
            found.tested.status == CauseStatus::NotConfirmed
                && found.tested.changes.len() == 1
                && rules.contains(&found.rule)
        };
        let refuted_in = |case: &Case| findings_of(case).iter().find(is_refuted);
        let cause = self.shares.iter().find_map(|(case, _)| Some((*case, in_case(case)?)));
        let refuted = self.shares.iter().find_map(|(case, _)| Some((*case, refuted_in(case)?)));
        Self { cause, refuted, ..self }
    }
}

impl TimePart<'_> {
    /// Names what takes the time.
    pub(super) fn name(&self) -> &'static str {
        match self.taken_by {
            TakenBy::Kind(removed) => removed.text(),
            TakenBy::Waits => WAITS,
            TakenBy::Other => "the rest, such as addresses, conversions and loops",
        }
    }

    fn verb(&self) -> &'static str {
        match self.taken_by {
            TakenBy::Other | TakenBy::Kind(Removed::Arithmetic) => "takes",
            _ => "take",
        }
    }

    /// Says which share of the time it takes.
    pub(super) fn share(&self) -> String {
        let [first, .., last] = &*self.shares else { return percent(self.shares[0].1) };
        either(percent(last.1), percent(first.1))
    }

    /// Names its cases.
    fn on(&self) -> String {
        match &*self.shares {
            [(only, _)] => format!("`{}`", only.case),
            several => format!("the {} that `{}` wins", counted(several.len(), "case"), self.family),
        }
    }

    /// Says on which lines of the source it is, where it takes the largest share.
    fn lines(&self) -> Option<String> {
        let removed = match self.taken_by {
            TakenBy::Kind(removed) => removed,
            TakenBy::Waits => Removed::AllKindsAndWaits,
            TakenBy::Other => return None,
        };
        source_lines::first(self.shares[0].0, removed)
    }

    /// Returns the parameters that decide what overlaps, of which no other value helps on any of its cases.
    fn exhausted(&self) -> Vec<&str> {
        let is_about_overlap = matches!(self.taken_by, TakenBy::Waits | TakenBy::Kind(Removed::GlobalLoads));
        let Some((first, others)) = self.shares.split_first().filter(|_| is_about_overlap) else { return Vec::new() };
        let everywhere = |name: &&String| others.iter().all(|(case, _)| case.exhausted.contains(*name));
        first.0.exhausted.iter().filter(everywhere).map(String::as_str).collect()
    }

    /// Says which changes of parameters against this part did not help.
    fn did_not_help(&self) -> Option<String> {
        let names: Vec<String> = self.exhausted().iter().map(|name| format!("`{name}`")).collect();
        if let Some(names) = listed(&names) {
            let parameters =
                if self.exhausted().len() == 1 { "the parameter that decides" } else { "the parameters that decide" };
            return Some(format!(
                ". Other values of {names}, {parameters} what overlaps, do not help, so the source has to change"
            ));
        }
        let (case, Finding { tested, .. }) = self.refuted?;
        let change = named(tested.changes.first()?, None, None);
        let on = if self.shares.len() == 1 { String::new() } else { format!(" on `{}`", case.case) };
        Some(format!("; {change}, which should help against that, did not{on} ({})", of_two_runs(tested.speedup?)))
    }

    /// Says what a kernel could do about it.
    pub(super) fn idea(&self) -> &str {
        if let Some((_, cause)) = self.cause {
            return &cause.kernel_change;
        }
        let is_refuted = self.refuted.is_some_and(|(_, found)| found.rule == CACHE_MISSES);
        let is_overlap_exhausted = is_refuted || !self.exhausted().is_empty();
        match self.taken_by {
            TakenBy::Kind(Removed::GlobalLoads) if is_overlap_exhausted => {
                "spend less time on loads from global memory (start to compute before all of it has arrived, or load less)"
            }
            TakenBy::Kind(Removed::GlobalLoads) => "load less from global memory, or have more loads in flight",
            TakenBy::Kind(Removed::SharedLoads) => "keep more operands in registers",
            TakenBy::Kind(Removed::TensorProducts) => "keep more products of tensor cores in flight",
            TakenBy::Kind(Removed::SpecialFunctions) => "compute fewer exponentials, or some of them by polynomials",
            TakenBy::Kind(Removed::Arithmetic) => "do less arithmetic for each score, or with packed instructions",
            TakenBy::Kind(Removed::Barriers) => "synchronise fewer warps, and less often",
            TakenBy::Kind(Removed::Shuffles) => "combine more values in a lane before lanes exchange them",
            TakenBy::Kind(Removed::GlobalStores) => "store while the next tile is computed",
            TakenBy::Waits if is_overlap_exhausted => {
                "wait less often, by fewer and larger products and fewer hand-overs between warps"
            }
            TakenBy::Waits => "let other warps or tiles work while copies and products are in flight",
            _ => "profile what is left of it without loads, products and the like, and shorten that",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::Breakdown;
    use super::super::tests::{finding, record, record_ahead, report, report_with};
    use super::*;
    use crate::domain::finding::{Evidence, EvidenceSource};
    use crate::domain::ids::IterationId;
    use crate::domain::origin::Change;
    use crate::report::tests::without;

    fn breakdown(shares: &[(Removed, f64)]) -> Breakdown {
        let without = shares.iter().copied().map(without).collect();
        Breakdown { iteration: IterationId(3), family: "tiled".to_owned(), us: 50.0, without }
    }

    /// Loads take 40% of both winners, and barriers 50% of one. The other winner takes 1.25 times its floor.
    #[test]
    fn a_kernel_is_for_the_part_without_which_all_cases_gain_most() {
        let mut cases = report(&record_ahead()).cases;
        let loads = (Removed::GlobalLoads, 0.4);
        cases[0].breakdown = Some(breakdown(&[loads, (Removed::Barriers, 0.5)]));
        cases[1].breakdown = Some(breakdown(&[loads]));
        let told = |cases: &[Case]| {
            let Some(KernelIdea::Part(part)) = of(cases, &[]) else { panic!("no part") };
            (part.taken_by, (100.0 * part.most).round(), KernelIdea::Part(part).gain())
        };
        let (by, most, gain) = told(&cases);
        assert_eq!((by, most), (TakenBy::Kind(Removed::GlobalLoads), (1e2 * (1.0_f64 / 0.36).powf(1.0 / 3.0)).round()));
        assert_eq!(gain, "loads from global memory take 40% of the time on the 2 cases that `tiled` wins (measured)");
        let second = &all(&cases, &[])[1];
        assert_eq!(second.what(), "change the source of `tiled` to synchronise fewer warps, and less often");
        cases[1].roofline.as_mut().unwrap().times_of_floor = Some(1.0);
        let (by, _, gain) = told(&cases);
        assert_eq!(by, TakenBy::Kind(Removed::Barriers), "the other case is at its floor");
        assert!(gain.starts_with("block barriers take 50% of the time on `b1h1s128` (measured)"));
    }

    /// That each byte is loaded many times is counted. That loads miss is only modelled, and that speaks against it.
    #[test]
    fn a_kernel_against_loads_is_told_why_they_are_slow() {
        let mut misses = finding("b1h1s128", 3, "cache-misses", 1.3);
        let text = "each byte is loaded 6 times".to_owned();
        misses.evidence.push(Evidence { source: EvidenceSource::VirtualCounters, supports: false, text });
        let repeated = finding("b1h1s128", 3, REPEATED_LOADS, 1.1);
        let told = |findings: &[crate::domain::finding::Finding]| {
            let mut report = report_with(&record_ahead(), findings);
            report.cases[0].breakdown = Some(breakdown(&[(Removed::GlobalLoads, 0.4)]));
            let idea = of(&report.cases, &report.diagnoses).unwrap();
            assert!(matches!(idea, KernelIdea::Part(_)));
            format!("{} | {}", idea.what(), idea.gain())
        };
        insta::assert_snapshot!([told(&[misses.clone()]), told(&[misses, repeated])].join("\n"), @"
        change the source of `tiled` to load less from global memory, or have more loads in flight | loads from global memory take 40% of the time on `b1h1s128` (measured)
        change the source of `tiled` to divide the work into more blocks: smaller tiles | loads from global memory take 40% of the time on `b1h1s128` (measured); on `b1h1s128`, redundant-loads is slow
        ");
    }

    /// More stages should keep more loads in flight. They were tried.
    #[test]
    fn a_kernel_is_told_which_change_did_not_help() {
        let misses = finding("b1h1s128", 3, CACHE_MISSES, 1.3);
        let mut report = report_with(&record_ahead(), &[misses]);
        report.cases[0].breakdown = Some(breakdown(&[(Removed::GlobalLoads, 0.4)]));
        let own = report.diagnoses.iter_mut().find(|one| one.of == DiagnosisOf::BestVariant).unwrap();
        let tested = &mut own.findings[0].tested;
        (tested.status, tested.speedup) = (CauseStatus::NotConfirmed, Some(0.99));
        tested.changes = vec![Change { parameter: "STAGES".to_owned(), from: 2, to: 3 }];
        let idea = of(&report.cases, &report.diagnoses).unwrap();
        insta::assert_snapshot!([idea.what(), idea.gain()].join("\n"), @"
        change the source of `tiled` to spend less time on loads from global memory (start to compute before all of it has arrived, or load less)
        loads from global memory take 40% of the time on `b1h1s128` (measured); `STAGES` 2 → 3, which should help against that, did not (0.99×)
        ");
    }

    /// A baseline of 45 us stands beside a winner of 50 us.
    #[test]
    fn a_faster_baseline_shows_what_is_possible() {
        let mut cases = report(&record()).cases;
        cases[0].breakdown = Some(breakdown(&[(Removed::GlobalLoads, 0.4)]));
        let ratio = cases[0].ratio_to_baseline.as_mut().unwrap();
        ratio.estimate = 0.9;
        let Some(idea @ KernelIdea::Behind(..)) = of(&cases, &[]) else { panic!("no case is behind") };
        insta::assert_snapshot!([idea.what(), idea.gain()].join("\n"), @"
        change the source of `tiled`, or write a new kernel for `b1h1s128` (until then, use `torch sdpa (flash)` there, which is 1.11× as fast)
        1.11× on `b1h1s128`, as `torch sdpa (flash)` shows to be possible
        ");
        assert!((idea.expected(3).unwrap() - (1.0_f64 / 0.9).powf(1.0 / 3.0)).abs() < 1e-12);
        cases[0].ratio_to_baseline.as_mut().unwrap().estimate = 0.99;
        assert!(matches!(of(&cases, &[]), Some(KernelIdea::Part(_))), "a tie");
    }
}
