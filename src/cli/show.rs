//! `optloop show`: everything about one iteration.

mod sass;

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::ablations;
use super::comparisons;
use super::counters;
use super::diagnose;
use super::error::usage_sentence;
use super::measured::{Found, of_models};
use super::report;
use super::screen::Screen;
use super::table::{Table, figure};
use crate::alive::Killed;
use crate::catalog::Project;
use crate::domain::comparison::{Comparison, Role};
use crate::domain::device::TimeSource;
use crate::domain::evaluation::Outcome;
use crate::domain::finding::{CauseStatus, Finding};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::names::did_you_mean;
use crate::domain::record::{CaseRecord, IterationRecord};
use crate::domain::sampling::MIN_SAMPLES;
use crate::domain::timing::Timing;
use crate::domain::variant::show_params;
use crate::domain::verdict::Verdict;
use crate::evaluated::Evaluated;
use crate::report::{format, profiles};
use crate::runner::sass::Lines;
use crate::store::{ArtifactRecord, IterationDetail, Store};

/// Show everything about an iteration: its claim, outcome, times, resources, cost and source.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the iteration
    pub iteration: IterationId,
    /// Show only this case
    #[arg(long)]
    pub case: Option<CaseName>,
    /// Leave out the source, its changes and the compiler log
    #[arg(long)]
    pub brief: bool,
    /// Print only the source
    #[arg(long, conflicts_with_all = ["brief", "json", "sass"])]
    pub source: bool,
    /// Print the machine code that comes from these lines of the source, such as 40 or 40..52, or all of it; needs NVIDIA's nvdisasm
    #[arg(long, value_name = "LINES", num_args = 0..=1, default_missing_value = "..", value_parser = Lines::parse,
          conflicts_with_all = ["brief", "json"])]
    pub sass: Option<Lines>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows an iteration.
pub(super) async fn run(
    args: &Args,
    project: Option<&Project>,
    store: &Store,
    killed: &Killed,
    screen: Screen,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut detail = store.iteration(args.iteration).await?;
    killed.mark(&mut detail.session);
    if args.source {
        writeln!(out, "{}", detail.source.trim_end())?;
        return Ok(());
    }
    if let (Some(lines), Some(project)) = (args.sass, project) {
        return sass::print(project, &detail, lines, out).await;
    }
    if let Some(case) = &args.case {
        only(case, &mut detail)?;
    }
    let mut diagnosed = match project {
        Some(project) => report::diagnosed(project, store, &detail.iteration).await?,
        None => Vec::new(),
    };
    diagnosed.retain(|(case, _)| args.case.as_ref().is_none_or(|only| only == case));
    if args.json {
        let evaluation = Evaluated::of(store, &detail).await?;
        let mut json = serde_json::to_value(Shown::of(&detail, &diagnosed, evaluation))?;
        hide_intervals(&mut json);
        writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    let mut text = Vec::new();
    print(&detail, &diagnosed, args.brief, screen, &mut text)?;
    screen.show(&text, out)?;
    Ok(())
}

/// Leaves out all cases but one.
fn only(case: &CaseName, detail: &mut IterationDetail) -> anyhow::Result<()> {
    let found = &mut detail.iteration.measurements;
    if !found.iter().any(|measurement| measurement.case == *case) {
        let reached = found.iter().map(|measurement| measurement.case.as_str()).collect::<Vec<_>>();
        let hint = did_you_mean(case, reached.iter().copied());
        let which = if reached.is_empty() { "no case".to_owned() } else { reached.join(", ") };
        let id = detail.iteration.id;
        return Err(usage_sentence(format!("iteration {id} did not reach `{case}`{hint}; it reached {which}")));
    }
    found.retain(|measurement| measurement.case == *case);
    Ok(())
}

/// The findings about an iteration on a case.
type Diagnosed = (CaseName, Vec<Finding>);

fn print(
    detail: &IterationDetail,
    diagnosed: &[Diagnosed],
    brief: bool,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    facts(detail, screen, out)?;
    cases(detail, screen, out)?;
    for comparison in detail.iteration.measurements.iter().filter_map(|measurement| measurement.comparison.as_ref()) {
        let conditions = &comparison.conditions;
        writeln!(out, "\nComparison on {} ({} L2):", conditions.case, conditions.regime.name())?;
        comparisons::table(comparison).print_whole_on(screen, out)?;
        for note in comparisons::notes(comparison) {
            writeln!(out, "{}", textwrap::fill(&note, screen.columns))?;
        }
    }
    for found in &detail.iteration.measurements {
        if let Some(counted) = &found.counters {
            counters::print(&found.case, counted, out)?;
        }
        ablations::print(&found.case, &found.ablations, screen.columns, out)?;
    }
    counts(detail, screen, out)?;
    causes(diagnosed, screen, out)?;
    // Nothing of a recording was compiled.
    let artifact = detail.artifact.as_ref().filter(|_| detail.session.time_source != TimeSource::Recorded);
    if let Some(artifact) = artifact {
        resources(artifact, screen, out)?;
    }
    if !brief {
        log(detail, out)?;
        source(detail, out)?;
    }
    Ok(())
}

/// An iteration for programs: what is on record, and the figures that follow from it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    detail: &'a IterationDetail,
    /// The time to report on each case.
    times: Vec<Time<'a>>,
    /// The comparisons with their ratios and noise, in the form of `bench --json`.
    comparisons: Vec<Found>,
    /// Why it is slow on each case, as its report and `diagnose` have it.
    diagnoses: Vec<CaseDiagnosis<'a>>,
    /// The same in the form that `bench` and `check` have, with the parts of its time and the counters.
    evaluation: Evaluated,
}

