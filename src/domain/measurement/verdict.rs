//! Decides, case by case, whether a variant replaces the incumbent.

use serde::{Deserialize, Serialize};

use super::comparison::{Comparison, Participant, Role};
use super::evaluation::{Evaluation, Outcome};
use super::incumbent::Incumbents;
use crate::domain::ids::CaseName;
use crate::domain::statistics::sampling::{MIN_SAMPLES, Sampling};
use crate::domain::statistics::timing::Timing;

/// The decision on one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The first correct variant of the case. Later variants are compared with it; it is not a win.
    Start,
    /// Confirmed faster: it becomes the incumbent.
    Improved,
    /// Not confirmed, or neither faster nor slower by what counts.
    Tied,
    /// Slower by at least the margin that an improvement needs.
    Regressed,
    /// Must not be used, whatever its time.
    Rejected,
}

impl Verdict {
    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Improved => "improved",
            Self::Tied => "tied",
            Self::Regressed => "regressed",
            Self::Rejected => "rejected",
        }
    }

    /// Returns the word for people. `is_replayed` says that an earlier session has committed the configuration for the case:
    /// measuring it again improves nothing.
    pub fn word(self, is_replayed: bool) -> &'static str {
        match self {
            Self::Improved if is_replayed => "measured again",
            _ => self.name(),
        }
    }

    /// Returns the word for programs.
    pub fn key(self, is_replayed: bool) -> &'static str {
        match self {
            Self::Improved if is_replayed => "measured_again",
            _ => self.name(),
        }
    }
}

/// When a faster time counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The smallest speed-up over the incumbent that is worth a commit, such as 1.01. A smaller slowdown is not a loss.
    pub min_speedup: f64,
    /// When screening has sampled enough.
    pub screening: Sampling,
    /// When a participant of a comparison has sampled enough.
    pub comparison: Sampling,
    /// Samples that a participant of a comparison takes per turn.
    pub group_size: usize,
}

impl Policy {
    /// Tells whether a screened time deserves a comparison with the incumbent, and whether the comparison fits its time
    /// limit.
    pub fn promising(&self, screened: &Timing, incumbent_ns: Option<f64>) -> bool {
        self.affordable(screened) && self.worth_it(screened.median_ns, incumbent_ns)
    }

    /// Tells whether a comparison with such a time fits its time limit.
    pub fn affordable(&self, screened: &Timing) -> bool {
        let sample_ns = screened.median_ns * f64::from(screened.launches_per_sample);
        sample_ns * self.comparison.min_samples as f64 <= self.comparison.max_ns
    }

    /// Tells whether a time is far enough below the incumbent's to be worth a commit. A modelled time needs no more for
    /// a confirmation, because confirming takes no time on a device.
    pub fn worth_it(&self, ns: f64, incumbent_ns: Option<f64>) -> bool {
        incumbent_ns.is_some_and(|incumbent_ns| ns * self.min_speedup <= incumbent_ns)
    }

    /// Tells whether a speed-up is large enough to count.
    fn is_large_enough(&self, speedup: f64) -> bool {
        speedup >= self.min_speedup
    }

    /// Tells whether a variant is clearly slower than what it has to beat on a case.
    pub fn is_clearly_slower(&self, ns: f64, to_beat_ns: Option<f64>) -> bool {
        to_beat_ns.is_some_and(|to_beat_ns| ns > CLEARLY_SLOWER * to_beat_ns)
    }

    /// Tells whether a variant need not be timed on more cases. `times` are its times so far, and what they had to beat: it is
    /// clearly slower on two cases or more, or far slower on the first.
    pub fn is_dropped(&self, times: &[(f64, Option<f64>)]) -> bool {
        let is_far_slower =
            |(ns, to_beat_ns): (f64, Option<f64>)| to_beat_ns.is_some_and(|least| ns > FAR_SLOWER * least);
        match times {
            [] => false,
            [only] => is_far_slower(*only),
            _ => times.iter().all(|(ns, to_beat_ns)| self.is_clearly_slower(*ns, *to_beat_ns)),
        }
    }

    /// Tells whether a challenger's first samples are so slow that more samples cannot change the verdict.
    ///
    /// A factor of 1.2 is outside the noise of graph replay, so no possible winner is lost. Over 175 confirmations of
    /// 500 samples on an H200 (2026-11-20, docs/results), the 1st to the 99th percentile spanned 2.3% of the median,
    /// and 12.7% at most. The fastest sample counts, so only three outliers in a row can lose a winner.
    pub fn cannot_win(&self, first_samples: &[f64], incumbent_ns: Option<f64>) -> bool {
        let fastest = first_samples.iter().copied().fold(f64::INFINITY, f64::min);
        incumbent_ns.is_some_and(|ns| first_samples.len() >= MIN_SAMPLES && fastest > 1.2 * ns)
    }
}

