//! The options after a session: an experiment, going on, another family, a new kernel, stopping; what each gains and
//! costs.

use super::ReportInput;
use super::changes::listed;
use super::choice::{Kind, choice};
use super::contract::{Case, Choice, Diagnosis, Experiment, Outlook};
use super::edges::{self, Edge};
use super::format::{counted, duration, either, times};
use super::kernel_idea::{self, KernelIdea};
use super::little_tried::{self, LittleTried};
use crate::domain::evaluation::Outcome;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::statistics::median;
use crate::domain::stop::EarlyEnd;

/// What a session leaves open.
pub(super) struct Open<'a> {
    /// Whether every variant failed, so that nothing was timed.
    pub(super) has_only_failed: bool,
    /// Why its search ended before its budget was spent. None if it did not.
    pub(super) early_end: Option<EarlyEnd>,
    /// The best values at an end of their lists, if everything else was tried.
    pub(super) edges: Vec<Edge<'a>>,
    /// The families that have hardly been tried.
    pub(super) little_tried: Vec<LittleTried<'a>>,
    /// The distance to the floor, as a geometric mean.
    pub(super) room: Option<f64>,
    /// Whether a baseline is faster than the winner of a case.
    pub(super) is_behind: bool,
}

impl<'a> Open<'a> {
    /// Returns what the session of a report leaves open.
    pub(super) fn of(cases: &'a [Case], input: &ReportInput<'a>) -> Self {
        let early_end = input.record.session.stop_reason.as_deref().and_then(EarlyEnd::of);
        let is_exhausted = early_end == Some(EarlyEnd::NothingLeft);
        let has_failed = |one: &IterationRecord| one.outcome.as_ref().is_some_and(Outcome::is_failure);
        Self {
            has_only_failed: cases.iter().all(|case| case.best_us.is_none())
                && input.record.iterations.iter().any(has_failed),
            early_end,
            edges: if is_exhausted { edges::of(cases, input.record) } else { Vec::new() },
            little_tried: if is_exhausted { Vec::new() } else { little_tried::of(cases, input) },
            room: room(cases),
            is_behind: kernel_idea::furthest_behind(cases).is_some(),
        }
    }
}

/// Returns the options with their gains and costs. Which one is recommended is not decided here.
pub(super) fn of(
    cases: &[Case],
    experiment: Option<&Experiment>,
    outlook: Option<&Outlook>,
    diagnoses: &[Diagnosis],
    open: &Open<'_>,
    input: &ReportInput<'_>,
) -> Vec<Choice> {
    let session = &input.record.session;
    if open.has_only_failed {
        let what = format!("mend the kernel: every variant failed, and `optloop check {}` shows why", session.workload);
        return vec![choice(Kind::Mend, what, "a first time".to_owned(), "none"), stop(cases)];
    }
    let usd_per_s = session.wall_s.filter(|wall_s| *wall_s > 0.0).map(|wall_s| session.cost.gpu_usd / wall_s);
    let mut choices: Vec<Choice> =
        experiment.map(|experiment| one_experiment(experiment, cases, input.record)).into_iter().collect();
    let go_on = go_on(outlook, cases.len(), session.wall_s);
    choices.push(match open.early_end {
        None => go_on,
        Some(end) => ended(go_on, end, session.stop_reason.as_deref().unwrap_or_default()),
    });
    choices.extend(wider_values(&open.edges, cases.len(), session.wall_s));
    choices.extend(little_tried::option(&open.little_tried, cases.len(), outlook));
    if let Some(room) = open.room {
        choices.extend(new_kernels(cases, diagnoses, room, session.wall_s));
    }
    choices.push(stop(cases));
    for choice in &mut choices {
        choice.usd = choice.minutes.zip(usd_per_s).map(|(minutes, usd_per_s)| minutes * 60.0 * usd_per_s);
    }
    choices
}

