//! Checks what needs a device or an oracle: how kernels are run, what their outcomes say, and the oracles themselves.

use std::time::Duration;

use super::{Finding, Level, Pair, Runnable, Stage, Tools, sources};
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::workload::Workload;
use crate::runner::inputs;
use crate::runner::oracle;
use crate::runner::trial::Seeds;

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
        Err(problem) => vec![of(Level::Wrong, problem.into())],
        Ok(manners) => {
            let printed = manners.printed.map(|text| {
                of(Level::Note, format!("the oracle of op `{op}` prints, which is not shown elsewhere: {text}"))
            });
            let slow = (manners.slowest > SLOW).then(|| {
                let seconds = manners.slowest.as_secs_f64();
                let note = format!("a call of the oracle of op `{op}` takes {seconds:.0} s, which slows every check");
                of(Level::Note, note)
            });
            let place = manners
                .computed_on
                .map(|place| of(Level::Note, format!("the oracle of op `{op}` is computed on {place}")));
            printed.into_iter().chain(slow).chain(place).collect()
        }
    }
}

/// Returns the seeds of the runs of a configuration. A kernel whose result may depend on the order of its blocks has several.
pub fn seeds(pair: &Pair, runnable: &Runnable) -> Vec<Seeds> {
    let runs = if runnable.artifact.adds_floats_with_atomics() { ORDERED_RUNS } else { 1 };
    let seeds = |run: u64| Seeds {
        input: inputs::mix(SEED + run, &["check", &pair.workload.name]),
        later: None,
        own: inputs::mix(SEED + run, &["own", &pair.family.name]),
    };
    (0..runs).map(seeds).collect()
}

/// Returns the seed of the first look at a family.
pub fn look_seed(family: &Family) -> u64 {
    inputs::mix(SEED, &["first look", &family.name])
}

/// Returns what the outcome of a configuration says is wrong, or that the device cannot tell. None if its output is right.
pub fn judge(pair: &Pair, runnable: &Runnable, tools: &Tools, outcome: &Outcome) -> Option<Finding> {
    let is_note = matches!(outcome, Outcome::OutOfMemory { .. } | Outcome::NotModelled { .. });
    let level = if is_note { Level::Note } else { Level::Wrong };
    (*outcome != Outcome::Measured).then(|| Finding { level, ..failed(pair, tools, runnable, outcome) })
}

/// Makes a finding about a configuration on its case.
pub fn wrong(pair: &Pair, runnable: &Runnable, stage: Stage, message: String) -> Finding {
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