/// Why an iteration is slow on a case.
#[derive(Serialize)]
struct CaseDiagnosis<'a> {
    case: &'a CaseName,
    findings: &'a [Finding],
}

/// The time to report on a case.
#[derive(Serialize)]
struct Time<'a> {
    case: &'a CaseName,
    time_source: TimeSource,
    median_us: f64,
    /// Null for fewer than three samples.
    ci_us: Option<[f64; 2]>,
    samples: usize,
    confirmed: bool,
    verdict: Option<Verdict>,
    /// The incumbent's time over this one.
    speedup: Option<f64>,
    /// Its interval, if one run timed both in turns. Null if it is the quotient of two runs.
    speedup_ci: Option<[f64; 2]>,
    /// The distance from 1 below which the speed-up shows no difference. Null without an A/A control.
    noise: Option<f64>,
}

impl<'a> Shown<'a> {
    fn of(detail: &'a IterationDetail, diagnosed: &'a [Diagnosed], evaluation: Evaluated) -> Self {
        let found = &detail.iteration.measurements;
        let comparisons = found.iter().filter_map(|found| found.comparison.as_ref());
        Self {
            detail,
            times: found.iter().filter_map(|found| Time::of(found, detail.session.time_source)).collect(),
            comparisons: comparisons.map(|comparison| Found::of(comparison, 1)).collect(),
            diagnoses: diagnosed.iter().map(|(case, findings)| CaseDiagnosis { case, findings }).collect(),
            evaluation,
        }
    }
}

impl<'a> Time<'a> {
    fn of(found: &'a CaseRecord, time_source: TimeSource) -> Option<Self> {
        let timing = found.best_timing()?;
        let against = |role| found.comparison.as_ref()?.against(role).map(|(_, ratio)| ratio);
        Some(Self {
            case: &found.case,
            time_source,
            median_us: timing.median_ns / 1e3,
            ci_us: timing.shown_ci_us(),
            samples: timing.samples_ns.len(),
            confirmed: found.confirmation.is_some(),
            verdict: found.verdict,
            speedup: found.speedup,
            speedup_ci: against(Role::Incumbent).map(|ratio| [ratio.interval.lo, ratio.interval.hi]),
            noise: against(Role::Control).and(found.comparison.as_ref()).map(Comparison::noise),
        })
    }
}