/// Describes the next experiment. It costs as much as a comparison of this session, or as an iteration without one.
fn one_experiment(experiment: &Experiment, cases: &[Case], record: &SessionRecord) -> Choice {
    let iterations = &record.iterations;
    let comparisons = iterations.iter().flat_map(|one| &one.measurements);
    let comparisons: Vec<f64> = comparisons.filter_map(|found| found.comparison.as_ref()?.wall_s).collect();
    let whole: Vec<f64> = iterations.iter().filter_map(|one| one.wall_s).collect();
    let seconds = median(&comparisons).or_else(|| median(&whole));
    let Experiment { case, before_us, after_us, .. } = experiment;
    // One case of all, as a geometric mean, from the middle of the range. If it is slower, the best variant stays.
    let middle = after_us.map(|[lo, hi]| (before_us / (lo * hi).sqrt()).max(1.0));
    let expected = middle.map(|middle| (middle.ln() / cases.len() as f64).exp());
    let gain = after_us.map_or_else(
        || "not known".to_owned(),
        |[lo, hi]| format!("`{case}` {}", either(times(before_us / hi), times(before_us / lo))),
    );
    let is_slower = after_us.is_some_and(|[_, slowest_us]| slowest_us > *before_us);
    let risk = if is_slower { "it may be slower; then the best variant stays" } else { "it may change nothing" };
    Choice {
        expected,
        minutes: seconds.map(|seconds| seconds / 60.0),
        ..choice(Kind::Experiment, "the next experiment (above)".to_owned(), gain, risk)
    }
}

fn stop(cases: &[Case]) -> Choice {
    let measured = cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel));
    let ratios = measured.filter_map(|case| Some(case.ratio_to_baseline?.estimate));
    let range = ratios.clone().reduce(f64::min).zip(ratios.reduce(f64::max));
    let gain = range.map_or_else(
        || "keeps what was found".to_owned(),
        |(lo, hi)| format!("keeps {} over the baseline", either(times(lo), times(hi))),
    );
    Choice { expected: Some(1.0), minutes: Some(0.0), ..choice(Kind::Stop, "stop here".to_owned(), gain, "none") }
}

/// Describes more of the same search. The figures of its gain can be followed: improvements times their size, over all
/// cases.
fn go_on(outlook: Option<&Outlook>, cases: usize, wall_s: Option<f64>) -> Choice {
    let Some(outlook) = outlook else {
        let gain = "not known, because the search was too short to extrapolate from".to_owned();
        let what = "continue this search for another session".to_owned();
        let minutes = wall_s.map(|wall_s| wall_s / 60.0);
        return Choice { minutes, ..choice(Kind::GoOn, what, gain, "little") };
    };
    let Outlook { more_s, expected_gains, expected_gains_ci: [few, many], factor: [lo, middle, hi], .. } = outlook;
    let Outlook { early_gains, late_gains, late_s, .. } = outlook;
    let on = if cases == 1 { String::new() } else { format!(" on one of {cases} cases") };
    let size = outlook.gain_size.map(|size| format!(", each of about {size:.3}×{on}")).unwrap_or_default();
    let over = if cases == 1 { "in all" } else { "over all cases" };
    let gain = format!(
        "about {} ({few:.0} to {many:.0}){size}: {lo:.3}× to {hi:.3}× {over}. The first half of \
         this search found {early_gains} and the second {late_gains}, in {} each; as a rule, improvements become \
         rarer, so another session is expected to bring as many as the second half",
        counted(expected_gains.round() as usize, "more improvement"),
        duration(*late_s)
    );
    let risk = match outlook.late_gains {
        0 => "most likely wasted",
        1 => "the forecast rests on one improvement, and gains diminish over time",
        _ => "gains diminish over time",
    };
    Choice {
        expected: Some(*middle),
        minutes: Some(more_s / 60.0),
        ..choice(Kind::GoOn, "continue this search: another session like this one".to_owned(), gain, risk)
    }
}

/// Says of more of the same search what the session itself said when it ended.
fn ended(go_on: Choice, end: EarlyEnd, reason: &str) -> Choice {
    match end {
        EarlyEnd::NothingLeft => Choice {
            what: "continue this search".to_owned(),
            gain: format!("none: {reason}"),
            expected: Some(1.0),
            minutes: Some(0.0),
            risk: "it ends at once".to_owned(),
            ..go_on
        },
        EarlyEnd::TooLittleLeft => Choice {
            gain: format!("little: the search ended because {reason}"),
            expected: None,
            risk: "most likely wasted".to_owned(),
            ..go_on
        },
    }
}

/// The most best values at an end to name.
const MAX_EDGES: usize = 3;