/// How many times as long as what it has to beat a variant takes on a case on which it is clearly slower.
///
/// Of 429 variants on seven shapes of FP16 attention that differ much, 166 took that long on the shape that they were meant for and
/// on the one whose work differed most from it. None of them was the fastest so far on another shape, which 38 were. Of the 318 that
/// took that long on the two smallest shapes, 17 were (H200, 2026-11-29, `optloop start --workload attention-fp16-models`).
const CLEARLY_SLOWER: f64 = 1.25;

/// The same on its first case, if it is not timed on another one.
const FAR_SLOWER: f64 = 2.0;

/// How many times as long as a challenger an incumbent takes that is not timed beside it.
const FAR_BEHIND: f64 = 5.0;

/// A verdict with the figures behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The case's name.
    pub case: CaseName,
    /// What was decided.
    pub verdict: Verdict,
    /// The incumbent's time over the variant's, where both are known. Above 1, the variant is faster.
    pub speedup: Option<f64>,
}

/// Decides on every case that the evaluation reached.
///
/// Where times have noise, a win needs a comparison. The whole interval of the paired ratio over the incumbent must lie
/// above 1 plus the noise of the A/A control. The ratio must also be at least `policy.min_speedup`. Modelled times have
/// intervals of zero width, so a win needs a confirmation that is faster by as much. A loss must be as clear as a win:
/// beyond the noise, and by at least `policy.min_speedup` in the other direction. Everything in between is a tie. A
/// variant that is wrong on one case wins on none. A time below the floor is an error of the measurement.
pub fn judge(incumbents: &Incumbents, evaluation: &Evaluation, policy: &Policy) -> Vec<Decision> {
    if evaluation.outcome != Outcome::Measured {
        let failed = evaluation.outcome.case().map(CaseName::from);
        let reached: Vec<CaseName> = evaluation.measurements.iter().map(|m| m.case.clone()).collect();
        let failed = failed.filter(|case| !reached.contains(case));
        let cases: Vec<CaseName> = reached.into_iter().chain(failed).collect();
        return cases.into_iter().map(|case| Decision { case, verdict: Verdict::Rejected, speedup: None }).collect();
    }
    evaluation
        .measurements
        .iter()
        .filter_map(|measurement| {
            let timing = measurement.best_timing()?;
            let case = measurement.case.clone();
            let incumbent = incumbents.get(&case).map(|incumbent| &incumbent.timing);
            let (verdict, speedup) = match (&measurement.comparison, incumbent) {
                (Some(comparison), _) if comparison.below_floor() => (Verdict::Rejected, None),
                (_, None) => (Verdict::Start, None),
                (Some(comparison), Some(incumbent)) => of_comparison(comparison, incumbent.median_ns, policy),
                (None, Some(incumbent)) => {
                    let speedup = incumbent.median_ns / timing.median_ns;
                    (of_times(incumbent, timing, measurement.confirmation.is_some(), policy), Some(speedup))
                }
            };
            Some(Decision { case, verdict, speedup })
        })
        .collect()
}

/// Decides whether a near tie that has challenged the incumbent in a final takes its place. Being faster beyond the
/// noise is enough: both will be committed in any case, so no speed-up is too small.
pub fn judge_final(comparison: &Comparison, incumbent_ns: f64, policy: &Policy) -> Verdict {
    match comparison.below_floor() {
        true => Verdict::Rejected,
        false => of_comparison(comparison, incumbent_ns, &Policy { min_speedup: 1.0, ..*policy }).0,
    }
}

/// Tells whether an incumbent takes so much longer than a challenger that a comparison need not time it. It would take as long as
/// a thousand launches of the challenger, and no noise is that large.
pub fn is_far_behind(incumbent_ns: f64, challenger_ns: f64) -> bool {
    incumbent_ns > FAR_BEHIND * challenger_ns
}

/// Decides by the ratio over the incumbent. A comparison that ended early has no ratio and decides nothing. One without an
/// incumbent that is far behind decides by the time that the incumbent had before.
fn of_comparison(comparison: &Comparison, incumbent_ns: f64, policy: &Policy) -> (Verdict, Option<f64>) {
    let Some((incumbent, ratio)) = comparison.against(Role::Incumbent) else {
        let challenger = comparison.challenger().filter(|_| !comparison.has(Role::Incumbent));
        let far = challenger.filter(|challenger| is_far_behind(incumbent_ns, challenger.timing.interval_ns.hi));
        let improved = |challenger: &Participant| (Verdict::Improved, Some(incumbent_ns / challenger.timing.median_ns));
        return far.map_or((Verdict::Tied, None), improved);
    };
    let wins = comparison.beats(incumbent) && policy.is_large_enough(ratio.estimate);
    let loses = comparison.loses_to(incumbent) && policy.is_large_enough(ratio.estimate.recip());
    (from_wins_and_loses(wins, loses), Some(ratio.estimate))
}