/// Sets the interval to null for every time that has too few samples.
fn hide_intervals(json: &mut Value) {
    match json {
        Value::Object(object) => {
            let samples = object.get("samples_ns").and_then(Value::as_array).map(Vec::len);
            if let (Some(0..MIN_SAMPLES), Some(interval)) = (samples, object.get_mut("interval_ns")) {
                *interval = Value::Null;
            }
            object.values_mut().for_each(hide_intervals);
        }
        Value::Array(array) => array.iter_mut().for_each(hide_intervals),
        _ => {}
    }
}

fn facts(detail: &IterationDetail, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let IterationDetail { iteration, session, .. } = detail;
    let (hypothesis, cost) = (&iteration.hypothesis, &iteration.cost);
    let predicted = match hypothesis.prediction {
        None => "no claim".to_owned(),
        Some(prediction) => format!(
            "{}{} to {} on {} over {}",
            prediction.median.map(|median| format!("{} (80%: ", format::times(median))).unwrap_or_default(),
            format::times(prediction.lo),
            format::times(prediction.hi) + if prediction.median.is_some() { ")" } else { "" },
            hypothesis.case,
            hypothesis.reference.describe()
        ),
    };
    let spent = format!("{} (GPU {}{})", format::usd(cost.total_usd()), format::usd(cost.gpu_usd), of_models(cost));
    let time = format!(
        "{}, {} of it on the device",
        figure(iteration.wall_s, format::duration),
        figure(iteration.device_s, format::duration)
    );
    let title = format!(
        "Iteration {} of session {}: {} on {}, times are {}",
        iteration.id,
        session.id,
        session.workload,
        session.device,
        session.time_source.name()
    );
    writeln!(out, "{}\n", textwrap::fill(&title, screen.columns))?;
    for (name, value) in [
        ("outcome", outcome(iteration, session.time_source)),
        ("family", iteration.family.clone()),
        ("parameters", show_params(&iteration.params)),
        ("variant", iteration.hash.to_string()),
        ("proposer", iteration.proposer.clone()),
        ("parent", figure(iteration.parent, |id| id.to_string())),
        ("claim", hypothesis.claim.clone()),
        ("evidence", hypothesis.evidence.clone()),
        ("mechanism", hypothesis.mechanism.name().to_owned()),
        ("predicted", predicted),
        ("actual", figure(iteration.actual, format::times)),
        ("score", figure(iteration.score, |score| score.name().to_owned())),
        ("started", iteration.started_at.clone()),
        ("time", time),
        ("cost", spent),
    ] {
        let indent = " ".repeat(12);
        let options = textwrap::Options::new(screen.columns).initial_indent(&indent).subsequent_indent(&indent);
        let wrapped = textwrap::fill(&value, options);
        writeln!(out, "{name:<10}  {}", wrapped.trim_start())?;
    }
    Ok(())
}

fn outcome(iteration: &IterationRecord, times: TimeSource) -> String {
    let Some(outcome) = &iteration.outcome else {
        return "unfinished: still in flight, or optloop was killed".to_owned();
    };
    let case = outcome.case().map(|case| format!(" on {case}")).unwrap_or_default();
    let message = outcome.message().map(|message| format!(": {message}")).unwrap_or_default();
    match (outcome, times) {
        // Nothing ran.
        (Outcome::Measured, TimeSource::Recorded) => times.name().to_owned(),
        _ => format!("{}{case}{message}", outcome.kind()),
    }
}