/// Describes a search with more values of the parameters whose best value is at an end of its list.
fn wider_values(edges: &[Edge<'_>], cases: usize, wall_s: Option<f64>) -> Option<Choice> {
    let told: Vec<String> = edges.iter().take(MAX_EDGES).map(|edge| edge.text(cases)).collect();
    let mut families: Vec<String> = Vec::new();
    for family in edges.iter().take(MAX_EDGES).map(|edge| edge.family.to_owned()) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    let named: Vec<String> = families.iter().map(|family| format!("`{family}`")).collect();
    let what = format!("add values to the parameters of {}, then search again", listed(&named)?);
    Some(Choice {
        families,
        minutes: wall_s.map(|wall_s| wall_s / 60.0),
        ..choice(Kind::WiderValues, what, format!("not known; {}", told.join("; ")), "the added values may be slower")
    })
}

/// Describes new kernels, the best first. The session of each costs as much as this one.
fn new_kernels(cases: &[Case], diagnoses: &[Diagnosis], room: f64, wall_s: Option<f64>) -> Vec<Choice> {
    let minutes = wall_s.map(|wall_s| wall_s / 60.0);
    let ideas = kernel_idea::all(cases, diagnoses);
    if ideas.is_empty() {
        let gain = format!("not known; {}", bound(cases, room));
        let what = "write a new kernel, then run a session like this one".to_owned();
        return vec![Choice { minutes, ..choice(Kind::NewKernel, what, gain, "very high: no cause is known") }];
    }
    let one = |(place, idea): (usize, &KernelIdea<'_>)| {
        let what = match place {
            0 => format!("{}. Then run a session like this one", idea.what()),
            _ => format!("instead, {}", idea.in_short()),
        };
        let (expected, most) = (idea.expected(cases.len()), idea.most());
        let families = idea.family().map(str::to_owned).into_iter().collect();
        Choice { families, expected, most, minutes, ..choice(Kind::NewKernel, what, idea.gain(), idea.risk()) }
    };
    ideas.iter().enumerate().map(one).collect()
}

/// Says how much any kernel could gain at most: the distance to the floors that a kernel may come near. No kernel that
/// computes something comes near an empty launch, so the cases with that floor are told apart.
fn bound(cases: &[Case], room: f64) -> String {
    let factor = |case: &Case| case.roofline.as_ref().and_then(|roofline| roofline.times_of_floor);
    let is_launch = |case: &&Case| case.roofline.as_ref().is_some_and(|roofline| roofline.floor_limiter == "launch");
    let (launches, others): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(is_launch);
    let most = geometric_mean(others.iter().filter_map(|case| factor(case))).map(times);
    let farthest = others.iter().filter_map(|case| Some((factor(case)?, case))).max_by(|a, b| a.0.total_cmp(&b.0));
    let farthest = farthest.filter(|_| others.len() > 1);
    let farthest =
        farthest.map(|(factor, case)| format!(" ({} on `{}`)", times(factor), case.case)).unwrap_or_default();
    match (most, launches.is_empty()) {
        (Some(most), false) => format!(
            "at most {most}{} over the {} whose floor is not an empty launch{farthest}, the distance to the floor; no \
             useful bound on the other {}",
            on_average(others.len()),
            counted(others.len(), "case"),
            launches.len()
        ),
        (None, false) => "no useful bound (the floor is an empty launch)".to_owned(),
        _ if cases.len() > 1 => format!(
            "at most {}{} over all cases{farthest}, the distance to the floor",
            times(room),
            on_average(cases.len())
        ),
        _ => format!("at most {}, the distance to the floor", times(room)),
    }
}

fn on_average(cases: usize) -> &'static str {
    if cases > 1 { " on average (geometric mean)" } else { "" }
}

/// Returns the geometric mean of the best times over the floors.
pub(super) fn room(cases: &[Case]) -> Option<f64> {
    geometric_mean(cases.iter().filter_map(|case| case.roofline.as_ref()?.times_of_floor))
}