/// Decides by two times that were taken one after the other.
fn of_times(incumbent: &Timing, challenger: &Timing, confirmed: bool, policy: &Policy) -> Verdict {
    let faster = challenger.interval_ns.hi < incumbent.interval_ns.lo;
    let slower = challenger.interval_ns.lo > incumbent.interval_ns.hi;
    let wins = faster && policy.worth_it(challenger.median_ns, Some(incumbent.median_ns));
    let loses = slower && policy.worth_it(incumbent.median_ns, Some(challenger.median_ns));
    from_wins_and_loses(wins && confirmed, loses)
}

fn from_wins_and_loses(wins: bool, loses: bool) -> Verdict {
    match (wins, loses) {
        (true, _) => Verdict::Improved,
        (false, true) => Verdict::Regressed,
        (false, false) => Verdict::Tied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::device::regime::Regime;
    use crate::domain::ids::IterationId;
    use crate::domain::measurement::check::Check;
    use crate::domain::measurement::comparison::tests::{comparison, participant};
    use crate::domain::measurement::correctness::Correctness;
    use crate::domain::measurement::evaluation::Measurement;
    use crate::domain::measurement::incumbent::Incumbent;
    use crate::domain::statistics::synthetic::{Machine, Noise};
    use crate::domain::variant::VariantHash;

    const POLICY: Policy = Policy {
        min_speedup: 1.01,
        screening: Sampling { min_samples: 3, max_samples: 5, relative_error: 1e-9, max_ns: 1e9 },
        comparison: Sampling { min_samples: 10, max_samples: 10, relative_error: 1e-9, max_ns: 1e10 },
        group_size: 5,
    };

    fn timing(ns: f64) -> Timing {
        Timing::of(vec![ns * 0.999, ns, ns * 1.001], 1).unwrap()
    }

    fn measured(screening: f64, confirmation: Option<f64>) -> Evaluation {
        Evaluation {
            outcome: Outcome::Measured,
            measurements: vec![Measurement {
                case: "a".into(),
                regime: Regime::Warm,
                correctness: Correctness { relative_l2: 1e-4, worst_row: 2e-4, rows_checked: 1, rows: 1 },
                screening: Some(timing(screening)),
                confirmation: confirmation.map(timing),
                ctas: 1,
                shape: None,
                preparation: None,
                comparison: None,
                profile: None,
            }],
            device_s: 0.1,
        }
    }

    fn verdict(incumbent: Option<f64>, evaluation: &Evaluation) -> Verdict {
        let incumbents = incumbent
            .map(|ns| {
                let of = Incumbent { iteration: IterationId(1), hash: VariantHash::of(""), timing: timing(ns) };
                ("a".into(), of)
            })
            .into_iter()
            .collect();
        judge(&incumbents, evaluation, &POLICY)[0].verdict
    }

    #[test]
    fn the_first_correct_time_is_a_start_and_no_win() {
        assert_eq!(verdict(None, &measured(100.0, None)), Verdict::Start);
    }

    /// An evaluation with a promising time and its comparison. The groups of the A/A control scatter by a share of
    /// `noise`.
    fn in_comparison(challenger_ns: f64, incumbent_ns: f64, noise: f64) -> Evaluation {
        let to_and_fro =
            |ns: f64| (0..24).map(|round| ns * (1.0 + noise * [-1.0, -0.5, 0.5, 1.0][round / 2 % 4])).collect();
        let steady = |ns: f64| vec![ns; 24];
        let mut evaluation = measured(80.0, Some(challenger_ns));
        evaluation.measurements[0].comparison = Some(comparison(vec![
            participant(Role::Challenger, steady(challenger_ns)),
            participant(Role::Control, to_and_fro(challenger_ns)),
            participant(Role::Incumbent, steady(incumbent_ns)),
        ]));
        evaluation
    }

    #[test]
    fn a_win_exceeds_the_noise_and_the_minimum_speedup() {
        let speedup_of = |evaluation: &Evaluation| {
            let incumbent = Incumbent { iteration: IterationId(1), hash: VariantHash::of(""), timing: timing(500.0) };
            let [decision] = &judge(&[("a".into(), incumbent)].into(), evaluation, &POLICY)[..] else { panic!() };
            (decision.verdict, decision.speedup.map(|speedup| format!("{speedup:.3}")))
        };
        let speedup = |ratio: &str| Some(ratio.to_owned());
        assert_eq!(speedup_of(&in_comparison(100.0, 105.0, 0.01)), (Verdict::Improved, speedup("1.050")));
        assert_eq!(speedup_of(&in_comparison(100.0, 101.5, 0.02)), (Verdict::Tied, speedup("1.015")), "lost in noise");
        assert_eq!(speedup_of(&in_comparison(100.0, 100.5, 0.0)), (Verdict::Tied, speedup("1.005")), "not worth it");
        assert_eq!(speedup_of(&in_comparison(100.0, 95.0, 0.01)), (Verdict::Regressed, speedup("0.950")));
        assert_eq!(
            speedup_of(&in_comparison(100.0, 98.5, 0.02)),
            (Verdict::Tied, speedup("0.985")),
            "slower within noise"
        );
    }

    #[test]
    fn a_time_below_the_floor_is_rejected_even_as_a_start() {
        let mut evaluation = in_comparison(100.0, 200.0, 0.0);
        evaluation.measurements[0].comparison.as_mut().unwrap().floor_ns = Some(110.0);
        assert_eq!(verdict(Some(200.0), &evaluation), Verdict::Rejected);
        assert_eq!(verdict(None, &evaluation), Verdict::Rejected);
        evaluation.measurements[0].comparison.as_mut().unwrap().floor_ns = Some(90.0);
        assert_eq!(verdict(Some(200.0), &evaluation), Verdict::Improved);
    }

    #[test]
    fn a_final_is_won_beyond_the_noise_by_any_speed_up_above_the_floor() {
        let judged = |challenger_ns: f64, noise: f64, floor_ns: Option<f64>| {
            let mut comparison = in_comparison(challenger_ns, 1000.0, noise).measurements[0].comparison.take().unwrap();
            comparison.floor_ns = floor_ns;
            judge_final(&comparison, 1000.0, &POLICY)
        };
        assert_eq!(judged(995.0, 0.0, None), Verdict::Improved, "too little for a commit, enough to be the better one");
        assert_eq!(judged(995.0, 0.02, None), Verdict::Tied);
        assert_eq!(judged(1005.0, 0.0, None), Verdict::Regressed);
        assert_eq!(judged(995.0, 0.0, Some(1100.0)), Verdict::Rejected);
    }

    #[test]
    fn an_incumbent_that_is_far_behind_need_not_be_in_the_comparison() {
        let mut evaluation = in_comparison(100.0, 1000.0, 0.0);
        let participants = &mut evaluation.measurements[0].comparison.as_mut().unwrap().participants;
        participants.retain(|participant| participant.role != Role::Incumbent);
        assert_eq!(verdict(Some(1000.0), &evaluation), Verdict::Improved);
        assert_eq!(verdict(Some(499.0), &evaluation), Verdict::Tied, "that near, it has to be");
    }

    #[test]
    fn a_comparison_that_ended_before_its_time_decides_nothing() {
        let mut evaluation = in_comparison(100.0, 200.0, 0.0);
        for participant in &mut evaluation.measurements[0].comparison.as_mut().unwrap().participants {
            participant.groups_ns.truncate(5);
        }
        assert_eq!(verdict(Some(200.0), &evaluation), Verdict::Tied);
    }

    #[test]
    fn without_a_comparison_only_a_confirmed_time_wins() {
        assert_eq!(verdict(Some(100.0), &measured(80.0, None)), Verdict::Tied);
        assert_eq!(verdict(Some(100.0), &measured(80.0, Some(81.0))), Verdict::Improved);
    }

    #[test]
    fn a_win_that_shrinks_away_in_the_confirmation_is_a_tie() {
        assert_eq!(verdict(Some(100.0), &measured(80.0, Some(100.0))), Verdict::Tied);
        assert_eq!(verdict(Some(100.0), &measured(80.0, Some(99.5))), Verdict::Tied);
    }

    #[test]
    fn a_modelled_time_has_no_noise_but_still_needs_its_confirmation_and_the_least_speedup() {
        let modelled = |screening: f64, confirmation: Option<f64>| {
            let mut evaluation = measured(screening, None);
            evaluation.measurements[0].screening = Some(Timing::modelled(screening));
            evaluation.measurements[0].confirmation = confirmation.map(Timing::modelled);
            evaluation
        };
        assert_eq!(verdict(Some(100.0), &modelled(80.0, None)), Verdict::Tied);
        assert_eq!(verdict(Some(100.0), &modelled(80.0, Some(80.0))), Verdict::Improved);
        assert_eq!(verdict(Some(100.0), &modelled(99.5, Some(99.5))), Verdict::Tied);
    }

    /// A verdict is the same in both directions: what is not a win when it is faster is not a loss when it is slower.
    #[test]
    fn a_slowdown_counts_from_where_a_speed_up_counts() {
        let modelled = |ns: f64| {
            let mut evaluation = measured(ns, Some(ns));
            evaluation.measurements[0].screening = Some(Timing::modelled(ns));
            evaluation.measurements[0].confirmation = Some(Timing::modelled(ns));
            evaluation
        };
        for (speedup, expected) in [
            (1.02, Verdict::Improved),
            (1.0101, Verdict::Improved),
            (1.0099, Verdict::Tied),
            (1.004, Verdict::Tied),
            (1.0, Verdict::Tied),
            (0.999_975, Verdict::Tied),
            (1.0 / 1.004, Verdict::Tied),
            (1.0 / 1.0099, Verdict::Tied),
            (1.0 / 1.0101, Verdict::Regressed),
            (1.0 / 1.02, Verdict::Regressed),
        ] {
            let ns = 1000.0 / speedup;
            let incumbent =
                Incumbent { iteration: IterationId(1), hash: VariantHash::of(""), timing: Timing::modelled(1000.0) };
            let [alone] = &judge(&[("a".into(), incumbent)].into(), &modelled(ns), &POLICY)[..] else { panic!() };
            assert_eq!(alone.verdict, expected, "two modelled times, {speedup}");
            let compared = in_comparison(ns, 1000.0, 0.0);
            assert_eq!(verdict(Some(1000.0), &compared), expected, "a comparison without noise, {speedup}");
            let noisy = in_comparison(ns, 1000.0, 0.05);
            assert_eq!(verdict(Some(1000.0), &noisy), Verdict::Tied, "a comparison in noise, {speedup}");
        }
    }

    #[test]
    fn slower_is_a_regression_and_wrong_is_rejected_however_fast() {
        assert_eq!(verdict(Some(100.0), &measured(120.0, None)), Verdict::Regressed);
        let mut wrong = measured(1.0, Some(1.0));
        wrong.outcome = Outcome::Wrong { case: "a".into(), check: Check::Accuracy, message: "zeros".to_owned() };
        assert_eq!(verdict(Some(100.0), &wrong), Verdict::Rejected);
    }

    #[test]
    fn a_challenger_that_cannot_win_is_dropped_after_three_samples_and_a_close_one_is_not() {
        assert!(POLICY.cannot_win(&[150.0, 140.0, 130.0], Some(100.0)));
        assert!(!POLICY.cannot_win(&[150.0, 140.0, 119.0], Some(100.0)));
        assert!(!POLICY.cannot_win(&[150.0, 140.0], Some(100.0)));
        assert!(!POLICY.cannot_win(&[150.0, 140.0, 130.0], None));
    }

    /// Screening on noisy machines. Of 1000 variants as fast as the incumbent, none may be dropped. Of 1000 that take
    /// half as long again, at least 990 must be dropped. Both need few samples.
    #[test]
    fn racing_drops_only_variants_that_cannot_win() {
        const INCUMBENT_NS: f64 = 20_000.0;
        for (name, noise) in Noise::KINDS {
            let dropped_after = |ns: f64| -> Vec<usize> {
                let dropped = |seed| {
                    let mut machine = Machine::new(noise, seed);
                    let mut samples = Vec::new();
                    while samples.len() < 50 {
                        samples.push(machine.sample(ns));
                        if POLICY.cannot_win(&samples, Some(INCUMBENT_NS)) {
                            return Some(samples.len());
                        }
                    }
                    None
                };
                (0..1000).filter_map(dropped).collect()
            };
            let lost = dropped_after(INCUMBENT_NS).len();
            assert_eq!(lost, 0, "{name}: {lost} of 1000 variants that could win are dropped");
            let dropped = dropped_after(1.5 * INCUMBENT_NS);
            assert!(dropped.len() >= 990, "{name}: {} of 1000 slow variants are dropped", dropped.len());
            assert!(dropped.iter().all(|&samples| samples == MIN_SAMPLES), "{name}: some are dropped late");
        }
    }

    #[test]
    fn a_confirmation_that_would_take_too_long_is_not_begun() {
        assert!(POLICY.promising(&timing(0.9e9), Some(2e9)));
        assert!(!POLICY.promising(&timing(1.1e9), Some(2e9)));
        assert!(!POLICY.promising(&timing(0.9e9), None), "a start has nothing to beat");
    }
}