fn cases(detail: &IterationDetail, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    if detail.iteration.measurements.is_empty() {
        return Ok(());
    }
    let time = format!(">µs, {}", detail.session.time_source.name());
    let mut table = Table::new(&[
        "case",
        "verdict",
        &time,
        "interval",
        ">samples",
        "confirmed",
        ">speed-up",
        ">error",
        ">worst row",
        ">rows",
        ">blocks",
        "commit",
    ]);
    for measurement in &detail.iteration.measurements {
        let timing = measurement.best_timing();
        let us = |ns: f64| format::us(ns / 1000.0);
        table.row([
            measurement.case.to_string(),
            figure(measurement.verdict, |verdict| verdict.name().to_owned()),
            figure(timing, |timing| us(timing.median_ns)),
            figure(timing.and_then(Timing::shown_interval_ns), |shown| format!("{} to {}", us(shown.lo), us(shown.hi))),
            figure(timing, |timing| timing.samples_ns.len().to_string()),
            match (&measurement.confirmation, detail.session.time_source) {
                (_, TimeSource::Recorded) => format::NOTHING,
                (Some(_), _) => "yes",
                (None, _) => "no",
            }
            .to_owned(),
            figure(measurement.speedup, format::times),
            figure(measurement.checked(), |found| format::relative_error(found.relative_l2)),
            figure(measurement.checked(), |found| format::relative_error(found.worst_row)),
            figure(measurement.checked(), |found| format!("{} of {}", found.rows_checked, found.rows)),
            figure(measurement.ctas, |ctas| ctas.to_string()),
            figure(measurement.commit.clone(), |commit| commit),
        ]);
    }
    writeln!(out)?;
    table.print_whole_on(screen, out)
}

/// Prints the counts of a virtual GPU, if there are any.
fn counts(detail: &IterationDetail, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let measurements = detail.iteration.measurements.iter();
    let profiled: Vec<_> = measurements.filter_map(|m| Some((&m.case, m.profile.as_ref()?))).collect();
    if profiled.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[&["case"][..], &profiles::HEADINGS].concat());
    for (case, profile) in &profiled {
        for row in profiles::rows(profile) {
            table.row(std::iter::once(case.to_string()).chain(row));
        }
    }
    writeln!(out, "\nCounted:")?;
    table.print_whole_on(screen, out)?;
    for (case, profile) in &profiled {
        if let Some(shortcuts) = profile.shortcuts() {
            let note = format!("{case} was not executed in full: {shortcuts}");
            writeln!(out, "{}", textwrap::fill(&note, screen.columns))?;
        }
    }
    Ok(())
}