/// Returns the geometric mean of positive numbers. None for none.
pub(super) fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{input, record, report};
    use super::*;
    use crate::domain::stop;

    fn outlook(late_gains: u64, middle: f64) -> Outlook {
        Outlook {
            share_after_last_gain: Some(0.5),
            early_gains: 5,
            late_gains,
            late_from_s: 150.0,
            late_s: 150.0,
            gain_size: Some(1.02),
            more_s: 300.0,
            expected_gains: late_gains as f64 * 2.0,
            expected_gains_ci: [0.0, 7.4],
            factor: [1.0, middle, 1.01],
        }
    }

    /// The best variant of the first case has `BLOCK` = 256, the largest of five values that were tried.
    #[test]
    fn a_search_that_ended_by_itself_is_not_to_be_continued() {
        let mut record = record();
        record.iterations.retain(|one| one.params["BLOCK"] <= 256);
        let mut told = |reason: &str| {
            record.session.stop_reason = Some(reason.to_owned());
            let report = report(&record);
            let options: Vec<String> = report
                .options
                .iter()
                .map(|one| {
                    let mark = if one.recommended { "* " } else { "" };
                    format!("{mark}{}: {} | {}", one.kind, one.gain, one.risk)
                })
                .collect();
            [report.summary.lines().find(|line| line.contains("Recommendation")).unwrap().to_owned()]
                .into_iter()
                .chain(options)
                .collect::<Vec<_>>()
                .join("\n")
        };
        let forecast = format!(
            "the remaining 2m 5s are expected to gain 0.09%, which is less than 0.50% {}",
            stop::TOO_LITTLE_LEFT
        );
        insta::assert_snapshot!([told(stop::NOTHING_LEFT), told(&forecast)].join("\n\n"), @"
        - **Recommendation: add values to the parameters of `tiled`, then search again.** It costs 55 min and $0.18. Expected: not known; the best value of `BLOCK` on `b1h1s128`, 256, is the largest of its list: add larger ones; the best value of `BLOCK` on `b8h8s512`, 64, is the smallest of its list: add smaller ones.
        go_on: none: there is nothing new left to try | it ends at once
        * wider_values: not known; the best value of `BLOCK` on `b1h1s128`, 256, is the largest of its list: add larger ones; the best value of `BLOCK` on `b8h8s512`, 64, is the smallest of its list: add smaller ones | the added values may be slower
        new_kernel: 2.00× on `b1h1s128`, as `torch sdpa (flash)` shows to be possible | moderate: the gain is known to be possible, but not how
        stop: keeps 0.50× over the baseline | none

        - **Recommendation: stop tuning the winners, and search only `split-k`, which has hardly been tried.**
        go_on: little: the search ended because the remaining 2m 5s are expected to gain 0.09%, which is less than 0.50% (stop.min_gain) | most likely wasted
        * another_family: `split-k`: never timed | their best may stay behind
        new_kernel: 2.00× on `b1h1s128`, as `torch sdpa (flash)` shows to be possible | moderate: the gain is known to be possible, but not how
        stop: keeps 0.50× over the baseline | none
        ");
    }

    /// The first case takes 50 times its floor, which is that of L2. The floor of the others is an empty launch.
    #[test]
    fn a_new_kernel_is_bounded_where_the_floor_is_not_an_empty_launch() {
        let mut cases = report(&record()).cases;
        for (case, limiter) in cases.iter_mut().zip(["L2", "launch", "launch"]) {
            case.roofline.as_mut().unwrap().floor_limiter = limiter;
        }
        assert_eq!(
            bound(&cases, 141.0),
            "at most 50.00× over the 1 case whose floor is not an empty launch, the distance to the floor; no useful \
             bound on the other 2"
        );
        assert_eq!(bound(&cases[1..], 141.0), "no useful bound (the floor is an empty launch)");
        assert_eq!(bound(&cases[..1], 50.0), "at most 50.00×, the distance to the floor");
    }

    /// The session of 3,301 s cost $0.18 for the device.
    #[test]
    fn each_option_has_its_gain_and_its_cost() {
        let record = record();
        let (input, cases) = (input(&record), report(&record).cases);
        let choices = of(&cases, None, Some(&outlook(0, 1.0)), &[], &Open::of(&cases, &input), &input);
        let told: Vec<String> = choices
            .iter()
            .map(|one| {
                format!(
                    "{}: {} | {} | {}",
                    one.kind,
                    one.gain,
                    one.usd.map_or_else(|| "-".to_owned(), |usd| format!("{usd:.4}")),
                    one.risk
                )
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @"
        go_on: about 0 more improvements (0 to 7), each of about 1.020× on one of 3 cases: 1.000× to 1.010× over all cases. The first half of this search found 5 and the second 0, in 150 s each; as a rule, improvements become rarer, so another session is expected to bring as many as the second half | 0.0164 | most likely wasted
        another_family: `split-k`: never timed | 0.0164 | their best may stay behind
        new_kernel: 2.00× on `b1h1s128`, as `torch sdpa (flash)` shows to be possible | 0.1800 | moderate: the gain is known to be possible, but not how
        stop: keeps 0.50× over the baseline | 0.0000 | none
        ");
    }
}
