//! Checks what needs a device or an oracle: the kernels' outputs, and the oracles themselves.

use std::time::Duration;

use super::{Finding, Level, Pair, Runnable, Stage, Tools, sources};
use crate::domain::device::DeviceInfo;
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::plan::LaunchPlan;
use crate::domain::workload::Workload;
use crate::runner::first_look::{FirstLook, LookError};
use crate::runner::inputs;
use crate::runner::messages::PlannedCase;
use crate::runner::oracle;
use crate::runner::planning;
use crate::runner::trial::{Seeds, Trial};
use crate::runner::worker::{Worker, WorkerError};

/// The longest call of an oracle that is not worth a note. A session calls it for every check of every case.
const SLOW: Duration = Duration::from_secs(5);

/// The seed of the inputs, so that two checks of one project say the same.
const SEED: u64 = 1;

/// Runs of a kernel whose result depends on the order of its blocks. Of the variants of such a dot product, 80% gave another
/// output in one run (virtual H200, 2026-11-26), so that hardly any gives the same in all of them.
const ORDERED_RUNS: u64 = 5;

/// Calls the oracle of a workload. One in CUDA runs on `device`. Blocks for as long as the oracle takes.
pub fn check_oracle(workload: &Workload, device: &DeviceInfo) -> Vec<Finding> {
    let of = |level, message| Finding {
        workload: Some(workload.name.clone()),
        ..Finding::new(level, Stage::Oracle, message)
    };
    let op = workload.op.name();
    match oracle::check(workload, device) {
        Err(problem) => vec![of(Level::Wrong, problem)],
        Ok(manners) => {
            let printed = manners.printed.map(|text| {
                of(Level::Note, format!("the oracle of op `{op}` prints, which is not shown elsewhere: {text}"))
            });
            let slow = (manners.slowest > SLOW).then(|| {
                let seconds = manners.slowest.as_secs_f64();
                let note = format!("a call of the oracle of op `{op}` takes {seconds:.0} s, which slows every check");
                of(Level::Note, note)
            });
            printed.into_iter().chain(slow).collect()
        }
    }
}

/// What became of a configuration that was run.
pub struct Run {
    /// What the device found.
    pub evaluation: Evaluation,
    /// The plan with which it was launched. None if it cannot be filled in.
    pub plan: Option<LaunchPlan>,
    /// What is wrong, or that the device has too little memory. None if the output is right.
    pub wrong: Option<Finding>,
}

/// Runs a configuration on its case, and compares its output with the oracle. An error means that the machine is at fault.
pub async fn run(worker: &mut Worker, pair: &Pair, runnable: &Runnable, tools: &Tools) -> Result<Run, WorkerError> {
    let Pair { workload, family, .. } = pair;
    let Runnable { case, variant, artifact } = runnable;
    let model_flop = tools.measuring.model_flop;
    let not_run = |stage, message: String| Run {
        evaluation: Evaluation::without_device(Outcome::Pruned { message: message.clone() }),
        plan: None,
        wrong: Some(wrong(pair, runnable, stage, message)),
    };
    let planned = match planning::of_case(family, &variant.params, case, workload, worker.info(), model_flop) {
        Ok(planned) => planned,
        Err(problem) => return Ok(not_run(Stage::Launch, problem)),
    };
    let runs = if artifact.adds_floats_with_atomics() { ORDERED_RUNS } else { 1 };
    let trial = |run: u64| Trial {
        workload,
        artifact,
        cases: vec![planned.clone()],
        measuring: tools.measuring,
        seeds: Seeds {
            input: inputs::mix(SEED + run, &["check", &workload.name]),
            later: None,
            own: inputs::mix(SEED + run, &["own", &family.name]),
        },
        within: None,
        drops_slow: false,
        explain: false,
    };
    let mut evaluation = Evaluation::without_device(Outcome::Measured);
    for run in 0..runs {
        if evaluation.outcome == Outcome::Measured {
            evaluation = match trial(run).run(worker).await {
                Err(WorkerError::Oracle(problem)) => return Ok(not_run(Stage::Oracle, problem)),
                evaluated => evaluated?,
            };
        }
    }
    let wrong = (evaluation.outcome != Outcome::Measured).then(|| {
        let finding = failed(pair, tools, runnable, &evaluation.outcome);
        let is_note = matches!(evaluation.outcome, Outcome::OutOfMemory { .. } | Outcome::NotModelled { .. });
        Finding { level: if is_note { Level::Note } else { finding.level }, ..finding }
    });
    Ok(Run { evaluation, plan: Some(planned.plan), wrong })
}

/// Takes a first look at a configuration that was right on its case, `within` a time. Returns what is wrong, with the outcome of
/// the variant if it is at fault.
pub async fn look_first(
    worker: &mut Worker,
    pair: &Pair,
    runnable: &Runnable,
    tools: &Tools,
    (measured, within): (&Measurement, Duration),
) -> Result<Option<(Finding, Option<Outcome>)>, WorkerError> {
    let Pair { workload, family, .. } = pair;
    let Runnable { case, variant, artifact } = runnable;
    let params = &variant.params;
    let planned = planning::of_case(family, params, case, workload, worker.info(), tools.measuring.model_flop);
    let Some((planned, timing)) = planned.ok().zip(measured.best_timing()) else { return Ok(None) };
    let case = planned.scaled.unwrap_or(PlannedCase { case: planned.case, plan: planned.plan });
    let look = FirstLook {
        family,
        params,
        workload,
        artifact,
        case: &case,
        screened_ns: timing.median_ns,
        measuring: tools.measuring,
        seed: inputs::mix(SEED, &["first look", &family.name]),
    };
    match look.take(worker, within, None).await {
        Ok(()) => Ok(None),
        Err(LookError::Variant { outcome, .. }) => Ok(Some((failed(pair, tools, runnable, &outcome), Some(outcome)))),
        Err(LookError::Machine(WorkerError::Oracle(problem))) => {
            Ok(Some((wrong(pair, runnable, Stage::Oracle, problem), None)))
        }
        Err(LookError::Machine(error)) => Err(error),
    }
}

fn wrong(pair: &Pair, runnable: &Runnable, stage: Stage, message: String) -> Finding {
    Finding {
        workload: Some(pair.workload.name.clone()),
        family: Some(pair.family.name.clone()),
        cases: vec![runnable.case.name.clone()],
        ..Finding::new(Level::Wrong, stage, message)
    }
}

/// Makes a finding of a kernel that failed when it was run, at the line of its template if that is known.
fn failed(pair: &Pair, tools: &Tools, runnable: &Runnable, outcome: &Outcome) -> Finding {
    let finding = wrong(pair, runnable, Stage::Run, in_words(outcome));
    let Outcome::Crashed { line: Some(line), .. } = outcome else { return finding };
    let specialization = pair.family.specialization(&runnable.case);
    match sources::place_of((pair, tools), &specialization, &runnable.variant.params, *line) {
        Some((file, line)) => Finding { file: Some(file), line: Some(line), ..finding },
        None => finding,
    }
}

/// Renders an outcome, for a finding.
fn in_words(outcome: &Outcome) -> String {
    format!("{}: {}", outcome.kind().replace('_', " "), outcome.message().unwrap_or_default())
}