/// Prints the first cause of lost time on each case that no experiment refuted, as the report and `optloop diagnose` have it.
fn causes(diagnosed: &[Diagnosed], screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let is_open = |one: &&Finding| one.tested.status != CauseStatus::NotConfirmed;
    let first = diagnosed.iter().filter_map(|(case, findings)| Some((case, findings.iter().find(is_open)?)));
    let lines: Vec<String> = first
        .map(|(case, found)| {
            let gain =
                if found.gain > 1.0 { format!(", {} without it", format::times(found.gain)) } else { String::new() };
            format!("{case}: {} ({}{gain}; {})", found.cause, found.rule, diagnose::tested(&found.tested))
        })
        .collect();
    if !lines.is_empty() {
        writeln!(out, "\nLimited by (`optloop diagnose` has the evidence):")?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{}", textwrap::fill(line, screen.columns)))
}

fn resources(artifact: &ArtifactRecord, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let options = artifact.options.join(" ");
    let compiled = format!(
        "Compiled for {} by NVRTC {} in {:.0} ms to {} bytes, options: {options}",
        artifact.arch, artifact.nvrtc, artifact.compile_ms, artifact.cubin_bytes
    );
    writeln!(out, "\n{}", textwrap::fill(&compiled, screen.columns))?;
    let headings = ["kernel", ">registers", ">shared bytes", ">stack bytes", ">spill stores", ">spill loads"];
    let mut table = Table::new(&headings);
    for kernel in &artifact.kernels {
        table.row([
            kernel.name.clone(),
            kernel.registers.to_string(),
            kernel.shared_bytes.to_string(),
            kernel.stack_bytes.to_string(),
            kernel.spill_store_bytes.to_string(),
            kernel.spill_load_bytes.to_string(),
        ]);
    }
    table.print_whole_on(screen, out)
}

fn log(detail: &IterationDetail, out: &mut impl Write) -> io::Result<()> {
    let log = detail.artifact.as_ref().map(|artifact| &artifact.log).or(detail.compile_log.as_ref());
    match log.map(|log| log.trim_end()) {
        None | Some("") => Ok(()),
        Some(log) => writeln!(out, "\nCompiler's log:\n{log}"),
    }
}

fn source(detail: &IterationDetail, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nSource:\n{}", detail.source.trim_end())?;
    if let (Some(parent), Some(id)) = (&detail.parent_source, detail.iteration.parent) {
        let diff = TextDiff::from_lines(parent.as_str(), detail.source.as_str());
        let (before, after) = (format!("iteration {id}"), format!("iteration {}", detail.iteration.id));
        writeln!(
            out,
            "\nChanges from its parent:\n{}",
            diff.unified_diff().header(&before, &after).to_string().trim_end()
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::profile::tests::launch;
    use crate::domain::profile::{LaunchProfile, Profile};
    use crate::store::testing::{Scene, comparison, evaluation, finish, participant, proposal};

    async fn printed(scene: &Scene, iteration: IterationId, json: bool) -> String {
        let mut out = Vec::new();
        let args = Args { iteration, case: None, brief: false, source: false, sass: None, json };
        run(&args, None, &scene.store, &Killed::default(), Screen::plain(), &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn an_iteration_is_shown_in_full() {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
        let better = scene.measured(session, 128, Some(start), 80_000.0, Verdict::Improved).await;
        let begun = scene.store.iteration(better).await.unwrap().iteration.started_at;
        insta::assert_snapshot!(printed(&scene, better, false).await.replace(&begun, "2026-11-20T10:00:00.000Z"), @"
        Iteration 2 of session 1: attention-fp16-d64 on NVIDIA L4, times are measured

        outcome     measured
        family      tiled
        parameters  BLOCK=128
        variant     e2935da259580704f68c029b824df9ed
        proposer    rules
        parent      1
        claim       128 threads fill the SMs
        evidence    2 blocks on 58 SMs
        mechanism   threads
        predicted   1.25× (80%: 1.10× to 1.50×) on b1h1s128 over iteration 1
        actual      1.25×
        score       in_range
        started     2026-11-20T10:00:00.000Z
        time        3 s, 0.3 s of it on the device
        cost        $0.03 (GPU $0.01, language models $0.02)

        case          b1h1s128
        verdict       improved
        µs, measured  80.00
        interval      40.00 to 120.00
        samples       3
        confirmed     yes
        speed-up      1.25×
        error         1.0e-4
        worst row     2.0e-4
        rows          64 of 128
        blocks        2
        commit        -

        Compiled for sm_89 by NVRTC 13.0 in 120 ms to 100 bytes, options:
        --use_fast_math
        kernel  registers  shared bytes  stack bytes  spill stores  spill loads
        tiled          64             0            0             0            0

        Compiler's log:
        ptxas info

        Source:
        __launch_bounds__(128)

        Changes from its parent:
        --- iteration 1
        +++ iteration 2
        @@ -1 +1 @@
        -__launch_bounds__(64)
        +__launch_bounds__(128)
        ");
        let json: serde_json::Value = serde_json::from_str(&printed(&scene, better, true).await).unwrap();
        assert_eq!(json["parent_source"], "__launch_bounds__(64)\n");
    }

    #[tokio::test]
    async fn what_a_virtual_gpu_counted_is_shown_launch_by_launch() {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let iteration = scene.store.begin(session, &proposal(64, None)).await.unwrap();
        let mut evaluation = evaluation(1000.0, false);
        let launches = vec![launch("attend", 900.0), LaunchProfile { executed_blocks: 64, ..launch("combine", 100.0) }];
        evaluation.measurements[0].profile = Some(Profile { launches, checked_on: None });
        scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
        let shown = printed(&scene, iteration, false).await;
        let counted = shown.split("Counted:").nth(1).and_then(|rest| rest.split("\nSource").next()).unwrap();
        insta::assert_snapshot!(counted, @"

        case                       b1h1s128  b1h1s128
        kernel                     attend    combine
        µs, modelled               0.900     0.100
        limiter                    shared    shared
        blocks per SM              4         4
        active lanes               31.5      31.5
        divergent branches         5.0%      5.0%
        global sectors / ideal     1.20×     1.20×
        shared wavefronts / ideal  32.00×    32.00×
        local sectors              0         0
        b1h1s128 was not executed in full: combine: 64 of 256 blocks counted
        ");
    }

    #[tokio::test]
    async fn programs_get_every_interval_that_people_get() {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
        let iteration = scene.store.begin(session, &proposal(128, Some(start))).await.unwrap();
        let mut evaluation = evaluation(80_000.0, false);
        let held = comparison(
            "b1h1s128",
            vec![
                participant(Role::Challenger, "tiled", Some(iteration), 80.0),
                participant(Role::Control, "tiled", Some(iteration), 80.0),
                participant(Role::Incumbent, "tiled", Some(start), 100.0),
            ],
        );
        let (_, ratio) = held.against(Role::Incumbent).unwrap();
        evaluation.measurements[0].confirm(held.clone());
        scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
        let json: Value = serde_json::from_str(&printed(&scene, iteration, true).await).unwrap();
        let time = &json["times"][0];
        let ends = |value: &Value| [value[0].as_f64().unwrap(), value[1].as_f64().unwrap()];
        let [lo, hi] = ends(&time["ci_us"]);
        assert!(lo < time["median_us"].as_f64().unwrap() && time["median_us"].as_f64().unwrap() < hi, "{time}");
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-5;
        let [lo, hi] = ends(&time["speedup_ci"]);
        assert!(near(lo, ratio.interval.lo) && near(hi, ratio.interval.hi), "{time}");
        assert!(near(time["noise"].as_f64().unwrap(), held.noise()), "{time}");
        let participants = &json["comparisons"][0]["participants"];
        assert!(near(participants[2]["ratio"].as_f64().unwrap(), ratio.estimate), "{participants}");
        assert!(participants[2]["ratio_ci"].is_array() && participants[0]["ci_us"].is_array(), "{participants}");
        assert_eq!(participants[2]["challenger_is"], "faster");
    }

    /// A kernel that takes seconds has one sample.
    #[tokio::test]
    async fn a_single_sample_has_no_interval() {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let iteration = scene.store.begin(session, &proposal(64, None)).await.unwrap();
        let mut evaluation = evaluation(1000.0, false);
        evaluation.measurements[0].screening = Timing::of(vec![1000.0], 1);
        scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
        let shown = printed(&scene, iteration, false).await;
        assert!(shown.contains("µs, measured  1.000\ninterval      -\nsamples       1\n"), "{shown}");
        let json: Value = serde_json::from_str(&printed(&scene, iteration, true).await).unwrap();
        let screening = &json["iteration"]["measurements"][0]["screening"];
        assert_eq!((&screening["interval_ns"], screening["median_ns"].as_f64()), (&Value::Null, Some(1000.0)));
    }

    #[tokio::test]
    async fn an_iteration_that_never_ended_is_shown_as_such() {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let begun = scene.store.begin(session, &proposal(64, None)).await.unwrap();
        assert!(printed(&scene, begun, false).await.contains("unfinished: still in flight, or optloop was killed"));
    }
}
